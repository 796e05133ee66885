"""What every score checks: shapes, finite numbers, positive standard deviations, ordered intervals."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


def same_shape(may_be_infinite: tuple[str, ...] = (), **arguments: ArrayLike) -> tuple[Array, ...]:
    """The arguments as float arrays of the first one's shape; only single numbers are broadcast."""
    arrays = {name: finite(name, a, name in may_be_infinite) for name, a in arguments.items()}
    (first, y), *others = arrays.items()
    for name, a in others:
        if a.ndim and a.shape != y.shape:
            raise ValueError(
                f"{name} has shape {a.shape} but {first} has shape {y.shape}; they must be the same."
            )
    return tuple(np.broadcast_to(a, y.shape) for a in arrays.values())


def finite(name: str, values: ArrayLike, may_be_infinite: bool = False) -> Array:
    """At least one number, none of them NaN, nor infinite unless it may be."""
    a = np.asarray(values, dtype=np.float64)
    if a.size == 0:
        raise ValueError(f"{name} is empty.")
    bad = np.isnan(a) if may_be_infinite else ~np.isfinite(a)
    if bad.any():
        where = tuple(int(i) for i in np.argwhere(bad)[0])
        raise ValueError(
            f"{name} has {bad.sum()} value(s) that are NaN or infinite, the first at index {where}."
        )
    return a


def spread(a: Array, name: str) -> float:
    """Standard deviation about the mean (divisor n), refused when zero."""
    spread = float(np.std(a))
    if spread == 0:
        raise ValueError(f"{name} is constant: its variance is zero, so nothing can be standardised by it.")
    return spread


def gaussian(y: ArrayLike, mean: ArrayLike, std: ArrayLike) -> tuple[Array, ...]:
    """Targets, means and standard deviations, which must be positive."""
    y, mean, std = same_shape(y=y, mean=mean, std=std)
    if np.any(std <= 0):
        raise ValueError(
            f"std must be positive; {np.sum(std <= 0)} of {std.size} values are not (the least is "
            f"{std.min():g}). "
            "Use the standard deviation of observations, which includes the noise."
        )
    return y, mean, std


def ordered(y: ArrayLike, lower: ArrayLike, upper: ArrayLike) -> tuple[Array, ...]:
    """Targets and the ends of their intervals, the lower one first."""
    y, lower, upper = same_shape(y=y, lower=lower, upper=upper, may_be_infinite=("lower", "upper"))
    if np.any(lower > upper):
        raise ValueError(
            f"lower exceeds upper in {np.sum(lower > upper)} of {y.size} intervals; are they swapped?"
        )
    return y, lower, upper
