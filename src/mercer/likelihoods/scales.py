"""Scales of targets, for the values that noise starts from and the weak priors it is learned under."""

from __future__ import annotations

import math

import numpy as np

from mercer.hyperpriors import LogNormal

NOISE_SHARE = 0.1  # of the variance of y, to start with
MAD = 1.4826  # standard deviation over median absolute deviation, for a Gaussian
NOISE_PRIOR = LogNormal(1.0, 2.0)  # of a noise variance; most probable: exp(-3), 5 % of the variance of y
# the same of a noise scale; most probable: exp(-1.5) of the standard deviation of y
NOISE_SCALE_PRIOR = LogNormal(-0.5, 1.0)


def robust_scale(y: np.ndarray) -> float:
    """1.4826 times the median absolute deviation: the standard deviation of Gaussian y, whatever a few
    outliers do.

    Where more than half of y are equal, the median of the deviations that are not zero; zero where all are
    equal.
    """
    away = np.abs(y - np.median(y))
    return MAD * float(np.median(away) or np.median(away[away > 0] if away.any() else away))


def noise_scale(y: np.ndarray) -> float:
    """Where a robust noise scale starts: sqrt(0.1) of `robust_scale`; 1 where all y are equal."""
    return float(math.sqrt(NOISE_SHARE) * robust_scale(y)) or 1.0


def typical_weight(weight: np.ndarray) -> float:
    """The geometric mean of positive weights."""
    return float(np.exp(np.mean(np.log(weight))))
