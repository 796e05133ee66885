"""Chains, and runs of annealing, that others make: what they are told, and what they make of it.

What goes there are values and arrays. Compiled densities are made again from the model, and what its kernels
read of the inputs is encoded again; everything else is the same arrays as here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from mercer.distributed import Team
from mercer.persist.tables import from_table, to_table
from mercer.sampling.target import encoded

ENCODED = ("X", "encoded", "H", "weights")  # what `target.encoded` says


class Elsewhere(NamedTuple):
    """Who makes a part of the draws, by a function of Mercer's, and what all parts share."""

    workers: Team
    work: Callable[..., dict[str, Any]]
    shared: Mapping[str, Any]


def told(model: Any, X: np.ndarray, data: Mapping[str, Any]) -> dict[str, Any]:
    """The data of a density as they travel, with its model."""
    inputs = to_table(X) if "encoded" in data else None
    return {"model": model, "X": inputs, "data": {k: v for k, v in data.items() if k not in ENCODED}}


def data_of(model: Any, X: Any, data: dict[str, Any]) -> dict[str, Any]:
    """The data of a density again."""
    return data if X is None else encoded(model, from_table(X), len(data["mask"])) | data
