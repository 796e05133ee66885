"""Points in an order, their nearest predecessors, and the conditional distributions of a Gaussian process
given those.

Finding neighbours is O(n log n) in few columns; a conditional distribution is a Cholesky factor of k + 1
rows, many at a time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import cho_solve, solve_triangular
from scipy.spatial import cKDTree

from mercer.linalg import tiles

ORDERINGS = ("maximin", "random", "coordinate")
FINEST = 20  # halvings of the grid of `maximin`; what is still together then counts as one place
NUMBERS = 1 << 18  # of the matrices factored at once: they stay in the cache
ROWS = 4096  # points whose neighbours are looked up at once


def ordering(Z: np.ndarray, how: str = "maximin", seed: int = 0) -> np.ndarray:
    """The order in which points Z (n, d) are visited: a permutation (n,).

    "maximin": coarse to fine, each point far from those before it. One point from each cell of a grid, the
    one nearest to the middle, then from each empty cell of a grid twice as fine, and so on: an approximation
    of the farthest point next, in O(n log n). "random": a shuffle. "coordinate": by the sum of the columns.
    """
    if how == "coordinate":
        return np.argsort(Z.sum(1), kind="stable")
    rng = np.random.default_rng(seed)
    left = rng.permutation(Z.shape[0])
    if how == "random":
        return left
    if how != "maximin":
        raise ValueError(f"ordering must be one of {list(ORDERINGS)}, got {how!r}.")
    low, side = Z.min(0), float(np.ptp(Z, axis=0).max())
    multipliers = rng.integers(1, 2**62, Z.shape[1]) | 1
    taken: list[np.ndarray] = []
    for _ in range(FINEST):
        if not left.size or side == 0.0:
            break
        place = (Z - low) / side
        cell = np.floor(place)
        key = cell.astype(np.int64) @ multipliers  # wraps around: a hash of the cell
        off_centre = np.sum((place - cell - 0.5) ** 2, 1)
        left = left[np.argsort(off_centre[left], kind="stable")]
        empty = ~np.isin(key[left], key[np.concatenate(taken)]) if taken else np.ones(left.size, bool)
        _, first = np.unique(key[left[empty]], return_index=True)
        chosen = np.flatnonzero(empty)[first]
        taken.append(rng.permutation(left[chosen]))
        left = np.delete(left, chosen)
        side /= 2
    return np.concatenate([*taken, rng.permutation(left)])


def predecessors(Z: np.ndarray, order: np.ndarray, k: int) -> np.ndarray:
    """For every point the k nearest of those before it in `order`: indices (n, k), nearest first, -1 where
    there are fewer.

    Exact: points are looked up in trees of the first 256, 512, 1024 ... of them, with more candidates until k
    came earlier.
    """
    n = Z.shape[0]
    ordered, out = Z[order], np.full((n, k), -1)
    start, stop = 0, min(n, max(256, 4 * k))
    while start < n:
        tree = cKDTree(ordered[:stop])
        for first in range(start, stop, ROWS):
            _look_up(tree, ordered, np.arange(first, min(first + ROWS, stop)), k, out)
        start, stop = stop, min(n, 2 * stop)
    found = np.where(out < 0, -1, order[out])
    by_point = np.empty_like(found)
    by_point[order] = found
    return by_point


def _look_up(tree: cKDTree, Z: np.ndarray, rows: np.ndarray, k: int, out: np.ndarray) -> None:
    candidates = 2 * k + 2
    while rows.size and k:
        candidates = min(candidates, tree.n)
        for part in np.array_split(rows, max(1, rows.size * candidates // (ROWS * 256))):
            _, found = tree.query(Z[part], np.arange(1, candidates + 1), workers=-1)
            earlier = found < part[:, None]
            nearest = np.argsort(~earlier, axis=1, kind="stable")[:, :k]
            kept = np.where(
                np.take_along_axis(earlier, nearest, 1), np.take_along_axis(found, nearest, 1), -1
            )
            out[part, : kept.shape[1]] = kept
        rows = rows[(out[rows] >= 0).sum(1) < np.minimum(rows, k)]
        candidates *= 2


# -- conditional distributions, one chunk of data at a time, compiled for its size ---------------------------


def in_chunks(
    function: Callable[..., Any],
    kernel: Any,
    shift: float,
    encoded: Any,
    index: np.ndarray,
    *arrays: np.ndarray,
    test: Any = None,
) -> Iterator[tuple[slice, Any]]:
    """(rows, function(kernel, shift, encoded[index[rows]], *arrays[rows])), cut to the rows,
    the last chunk padded.
    """
    n = index.shape[0]
    size = max(8, min(tiles.tile_size(n), NUMBERS // index.shape[1] ** 2))
    waiting: deque = deque()
    for start in range(0, n, size):
        rows = slice(start, min(start + size, n))
        short = size - (rows.stop - start)

        def pad(a, rows=rows, short=short):
            piece = np.asarray(a[rows])
            return (
                np.concatenate([piece, np.zeros((short, *piece.shape[1:]), piece.dtype)]) if short else piece
            )

        gathered = pad(index)
        A = jax.tree.map(lambda a, at=gathered: np.asarray(a)[at], encoded)
        extra = () if test is None else (jax.tree.map(pad, test),)
        waiting.append((rows, tiles.call(function, kernel, np.float64(shift), A, *map(pad, arrays), *extra)))
        if len(waiting) > tiles.IN_FLIGHT:
            yield _cut(waiting.popleft(), size)
    for item in waiting:
        yield _cut(item, size)


def _cut(item, size):
    """What belongs to the rows; sums over the chunk (the leaves of a kernel come in a list) stay."""
    rows, result = item
    height = rows.stop - rows.start
    whole = lambda part: isinstance(part, list)  # noqa: E731
    return rows, jax.tree.map(
        lambda a: a if whole(a) or height == size else a[:height], result, is_leaf=whole
    )


def _covariances(kernel, shift, A, root):
    K = jax.vmap(lambda a: kernel.block(a, a))(A)
    return (1.0 + shift) * jnp.eye(root.shape[1]) + root[:, :, None] * K * root[:, None, :]


def columns(kernel: Any, shift: jax.Array, A: Any, root: jax.Array) -> jax.Array:
    """B^-1 l / sqrt(l' B^-1 l), l = (0, ..., 0, 1), for each B = (1 + shift) I + diag(root) K(A, A)
    diag(root): (c, k).
    """
    L = jnp.linalg.cholesky(_covariances(kernel, shift, A, root))
    last = jnp.zeros(root.shape).at[:, -1].set(1.0)
    return jax.vmap(lambda L, b: solve_triangular(L, b, lower=True, trans=1))(L, last)


def conditionals(
    kernel: Any, shift: jax.Array, A: Any, root: jax.Array, test: Any
) -> tuple[jax.Array, jax.Array]:
    """Weights of the neighbours (c, k) and variances (c,) of one test input each."""
    L = jnp.linalg.cholesky(_covariances(kernel, shift, A, root))
    cross = jax.vmap(lambda a, t: kernel.block(a, jax.tree.map(lambda x: x[None], t))[:, 0])(A, test) * root
    half = jax.vmap(lambda L, b: solve_triangular(L, b, lower=True))(L, cross)
    weights = jax.vmap(lambda L, b: solve_triangular(L, b, lower=True, trans=1))(L, half)
    return root * weights, kernel.diag(test) - jnp.sum(half**2, 1)


def pull_columns(
    kernel: Any, shift: jax.Array, A: Any, root: jax.Array, e: jax.Array, e_bar: jax.Array
) -> tuple[list[jax.Array], jax.Array, None]:
    """Cotangents of the kernel's leaves (summed, in a list) and of `root`, for that of `columns`,
    whose value was e.
    """
    return _pull(kernel, shift, A, root, e, e_bar, inputs=False)


def pull_columns_and_inputs(
    kernel: Any, shift: jax.Array, A: Any, root: jax.Array, e: jax.Array, e_bar: jax.Array
) -> tuple[list[jax.Array], jax.Array, Any]:
    """The same and those of A."""
    return _pull(kernel, shift, A, root, e, e_bar, inputs=True)


def _pull(kernel, shift, A, root, e, e_bar, inputs):
    """e = x / sqrt(l'x) with B x = l, so the cotangent of B is -y x' with B y = x_bar:
    the derivative of -y' B x.
    """
    L = jnp.linalg.cholesky(_covariances(kernel, shift, A, root))
    own = e[:, -1:]
    own = jnp.where(own > 0, own, 1.0)  # padded rows
    x, x_bar = e * own, e_bar / own
    x_bar = x_bar.at[:, -1].add(-0.5 * jnp.sum(e_bar * e, 1) / own[:, 0] ** 2)
    y = jax.vmap(lambda L, b: cho_solve((L, True), b))(L, x_bar)

    def along(kernel, root, A):
        K = jax.vmap(lambda a: kernel.block(a, a))(A)
        return -jnp.einsum("ca,cab,cb->", root * y, K, root * x)

    if inputs:
        kernel_bar, root_bar, A_bar = jax.grad(along, (0, 1, 2))(kernel, root, A)
        return jax.tree.leaves(kernel_bar), root_bar, A_bar
    kernel_bar, root_bar = jax.grad(along, (0, 1))(kernel, root, A)
    return jax.tree.leaves(kernel_bar), root_bar, None
