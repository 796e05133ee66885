"""Sparse positive definite matrices in block-tridiagonal form: Cholesky factor, solves, and the part of the
inverse on the pattern.

Rows are put in an order of small bandwidth and cut into blocks, each of which meets only the blocks next to
it:

    A = [D_1 C_1'    ]      L_i L_i' = D_i - M_{i-1} M_{i-1}',   M_i = C_i L_i^-T
        [C_1 D_2 C_2']      Z_ii = (L_i L_i')^-1 + G_i' Z_{i+1,i+1} G_i,   Z_{i+1,i} = -Z_{i+1,i+1} G_i,   G_i
        = M_i L_i^-1 [    C_2 D_3 ]

with Z = A^-1: everything is matrix products of dense blocks. For n rows and blocks of b: n b^2 flops and 2 n
b numbers.
"""

from __future__ import annotations

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg as sla
from scipy.linalg import lapack
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import reverse_cuthill_mckee

from mercer.linalg import tiles
from mercer.linalg.lapack import matmul, symmetrise

PAIRS = (1 << 10, 1 << 14)  # pairs of inputs whose covariances are computed at once
SMALLEST = 64  # rows of a block, if there are as many


class Elimination:
    """The order and the blocks for a symmetric n x n matrix given at pairs i <= j, all of the diagonal among
    them.

    Values are in the order of `i` and `j` here: sorted by block.
    """

    def __init__(self, i: np.ndarray, j: np.ndarray, n: int):
        half = csr_matrix((np.ones(i.size, bool), (i, j)), shape=(n, n))
        self.order = reverse_cuthill_mckee((half + half.T).tocsr(), symmetric_mode=True).astype(np.intp)
        rank = np.empty(n, np.int32)
        rank[self.order] = np.arange(n)
        low, high = np.minimum(rank[i], rank[j]), np.maximum(rank[i], rank[j])
        furthest = np.zeros(n, np.intp)
        np.maximum.at(furthest, low, high)
        reach = np.maximum.accumulate(furthest) + 1  # rows that the first ones meet
        ends = [min(n, SMALLEST)]
        while ends[-1] < n:
            ends.append(min(n, max(ends[-1] + SMALLEST, int(reach[ends[-1] - 1]))))
        self.edges = np.array([0, *ends])
        block = np.searchsorted(self.edges, low, side="right") - 1
        by_block = np.argsort(block, kind="stable")
        self.i, self.j, start = i[by_block], j[by_block], self.edges[block[by_block]]
        # inside the block; beyond it, in the next one
        self.row, self.column = high[by_block] - start, low[by_block] - start
        self.cuts = np.searchsorted(block[by_block], np.arange(len(ends) + 1))

    @property
    def widest(self) -> int:
        """Rows of the largest block."""
        return int(np.diff(self.edges).max())

    @property
    def bytes(self) -> float:
        """Memory of a factor."""
        size = np.diff(self.edges).astype(float)
        return 8.0 * float(size @ size + size[1:] @ size[:-1])

    def factor(self, values: np.ndarray) -> BlockCholesky:
        """The Cholesky factor of the matrix; numpy.linalg.LinAlgError if it is not positive definite."""
        return BlockCholesky(self, values)

    def pairs(self, p: int) -> tuple[slice, np.ndarray, np.ndarray, np.ndarray]:
        """The pairs of block p: which, their rows and columns,
        and whether they lie in the block (else in the one below).
        """
        at = slice(self.cuts[p], self.cuts[p + 1])
        return at, self.row[at], self.column[at], self.row[at] < self.edges[p + 1] - self.edges[p]


class BlockCholesky:
    """A = L L' for a matrix in block-tridiagonal form; made by `Elimination.factor`."""

    def __init__(self, plan: Elimination, values: np.ndarray):
        self.plan = plan
        self.blocks = [slice(a, b) for a, b in itertools.pairwise(plan.edges)]
        self.L: list[np.ndarray] = []
        self.M: list[np.ndarray] = []
        for p, (D, C) in enumerate(_dense_blocks(plan, values)):
            if p:
                D -= matmul(self.M[-1], self.M[-1].T)
            L, info = lapack.dpotrf(D, lower=1, clean=1, overwrite_a=1)
            if info:
                raise np.linalg.LinAlgError(
                    f"the matrix is not positive definite (row {plan.edges[p] + info - 1} in its order)."
                )
            self.L.append(L)
            if C is not None:
                self.M.append(_solve(L, C.T).T)
        self.logdet = 2.0 * float(sum(np.sum(np.log(np.diag(L))) for L in self.L))

    def forward(self, V: np.ndarray) -> np.ndarray:
        """L^-1 V for V (n, q), rows of the result in the order of elimination."""
        Y = V[self.plan.order]
        for i, (rows, L) in enumerate(zip(self.blocks, self.L, strict=True)):
            if i:
                Y[rows] -= matmul(self.M[i - 1], Y[self.blocks[i - 1]])
            Y[rows] = _solve(L, Y[rows])
        return Y

    def solve(self, V: np.ndarray) -> np.ndarray:
        """A^-1 V for V (n, q)."""
        Y = self.forward(V)
        for i in reversed(range(len(self.blocks))):
            rows = self.blocks[i]
            if i < len(self.M):
                Y[rows] -= matmul(self.M[i].T, Y[self.blocks[i + 1]])
            Y[rows] = _solve(self.L[i], Y[rows], transpose=True)
        out = np.empty_like(Y)
        out[self.plan.order] = Y
        return out

    def inverse(self) -> np.ndarray:
        """A^-1 at the pairs; nothing larger than a block is kept."""
        out = np.empty(self.plan.i.size)
        Z: Any = None
        for p in reversed(range(len(self.blocks))):
            below = None
            if p < len(self.M):
                G = _solve(self.L[p], self.M[p].T, transpose=True).T
                below = -matmul(Z, G)
                Z = _inverse(self.L[p]) - matmul(G.T, below)
            else:
                Z = _inverse(self.L[p])
            at, row, column, inside = self.plan.pairs(p)
            out[at][inside] = Z[row[inside], column[inside]]
            if below is not None:
                out[at][~inside] = below[row[~inside] - Z.shape[0], column[~inside]]
        return out


def _dense_blocks(plan: Elimination, values: np.ndarray):
    """(lower triangle of the block on the diagonal, the block below it or None), one after the other."""
    size = np.diff(plan.edges)
    for p, b in enumerate(size):
        at, row, column, inside = plan.pairs(p)
        D = np.zeros((b, b), order="F")
        D[row[inside], column[inside]] = values[at][inside]
        C = None
        if p + 1 < len(size):
            C = np.zeros((size[p + 1], b))
            C[row[~inside] - b, column[~inside]] = values[at][~inside]
        yield D, C


def _solve(L: np.ndarray, B: np.ndarray, transpose: bool = False) -> np.ndarray:
    return sla.solve_triangular(L, B, lower=True, trans=int(transpose), check_finite=False)


def _inverse(L: np.ndarray) -> np.ndarray:
    """(L L')^-1, full."""
    Z, _ = lapack.dpotri(L, lower=1)
    return symmetrise(Z.T)


# -- covariances of pairs of inputs, a chunk at a time, compiled for its size --------------------------------


def covariances(kernel: Any, A: Any, B: Any, i: np.ndarray, j: np.ndarray) -> np.ndarray:
    """k(A_i, B_j) for pairs of rows of encoded inputs."""
    parts = [tiles.call(_pairs, kernel, a, b) for _, a, b in _in_chunks(A, B, i, j)]
    return np.concatenate([np.zeros(0), *map(np.asarray, parts)])[: i.size]


def pull_covariances(
    kernel: Any, A: Any, i: np.ndarray, j: np.ndarray, bar: np.ndarray, inputs: bool
) -> tuple[Any, Any]:
    """Cotangents of the kernel and, if asked, of the encoded inputs, for those of k(A_i, A_j)."""
    leaves_bar = [np.zeros(np.shape(leaf)) for leaf in jax.tree.leaves(kernel)]
    encoded_bar = jax.tree.map(lambda a: np.zeros(np.shape(a)), A) if inputs else None
    for rows, a, b in _in_chunks(A, A, i, j):
        padded = np.zeros(tiles.rows(a))
        padded[: rows.stop - rows.start] = bar[rows]
        leaves, ends = tiles.call(_pull_pairs_and_inputs if inputs else _pull_pairs, kernel, a, b, padded)
        leaves_bar = [total + np.asarray(leaf) for total, leaf in zip(leaves_bar, leaves, strict=True)]
        for at, end in zip((i[rows], j[rows]), ends, strict=False):
            jax.tree.map(
                lambda out, part, at=at: np.add.at(out, at, np.asarray(part)[: at.size]), encoded_bar, end
            )
    return jax.tree.unflatten(jax.tree.structure(kernel), leaves_bar), encoded_bar


def _in_chunks(A, B, i, j):
    size = PAIRS[0] if i.size <= PAIRS[0] else PAIRS[-1]
    for start in range(0, i.size, size):
        rows = slice(start, min(start + size, i.size))
        at, of = (np.resize(index[rows], size) for index in (i, j))
        yield (
            rows,
            jax.tree.map(lambda a, at=at: np.asarray(a)[at], A),
            jax.tree.map(lambda b, of=of: np.asarray(b)[of], B),
        )


def _pairs(kernel, A, B):
    return jax.vmap(kernel.point)(A, B)


def _pull_pairs(kernel, A, B, bar):
    kernel_bar = jax.grad(lambda k: jnp.sum(bar * _pairs(k, A, B)))(kernel)
    return jax.tree.leaves(kernel_bar), ()


def _pull_pairs_and_inputs(kernel, A, B, bar):
    kernel_bar, A_bar, B_bar = jax.grad(lambda k, a, b: jnp.sum(bar * _pairs(k, a, b)), (0, 1, 2))(
        kernel, A, B
    )
    return jax.tree.leaves(kernel_bar), (A_bar, B_bar)
