"""Data made simpler before a model sees them, and what it says put back into the units they came in."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from mercer.relatives.checks import Array, test_inputs, training_data


class Preprocessor(TransformerMixin, BaseEstimator):
    """Columns of mean 0 and variance 1, their principal components, and targets without their linear trend
    (Kuss 3.2), each with its inverse.

    n_components: None, or how many principal components of the standardised columns to keep.
    linear: whether to subtract the least-squares linear function of the columns from the targets, instead of
        their mean alone.

    mean_, scale_: (d,) of the columns; the scale of a constant column is 1
    components_: (n_components, d), orthonormal, of largest variance first; None where all columns are kept
    intercept_, coefficients_: a number and (d,), what is subtracted from the targets in their own units
    target_scale_: standard deviation of what is left of them

    >>> prepared = Preprocessor(n_components=3, linear=True).fit(X, y)
    >>> model = GPRegressor().fit(prepared.transform(X), prepared.transform_targets(X, y))
    >>> mean, std = prepared.inverse_targets(Xs, *model.predict(prepared.transform(Xs), return_std=True))
    """

    def __init__(self, n_components: int | None = None, linear: bool = False):
        self.n_components = n_components
        self.linear = linear

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Preprocessor:
        """Learn from inputs X (n, d) and, where they are to be transformed too, targets y (n,)."""
        if y is None:
            values, targets = validate_data(self, X, dtype=np.float64), None
        else:
            values, targets = training_data(self, X, y)
        n, d = values.shape
        self.mean_, scale = values.mean(0), values.std(0)
        self.scale_ = np.where(scale > 1e-12 * np.abs(values).max(0), scale, 1.0)
        self.components_ = None
        if self.n_components is not None:
            if not 1 <= self.n_components <= min(n, d):
                raise ValueError(
                    f"n_components must be from 1 to {min(n, d)}, the lesser of rows and columns, got "
                    f"{self.n_components!r}."
                )
            _, _, rows = np.linalg.svd((values - self.mean_) / self.scale_, full_matrices=False)
            signs = np.sign(rows[np.arange(len(rows)), np.abs(rows).argmax(1)])
            self.components_ = (signs[:, None] * rows)[: self.n_components]
        self.coefficients_, self.intercept_, self.target_scale_ = np.zeros(d), 0.0, 1.0
        if targets is not None:
            if self.linear:
                Z = (values - self.mean_) / self.scale_
                self.coefficients_ = np.linalg.lstsq(Z, targets - targets.mean())[0] / self.scale_
            self.intercept_ = float(targets.mean() - self.mean_ @ self.coefficients_)
            self.target_scale_ = float(np.std(targets - self._trend(values))) or 1.0
        return self

    def transform(self, X: ArrayLike) -> Array:
        """The columns as a model sees them: (n, d), or (n, n_components)."""
        Z = (test_inputs(self, X) - self.mean_) / self.scale_
        return Z if self.components_ is None else Z @ self.components_.T

    def inverse_transform(self, Z: ArrayLike) -> Array:
        """The columns in their own units, from all of them or, as near as they come, from their principal
        components."""
        check_is_fitted(self, "mean_")
        Z = np.asarray(Z, float)
        return self.mean_ + self.scale_ * (Z if self.components_ is None else Z @ self.components_)

    def transform_targets(self, X: ArrayLike, y: ArrayLike) -> Array:
        """Targets y (n,) at X without their trend, of variance 1."""
        trend = self._trend(test_inputs(self, X))
        return np.asarray((np.asarray(y, float) - trend) / self.target_scale_)

    def inverse_targets(
        self, X: ArrayLike, mean: ArrayLike, std: ArrayLike | None = None
    ) -> Array | tuple[Array, Array]:
        """Predictions (m,) at X in the targets' own units: the mean or, where a standard deviation is given,
        both.
        """
        own = self._trend(test_inputs(self, X)) + self.target_scale_ * np.asarray(mean, float)
        return own if std is None else (own, self.target_scale_ * np.asarray(std, float))

    def inverse_log_density(self, log_density: ArrayLike) -> Array:
        """Log densities of transformed targets as those of the targets: less by log target_scale_."""
        check_is_fitted(self, "mean_")
        return np.asarray(log_density, float) - np.log(self.target_scale_)

    def _trend(self, values: Array) -> Array:
        return self.intercept_ + values @ self.coefficients_
