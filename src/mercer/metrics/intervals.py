"""Scores of intervals and quantiles, and their calibration."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike

from mercer.metrics.checks import Array, finite, gaussian, ordered, same_shape

normal_quantile = NormalDist().inv_cdf


def coverage(y: ArrayLike, lower: ArrayLike, upper: ArrayLike) -> float:
    """Fraction of targets inside their interval, ends included. Infinite ends make one-sided intervals."""
    y, lower, upper = ordered(y, lower, upper)
    return float(np.mean((lower <= y) & (y <= upper)))


def calibration_curve(
    y: ArrayLike, mean: ArrayLike, std: ArrayLike, levels: ArrayLike | None = None
) -> tuple[Array, Array]:
    """Nominal against empirical coverage of the central intervals of N(mean, std²).

    `levels` lie strictly between 0 and 1 (default 0.05, 0.10, ... 0.95). Returns (levels, empirical
    coverage): a curve above the diagonal says that the predictions claim too little, one below it that they
    claim too much.
    """
    y, mean, std = gaussian(y, mean, std)
    nominal = np.arange(1, 20) / 20 if levels is None else np.atleast_1d(finite("levels", levels))
    if np.any((nominal <= 0) | (nominal >= 1)):
        raise ValueError(
            f"levels must lie strictly between 0 and 1; got {nominal.min():g} to {nominal.max():g}."
        )
    z = np.abs(y - mean) / std
    empirical = np.array([np.mean(z <= normal_quantile((1 + level) / 2)) for level in nominal.ravel()])
    return nominal, empirical.reshape(nominal.shape)


def pinball(y: ArrayLike, quantile: ArrayLike, q: float) -> float:
    """Pinball loss of a predicted q-quantile, in units of y; the true quantile minimises it.
    At q = ½ it is MAE / 2.
    """
    y, quantile = same_shape(y=y, quantile=quantile)
    if not 0 < q < 1:
        raise ValueError(f"q must lie strictly between 0 and 1; got {q!r}.")
    return float(np.mean(np.maximum(q * (y - quantile), (q - 1) * (y - quantile))))


def interval_score(y: ArrayLike, lower: ArrayLike, upper: ArrayLike, level: float = 0.95) -> float:
    """Score of central intervals of the given level, in units of y: width plus 2/(1-level) times any miss.

    Rewards narrow intervals that cover: the one between the true (1-level)/2 and (1+level)/2 quantiles
    minimises it.
    """
    y, lower, upper = ordered(y, lower, upper)
    if not 0 < level < 1:
        raise ValueError(f"level must lie strictly between 0 and 1; got {level!r}.")
    miss = np.maximum(lower - y, 0) + np.maximum(y - upper, 0)
    return float(np.mean(upper - lower + 2 / (1 - level) * miss))
