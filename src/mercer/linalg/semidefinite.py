"""A square root, the rank and the pseudo-inverse of a matrix that may be singular."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import cholesky, eigh, solve_triangular
from scipy.linalg.lapack import dpocon

EPS = float(np.finfo(float).eps)


@dataclass(frozen=True, eq=False)
class SemidefiniteFactor:
    """A = root rootᵀ with root of shape (n, r), r the rank: what `semidefinite_factor` returns.

    At full rank root is the lower Cholesky factor and `dual` is None; otherwise root is U Λ^½ and `dual` U
    Λ^-½, U the eigenvectors of the r non-zero eigenvalues. `log_determinant` is the log of the product of the
    non-zero eigenvalues. `tolerance` is the distance from the range of A below which a vector counts as
    inside it.
    """

    root: np.ndarray
    dual: np.ndarray | None
    log_determinant: float
    tolerance: float

    @property
    def rank(self) -> int:
        """How many columns the root has."""
        return self.root.shape[1]

    @property
    def row_sizes(self) -> np.ndarray:
        """What rounding errors in the rows of root are relative to, (n,): their lengths, or the longest
        column's.

        A Cholesky factor is accurate row by row; eigenvectors are accurate only as a whole.
        """
        if self.dual is None:
            return np.linalg.norm(self.root, axis=1)
        return np.full(len(self.root), np.linalg.norm(self.root, axis=0).max(initial=0.0))

    def whiten(self, x: np.ndarray) -> np.ndarray:
        """root⁺ x for x of shape (n,) or (n, k); its squared length is xᵀ A⁺ x."""
        return solve_triangular(self.root, x, lower=True) if self.dual is None else self.dual.T @ x

    def solve(self, x: np.ndarray) -> np.ndarray:
        """A⁺ x, which is A⁻¹ x at full rank."""
        white = self.whiten(x)
        return (
            solve_triangular(self.root, white, lower=True, trans=1)
            if self.dual is None
            else self.dual @ white
        )

    def outside(self, x: np.ndarray) -> np.ndarray:
        """Distance of x (n,), or of each column of x (n, k), from the range of A."""
        if self.dual is None:
            return np.zeros(np.shape(x)[1:])
        return np.linalg.norm(x - self.root @ (self.dual.T @ x), axis=0)

    def contains(self, x: np.ndarray, slack: float | np.ndarray = 0.0) -> np.ndarray:
        """Whether x, or each column of x, is in the range of A to within the tolerance plus ``slack``."""
        return self.outside(x) <= self.tolerance + slack


def semidefinite_factor(matrix: ArrayLike, floor: ArrayLike = 0.0) -> SemidefiniteFactor:
    """Factor a symmetric positive semi-definite matrix (n, n), whatever its rank.

    A Cholesky factor when the matrix, scaled to unit diagonal, is well enough conditioned to have one that
    means something; otherwise U Λ^½ from the eigenvectors whose eigenvalues are above rounding (B.32 of
    Kuss). `floor` (scalar or (n,)) is the variance known to be rounding left by earlier steps: it counts as
    zero.

    Example: ``semidefinite_factor([[1, 1], [1, 1]]).rank`` is 1.
    """
    A = np.asarray(matrix, dtype=float)
    if A.ndim != 2 or A.shape[0] != A.shape[1]:
        raise ValueError(f"a square matrix is needed, not one of shape {A.shape}")
    n = len(A)
    scale = np.sqrt(np.maximum(np.diagonal(A), 0.0))
    floor = np.broadcast_to(np.asarray(floor, dtype=float), (n,))
    rounding = 10 * n * EPS

    if np.all(scale > 0):
        correlation = A / np.outer(scale, scale)
        try:
            correlation_root = cholesky(correlation, lower=True)
        except np.linalg.LinAlgError:
            pass
        else:
            root = scale[:, None] * correlation_root
            pivots = np.diagonal(root)
            reciprocal_condition, _ = dpocon(
                correlation_root, np.abs(correlation).sum(axis=0).max(), uplo="L"
            )
            if reciprocal_condition > rounding and np.all(pivots**2 > floor):
                return SemidefiniteFactor(root, None, 2 * float(np.log(pivots).sum()), 0.0)

    values, vectors = eigh(A)
    largest = max(abs(values[0]), abs(values[-1]))
    threshold = max(rounding * largest, float(floor.sum()))
    if values[0] < -threshold:
        raise ValueError(
            f"the matrix is not positive semi-definite: its eigenvalues run from {values[0]:.3g} to "
            f"{values[-1]:.3g}. "
            "A covariance cannot have negative ones: check how it was made, or add that much to its diagonal"
        )
    keep = values > threshold
    values, U = values[keep], vectors[:, keep]
    tolerance = 10 * float(np.sqrt(n * threshold))
    return SemidefiniteFactor(
        U * np.sqrt(values), U / np.sqrt(values), float(np.log(values).sum()), tolerance
    )
