"""A solver as another package would write it: everything from one eigendecomposition, B = E diag(b) E'.

B = I + W^1/2 K W^1/2, R = W^1/2 B^-1 W^1/2. Written against `mercer.solvers.protocol` and, because it is
happy to hold n x n matrices, `mercer.solvers.host.AbstractMatrixState`: the chain rule, sites with slopes
and (through `CoupledState`) several latent functions and negative precisions come with it.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import jax
import numpy as np

from mercer.params import strip
from mercer.prior import AbstractPrior
from mercer.solvers.coupled import CoupledState, CoupledWorkspace
from mercer.solvers.host import AbstractMatrixState, KernelBar, Pulled, conditional
from mercer.solvers.protocol import (
    EVERYTHING,
    AbstractSolver,
    AbstractState,
    AbstractWorkspace,
    Cost,
    Diagnostics,
    PlainWorkspace,
    Sites,
    is_coupled,
)


@dataclasses.dataclass(frozen=True)
class EigenSolver(AbstractSolver):
    """Exact, about 20 times the flops of a Cholesky factor."""

    offers: ClassVar[frozenset[str]] = frozenset(
        {"variance", "logdet", "sample", "full", "exact", "blocks", "indefinite"}
    )

    def workspace(self, prior: Any, X: np.ndarray) -> AbstractWorkspace:
        return CoupledWorkspace(self, prior, X) if isinstance(prior, tuple) else PlainWorkspace()

    def factor(self, prior: Any, X: np.ndarray, sites: Sites, workspace: Any = None) -> AbstractState:
        return CoupledState(EigenState, prior, X, sites) if is_coupled(sites) else EigenState(prior, X, sites)

    def cost(self, n: int, d: int, L: int = 1) -> Cost:
        return Cost(flops=L * (9.0 * n**3 + n**2 * (2 * d + 20)), bytes=8.0 * L * 3 * n**2)


class EigenState(AbstractMatrixState):
    """K, and the eigenvalues b and eigenvectors E of B."""

    pulls = EVERYTHING

    def __init__(self, prior: AbstractPrior, X: np.ndarray, sites: Sites, workspace: Any = None):
        super().__init__(prior, X, sites)
        self.kernel, self.jitter, self.root = strip(prior.kernel), 0.0, np.sqrt(self.precision)
        self.K = np.asarray(prior.kernel(X))
        b, self.E = np.linalg.eigh(np.eye(len(X)) + self.root[:, None] * self.K * self.root)
        self.b = np.maximum(b, 1.0)  # rounding can take it below
        self.logdet = float(np.sum(np.log(self.b)))

    def diagnostics(self) -> Diagnostics:
        return Diagnostics(float(self.b[-1] / self.b[0]), "B = I + W^1/2 K W^1/2", self.jitter)

    def half(self, V: np.ndarray) -> np.ndarray:
        """b^-1/2 E' W^1/2 V, so that V' R V is its square."""
        return (self.E / np.sqrt(self.b)).T @ (self.root[:, None] * V)

    def apply(self, V: np.ndarray) -> np.ndarray:
        return self.root[:, None] * ((self.E / np.sqrt(self.b)) @ self.half(V))

    def times_K(self, V: np.ndarray) -> np.ndarray:
        return self.K @ V

    def cross(self, Xs: np.ndarray, V: np.ndarray) -> np.ndarray:
        return np.asarray(self.prior.kernel(Xs, self.X)) @ V

    def kappa(self) -> np.ndarray:
        return self.precision * np.sum(self.E**2 / self.b, 1)

    def variances(self) -> np.ndarray:
        return np.diag(self.K) - np.sum(self.half(self.K) ** 2, 0)

    def predict(
        self, Xs: np.ndarray, full: bool = False, variance: bool = True
    ) -> tuple[np.ndarray, np.ndarray | None]:
        kernel, mean = self.prior.kernel, np.asarray(self.prior.mean.value(Xs), float)[:, None]
        mean = mean + self.cross(Xs, self.alpha[:, None])
        if not variance:
            return mean, None
        half = self.half(np.asarray(kernel(self.X, Xs)))
        if full:
            return mean, conditional(np.array(kernel(Xs)), half)
        return mean, conditional(np.asarray(kernel.diag(kernel.encode(Xs))), half)[:, None]

    # -- as a matrix -----------------------------------------------------------------------------------------

    def resolvent(self, reuse: bool = False) -> np.ndarray:
        return self.apply(np.eye(len(self.X)))

    def rows_times_K(self, rows: np.ndarray, V: np.ndarray) -> np.ndarray:
        return self.K[rows] @ V

    def prior_variance(self) -> np.ndarray:
        return np.diag(self.K)

    # -- cotangents ------------------------------------------------------------------------------------------

    def pull_kernel(self, bar: KernelBar, inputs: bool) -> Pulled:
        R = self.resolvent()
        matrix = bar.coefficient * R + bar.P @ bar.Q.T
        if bar.kappa is not None:
            matrix -= (R * bar.kappa) @ R
        if bar.var is not None:
            N = np.eye(len(R)) - R @ self.K
            matrix += (N * bar.var) @ N.T
        return Pulled(*self._pull(matrix))

    def pull_matrix(self, bar: np.ndarray) -> Any:
        return self._pull(np.triu(bar) + np.triu(bar, 1).T)[0]

    def _pull(self, matrix: np.ndarray) -> tuple[Any, Any]:
        """Cotangents of the kernel and of what it reads of the inputs, for that of K (n, n)."""
        pull = jax.vjp(lambda kernel, A: kernel.block(A, A), self.kernel, self.kernel.encode(self.X))[1]
        return jax.tree.map(np.asarray, pull(matrix))
