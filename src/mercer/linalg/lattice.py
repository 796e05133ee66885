"""Regular lattices in a few dimensions: cubic interpolation from their points, and covariances between them.

A stationary covariance between the points of a lattice depends on their lag alone: the matrix is Toeplitz in
every direction, and its products are convolutions, done with Fourier transforms of a table of the lags.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools

import numpy as np
import scipy.sparse as sp
from scipy.fft import irfftn, next_fast_len, rfftn

from mercer.linalg.lapack import thread_count

COLUMNS = 16  # transformed at once


@dataclasses.dataclass(frozen=True)
class Lattice:
    """The points origin + spacing * (i_1 ... i_d), i_j = 0 ... shape_j - 1, in C order: g of them."""

    origin: tuple[float, ...]
    spacing: tuple[float, ...]
    shape: tuple[int, ...]

    @classmethod
    def over(cls, box: tuple[tuple[float, float], ...], counts: tuple[int, ...]) -> Lattice:
        """counts_j points from end to end of the box in direction j, and one more on either side."""
        spacing = tuple(
            (high - low) / (m - 1) if high > low else 1.0 for (low, high), m in zip(box, counts, strict=True)
        )
        origin = tuple(low - h for (low, _), h in zip(box, spacing, strict=True))
        return cls(origin, spacing, tuple(m + 2 for m in counts))

    @property
    def size(self) -> int:
        """g."""
        return int(np.prod(self.shape))

    def points(self) -> np.ndarray:
        """All of them (g, d)."""
        index = np.indices(self.shape).reshape(len(self.shape), -1).T
        return np.asarray(self.origin) + np.asarray(self.spacing) * index

    def _steps(self, X: np.ndarray) -> np.ndarray:
        """X (n, d) in units of the spacing; what rounding takes over the border is on it."""
        t = (X - np.asarray(self.origin)) / np.asarray(self.spacing)
        top = np.asarray(self.shape) - 2.0
        t = np.where(np.abs(t - 1.0) < 1e-9, 1.0, t)
        return np.where(np.abs(t - top) < 1e-9 * top, top, t)

    def inside(self, X: np.ndarray) -> np.ndarray:
        """Which rows of X (n, d) have two points on each side in every direction: (n,)."""
        t = self._steps(X)
        return np.all((t >= 1.0) & (t <= np.asarray(self.shape) - 2.0), axis=1)

    def interpolation(self, X: np.ndarray) -> sp.csr_array:
        """S (n, g) with S u the cubic interpolation of u (g,) at rows X (n, d) that are inside: 4^d weights a
        row (Keys 1981), exact for quadratics.
        """
        n, t = X.shape[0], self._steps(X)
        columns, weights = np.zeros((n, 1), int), np.ones((n, 1))
        for j, m in enumerate(self.shape):
            first = np.clip(np.floor(t[:, j]).astype(int), 1, m - 3)
            f = (t[:, j] - first)[:, None]
            w = np.hstack(
                [
                    f * (f * (1.0 - 0.5 * f) - 0.5),
                    f * f * (1.5 * f - 2.5) + 1.0,
                    f * (f * (2.0 - 1.5 * f) + 0.5),
                    f * f * (0.5 * f - 0.5),
                ]
            )
            places = first[:, None] + np.arange(-1, 3)
            columns = (columns[:, :, None] * m + places[:, None, :]).reshape(n, -1)
            weights = (weights[:, :, None] * w[:, None, :]).reshape(n, -1)
        starts = np.arange(0, columns.size + 1, columns.shape[1])
        return sp.csr_array((weights.ravel(), columns.ravel(), starts), shape=(n, self.size))


class LatticeToeplitz:
    """Matrices (g, g) between the points of a lattice that depend on lags alone, by a table of the lags."""

    def __init__(self, lattice: Lattice):
        self.lattice = lattice
        self.sizes = tuple(next_fast_len(2 * m - 1, real=True) for m in lattice.shape)
        self.axes = tuple(range(1, len(self.sizes) + 1))

    @functools.cached_property
    def lags(self) -> np.ndarray:
        """The lag of every entry of the table (entries, d)."""
        steps = [np.where(np.arange(N) <= N // 2, np.arange(N), np.arange(N) - N) for N in self.sizes]
        table = np.array(list(itertools.product(*steps)), float).reshape(-1, len(self.sizes))
        return table * np.asarray(self.lattice.spacing)

    def spectrum(self, table: np.ndarray) -> np.ndarray:
        """The transform of a table (entries,) that is the same at a lag and its opposite."""
        return np.asarray(rfftn(table.reshape(self.sizes)).real)

    def times(self, spectrum: np.ndarray, V: np.ndarray) -> np.ndarray:
        """The matrix with this spectrum times V (g, q)."""
        out = np.empty_like(V)
        inner = (slice(None), *(slice(0, m) for m in self.lattice.shape))
        for j in range(0, V.shape[1], COLUMNS):
            product = spectrum * self._transform(V[:, j : j + COLUMNS])
            back = irfftn(product, self.sizes, self.axes, overwrite_x=True, workers=thread_count())
            out[:, j : j + COLUMNS] = back[inner].reshape(product.shape[0], -1).T
        return out

    def lag_sums(self, P: np.ndarray, Q: np.ndarray) -> np.ndarray:
        """The sum of P Q' (g, g) over all pairs of points of the same lag, for P and Q (g, q): (entries,)."""
        total = np.zeros((*self.sizes[:-1], self.sizes[-1] // 2 + 1), complex)
        for j in range(0, P.shape[1], COLUMNS):
            left, right = (self._transform(V[:, j : j + COLUMNS]) for V in (P, Q))
            total += np.einsum("q...,q...->...", left, right.conj())
        return np.asarray(irfftn(total, self.sizes)).ravel()

    def sparse_lag_sums(self, A: sp.csr_array) -> np.ndarray:
        """The same for a sparse matrix (g, g)."""
        entries = sp.coo_array(A)
        rows, columns = (np.unravel_index(i, self.lattice.shape) for i in (entries.row, entries.col))
        place = np.ravel_multi_index(
            tuple((r - c) % N for r, c, N in zip(rows, columns, self.sizes, strict=True)), self.sizes
        )
        return np.bincount(place, entries.data, int(np.prod(self.sizes)))

    def _transform(self, V):
        columns = np.ascontiguousarray(V.T).reshape(-1, *self.lattice.shape)
        return rfftn(columns, self.sizes, self.axes, workers=thread_count())
