"""Scores of point predictions, in units of y."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from mercer.metrics.checks import same_shape, spread


def mse(y: ArrayLike, mean: ArrayLike) -> float:
    """Mean squared error, in squared units of y."""
    y, mean = same_shape(y=y, mean=mean)
    return float(np.mean((y - mean) ** 2))


def rmse(y: ArrayLike, mean: ArrayLike) -> float:
    """Root mean squared error, in units of y."""
    return math.sqrt(mse(y, mean))


def mae(y: ArrayLike, median: ArrayLike) -> float:
    """Mean absolute error, in units of y; the predictive median is the point prediction that minimises it."""
    y, median = same_shape(y=y, median=median)
    return float(np.mean(np.abs(y - median)))


def smse(y: ArrayLike, mean: ArrayLike) -> float:
    """Standardised mean squared error: MSE over the variance of the test targets (GPML §2.5).

    0 is perfect; always predicting the mean of the training targets scores about 1.
    """
    y, mean = same_shape(y=y, mean=mean)
    return mse(y, mean) / spread(y, "y") ** 2
