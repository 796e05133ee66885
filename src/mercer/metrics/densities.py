"""Scores of predictive densities."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from mercer.metrics.checks import Array, finite, gaussian, same_shape, spread


def nlpd(
    y: ArrayLike,
    mean: ArrayLike | None = None,
    std: ArrayLike | None = None,
    *,
    log_density: ArrayLike | None = None,
) -> float:
    """Negative log predictive density, the average of -log p(y*|x*, D) in nats (GPML 2.34); lower is better.

    Give `mean` and `std` of a Gaussian prediction, or `log_density`: log p(y*|x*, D) of each test case.

        >>> nlpd(y, mean, std)
        >>> nlpd(y, log_density=posterior.log_density(Xs, y))
    """
    return float(np.mean(_log_loss(y, mean, std, log_density)))


def sll(
    y: ArrayLike,
    mean: ArrayLike | None = None,
    std: ArrayLike | None = None,
    y_train: ArrayLike | None = None,
    *,
    log_density: ArrayLike | None = None,
) -> Array:
    """Standardised log loss of each test case: its log loss less that of N(mean(y_train),
    var(y_train)) (GPML §2.5).
    """
    if y_train is None:
        raise ValueError(
            "sll and msll need y_train, the training targets: their mean and variance are the yardstick."
        )
    train = finite("y_train", y_train)
    trivial = _log_loss(y, np.mean(train), spread(train, "y_train"), None)
    return _log_loss(y, mean, std, log_density) - trivial


def msll(
    y: ArrayLike,
    mean: ArrayLike | None = None,
    std: ArrayLike | None = None,
    y_train: ArrayLike | None = None,
    *,
    log_density: ArrayLike | None = None,
) -> float:
    """Mean standardised log loss: 0 for the trivial model that ignores the inputs, negative for better ones.

    >>> msll(y, mean, std, y_train)
    >>> msll(y, y_train=y_train, log_density=log_density)
    """
    return float(np.mean(sll(y, mean, std, y_train, log_density=log_density)))


def crps(y: ArrayLike, mean: ArrayLike, std: ArrayLike) -> float:
    """Continuous ranked probability score of N(mean, std²), in units of y.

    The average of ∫ (F(t) - 1[y ≤ t])² dt. It is the absolute error of a certain prediction (std → 0), and
    unlike `nlpd` an outlier costs it only in proportion to its distance.
    """
    y, mean, std = gaussian(y, mean, std)
    z = (y - mean) / std
    density = np.exp(-0.5 * z**2) / math.sqrt(2 * math.pi)
    return float(np.mean(std * (z * _erf(z / math.sqrt(2)) + 2 * density - 1 / math.sqrt(math.pi))))


def _log_loss(
    y: ArrayLike, mean: ArrayLike | None, std: ArrayLike | None, log_density: ArrayLike | None
) -> Array:
    if log_density is not None:
        if mean is not None or std is not None:
            raise ValueError("Give either mean and std or log_density, not both.")
        y, log_density = same_shape(y=y, log_density=log_density)
        return -log_density
    if mean is None or std is None:
        raise ValueError("A Gaussian prediction needs both mean and std; for another give log_density=.")
    y, mean, std = gaussian(y, mean, std)
    return 0.5 * np.log(2 * np.pi * std**2) + (y - mean) ** 2 / (2 * std**2)


_erf = np.vectorize(math.erf, otypes=[np.float64])
