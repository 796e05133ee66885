"""What a kernel says of itself beyond its numbers: read by `flags`, `smoothness`, `describe` and the pictures."""

from __future__ import annotations

import dataclasses
from typing import Any


@dataclasses.dataclass(frozen=True)
class Traits:
    """What is known of a kernel on d columns; whatever is left out is "no" or "not known".

    stationary: it depends on x - x' only. isotropic: on |x - x'| only. dot_product: on x . x' only.
    smoothness: how many mean-square derivatives the functions have: inf, 0 for continuous only, -1 for not even that, None: not known.
    lengthscale, period: in the units of the inputs; one number, or one for each column.
    max_dimension: the largest number of columns on which it is a covariance function; None: any.
    beyond: what a prediction does far from the data, ending the sentence "Far from the data it ...".
    """

    stationary: bool = False
    isotropic: bool = False
    dot_product: bool = False
    smoothness: float | None = None
    lengthscale: Any = None
    period: Any = None
    max_dimension: int | None = None
    beyond: str = ""


@dataclasses.dataclass(frozen=True)
class Flags:
    """The classes of covariance functions of GPML 4.1 that a kernel belongs to; `rank` is None unless it is degenerate."""

    stationary: bool
    isotropic: bool
    dot_product: bool
    degenerate: bool
    rank: int | None
    max_dimension: int | None


def least(values) -> Any:
    """The smallest, where None is not known: then nothing is known of the smallest either, unless it is -1 anyway."""
    known = [v for v in values if v is not None]
    return min(known) if known and (len(known) == len(list(values)) or min(known) <= 0) else None


def narrowest(dimensions) -> int | None:
    """The smallest of several largest dimensions, where None is any."""
    return min((m for m in dimensions if m is not None), default=None)
