"""Linear regression by least absolute deviations."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, RegressorMixin

from mercer.likelihoods import Laplace
from mercer.relatives.baselines import Array, test_inputs, training_data


class LeastAbsoluteDeviations(RegressorMixin, BaseEstimator):
    """The linear function with the least sum of |y - f|: maximum likelihood under Laplace noise (Kuss 5.51),
    by linear programming.

    A target that is far off does no harm, however far. A row whose inputs are far off does: one is enough to
    carry the fit away.

    fit_intercept: bool, default True. Whether to fit a constant term.

    coef_, intercept_: (d,) and float
    scale_: float, the mean absolute residual, which is the likeliest scale of Laplace noise

    >>> LeastAbsoluteDeviations().fit(X, y).predict(Xs)
    """

    def __init__(self, fit_intercept: bool = True):
        self.fit_intercept = fit_intercept

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
        return test_inputs(self, X) @ self.coef_ + self.intercept_

    def log_density(self, X: ArrayLike, y: ArrayLike) -> Array:
        """Log density (n,) of targets y under the fitted Laplace noise."""
        return np.asarray(
            Laplace(max(self.scale_, np.finfo(float).tiny)).log_prob(self.predict(X), np.asarray(y, float))
        )
