"""Columns of K that explain all of K, or all the data (GPML 8.1, 8.3.1): subsets of regressors.

K~ = V'V on the active set, with V rows of L^-1 K_mn and L L' = K_mm: each included datum j adds the row
u = (k_j - V'V_j) / sqrt(v_j), where v = diag(K - K~). Memory: m n numbers for `Trace`, else twice that.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np

from mercer.selection.columns import Columns
from mercer.selection.greedy import AbstractActiveSet, greedy
from mercer.selection.pivoted import pivoted_cholesky
from mercer.selection.protocol import AbstractSelection, Pool

# a column whose residual variance is below this part of its prior variance adds nothing but rounding errors
DEPENDENT = 1e-10

# from q and t of some data (see `Regressors`), what including each would gain
Score = Callable[[np.ndarray, np.ndarray], np.ndarray]


@dataclasses.dataclass(frozen=True)
class Pivoted(AbstractSelection):
    """The largest residual variance v_i = [K - K~]_ii first: pivoted Cholesky (8.4). O(n m^2) in all.

    >>> rows = Pivoted().rows(Pool(gp, X), 100)
    """

    name: ClassVar[str] = "pivoted"

    def choose(self, pool: Pool, m: int, rng: np.random.Generator) -> np.ndarray:
        columns = pool.columns
        G, pivots, _ = pivoted_cholesky(columns.kernel, columns.panels, m)
        return pivots[G[pivots, np.arange(pivots.size)] ** 2 > DEPENDENT * columns.diagonal[pivots]]


@dataclasses.dataclass(frozen=True)
class AbstractRegressors(AbstractSelection):
    """Greedy choices that cost O(n m) for each candidate.

    candidates: how many random ones are scored in every step; 59 hold one of the best 5% with probability
    0.95. None scores all.
    """

    candidates: int | None = 59

    def __post_init__(self) -> None:
        if self.candidates is not None and self.candidates < 1:
            raise ValueError(f"candidates must be 1 or more, or None for all, got {self.candidates}.")


@dataclasses.dataclass(frozen=True)
class Trace(AbstractRegressors):
    """The largest decrease u'u of tr(K - K~) (Smola and Schoelkopf; GPML 8.1).

    >>> rows = Trace(candidates=None).rows(Pool(gp, X), 100)
    """

    name: ClassVar[str] = "trace"

    def choose(self, pool: Pool, m: int, rng: np.random.Generator) -> np.ndarray:
        return greedy(Spanned(pool.columns, m), pool.n, m, rng, self.candidates)


@dataclasses.dataclass(frozen=True)
class Residual(AbstractRegressors):
    """The smallest residual sum of squares of y - m on the active columns (Luo and Wahba; GPML 8.3.1).
    Needs y.

    >>> rows = Residual().rows(Pool(gp, X, y), 100)
    """

    name: ClassVar[str] = "residual"

    def choose(self, pool: Pool, m: int, rng: np.random.Generator) -> np.ndarray:
        residuals = pool.targets(str(self)) - pool.mean()
        state = Regressors(pool.columns, m, residuals, np.ones(pool.n), 0.0, quadratic)
        return greedy(state, pool.n, m, rng, self.candidates)


@dataclasses.dataclass(frozen=True)
class Matching(AbstractRegressors):
    """The smallest quadratic form (y - m)' (K~ + noise)^-1 (y - m), which is (8.18) at its optimum (Smola and
    Bartlett). Needs y and `noise_variance`.

    >>> rows = Matching().rows(Pool(gp, X, y, noise_variance=0.1), 100)
    """

    name: ClassVar[str] = "matching"

    def choose(self, pool: Pool, m: int, rng: np.random.Generator) -> np.ndarray:
        residuals, weights = _weighted(pool, str(self))
        state = Regressors(pool.columns, m, residuals, weights, 1.0, quadratic)
        return greedy(state, pool.n, m, rng, self.candidates)


@dataclasses.dataclass(frozen=True)
class Evidence(AbstractRegressors):
    """The largest log evidence (8.17) of the subset of regressors. Needs y and `noise_variance`.

    >>> rows = Evidence().rows(Pool(gp, X, y, noise_variance=0.1), 100)
    """

    name: ClassVar[str] = "evidence"

    def choose(self, pool: Pool, m: int, rng: np.random.Generator) -> np.ndarray:
        residuals, weights = _weighted(pool, str(self))
        state = Regressors(pool.columns, m, residuals, weights, 1.0, log_evidence)
        return greedy(state, pool.n, m, rng, self.candidates)


def quadratic(q: np.ndarray, t: np.ndarray) -> np.ndarray:
    """By how much e'e falls."""
    return t**2 / q


def log_evidence(q: np.ndarray, t: np.ndarray) -> np.ndarray:
    """By how much -1/2 e'e - 1/2 log|I + W^1/2 K~ W^1/2| grows."""
    return 0.5 * (t**2 / q - np.log(q))


def _weighted(pool: Pool, who: str) -> tuple[np.ndarray, np.ndarray]:
    """y - m, and the roots W^1/2 of the noise precisions, (n,) each."""
    return pool.targets(who) - pool.mean(), 1.0 / np.sqrt(pool.noise(who))


class Spanned(AbstractActiveSet):
    """V, and what the active columns leave of the variance."""

    def __init__(self, columns: Columns, m: int):
        self.columns = columns
        self.variance, self.V = columns.diagonal.copy(), np.empty((m, columns.n))
        self.active: list[int] = []

    def usable(self) -> np.ndarray:
        return self.variance > DEPENDENT * self.columns.diagonal

    def directions(self, J: Sequence[int] | np.ndarray) -> np.ndarray:
        """What each candidate would add to V (n, |J|)."""
        k = len(self.active)
        return (self.columns(J) - self.V[:k].T @ self.V[:k, J]) / np.sqrt(self.variance[J])

    def scores(self, J: np.ndarray) -> np.ndarray:
        return np.sum(self.directions(J) ** 2, 0)

    def include(self, j: int) -> None:
        self.add(j, self.directions([j])[:, 0])

    def add(self, j: int, u: np.ndarray) -> None:
        """Include datum j, whose direction is u (n,)."""
        self.V[len(self.active)] = u
        self.variance = np.maximum(self.variance - u**2, 0.0)
        self.active.append(j)


class Regressors(AbstractActiveSet):
    """The weighted targets explained by the active columns: I - F'F = (I + W^1/2 K~ W^1/2)^-1 and
    e = (I - F'F) W^1/2 (y - m). With ridge 0 instead of 1 it is the projection off the columns.

    A candidate of direction u has q = ridge + u'W^1/2 (I - F'F) W^1/2 u and t = u'W^1/2 e, of which its score
    is made.
    """

    def __init__(
        self, columns: Columns, m: int, residuals: np.ndarray, weights: np.ndarray, ridge: float, score: Score
    ):
        self.span, self.weights, self.ridge, self.score = Spanned(columns, m), weights, ridge, score
        self.F, self.e = np.empty((m, columns.n)), weights * residuals

    @property
    def active(self) -> list[int]:  # type: ignore[override]
        return self.span.active

    def usable(self) -> np.ndarray:
        return self.span.usable()

    def weigh(self, U: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(I - F'F) W^1/2 U (n, |J|), q (|J|,) and t (|J|,) for directions U (n, |J|)."""
        F, U = self.F[: len(self.active)], self.weights[:, None] * U
        HU = U - F.T @ (F @ U)
        return HU, np.maximum(self.ridge + np.einsum("ij,ij->j", U, HU), 1e-14 * np.sum(U**2, 0)), self.e @ U

    def scores(self, J: np.ndarray) -> np.ndarray:
        _, q, t = self.weigh(self.span.directions(J))
        return self.score(q, t)

    def include(self, j: int) -> None:
        k, u = len(self.active), self.span.directions([j])
        Hu, q, t = self.weigh(u)
        self.F[k] = Hu[:, 0] / np.sqrt(q[0])
        self.e = self.e - self.F[k] * (t[0] / np.sqrt(q[0]))
        self.span.add(j, u[:, 0])
