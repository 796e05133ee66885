"""Conjugate gradients for many right-hand sides at once, the Gaussian quadrature hidden in them,
and products with K without K.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from scipy.linalg import eigh_tridiagonal

from mercer.linalg import tiles

WIDTHS = (1, 8, 32)  # numbers of columns that products are compiled for
IN_FLIGHT = 16  # tiles being computed at once


@dataclasses.dataclass(frozen=True)
class Solution:
    """What `conjugate_gradients` found for A X = B.

    X (n, q); residual (q,): |B - A X| / |B| as the recursion has it; iterations (q,) of each column; steps
    and ratios (t, q): the recursion's coefficients, zero where a column had ended, from which `quadrature`
    reads functions of A.
    """

    X: np.ndarray
    residual: np.ndarray
    iterations: np.ndarray
    steps: np.ndarray
    ratios: np.ndarray

    def quadrature(self, function: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """b' f(A) b / b'b for every column b of B, by the Gaussian quadrature of its Lanczos matrix: (q,)."""
        out = np.zeros(self.X.shape[1])
        for j, t in enumerate(self.iterations):
            if t == 0:
                continue
            step, ratio = self.steps[:t, j], self.ratios[: t - 1, j]
            diagonal = 1.0 / step
            diagonal[1:] += ratio / step[:-1]
            nodes, vectors = eigh_tridiagonal(diagonal, np.sqrt(ratio) / step[:-1])
            out[j] = vectors[0] ** 2 @ function(nodes)
        return out


def conjugate_gradients(
    product: Callable[[np.ndarray], np.ndarray], B: np.ndarray, tol: float, max_iterations: int
) -> Solution:
    """Solve A X = B for a positive definite A given by its products V -> A V, all columns of B (n, q) side by
    side.

    Each column is a recursion of its own (in exact arithmetic it ends after at most n steps); the product is
    shared. A column ends when its residual is at most `tol` times what it was.
    """
    q = B.shape[1]
    X, R = np.zeros_like(B), B.copy()
    P, rr = R.copy(), np.einsum("ij,ij->j", R, R)
    whole = np.where(rr > 0, rr, 1.0)
    iterations = np.zeros(q, int)
    steps: list[np.ndarray] = []
    ratios: list[np.ndarray] = []
    active = rr > tol**2 * whole
    while active.any() and len(steps) < max_iterations:
        AP = product(P)
        curvature = np.einsum("ij,ij->j", P, AP)
        active &= curvature > 0  # rounding has the last word
        step = np.divide(rr, curvature, out=np.zeros(q), where=active)
        X += step * P
        R -= step * AP
        new = np.where(active, np.einsum("ij,ij->j", R, R), rr)
        ratio = np.divide(new, rr, out=np.zeros(q), where=active)
        P *= ratio
        P += R
        iterations += active
        rr = new
        steps.append(step)
        ratios.append(ratio)
        active &= rr > tol**2 * whole
    table = lambda rows: np.reshape(rows, (len(rows), q))  # noqa: E731
    return Solution(X, np.sqrt(rr / whole), iterations, table(steps), table(ratios))


def symmetric_times(kernel: Any, panels: tiles.Panels, V: np.ndarray) -> np.ndarray:
    """K V for V (n, q), K computed in tiles of its upper triangle, each used twice and dropped."""
    q = V.shape[1]
    if q > WIDTHS[-1]:
        return np.concatenate(
            [symmetric_times(kernel, panels, V[:, j : j + WIDTHS[-1]]) for j in range(0, q, WIDTHS[-1])], 1
        )
    width = next(w for w in WIDTHS if w >= q)
    pieces = panels.matrix(np.pad(V, ((0, 0), (0, width - q))))
    out = np.zeros((len(pieces), panels.size, width))
    leaves, treedef = jax.tree.flatten(kernel)
    run = tiles.compiled(_twice, treedef)
    queue: list[tuple[int, int, Any]] = []

    def add(i, j, parts):
        out[i] += np.asarray(parts[0])
        if i != j:
            out[j] += np.asarray(parts[1])

    for i, a in enumerate(panels.tiles):
        for j in range(i, len(panels.tiles)):
            queue.append((i, j, run(leaves, a, panels.tiles[j], pieces[i], pieces[j])))
            if len(queue) > IN_FLIGHT:
                add(*queue.pop(0))
    for item in queue:
        add(*item)
    return out.reshape(-1, width)[: panels.n, :q]


def _twice(kernel, A, B, left, right):
    block = kernel.block(A, B)
    return block @ right, block.T @ left


def times(kernel: Any, left: tiles.Panels, right: tiles.Panels, V: np.ndarray) -> np.ndarray:
    """K(left, right) V for any number of columns, compiled for three."""
    out = []
    for j in range(0, V.shape[1], WIDTHS[-1]):
        piece = V[:, j : j + WIDTHS[-1]]
        width = next(w for w in WIDTHS if w >= piece.shape[1])
        out.append(
            tiles.times(kernel, left, right, np.pad(piece, ((0, 0), (0, width - piece.shape[1]))))[
                :, : piece.shape[1]
            ]
        )
    return np.concatenate(out, 1)
