"""The State of `Toeplitz`: K and its resolvent by their first columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from mercer.kernels.base import AbstractKernel
from mercer.linalg import tiles
from mercer.linalg.toeplitz import ToeplitzInverse, correlation
from mercer.prior import AbstractPrior
from mercer.solvers.grid import AbstractGridState, AbstractGridWorkspace, block_size
from mercer.solvers.host import KernelBar, Pulled
from mercer.solvers.protocol import Sites, SolverError


class ToeplitzWorkspace(AbstractGridWorkspace):
    """The points in order, and those of the lags 0, h, 2 h, ..."""

    def find(self, prior: AbstractPrior) -> None:
        X = self.X
        if X.shape[1] != 1 or not prior.kernel.traits(1).stationary:
            raise SolverError(
                f"Toeplitz needs one input column and a stationary kernel, not {X.shape[1]} and "
                f"{prior.kernel}; "
                "use solver='dense', Kronecker for grids of more columns, or ConjugateGradient."
            )
        self.order = np.argsort(X[:, 0], kind="stable")
        x, n = X[self.order, 0], X.shape[0]
        step = (x[-1] - x[0]) / max(n - 1, 1)
        lags = step * np.arange(n)
        if n > 1 and not (step > 0 and (np.abs(x - x[0] - lags) <= 1e-6 * step).all()):
            gaps = np.diff(x)
            raise SolverError(
                f"Toeplitz needs inputs at equal distances, each once; these are {gaps.min():.6g} to "
                f"{gaps.max():.6g} apart. "
                "ConjugateGradient does without a grid."
            )
        encoded = prior.kernel.encode(X)
        size = tiles.tile_size(n)
        self.panels = tiles.Panels(jax.tree.map(lambda a: a[self.order], encoded), size)
        pair = prior.kernel.encode(lags[:, None]), prior.kernel.encode(np.zeros((n, 1)))
        self.lags = tiles.Panels(pair, size)


def at_lag(kernel: AbstractKernel, pair: tuple[Any, Any]) -> jax.Array:
    """k(x, x') for pairs of rows of encoded inputs: (n,)."""
    return jax.vmap(kernel.point)(*pair)


class ToeplitzState(AbstractGridState):
    """K is given by its first column, B^-1 by its own."""

    def __init__(self, prior: AbstractPrior, X: np.ndarray, sites: Sites, workspace: ToeplitzWorkspace):
        super().__init__(prior, X, sites, workspace)
        self.grid = workspace
        self.column = tiles.map_rows(at_lag, self.kernel, workspace.lags)
        B = self.w * self.column
        B[0] += 1.0
        self.inverse = ToeplitzInverse(B)
        self.logdet = self.inverse.logdet

    def apply(self, V: np.ndarray) -> np.ndarray:
        return self.w * self._back(self.inverse.solve(self._onto(V)))

    def times_K(self, V: np.ndarray) -> np.ndarray:
        return self._back(self.inverse.multiply(self.column, self._onto(V)))

    def kappa(self) -> np.ndarray:
        return self.w * self._back(self.inverse.diagonal())

    def variances(self) -> np.ndarray:
        if self.w == 0:
            return np.full(self.column.shape, self.column[0])
        return (1.0 - self._back(self.inverse.diagonal())) / self.w

    def predict(
        self, Xs: np.ndarray, full: bool = False, variance: bool = True
    ) -> tuple[np.ndarray, np.ndarray | None]:
        return self.predict_by_blocks(Xs, full, variance)

    def _test_blocks(self, Xs: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
        step = block_size(self.column.shape[0])
        for first in range(0, Xs.shape[0], step):
            part = tiles.Panels(self.kernel.encode(Xs[first : first + step]), tiles.tile_size(step))
            yield slice(first, first + step), self._back(tiles.between(self.kernel, part, self.grid.panels).T)

    def pull_kernel(self, bar: KernelBar, inputs: bool) -> Pulled:
        sums = bar.coefficient * self.w * self.inverse.diagonal_sums()
        sums += correlation(self._onto(bar.P), self._onto(bar.Q))
        for weights, scale in ((bar.kappa, -(self.w**2)), (bar.var, 1.0)):
            if weights is not None:  # R = w N
                for rows, N in self.unit_blocks():
                    N = self._onto(N)
                    sums += scale * correlation(weights[rows] * N, N)
        sums[1:] *= 2.0  # above and below the diagonal
        return Pulled(tiles.pull_rows(at_lag, self.kernel, self.grid.lags, sums))
