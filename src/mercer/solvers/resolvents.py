"""(I + beta_j K)^-1 for several numbers beta_j and one matrix K: by a Cholesky factor each, or by one
eigendecomposition.
"""

from __future__ import annotations

import abc
import functools

import numpy as np

from mercer.linalg import lapack
from mercer.linalg.cholesky import factor, invert
from mercer.solvers.protocol import condition_from_pivots


class AbstractResolvents(abc.ABC):
    """G_j = (I + beta_j K)^-1 for j = 1 ... p, K (n, n)."""

    K: np.ndarray
    beta: np.ndarray
    logdet: float  # sum over j of log |I + beta_j K|
    jitter: float
    condition: float

    @abc.abstractmethod
    def solve(self, j: int, V: np.ndarray) -> np.ndarray:
        """G_j V (n, q)."""

    @abc.abstractmethod
    def matrix(self, j: int) -> np.ndarray:
        """G_j (n, n)."""

    @abc.abstractmethod
    def prepare(self, consume: bool) -> None:
        """`solve` is needed no more if `consume`; what follows is."""

    @property
    @abc.abstractmethod
    def diagonals(self) -> np.ndarray:
        """diag G_j (p, n)."""

    @abc.abstractmethod
    def traces(self) -> np.ndarray:
        """tr(K G_j) (p,)."""

    @abc.abstractmethod
    def combined(self, weights: np.ndarray) -> np.ndarray:
        """sum_j weights_j G_j, in the upper triangle."""


class Factored(AbstractResolvents):
    """By a Cholesky factor for each j, in buffers (n, n)."""

    def __init__(self, K: np.ndarray, beta: np.ndarray, buffers: list[np.ndarray]):
        self.K, self.beta, self._factors = K, beta, buffers
        self._inverses: list[np.ndarray] | None = None
        found = [self._factor(b, buffer) for b, buffer in zip(beta, buffers, strict=True)]
        self.jitter = max(jitter for jitter, _ in found)
        self.logdet = 2.0 * sum(float(np.sum(np.log(pivots))) for _, pivots in found)
        self.condition = max(condition_from_pivots(pivots) for _, pivots in found)

    def _factor(self, beta: float, buffer: np.ndarray) -> tuple[float, np.ndarray]:
        def fill(out: np.ndarray) -> None:
            np.multiply(self.K, beta, out=out)
            np.einsum("ii->i", out)[:] += 1.0

        return factor(fill, buffer), np.diagonal(buffer).copy()

    def _factored(self, j: int) -> np.ndarray:
        if not self._factors:
            raise RuntimeError("this State was spent by pullback(consume=True); factor again.")
        return self._factors[j]

    def solve(self, j: int, V: np.ndarray) -> np.ndarray:
        Y, U = np.array(V, float, order="F"), self._factored(j)
        return lapack.solve_lower(U, lapack.solve_lower(U, Y), transpose=True)

    def prepare(self, consume: bool) -> None:
        if self._inverses is None:
            made = [self._factored(j) if consume else self._factored(j).copy() for j in range(len(self.beta))]
            for one in made:
                invert(one)
            self._inverses = made
        if consume:
            self._factors = []

    @property
    def inverses(self) -> list[np.ndarray]:
        """G_j in the upper triangles."""
        self.prepare(False)
        assert self._inverses is not None
        return self._inverses

    def matrix(self, j: int) -> np.ndarray:
        return lapack.symmetrise(self.inverses[j].copy())

    @property
    def diagonals(self) -> np.ndarray:
        return np.stack([np.diagonal(G) for G in self.inverses])

    def traces(self) -> np.ndarray:
        twice = 2.0 * np.triu(self.K, 1)
        np.fill_diagonal(twice, np.diagonal(self.K))
        return np.array([np.vdot(twice, G) for G in self.inverses])

    def combined(self, weights: np.ndarray) -> np.ndarray:
        out = weights[0] * self.inverses[0]
        for w, G in zip(weights[1:], self.inverses[1:], strict=True):
            out += w * G
        return out


class Spectral(AbstractResolvents):
    """By one eigendecomposition K = Q diag(lambda) Q' for all j."""

    def __init__(self, K: np.ndarray, beta: np.ndarray):
        self.K, self.beta, self.jitter = K, beta, 0.0
        values, self.Q = np.linalg.eigh(K)
        self.values = np.maximum(values, 0.0)
        self.inverse = 1.0 / (1.0 + beta[:, None] * self.values)  # (p, n): eigenvalues of G_j
        self.logdet = -float(np.sum(np.log(self.inverse)))
        self.condition = float(np.max(self.inverse.max(1) / self.inverse.min(1)))

    def solve(self, j: int, V: np.ndarray) -> np.ndarray:
        return lapack.matmul(self.Q, self.inverse[j, :, None] * lapack.matmul(self.Q.T, V))

    def matrix(self, j: int) -> np.ndarray:
        return lapack.matmul(self.Q * self.inverse[j], self.Q.T)

    def prepare(self, consume: bool) -> None:
        pass

    @functools.cached_property
    def diagonals(self) -> np.ndarray:
        return self.inverse @ (self.Q**2).T

    def traces(self) -> np.ndarray:
        return np.sum(self.values * self.inverse, 1)

    def combined(self, weights: np.ndarray) -> np.ndarray:
        return lapack.matmul(self.Q * (weights @ self.inverse), self.Q.T)
