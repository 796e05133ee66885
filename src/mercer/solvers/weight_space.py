"""The weight-space solver: kernels of finite rank p as Bayesian linear regression in p weights (2.1-2.12). n
p^2 flops.

K = Psi Psi' with Psi (n, p). With C = I + Psi' W Psi: R = W - W Psi C^-1 Psi' W, R Psi = W Psi C^-1, and the
posterior covariance is Psi C^-1 Psi'.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np

from mercer.linalg import lapack, tiles
from mercer.linalg.cholesky import factor
from mercer.params import strip
from mercer.prior import AbstractPrior
from mercer.solvers.coupled import CoupledState, CoupledWorkspace
from mercer.solvers.host import AbstractHoldingWorkspace, AbstractMatrixState, Columns, KernelBar, Pulled
from mercer.solvers.protocol import (
    EVERYTHING,
    RATE,
    AbstractSolver,
    AbstractState,
    AbstractWorkspace,
    Cost,
    Diagnostics,
    Proposal,
    Sites,
    SolverError,
    condition_from_pivots,
    is_coupled,
)


@dataclasses.dataclass(frozen=True)
class WeightSpace(AbstractSolver):
    """Exact for kernels of finite rank: constant, linear, polynomial, features,
    and their sums and products.
    """

    rank: int | None = None  # for `cost` only; the kernel knows its own

    offers: ClassVar[frozenset[str]] = frozenset(
        {"variance", "logdet", "sample", "full", "exact", "stream", "blocks", "indefinite"}
    )

    @classmethod
    def propose(cls, task: Any) -> Iterable[Proposal]:
        p = task.prior.kernel.rank(task.d)
        if p is None or p >= task.n:
            return []
        seconds = 2e-3 + task.rounds * ((6.0 * task.n * p**2 + p**3) / RATE + task.n * (7e-7 + 2e-8 * p))
        return [
            Proposal(cls(), seconds, 8.0 * (4.0 * task.n * p + p**2), 0.0, f"exact, the kernel has rank {p}")
        ]

    def workspace(self, prior: Any, X: np.ndarray) -> AbstractWorkspace:
        return (
            CoupledWorkspace(self, prior, X) if isinstance(prior, tuple) else WeightSpaceWorkspace(prior, X)
        )

    def factor(self, prior: Any, X: np.ndarray, sites: Sites, workspace: Any = None) -> AbstractState:
        if is_coupled(sites):
            return CoupledState(self._factor_one, prior, X, sites, workspace)
        return self._factor_one(prior, X, sites, workspace)

    def _factor_one(
        self, prior: AbstractPrior, X: np.ndarray, sites: Sites, workspace: Any
    ) -> WeightSpaceState:
        if prior.kernel.rank(X.shape[1]) is None:
            raise SolverError(
                f"solver 'weight-space' needs a kernel of finite rank; {prior.kernel} is not. Use "
                "solver='dense'."
            )
        return WeightSpaceState(prior, X, sites, workspace or WeightSpaceWorkspace(prior, X))

    def cost(self, n: int, d: int, L: int = 1) -> Cost:
        p = self.rank or d + 1
        return Cost(flops=L * (n * p**2 + p**3 / 3), bytes=8.0 * L * (9 * n * p + p**2))


class WeightSpaceWorkspace(AbstractHoldingWorkspace):
    """Encoded inputs cut into tiles, and the features of the prior that is held."""

    def __init__(self, prior: AbstractPrior, X: np.ndarray):
        self.columns = Columns(X)
        self.panels = tiles.Panels(prior.kernel.encode(X), tiles.tile_size(X.shape[0]))

    def compute(self, prior: AbstractPrior) -> np.ndarray:
        """The features (n, p)."""
        return tiles.map_rows(_features, strip(prior.kernel), self.panels)


def _features(kernel, A):
    return kernel.features(A)


class AbstractWeightSpaceState(AbstractMatrixState):
    """Posterior over p whitened weights w ~ N(0, I), f = m + Psi w:
    `weights()` gives its mean and covariance.

    `kernel` is what has `encode` and `features`: the prior's kernel, or something that stands for it.
    """

    pulls = EVERYTHING - {"inputs"}

    def __init__(
        self, prior: AbstractPrior, X: np.ndarray, sites: Sites, workspace: Any, kernel: Any, Psi: np.ndarray
    ):
        super().__init__(prior, X, sites, workspace.columns)
        self.kernel, self.panels, self.Psi = kernel, workspace.panels, Psi
        gram = (self.Psi * self.precision[:, None]).T @ self.Psi
        self.U = np.empty_like(gram)

        def fill(buffer):
            buffer[:] = gram
            np.einsum("ii->i", buffer)[:] += 1.0

        self.jitter = factor(fill, self.U)
        # Psi C^-1, used by everything below
        self.E = self._solve(self.Psi.T).T
        self.logdet = 2.0 * float(np.sum(np.log(np.einsum("ii->i", self.U))))

    @abc.abstractmethod
    def leaves_of(self, pulled: Any) -> Any:
        """The cotangent of the prior's kernel in that of `kernel`."""

    def _solve(self, B: np.ndarray) -> np.ndarray:
        """C^-1 B for B (p, q)."""
        Y = np.array(B, order="F")
        return lapack.solve_lower(self.U, lapack.solve_lower(self.U, Y), transpose=True)

    def weights(self) -> tuple[np.ndarray, np.ndarray]:
        """Posterior mean (p,) and covariance (p, p) of the whitened weights."""
        return self.Psi.T @ self.alpha, self._solve(np.eye(self.U.shape[0]))

    def diagnostics(self) -> Diagnostics:
        condition, rank = condition_from_pivots(np.diagonal(self.U)), self.U.shape[0]
        return Diagnostics(condition, "C = I + Psi' W Psi", self.jitter, rank, notes=self.notes)

    def apply(self, V: np.ndarray) -> np.ndarray:
        WV = self.precision[:, None] * V
        return WV - self.precision[:, None] * (self.E @ (self.Psi.T @ WV))

    def times_K(self, V: np.ndarray) -> np.ndarray:
        return self.Psi @ (self.Psi.T @ V)

    def rows_times_K(self, rows: np.ndarray, V: np.ndarray) -> np.ndarray:
        return self.Psi[rows] @ (self.Psi.T @ V)

    def prior_variance(self) -> np.ndarray:
        return np.einsum("ij,ij->i", self.Psi, self.Psi)

    def _test_features(self, Xs: np.ndarray) -> np.ndarray:
        return tiles.map_rows(_features, self.kernel, tiles.Panels(self.kernel.encode(Xs), self.panels.size))

    def cross(self, Xs: np.ndarray, V: np.ndarray) -> np.ndarray:
        return self._test_features(Xs) @ (self.Psi.T @ V)

    def kappa(self) -> np.ndarray:
        return self.precision * (1.0 - self.precision * self.variances())

    def variances(self) -> np.ndarray:
        return np.einsum("ij,ij->i", self.Psi, self.E)

    def predict(
        self, Xs: np.ndarray, full: bool = False, variance: bool = True
    ) -> tuple[np.ndarray, np.ndarray | None]:
        Psi = self._test_features(Xs)
        mean = np.asarray(self.prior.mean.value(Xs), float) + Psi @ (self.Psi.T @ self.alpha)
        if not variance:
            return mean[:, None], None
        V = lapack.solve_lower(self.U, np.array(Psi.T, order="F"))
        return mean[:, None], V.T @ V if full else np.einsum("ij,ij->j", V, V)[:, None]

    def weighted_squares(self, k: np.ndarray | None, v: np.ndarray | None) -> np.ndarray:
        out = np.zeros(self.centre.shape[0])
        if k is not None:
            F = self.precision[:, None] * self.E  # R Psi; N = I - F Psi'
            leverage = np.einsum("ij,ij->i", F, self.Psi)
            out += k * (1.0 - 2.0 * leverage) + np.einsum(
                "ij,ij->i", self.Psi @ ((F * k[:, None]).T @ F), self.Psi
            )
        if v is not None:
            out -= np.einsum("ij,ij->i", self.E @ ((self.Psi * v[:, None]).T @ self.Psi), self.E)
        return out

    def resolvent(self, reuse: bool = False) -> np.ndarray:
        return (
            np.diag(self.precision)
            - (self.precision[:, None] * self.E) @ (self.Psi * self.precision[:, None]).T
        )

    def pull_matrix(self, bar: np.ndarray) -> Any:
        upper = np.triu(bar, 1)
        return self._pull(upper @ self.Psi + upper.T @ self.Psi + np.diag(bar)[:, None] * self.Psi)

    def pull_kernel(self, bar: KernelBar, inputs: bool) -> Pulled:
        F = self.precision[:, None] * self.E  # R Psi
        half = bar.coefficient * F + bar.P @ (bar.Q.T @ self.Psi)
        if bar.kappa is not None:
            half -= self.apply(bar.kappa[:, None] * F)
        if bar.var is not None:
            half += bar.var[:, None] * self.E - F @ (self.Psi.T @ (bar.var[:, None] * self.E))
        return Pulled(self._pull(half))

    def _pull(self, half: np.ndarray) -> Any:
        """K = Psi Psi': the cotangent S of K is that of Psi as 2 S Psi, of which S Psi is given (n, p)."""
        return self.leaves_of(tiles.pull_rows(_features, self.kernel, self.panels, 2.0 * half))


class WeightSpaceState(AbstractWeightSpaceState):
    """The kernel's own features: exact."""

    who = "WeightSpace"

    def __init__(self, prior: AbstractPrior, X: np.ndarray, sites: Sites, workspace: WeightSpaceWorkspace):
        super().__init__(prior, X, sites, workspace, strip(prior.kernel), workspace.known(prior))

    def leaves_of(self, pulled: Any) -> Any:
        return pulled
