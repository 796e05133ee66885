"""Cheap changes, O(n²) each, to a Cholesky factor or an inverse whose matrix changes a little.

L is always lower triangular with L Lᵀ = A. Every function returns a new array and leaves its arguments alone.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import cholesky, solve_triangular

from mercer.linalg.identities import woodbury_inverse


def cholesky_update(L: ArrayLike, v: ArrayLike) -> np.ndarray:
    """The factor of A + v vᵀ, v of shape (n,); of A + V Vᵀ, one column at a time, for V (n, k)."""
    return _rotate(L, v, sign=1.0)


def cholesky_downdate(L: ArrayLike, v: ArrayLike) -> np.ndarray:
    """The factor of A − v vᵀ, or A − V Vᵀ; raises LinAlgError if that is not positive definite."""
    return _rotate(L, v, sign=-1.0)


def cholesky_append(L: ArrayLike, C: ArrayLike, B: ArrayLike) -> np.ndarray:
    """The factor of [[A, C], [Cᵀ, B]]: rows added at the end, C (n, m) or (n,), B (m, m) or a number.

    Raises LinAlgError if the larger matrix is not positive definite (a repeated point without noise).
    """
    L = np.asarray(L, dtype=float)
    B = np.atleast_2d(np.asarray(B, dtype=float))
    C = np.asarray(C, dtype=float).reshape(len(L), len(B))
    below = solve_triangular(L, C, lower=True).T
    corner = cholesky(B - below @ below.T, lower=True)
    return np.block([[L, np.zeros_like(C)], [below, corner]])


def cholesky_insert(L: ArrayLike, index: int, row: ArrayLike) -> np.ndarray:
    """The factor after a new row and column ``row`` (n + 1,), diagonal included,
    enter A at position ``index``.
    """
    L, row = np.asarray(L, dtype=float), np.asarray(row, dtype=float)
    n = len(L)
    if row.shape != (n + 1,) or not 0 <= index <= n:
        raise ValueError(
            f"a row of {n + 1} numbers at a position in 0..{n} is needed; got {row.shape} at {index}"
        )
    above, below = slice(0, index), slice(index, n)
    left = solve_triangular(L[above, above], row[:index], lower=True) if index else row[:0]
    pivot = row[index] - left @ left
    if not pivot > 0:
        raise np.linalg.LinAlgError(
            f"the matrix with the new row is not positive definite: pivot {pivot:.3g}"
        )
    column = (row[index + 1 :] - L[below, above] @ left) / np.sqrt(pivot)
    result = np.zeros((n + 1, n + 1))
    result[above, above] = L[above, above]
    result[index, :index] = left
    result[index, index] = np.sqrt(pivot)
    result[index + 1 :, :index] = L[below, above]
    result[index + 1 :, index] = column
    result[index + 1 :, index + 1 :] = cholesky_downdate(L[below, below], column)
    return result


def cholesky_remove(L: ArrayLike, index: int) -> np.ndarray:
    """The factor after row and column ``index`` leave A."""
    L = np.asarray(L, dtype=float)
    if not 0 <= index < len(L):
        raise ValueError(f"there is no row {index} in a factor of size {len(L)}")
    result = np.delete(np.delete(L, index, axis=0), index, axis=1)
    result[index:, index:] = cholesky_update(L[index + 1 :, index + 1 :], L[index + 1 :, index])
    return result


def inverse_update(
    A_inverse: ArrayLike, u: ArrayLike, v: ArrayLike | None = None, scale: float = 1.0
) -> np.ndarray:
    """(A + scale · u vᵀ)⁻¹ from A⁻¹ (Sherman-Morrison), v = u unless given; scale −1 takes a term away.

    Raises LinAlgError if the changed matrix is singular to working precision.
    """
    u = np.asarray(u, dtype=float)
    v = u if v is None else np.asarray(v, dtype=float)
    growth = scale * float(v @ np.asarray(A_inverse, dtype=float) @ u)
    if abs(1 + growth) <= len(u) * np.finfo(float).eps * max(1.0, abs(growth)):
        raise np.linalg.LinAlgError("the rank-one change makes the matrix singular")
    return woodbury_inverse(A_inverse, u[:, None], np.array([[scale]]), v[:, None])


def inverse_append(A_inverse: ArrayLike, c: ArrayLike, b: float) -> np.ndarray:
    """[[A, c], [cᵀ, b]]⁻¹ from the inverse of a symmetric A: one row added at the end (A.12)."""
    A_inverse, c = np.asarray(A_inverse, dtype=float), np.asarray(c, dtype=float)
    weights = A_inverse @ c
    rest = b - c @ weights
    if rest == 0:
        raise np.linalg.LinAlgError("the matrix with the new row is singular")
    extended = np.append(-weights, 1.0)
    result = np.outer(extended, extended) / rest
    result[:-1, :-1] += A_inverse
    return result


def inverse_remove(A_inverse: ArrayLike, index: int) -> np.ndarray:
    """The inverse of A without row and column ``index``, from A⁻¹: what leave-one-out needs (A.11-A.12)."""
    A_inverse = np.asarray(A_inverse, dtype=float)
    keep = np.delete(np.arange(len(A_inverse)), index)
    column, row = A_inverse[keep, index], A_inverse[index, keep]
    return A_inverse[np.ix_(keep, keep)] - np.outer(column, row) / A_inverse[index, index]


def _rotate(L: ArrayLike, v: ArrayLike, sign: float) -> np.ndarray:
    """Fold v into L column by column, by plane (sign +1) or hyperbolic (−1) rotations in their stable mixed
    form.
    """
    L = np.array(L, dtype=float)
    V = np.array(v, dtype=float)
    if L.shape != (len(L), len(L)) or V.ndim not in (1, 2) or len(V) != len(L):
        raise ValueError(
            f"a factor (n, n) and a vector (n,) or matrix (n, k) are needed; got {L.shape} and {V.shape}"
        )
    for x in np.atleast_2d(V.T):
        for k in range(len(L)):
            pivot = (L[k, k] - x[k]) * (L[k, k] + x[k]) if sign < 0 else L[k, k] ** 2 + x[k] ** 2
            if not pivot > 0:
                raise np.linalg.LinAlgError(
                    f"the downdated matrix is not positive definite: pivot {pivot:.3g}, row {k}"
                )
            c, s = np.sqrt(pivot) / L[k, k], x[k] / L[k, k]
            L[k, k] = np.sqrt(pivot)
            L[k + 1 :, k] = (L[k + 1 :, k] + sign * s * x[k + 1 :]) / c
            x[k + 1 :] = c * x[k + 1 :] - s * L[k + 1 :, k]
    return L
