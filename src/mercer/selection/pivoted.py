"""Incomplete Cholesky factor of a covariance matrix, with the largest pivots first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from mercer.inputs import as_inputs
from mercer.linalg import tiles
from mercer.params import strip


def pivoted_cholesky(
    kernel: Any, X: Any, rank: int, tol: float = 0.0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """G (n, k) with G G' close to K, the rows chosen as pivots (k,), and the diagonal of K - G G' (n,), which
    is never negative.

    X: inputs (n, d), or `tiles.Panels` of inputs encoded by a bound kernel. Each step takes the row with the
    largest remaining variance, k <= rank of them, until the remaining variance is at most `tol` times the
    whole in total, or nothing but rounding is left of any row. G G' is the Nystrom approximation K_nm K_mm^-1
    K_mn on the pivots (8.4); of K only its diagonal and k columns are computed: O(n k^2) flops.

    >>> G, pivots, rest = pivoted_cholesky(SE(), X, rank=50, tol=1e-6)
    """
    if rank < 1:
        raise ValueError(f"the rank of a pivoted Cholesky factor must be at least 1, got {rank}.")
    kernel, panels = _panels(kernel, X)
    n = panels.n
    rest = tiles.diagonal(kernel, panels)
    total, floor = rest.sum(), 4 * np.finfo(float).eps * rest.max()
    G, pivots = np.zeros((n, min(rank, n)), order="F"), np.empty(min(rank, n), int)
    column = _column(kernel, panels, at_once=rank >= n)  # a factor of full rank is as large as K
    for j in range(G.shape[1]):
        i = int(np.argmax(rest))
        if rest[i] <= floor or rest.sum() <= tol * total:
            return G[:, :j], pivots[:j], rest
        pivots[j] = i
        G[:, j] = (column(i) - G[:, :j] @ G[i, :j]) / np.sqrt(rest[i])
        G[pivots[:j], j] = 0.0
        rest = np.maximum(rest - G[:, j] ** 2, 0.0)
        rest[i] = 0.0
    return G, pivots, rest


def _panels(kernel, X) -> tuple[Any, tiles.Panels]:
    if isinstance(X, tiles.Panels):
        return strip(kernel), X
    inputs = as_inputs(X, objects=kernel.reads_objects())
    bound = strip(kernel.bind(inputs.values.shape[1], inputs.names))
    return bound, tiles.Panels(bound.encode(inputs.values), tiles.tile_size(inputs.values.shape[0]))


def _column(kernel, panels: tiles.Panels, at_once: bool) -> Callable[[int], np.ndarray]:
    """Column i of K (n,), computed when it is asked for, or all of them now."""
    if at_once:
        K = tiles.between(kernel, panels, panels)
        return lambda i: K[i]
    encoded = [jax.tree.map(np.asarray, tile) for tile in panels.tiles]
    strips = tiles.strips(kernel, panels)

    def column(i: int) -> np.ndarray:
        tile, offset = divmod(i, panels.size)
        return strips(jax.tree.map(lambda a: a[offset : offset + 1], encoded[tile]))[:, 0]

    return column
