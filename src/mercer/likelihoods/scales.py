"""Scales of targets, for the values that noise starts from and the weak priors it is learned under; nodes for
averages over a random scale.
"""

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


def gamma_nodes(shape: float) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights for an average over Gamma(shape, rate = shape), whose mean is 1, by the trapezoid
    rule in the logarithm.

    With a = shape its log density is a (u - exp u) up to a constant; nodes end where that is 45 below its
    maximum at u = 0, and are dense enough for functions that are bounded where the variable has a positive
    real part.
    """
    a = shape
    reach = math.sqrt(90.0 / a) + 45.0 / a
    low, high = -reach, math.log1p(reach)
    u = np.linspace(low, high, math.ceil((high - low) / min(0.2, 0.5 / math.sqrt(a))) + 1)
    share = np.exp(a * (1.0 + u - np.exp(u)))
    return np.exp(u), share / share.sum()
