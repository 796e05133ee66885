"""Data on grids: Kronecker products for product kernels on a full grid, Toeplitz matrices for stationary
kernels on a regular line.

Both are exact, and need one noise variance for all data. With W = w I and B = I + w K: R = w B^-1, N = B^-1
and the posterior covariance is K B^-1, all functions of one matrix that is never formed.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar

import jax
import numpy as np

from mercer.kernels.base import AbstractKernel
from mercer.linalg import tiles
from mercer.params import strip
from mercer.prior import AbstractPrior
from mercer.solvers.host import AbstractHostState, Columns
from mercer.solvers.protocol import (
    EVERYTHING,
    RATE,
    AbstractSolver,
    AbstractState,
    AbstractWorkspace,
    Cost,
    Proposal,
    Sites,
    SolverError,
)

if TYPE_CHECKING:
    from mercer.solvers.kronecker import KroneckerWorkspace
    from mercer.solvers.toeplitz import ToeplitzWorkspace

BLOCK = 128  # unit vectors or test inputs at a time, fewer where n is large
BLOCK_BYTES = 128 * 2**20


@dataclasses.dataclass(frozen=True)
class Kronecker(AbstractSolver):
    """Exact for data at every point of a full grid and a kernel that is a product over its axes, with one
    noise variance.

    The kernel is a product of kernels on different columns (`k1.on(0) * k2.on(1, 2)`), or SE or Periodic,
    which factorise by themselves; the order of the data does not matter. O(n (n1 + n2 + ...)) flops and O(n)
    memory beside the axes' own matrices.

    axes: for `cost` only; the data know how many there are.

    >>> mercer.GPRegressor(SE([1.0, 1.0]), solver=Kronecker()).fit(X, y)
    """

    axes: int | None = None

    offers: ClassVar[frozenset[str]] = frozenset({"variance", "logdet", "sample", "full", "exact"})

    @classmethod
    def propose(cls, task: Any) -> Iterable[Proposal]:
        return _proposal(cls, task, lambda cost: 8e-3 + cost.flops / (0.7 * RATE), "exact on a full grid")

    def workspace(self, prior: Any, X: np.ndarray) -> KroneckerWorkspace:
        from mercer.solvers.kronecker import KroneckerWorkspace

        return KroneckerWorkspace(prior, X)

    def factor(self, prior: Any, X: np.ndarray, sites: Sites, workspace: Any = None) -> AbstractState:
        from mercer.solvers.kronecker import KroneckerState

        return KroneckerState(prior, X, sites, workspace or self.workspace(prior, X))

    def some_rows(self, X: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
        return np.arange(X.shape[0])

    def cost(self, n: int, d: int, L: int = 1) -> Cost:
        axes = self.axes or d
        side = n ** (1 / axes)
        return Cost(
            flops=L * axes * (10 * side**3 + 20 * n * side), bytes=8.0 * L * (12 * n + 4 * axes * side**2)
        )


@dataclasses.dataclass(frozen=True)
class Toeplitz(AbstractSolver):
    """Exact for data at equal distances in one input (time series) and a stationary kernel, with one noise
    variance.

    The order of the data does not matter. O(n^2) flops once for the evidence, O(n log n) for everything after
    it; O(n) memory.

    >>> mercer.GPRegressor(Matern(nu=1.5), solver=Toeplitz()).fit(t, y)
    """

    offers: ClassVar[frozenset[str]] = frozenset({"variance", "logdet", "sample", "full", "exact"})

    @classmethod
    def propose(cls, task: Any) -> Iterable[Proposal]:
        return _proposal(cls, task, lambda cost: 1e-2 + cost.flops / 2.3e9, "exact at equal distances")

    def workspace(self, prior: Any, X: np.ndarray) -> ToeplitzWorkspace:
        from mercer.solvers.toeplitz import ToeplitzWorkspace

        return ToeplitzWorkspace(prior, X)

    def factor(self, prior: Any, X: np.ndarray, sites: Sites, workspace: Any = None) -> AbstractState:
        from mercer.solvers.toeplitz import ToeplitzState

        return ToeplitzState(prior, X, sites, workspace or self.workspace(prior, X))

    def some_rows(self, X: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
        return np.arange(X.shape[0])

    def cost(self, n: int, d: int, L: int = 1) -> Cost:
        return Cost(flops=L * (4.0 * n**2 + 200 * n * np.log2(max(n, 2))), bytes=8.0 * L * 40 * n)


def _proposal(cls, task, seconds, says: str) -> list[Proposal]:
    if not task.constant_noise or task.several:
        return []
    try:
        cls().workspace(task.prior, task.X)
    except SolverError:
        return []
    cost = cls().cost(task.n, task.d)
    return [Proposal(cls(), seconds(cost), cost.bytes, 0.0, says)]


# ------------------------------------------------------------------------------------------------- what both
# share


class AbstractGridWorkspace(AbstractWorkspace):
    """Inputs in the grid's order: X[order]."""

    order: np.ndarray

    def __init__(self, prior: AbstractPrior, X: np.ndarray):
        if isinstance(prior, tuple):
            raise SolverError(
                "data on a grid are solved for one latent function only; for several use solver='dense'."
            )
        if X.dtype == object:
            raise SolverError("a grid needs numeric inputs; for text and categories use solver='dense'.")
        self.X, self.columns = X, Columns(X)
        self.find(prior)

    @abc.abstractmethod
    def find(self, prior: AbstractPrior) -> None:
        """Find the grid, or say why there is none."""


class AbstractGridState(AbstractHostState):
    """One precision w for all sites."""

    pulls = EVERYTHING - {"inputs"}

    def __init__(self, prior: AbstractPrior, X: np.ndarray, sites: Sites, workspace: AbstractGridWorkspace):
        super().__init__(prior, X, sites, workspace.columns)
        if (self.precision != self.precision[0]).any():
            raise SolverError(
                f"{self.who} needs the same noise variance for all data, as with Gaussian noise and "
                "inference='exact'; "
                "ConjugateGradient takes any."
            )
        self.kernel, self.jitter, self.w = strip(prior.kernel), 0.0, float(self.precision[0])
        self.order = workspace.order

    def _onto(self, V: np.ndarray) -> np.ndarray:
        """Rows in the grid's order."""
        return V[self.order]

    def _back(self, V: np.ndarray) -> np.ndarray:
        """Rows in the data's order."""
        out = np.empty_like(V)
        out[self.order] = V
        return out

    @abc.abstractmethod
    def _test_blocks(self, Xs: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
        """Blocks of test rows, and K(X, Xs) for each (n, block)."""

    def cross(self, Xs: np.ndarray, V: np.ndarray) -> np.ndarray:
        return np.concatenate([K.T @ V for _, K in self._test_blocks(Xs)])

    def predict_by_blocks(
        self, Xs: np.ndarray, full: bool, variance: bool
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """`predict`, by blocks of K(X, Xs) and R times them."""
        mean = np.asarray(self.prior.mean.value(Xs), float) + self.cross(Xs, self.alpha[:, None])[:, 0]
        if not variance:
            return mean[:, None], None
        if full:
            K = np.concatenate([K for _, K in self._test_blocks(Xs)], 1)
            covariance = tiles.matrix(self.kernel, *[self.kernel.encode(Xs)] * 2) - K.T @ self.apply(K)
            return mean[:, None], 0.5 * (covariance + covariance.T)
        explained = np.concatenate(
            [np.einsum("ij,ij->j", K, self.apply(K)) for _, K in self._test_blocks(Xs)]
        )
        return mean[:, None], np.maximum(diagonal(self.kernel, Xs) - explained, 0.0)[:, None]


def block_size(n: int) -> int:
    return int(np.clip(BLOCK_BYTES // (8 * n), 1, BLOCK))


def diag(kernel: AbstractKernel, A: Any) -> jax.Array:
    return kernel.diag(A)


def diagonal(kernel: AbstractKernel, X: np.ndarray) -> np.ndarray:
    return tiles.diagonal(kernel, tiles.Panels(kernel.encode(X), tiles.tile_size(X.shape[0])))
