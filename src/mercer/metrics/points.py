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


def mase(y: ArrayLike, median: ArrayLike, y_train: ArrayLike, season: int = 1) -> float:
    """Mean absolute scaled error of forecasts: the MAE over that of saying the value one season before
    (season 1: the last value) within the training series, at equal steps (Hyndman and Koehler 2006).

    Below 1 the forecast is better than the season before was one step ahead. NaN in `y_train` are values that
    are missing.
    """
    return mae(y, median) / naive_error(np.asarray(y_train, float), season)


def naive_error(y: np.ndarray, season: int = 1) -> float:
    """Mean absolute difference between values of a series (n,) that are one season apart."""
    if y.ndim != 1 or not 1 <= season < y.size:
        raise ValueError(
            f"values a season of {season} steps apart need a longer series, got shape {y.shape}."
        )
    return float(np.nanmean(np.abs(y[season:] - y[:-season])))
