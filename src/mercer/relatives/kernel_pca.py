"""Kernel principal components: principal component analysis in the feature space of a kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from mercer.inputs import Inputs, as_inputs
from mercer.kernels import SE, AbstractKernel

Array = NDArray[np.float64]


class KernelPCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Projections on the directions of largest variance in the feature space of a covariance function.

    Without centring, a component is the eigenfunction of (4.44) times the square root of its eigenvalue.

    kernel: covariance function, default SE(). On numbers, strings or other objects; X is whatever it reads.
    n_components: int, default 2. Number of projections; there are fewer if the kernel matrix has a smaller
        rank.
    centre: bool, default True. Whether to take the features relative to their mean over the training cases.

    eigenvalues_, eigenvectors_: (components,) and (n, components), of the (centred) kernel matrix, largest
        first

    >>> KernelPCA(kernels.Spectrum(3, normalise=True)).fit_transform(strings)
    >>> KernelPCA().set_output(transform="pandas").fit_transform(X)         # columns kernelpca0, kernelpca1
    """

    def __init__(self, kernel: AbstractKernel | None = None, n_components: int = 2, centre: bool = True):
        self.kernel = kernel
        self.n_components = n_components
        self.centre = centre

    def fit(self, X: Any, y: Any = None) -> KernelPCA:
        """Find the directions from inputs X (n, d)."""
        if not (isinstance(self.n_components, (int, np.integer)) and self.n_components >= 1):
            raise ValueError(f"n_components must be a whole number of at least 1, got {self.n_components!r}.")
        self.X_ = self._inputs(X, reset=True)
        K = self._kernel()(self.X_)
        n = K.shape[0]
        self.column_means_ = K.mean(0) if self.centre else np.zeros(n)
        self.mean_ = float(self.column_means_.mean())
        values, vectors = eigh(self._centred(K), subset_by_index=[max(n - self.n_components, 0), n - 1])
        values, vectors = values[::-1], vectors[:, ::-1]
        kept = values > n * np.finfo(float).eps * max(float(np.trace(K)), 0.0)
        if not kept.any():
            raise ValueError(
                "All training cases are the same to the kernel: there is no direction with variance."
            )
        signs = np.sign(vectors[np.argmax(np.abs(vectors), axis=0), np.arange(vectors.shape[1])])
        self.eigenvalues_, self.eigenvectors_ = values[kept], (vectors * signs)[:, kept]
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Array:
        """Fit and give the projections (n, components) of the training cases."""
        self.fit(X)
        return self.eigenvectors_ * np.sqrt(self.eigenvalues_)

    def transform(self, X: Any) -> Array:
        """Projections (rows, components) of the rows of X."""
        check_is_fitted(self)
        K = self._kernel()(self._inputs(X, reset=False), self.X_)
        return self._centred(K) @ (self.eigenvectors_ / np.sqrt(self.eigenvalues_))

    @property
    def _n_features_out(self) -> int:
        """How many columns there are, for `get_feature_names_out`."""
        return len(self.eigenvalues_)

    def _kernel(self) -> AbstractKernel:
        return SE() if self.kernel is None else self.kernel

    def _inputs(self, X: Any, reset: bool) -> Inputs:
        if self._kernel().reads_objects():
            return as_inputs(X, columns=None if reset else self.X_.names, objects=True)
        return Inputs(
            validate_data(self, X, dtype=np.float64, reset=reset, ensure_min_samples=2 if reset else 1)
        )

    def _centred(self, K: Array) -> Array:
        """Inner products with the training cases, (rows, n), of features relative to their mean."""
        if not self.centre:
            return K
        return K - self.column_means_ - K.mean(1, keepdims=True) + self.mean_
