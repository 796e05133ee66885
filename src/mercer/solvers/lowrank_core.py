"""What all rows together say of the m whitened weights of a low-rank prior: a few sums over rows, which may
be in several places. From these sums the bound is computed once, and its derivatives in one more pass over
rows (the notation is that of `mercer.solvers.lowrank`).
"""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from mercer.linalg import lapack
from mercer.linalg.cholesky import factor
from mercer.solvers.host import pull_encoding
from mercer.solvers.inducing import Inducing
from mercer.solvers.protocol import SiteBars

if TYPE_CHECKING:
    from mercer.solvers.lowrank import AbstractLowRank


@dataclasses.dataclass(frozen=True, eq=False)
class Core:
    """What all rows together say of the whitened weights: C = I + Psi' Lambda Psi = U'U and p = Psi' Lambda
    delta, so that the weights are N(C^-1 p, C^-1); and the sums over rows that the log normaliser needs.

    quadratic: delta' Lambda delta
    log_s: sum log s
    unexplained: sum W t
    n: rows
    """

    G: np.ndarray  # (m, m): C - I
    p: np.ndarray  # (m, 1)
    quadratic: float
    log_s: float
    unexplained: float
    n: float

    @functools.cached_property
    def _factored(self) -> tuple[np.ndarray, float]:
        U = np.empty_like(self.G)

        def fill(buffer):
            buffer[:] = self.G
            np.einsum("ii->i", buffer)[:] += 1.0

        jitter = factor(fill, U)
        return U, jitter

    @property
    def U(self) -> np.ndarray:
        """C = U'U, U in the upper triangle (m, m)."""
        return self._factored[0]

    @property
    def jitter(self) -> float:
        """What was added to the diagonal of C."""
        return self._factored[1]

    def solve(self, B: np.ndarray) -> np.ndarray:
        """C^-1 B."""
        Y = np.array(B, order="F")
        return lapack.solve_lower(self.U, lapack.solve_lower(self.U, Y), transpose=True)

    @functools.cached_property
    def w(self) -> np.ndarray:
        """C^-1 p (m, 1)."""
        return self.solve(self.p)

    def logdet(self, in_bound: bool) -> float:
        """log|I + W^1/2 K W^1/2|, with what the bound pays for t."""
        logdet_C = 2.0 * float(np.sum(np.log(np.einsum("ii->i", self.U))))
        return logdet_C - self.log_s + (self.unexplained if in_bound else 0.0)

    def log_normaliser(self, in_bound: bool) -> float:
        """Of sites without slopes."""
        return float(-0.5 * self.logdet(in_bound) - 0.5 * (self.quadratic - self.p[:, 0] @ self.w[:, 0]))


class Part(NamedTuple):
    """What some rows say of the log normaliser of all: cotangents of the kernel by their features, of the
    mean's leaves, of their sites, of inducing inputs (m, d) if they are learned, and their part of `inner`
    (m, m), what K_mm needs, beyond what the core says.
    """

    kernel: Any
    mean: Any
    sites: SiteBars
    inducing: np.ndarray | None
    inner: np.ndarray | None


def pull_inducing(solver: AbstractLowRank, inducing: Inducing, core: Core, inner: Any) -> tuple[Any, Any]:
    """What remains of the derivative of the log normaliser when all rows have said their `Part`: cotangents
    of the kernel and, where inducing inputs are learned, of these (m, d), by K_mm. inner: the sum of theirs,
    or None.
    """
    C1, w = core.solve(np.eye(len(core.w))), core.w
    own = -0.5 * (core.G @ C1) + 0.5 * (w @ w.T)
    if solver.rest_in_bound:
        own = own + 0.5 * core.G
    kernel, Z_bar = inducing.pull(own if inner is None else own + inner, solver.jitter, solver.learn)
    Z = solver.inducing
    return kernel, pull_encoding(inducing.kernel, Z, Z_bar) if solver.learn else None
