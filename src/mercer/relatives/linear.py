"""Linear regression, by least squares and by least absolute deviations."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin

from mercer.likelihoods import Laplace
from mercer.relatives.checks import Array, test_inputs, training_data


class AbstractLinear(RegressorMixin, BaseEstimator):
    """A linear function of the inputs, X @ coef_ + intercept_."""

    coef_: NDArray[np.floating]
    intercept_: float

    def __init__(self, fit_intercept: bool = True):
        self.fit_intercept = fit_intercept

    def _line(self, X: ArrayLike) -> Array:
        """The fitted function (n,)."""
        return test_inputs(self, X) @ self.coef_ + self.intercept_


class LinearRegression(AbstractLinear):
    """Ordinary least squares whose predictions carry the noise level of the training residuals (GPML table
    2.1).

    The predictive distribution is Gaussian with constant variance `noise_variance_`: the sum of squared
    residuals over n minus the number of coefficients. Uncertainty about the coefficients is not included.

    fit_intercept: bool, default True. Whether to fit a constant term.

    coef_, intercept_: (d,) and float
    noise_variance_: float, NaN when no degree of freedom is left to estimate it

    >>> mean, std = LinearRegression().fit(X, y).predict(Xs, return_std=True)
    >>> mercer.metrics.msll(ys, mean, std, y)
    """

    def fit(self, X: ArrayLike, y: ArrayLike) -> LinearRegression:
        """Fit inputs X (n, d) and targets y (n,)."""
        inputs, targets = training_data(self, X, y)
        x_mean, y_mean = np.zeros(inputs.shape[1]), 0.0
        if self.fit_intercept:
            x_mean, y_mean = inputs.mean(axis=0), targets.mean()
        self.coef_, _, rank, _ = np.linalg.lstsq(inputs - x_mean, targets - y_mean, rcond=None)
        self.intercept_ = float(y_mean - x_mean @ self.coef_)
        residual = targets - self.intercept_ - inputs @ self.coef_
        freedom = len(targets) - int(rank) - int(self.fit_intercept)
        self.noise_variance_ = float(residual @ residual / freedom) if freedom > 0 else float("nan")
        return self

    def predict(self, X: ArrayLike, return_std: bool = False) -> Array | tuple[Array, Array]:
        """Predicted means (n,), and with `return_std` also the standard deviations of observations (n,)."""
        mean = self._line(X)
        if not return_std:
            return mean
        if np.isnan(self.noise_variance_):
            raise ValueError(
                "There are as many coefficients as training cases, so no residual is left to estimate the "
                "noise from. "
                "Train on more cases or fewer columns."
            )
        return mean, np.full(len(mean), np.sqrt(self.noise_variance_))


class LeastAbsoluteDeviations(AbstractLinear):
    """The linear function with the least sum of |y - f|: maximum likelihood under Laplace noise (Kuss 5.51),
    by linear programming.

    A target that is far off does no harm, however far. A row whose inputs are far off does: one is enough to
    carry the fit away.

    fit_intercept: bool, default True. Whether to fit a constant term.

    coef_, intercept_: (d,) and float
    scale_: float, the mean absolute residual, which is the likeliest scale of Laplace noise

    >>> LeastAbsoluteDeviations().fit(X, y).predict(Xs)
    """

    def fit(self, X: ArrayLike, y: ArrayLike) -> LeastAbsoluteDeviations:
        """Fit inputs X (n, d) and targets y (n,)."""
        from scipy.optimize import linprog

        inputs, targets = training_data(self, X, y)
        n, d = inputs.shape
        location, spread = (inputs.mean(0) if self.fit_intercept else np.zeros(d)), np.std(inputs, 0)
        spread = np.where(spread > 0, spread, 1.0)
        centre = float(np.median(targets)) if self.fit_intercept else 0.0
        size = float(np.median(np.abs(targets - centre))) or float(np.max(np.abs(targets - centre))) or 1.0
        design = np.hstack([(inputs - location) / spread, np.ones((n, int(self.fit_intercept)))])
        k = design.shape[1]
        # y = design b + u - v with u, v >= 0, whose least sum is that of the absolute residuals
        found = linprog(
            np.r_[np.zeros(k), np.ones(2 * n)],
            A_eq=np.hstack([design, np.eye(n), -np.eye(n)]),
            b_eq=(targets - centre) / size,
            bounds=[(None, None)] * k + [(0, None)] * (2 * n),
            method="highs",
        )
        if not found.success:
            raise ArithmeticError(f"least absolute deviations were not found: {found.message}")
        self.coef_ = size * found.x[:d] / spread
        self.intercept_ = (
            centre + size * found.x[d] - float(location @ self.coef_) if self.fit_intercept else 0.0
        )
        self.scale_ = float(np.mean(np.abs(targets - inputs @ self.coef_ - self.intercept_)))
        return self

    def predict(self, X: ArrayLike) -> Array:
        """The fitted function (n,), the median of y."""
        return self._line(X)

    def log_density(self, X: ArrayLike, y: ArrayLike) -> Array:
        """Log density (n,) of targets y under the fitted Laplace noise."""
        return np.asarray(
            Laplace(max(self.scale_, np.finfo(float).tiny)).log_prob(self.predict(X), np.asarray(y, float))
        )
