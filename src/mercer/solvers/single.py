"""The dense solver with its factor in single precision: half the memory and time,
solutions refined to double precision.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import numpy as np

from mercer.linalg import lapack
from mercer.linalg.cholesky import NotPositiveDefinite
from mercer.prior import AbstractPrior
from mercer.solvers.dense import AbstractDenseState, DenseWorkspace, check_square
from mercer.solvers.protocol import AbstractSolver, AbstractState, Cost, Sites, SolverError

REFINED = 1e-11  # relative residual at which a solution is refined enough
STEPS = 50


@dataclasses.dataclass(frozen=True)
class SinglePrecision(AbstractSolver):
    """Dense algebra with a float32 factor of B = I + W^1/2 K W^1/2: 4 n^2 bytes, about half the time.

    Means and solutions are refined against the exact K by conjugate gradients, with the factor as
    preconditioner. The log-determinant, variances and gradients carry the factor's rounding, 6e-8 times the
    size of B: noise far below the signal (B above 1e6) is refused. "auto" never chooses it: it is less
    accurate than it looks.
    """

    offers: ClassVar[frozenset[str]] = frozenset({"variance", "logdet", "sample", "full", "exact"})

    def workspace(self, prior: Any, X: np.ndarray) -> DenseWorkspace:
        if isinstance(prior, tuple):
            raise SolverError("SinglePrecision takes one latent function: use solver='dense'.")
        return DenseWorkspace(prior, X, np.float32)

    def factor(self, prior: Any, X: np.ndarray, sites: Sites, workspace: Any = None) -> AbstractState:
        return SingleState(prior, X, sites, workspace or self.workspace(prior, X))

    def check_room(self, n: int) -> None:
        check_square(n, np.float32)

    def cost(self, n: int, d: int, L: int = 1) -> Cost:
        return Cost(flops=L * (n**3 / 6 + n**2 * (2 * d + 20)), bytes=4.0 * L * n**2)


class SingleState(AbstractDenseState):
    """The factor in single precision; `apply` refines."""

    who = "SinglePrecision"

    def __init__(self, prior: AbstractPrior, X: np.ndarray, sites: Sites, workspace: DenseWorkspace):
        super().__init__(prior, X, sites, workspace, own=False)
        # of the sum of n logarithms, each with a relative error of float32
        rounding = float(np.finfo(np.float32).eps * np.sqrt(X.shape[0]) * 4.0)
        self.notes: tuple[str, ...] = (
            f"the factor is in single precision: the log-determinant is rounded by about {rounding:.1g}",
        )

    def check_size(self, diagonal: np.ndarray) -> None:
        largest = float(diagonal.max(initial=0.0))
        if largest * np.finfo(np.float32).eps > 0.1:
            raise NotPositiveDefinite(
                f"B = I + W^1/2 K W^1/2 has entries of {largest:.1e}, too large for a factor in single "
                "precision: use solver='dense'."
            )

    def half(self, K: np.ndarray) -> np.ndarray:
        K = self.columns_told(K)
        K *= self.root
        return lapack.solve_lower(self.factored(), np.asfortranarray(K.T, dtype=np.float32)).astype(float)

    def apply(self, V: np.ndarray) -> np.ndarray:
        """R V by conjugate gradients on B, preconditioned by its rounded factor: a few steps."""
        b = self.root[:, None] * np.asarray(V, float)[self.told]
        x = self._rounded(b)
        r = b - self._times_B(x)
        size = np.maximum(np.linalg.norm(b, axis=0), 1e-300)
        z = self._rounded(r)
        p, rz = z, np.sum(r * z, 0)
        for _ in range(STEPS):
            if (np.linalg.norm(r, axis=0) <= REFINED * size).all():
                break
            q = self._times_B(p)
            step = rz / np.maximum(np.sum(p * q, 0), 1e-300)
            x, r = x + step * p, r - step * q
            z = self._rounded(r)
            new = np.sum(r * z, 0)
            p, rz = z + np.where(rz > 0, new / np.maximum(rz, 1e-300), 0.0) * p, new
        return self.spread(self.root[:, None] * x)

    def _times_B(self, V: np.ndarray) -> np.ndarray:
        return V + self.root[:, None] * self.times_K(self.spread(self.root[:, None] * V))[self.told]

    def _rounded(self, V: np.ndarray) -> np.ndarray:
        """B^-1 V by the factor."""
        U, size = self.factored(), np.maximum(np.abs(V).max(0, initial=0.0), 1e-300)
        Y = np.asfortranarray(V / size, dtype=np.float32)  # scaled: float32 has no tiny numbers
        lapack.solve_lower(U, lapack.solve_lower(U, Y), transpose=True)
        return Y.astype(float) * size
