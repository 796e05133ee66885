"""Products with Kronecker products of matrices, one axis at a time:
(A1 x A2 x ...) V in O(n (n1 + n2 + ...)) for each column.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np


def kronecker_times(matrices: Sequence[np.ndarray], V: np.ndarray) -> np.ndarray:
    """(A1 x A2 x ... x AJ) V for matrices A_j (r_j, c_j) and V (c1 c2 ... cJ, q),
    the last factor's index running fastest.
    """
    out = V.reshape(*(A.shape[1] for A in matrices), V.shape[1])
    for j, A in enumerate(matrices):
        out = along_axis(A, out, j)
    return out.reshape(-1, V.shape[1])


def along_axis(A: np.ndarray, tensor: np.ndarray, axis: int) -> np.ndarray:
    """The tensor with A applied to one of its axes."""
    return np.moveaxis(np.tensordot(A, tensor, axes=(1, axis)), 0, axis)


def kronecker_diagonal(vectors: Sequence[np.ndarray]) -> np.ndarray:
    """v1 x v2 x ... as a vector: the diagonal of a Kronecker product of diagonal matrices."""
    return functools.reduce(np.multiply.outer, vectors).ravel()


def rows_contract(rows: Sequence[np.ndarray], tensor: np.ndarray) -> np.ndarray:
    """sum over all indices of tensor[i1, i2, ...] rows1[a, i1] rows2[a, i2] ...: (m,) for rows_j (m, n_j)."""
    out = np.tensordot(rows[-1], tensor, axes=(1, tensor.ndim - 1))  # (m, n1, ..., n_(J-1))
    for part in reversed(rows[:-1]):
        out = np.einsum("a...i,ai->a...", out, part)
    return out
