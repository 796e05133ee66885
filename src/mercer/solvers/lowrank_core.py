"""What all rows together say of the m whitened weights of a low-rank prior: a few sums over rows, which may
be in several places. From these sums the bound is computed once, and its derivatives in one more pass over
rows (the notation is that of `mercer.solvers.lowrank`).
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np

from mercer.linalg import lapack
from mercer.linalg.cholesky import factor


@dataclasses.dataclass(frozen=True, eq=False)
class Core:
    """What all rows together say of the whitened weights: C = I + Psi' Lambda Psi = U'U and p = Psi' (Lambda
    delta + s g), g the slopes of sites, so that the weights are N(C^-1 p, C^-1); and the sums over rows that
    the log normaliser needs.

    quadratic: delta' Lambda delta + 2 delta' s g - g' s t g, t the independent variances of FITC
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

    @classmethod
    def of(cls, sums: dict[str, Any]) -> Core:
        """From what all rows said."""
        return cls(**{field.name: sums[field.name] for field in dataclasses.fields(cls)})

    def sums(self) -> dict[str, Any]:
        """As `of` takes them."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

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
        """Of the sites of all rows."""
        return float(-0.5 * self.logdet(in_bound) - 0.5 * (self.quadratic - self.p[:, 0] @ self.w[:, 0]))
