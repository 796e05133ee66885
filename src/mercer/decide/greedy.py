"""Observing candidates one after the other: what is left of the variance at all of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.kernels.base import AbstractKernel

__all__ = ["Residual"]


class Residual:
    """A Gaussian process at N candidates while some of them are observed.

    kernel: bound to its columns; X: candidates (N, d); noise_variance: of an observation

    The rows of L^-1 K(observed, X) are kept: the n-th observation takes one row of the covariance and O(nN)
    operations. `variance` (N,) and `mean` (N,) are those of the function given what was observed.
    """

    def __init__(self, kernel: AbstractKernel, X: np.ndarray, noise_variance: float = 0.0):
        self.kernel, self.X, self.noise_variance = kernel, np.asarray(X, float), noise_variance
        self.variance = np.array(kernel.diag(self.X), float)
        self.mean = np.zeros(len(self.X))
        self._floor = 1e-12 * float(self.variance.max())
        self._rows: list[np.ndarray] = []
        self._toward: Any = None

    def toward(self, z: np.ndarray) -> None:
        """From now on `gain` is about a number whose covariances with f at the candidates are z (N,)."""
        self._toward = np.array(z, float)

    def observe(self, i: int, value: float | None = None) -> None:
        """Candidate i is observed; its value, where means are wanted."""
        rows = np.array(self._rows).reshape(-1, len(self.X))
        row = self.kernel(self.X[i : i + 1], self.X)[0] - rows[:, i] @ rows
        pivot = np.sqrt(max(self.variance[i], 0.0) + self.noise_variance + self._floor)
        row = row / pivot
        if value is not None:
            self.mean = self.mean + row * ((value - self.mean[i]) / pivot)
        if self._toward is not None:
            self._toward = self._toward - row * (self._toward[i] / pivot)
        self._rows.append(row)
        self.variance = np.maximum(self.variance - row**2, 0.0)

    def gain(self) -> np.ndarray:
        """By how much observing each candidate lessens the variance of the number (N,)."""
        return self._toward**2 / (self.variance + self.noise_variance + self._floor)
