"""What posteriors need to be written to files and made again: data and solver, and models that differ in
their free hyperparameters as rows of numbers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from mercer.inputs import Inputs
from mercer.params import flatten, parameters, replace_leaves

__all__ = ["Again", "models_at", "read_array", "values_of"]

MODELS = 2000  # settings of hyperparameters that a file may ask predictions to average over


@dataclasses.dataclass(frozen=True)
class Again:
    """What a posterior is made again from: the model bound to the data (inputs, y), and the solver with its
    choices made.
    """

    model: Any
    inputs: Inputs
    y: np.ndarray
    solver: Any


def values_of(base: Any, models: list[Any]) -> np.ndarray:
    """Free hyperparameters of the models (k, p), in the order of those of `base`; ties once."""
    slots = {(s.start, s.stop): p.name for p, s in flatten(base).slots}
    rows = []
    for model in models:
        value = {p.name: p.value for p in parameters(model)}
        rows.append(np.concatenate([np.zeros(0), *(np.ravel(value[name]) for name in slots.values())]))
    return np.stack(rows)


def models_at(base: Any, values: np.ndarray) -> list[Any]:
    """The models whose free hyperparameters are the rows of `values` (k, p), from a file."""
    flat = flatten(base)
    if values.shape[1] != len(flat.vector) or not 0 < len(values) <= MODELS:
        raise ValueError(
            f"the saved hyperparameters are an array of shape {values.shape}, but the model has "
            f"{len(flat.vector)} free ones, and files hold between 1 and {MODELS:,} settings of them."
        )
    return [
        replace_leaves(base, {p.name: row[s].reshape(np.shape(p.value)).copy() for p, s in flat.slots})
        for row in values
    ]


def read_array(
    packed: Mapping[str, Any], name: str, ndim: int | None = None, finite: bool = True
) -> np.ndarray:
    """An array of numbers from a file, checked."""
    value = packed.get(name)
    sensible = isinstance(value, np.ndarray) and value.dtype.kind in "fbiu" and ndim in (None, value.ndim)
    if not sensible:
        raise ValueError(f"the array {name!r} is missing or has no sensible shape.")
    array = np.asarray(value)
    if finite and not np.isfinite(array).all():
        raise ValueError(f"the array {name!r} is not finite.")
    return array
