"""Processes around a polygon or circle: circulant matrices,
all of whose algebra is Fourier transforms (GPML B.2.2, B.3.2).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import circulant

from mercer.series.autoregressive import ARMA


class Circulant:
    """The symmetric circulant matrix with this first column (N,): a covariance or a precision around a
    polygon; O(N log N).

    >>> K = Circulant(process.on_circle(np.arange(64) / 64, length=1.0))
    >>> K.log_density(x), K.solve(x), K.inverse().column
    """

    def __init__(self, column: ArrayLike):
        self.column = np.asarray(column, float)
        if self.column.ndim != 1 or self.column.size == 0 or not np.isfinite(self.column).all():
            raise ValueError(f"column must be a vector of finite numbers, got shape {self.column.shape}.")
        other = self.column[1:][::-1]
        worst = np.max(np.abs(self.column[1:] - other), initial=0.0)
        if worst > 1e-10 * np.abs(self.column).max():
            raise ValueError(
                f"the matrix is not symmetric: entries n and N - n of its first column differ by {worst:.2g}."
            )
        self.eigenvalues = np.fft.fft(self.column).real

    @classmethod
    def from_eigenvalues(cls, eigenvalues: ArrayLike) -> Circulant:
        """The matrix with these eigenvalues (N,), one for each Fourier vector;
        those of k and N - k are the same.
        """
        return cls(np.fft.ifft(np.asarray(eigenvalues, float)).real)

    @property
    def N(self) -> int:
        """Number of places."""
        return self.column.size

    def matrix(self) -> np.ndarray:
        """The matrix (N, N) itself."""
        return circulant(self.column)

    def times(self, V: ArrayLike) -> np.ndarray:
        """The matrix times V, (N,) or (N, q)."""
        return self._filter(self.eigenvalues, V)

    def solve(self, V: ArrayLike) -> np.ndarray:
        """The inverse times V, (N,) or (N, q)."""
        return self._filter(1.0 / self._positive(), V)

    def inverse(self) -> Circulant:
        """The inverse, circulant too: a covariance for a precision."""
        return Circulant.from_eigenvalues(1.0 / self._positive())

    def logdet(self) -> float:
        """Log determinant."""
        return float(np.sum(np.log(self._positive())))

    def log_density(self, x: ArrayLike) -> float:
        """log N(x | 0, this matrix) for x (N,) (B.45)."""
        x = np.asarray(x, float)
        return float(-0.5 * (x @ self.solve(x) + self.logdet() + self.N * np.log(2.0 * np.pi)))

    def sample(self, size: int = 1, seed: Any = None) -> np.ndarray:
        """`size` draws from N(0, this matrix): (size, N)."""
        Z = np.random.default_rng(seed).standard_normal((self.N, size))
        return self._filter(np.sqrt(self._positive()), Z).T

    def _filter(self, factors, V):
        V = np.asarray(V, float)
        if V.shape[:1] != (self.N,):
            raise ValueError(f"the matrix has {self.N} columns, got an array of shape {V.shape}.")
        factors = factors.reshape(-1, *[1] * (V.ndim - 1))
        return np.fft.ifft(factors * np.fft.fft(V, axis=0), axis=0).real

    def _positive(self) -> np.ndarray:
        if not self.eigenvalues.min() > 0:
            raise ValueError(
                "the matrix is not positive definite: its smallest eigenvalue is "
                f"{self.eigenvalues.min():.3g}."
            )
        return self.eigenvalues


def on_polygon(process: ARMA, N: int) -> Circulant:
    """The covariance of the same equation around a polygon of N places: k[n] wrapped, sum_m k[n + m N]
    (B.49-B.50).

    Its spectrum is that of the process at N frequencies, S_Z(m / N) / N (B.48 corrected). For an AR(p) the
    inverse has p bands on each side of the diagonal (and in the corners): it is Markov on both sides.

    >>> on_polygon(ARMA([0.6]), 3).inverse().matrix()
    """
    if N < 1:
        raise ValueError(f"a polygon has at least one place, got N = {N}.")
    process.state_space()  # says what is wrong with a process that is not stationary
    return Circulant.from_eigenvalues(process.spectrum(np.arange(N) / N))
