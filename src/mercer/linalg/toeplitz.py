"""Symmetric positive definite Toeplitz matrices from their first column: O(n^2) once, then O(n log n) a
product or solution.

Durbin's recursion gives the first column x of the inverse and the determinant; by the formula of Gohberg and
Semencul the inverse is (L(x) L(x)' - L(y) L(y)') / x_0 with y = (0, x_(n-1), ..., x_1) and L(.) lower
triangular Toeplitz.
"""

from __future__ import annotations

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft

from mercer.linalg.cholesky import NotPositiveDefinite

REFINEMENTS = 2  # what the transforms lose in an ill-conditioned solution, they get back


class ToeplitzInverse:
    """The inverse of the Toeplitz matrix with this first column (n,); `logdet` is the matrix's.
    Memory O(n).
    """

    def __init__(self, column: np.ndarray):
        self.n = column.shape[0]
        self.first, self.logdet = durbin(column)
        x, self.size = self.first, next_fast_len(2 * self.n, real=True)
        self.last = np.concatenate([[0.0], x[:0:-1]])
        self._x, self._y = (rfft(v, self.size)[:, None] for v in (x, self.last))
        self._matrix = self._circulant(column)

    def solve(self, V: np.ndarray) -> np.ndarray:
        """The inverse times V (n, q)."""
        out = self._inverse_times(V)
        for _ in range(REFINEMENTS):
            out += self._inverse_times(V - self._multiply(self._matrix, out))
        return out

    def diagonal(self) -> np.ndarray:
        """The inverse's diagonal (n,)."""
        x = self.first
        return np.cumsum(x**2 - self.last**2) / x[0]

    def diagonal_sums(self) -> np.ndarray:
        """Sums along the inverse's diagonals 0, 1, ..., n - 1."""
        weight = self.n - np.arange(self.n)
        sums = [correlation(v, weight * v) for v in (self.first, self.last)]
        return (sums[0] - sums[1]) / self.first[0]

    def _inverse_times(self, V):
        def both(f):  # L L' V
            inner = irfft(np.conj(f) * rfft(V, self.size, axis=0), self.size, axis=0)[: self.n]
            return irfft(f * rfft(inner, self.size, axis=0), self.size, axis=0)[: self.n]

        return (both(self._x) - both(self._y)) / self.first[0]

    def _circulant(self, column):
        embedded = np.zeros(self.size)
        embedded[: self.n] = column
        embedded[self.size - self.n + 1 :] = column[:0:-1]
        return rfft(embedded)[:, None]

    def _multiply(self, transformed, V):
        return irfft(transformed * rfft(V, self.size, axis=0), self.size, axis=0)[: self.n]

    def multiply(self, column: np.ndarray, V: np.ndarray) -> np.ndarray:
        """Another symmetric Toeplitz matrix of the same size, given by its first column, times V (n, q)."""
        return self._multiply(self._circulant(column), V)


def durbin(column: np.ndarray) -> tuple[np.ndarray, float]:
    """First column of the inverse (n,), and the log-determinant: the Levinson-Durbin recursion, 2 n^2 flops,
    memory O(n).

    The recursion visits every order 1 ... n; each step is a product and a sum of vectors.
    """
    n, r = column.shape[0], column[1:] / column[0]
    backwards = r[::-1].copy()
    y = np.empty(n - 1)
    error, logdet = 1.0, n * np.log(column[0])
    for k in range(n - 1):
        reflection = -(r[k] + backwards[n - 1 - k :] @ y[:k]) / error
        y[:k] += reflection * y[:k][::-1]
        y[k] = reflection
        error *= (1.0 - reflection) * (1.0 + reflection)
        if not error > 0:
            raise NotPositiveDefinite(
                f"the Toeplitz matrix is not positive definite at order {k + 2}: more noise is needed."
            )
        logdet += np.log(error)
    return np.concatenate([[1.0], y]) / (column[0] * error), float(logdet)


def correlation(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """sum_i p_i q_(i+m) for m = 0 ... n - 1, added up over the columns of p and q (n,) or (n, c)."""
    n = p.shape[0]
    size = next_fast_len(2 * n, real=True)
    product = np.conj(rfft(p, size, axis=0)) * rfft(q, size, axis=0)
    return irfft(product if p.ndim == 1 else product.sum(1), size)[:n]
