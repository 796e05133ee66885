"""A kernel smoother: weighted averages of the targets nearby."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, RegressorMixin

from mercer.relatives.checks import Array, test_inputs, training_data


class NadarayaWatson(RegressorMixin, BaseEstimator):
    """Kernel smoother: the average of the targets with weights κ(|x - xᵢ| / bandwidth), made to sum to one
    (GPML §2.6).

    bandwidth: float or (d,), default 1.0. Length over which targets are averaged, in units of X; one for each
        column if several are given.
    kernel: "gaussian", "epanechnikov", "tricube" or function, default "gaussian". The weight κ(r) ≥ 0 at
        scaled distance r ≥ 0. It need not be a covariance function. The second and third are zero for r ≥ 1;
        a function takes and returns arrays.

    >>> NadarayaWatson(bandwidth=0.5).fit(X, y).predict(Xs)
    """

    def __init__(
        self, bandwidth: float | ArrayLike = 1.0, kernel: str | Callable[[Array], ArrayLike] = "gaussian"
    ):
        self.bandwidth = bandwidth
        self.kernel = kernel

    def fit(self, X: ArrayLike, y: ArrayLike) -> NadarayaWatson:
        """Keep inputs X (n, d) and targets y (n,)."""
        inputs, targets = training_data(self, X, y)
        scale, d = np.asarray(self.bandwidth, dtype=np.float64), inputs.shape[1]
        if scale.shape not in ((), (d,)) or not np.all(np.isfinite(scale) & (scale > 0)):
            raise ValueError(
                f"bandwidth must be positive: one number, or one for each of the {d} columns; got "
                f"{self.bandwidth!r}."
            )
        if not callable(self.kernel) and self.kernel not in _KERNELS:
            raise ValueError(
                f"Unknown kernel {self.kernel!r}; use one of {', '.join(_KERNELS)}, or a function."
            )
        self.scale_, self.X_, self.y_ = scale, inputs, targets
        return self

    def weights(self, X: ArrayLike) -> Array:
        """The weight of each training target in the prediction at each row of X: (rows, n),
        rows sum to one.
        """
        return self._weights(test_inputs(self, X))

    def predict(self, X: ArrayLike) -> Array:
        """Smoothed targets (n,) at the rows of X."""
        inputs = test_inputs(self, X)
        rows = max(1, _BLOCK // len(self.y_))
        return np.concatenate(
            [self._weights(inputs[i : i + rows], i) @ self.y_ for i in range(0, len(inputs), rows)]
        )

    def _weights(self, X: Array, first: int = 0) -> Array:
        A, B = X / self.scale_, self.X_ / self.scale_
        squared = sum(
            (np.subtract.outer(A[:, j], B[:, j]) ** 2 for j in range(B.shape[1])), np.zeros((len(A), len(B)))
        )
        if self.kernel == "gaussian":  # relative to the nearest case, so that no row underflows to nothing
            weights = np.exp(-0.5 * (squared - squared.min(axis=1, keepdims=True)))
        else:
            kernel = self.kernel if callable(self.kernel) else _KERNELS[self.kernel]
            weights = np.asarray(kernel(np.sqrt(squared)), dtype=np.float64)
        if not np.all(np.isfinite(weights) & (weights >= 0)):
            raise ValueError("The kernel must return finite weights that are not negative.")
        total = weights.sum(axis=1, keepdims=True)
        if np.any(total == 0):
            raise ValueError(
                f"No training case lies within reach of the kernel at row {first + int(np.argmin(total))} "
                "of X. "
                f"Raise bandwidth (now {self.bandwidth!r}) or use the gaussian kernel, which reaches "
                "everywhere."
            )
        return weights / total


_BLOCK = 2**22
_KERNELS: dict[str, Callable[[Array], Array]] = {
    "gaussian": lambda r: np.exp(-0.5 * r**2),
    "epanechnikov": lambda r: np.maximum(1 - r**2, 0),
    "tricube": lambda r: np.maximum(1 - r**3, 0) ** 3,
}
