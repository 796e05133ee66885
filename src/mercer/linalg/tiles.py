"""Kernel matrices tile by tile: one compiled function serves every n.

A kernel's `block` is compiled for a pair of fixed-size tiles; the last tile is padded. The same function,
pulled back by `jax.vjp`, takes the cotangent of the matrix to the kernel's leaves. Tiles of 32, 64, 128 or
256 rows (512 for long rectangles whose columns fill them; 8 for a few new rows beside many data): small data
do not pay for a large tile, and no other size is ever compiled.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mercer.linalg.lapack import symmetrise
from mercer.programs import program

SIZES = (32, 64, 128, 256)
MANY, WIDE = 8192, 512  # from so many rows on, tiles of so many where the columns fill them: a fifth faster
FEW, BESIDE = 8, 64  # so many new rows have a tile of their own beside tiles of more rows than this
IN_FLIGHT = 16  # tiles being computed at once: JAX runs them on all cores while the host copies finished ones


def tile_size(n: int, columns: int | None = None) -> int:
    """Rows of a tile for n data; for rectangles of n rows and so many columns, if that is known."""
    if columns is not None and n >= MANY and -columns % WIDE <= 0.1 * columns:  # little padding
        return WIDE
    return next((s for s in SIZES if n <= s), SIZES[-1])


def in_one(n: int) -> bool:
    """Whether one tile holds n data."""
    return n <= SIZES[-1]


def rows(A: Any) -> int:
    """Number of rows of encoded inputs."""
    return jax.tree.leaves(A)[0].shape[0]


class Panels:
    """Encoded inputs cut into tiles of equal height (the last padded by repeating a row), on the device,
    ready for every tile function.
    """

    def __init__(self, A: Any, size: int):
        self.n, self.size = rows(A), size
        self.starts = range(0, self.n, size)
        self.tiles = [self._cut(A, i) for i in self.starts]

    @classmethod
    def beside(cls, data: Panels, A: Any) -> Panels:
        """New inputs in tiles like those of the data; a row or two, as a server is asked for, beside many
        data in a small one of their own.
        """
        return cls(A, FEW if rows(A) <= FEW and data.size > BESIDE else data.size)

    def _cut(self, A, start):
        rows = np.minimum(np.arange(start, start + self.size), self.n - 1)
        # rows picked out are a copy, which the device may keep as it is
        return jax.tree.map(lambda a: jax.device_put(np.asarray(a)[rows]), A)

    def part(self, first: int, last: int) -> Panels:
        """Tiles first .. last - 1 as panels of their own."""
        new = object.__new__(Panels)
        new.size, new.tiles = self.size, self.tiles[first:last]
        new.n = min(self.n, last * self.size) - first * self.size
        new.starts = range(0, new.n, self.size)
        return new

    def height(self, i: int) -> int:
        """Rows of panel i."""
        return min(self.size, self.n - i * self.size)

    def vector(self, v: np.ndarray) -> list[np.ndarray]:
        """A vector (n,) cut the same way, padded by zeros."""
        padded = np.zeros(len(self.tiles) * self.size)
        padded[: self.n] = v
        return list(padded.reshape(-1, self.size))

    def matrix(self, V: np.ndarray) -> list[np.ndarray]:
        """A matrix (n, q) cut the same way, padded by zeros."""
        padded = np.zeros((len(self.tiles) * self.size, V.shape[1]))
        padded[: self.n] = V
        return list(padded.reshape(len(self.tiles), self.size, -1))

    def join(self, pieces: list[Any]) -> Any:
        """Encoded inputs, or their cotangents, from a piece for each tile, without the padding."""
        return jax.tree.map(lambda *t: np.concatenate([np.asarray(x) for x in t])[: self.n], *pieces)


@functools.lru_cache(maxsize=512)
def compiled(function: Callable[..., Any], treedef: jax.tree_util.PyTreeDef) -> Callable[..., Any]:
    """jit of function(value, *arrays) where `value` is rebuilt from its leaves: dispatch costs microseconds,
    values never recompile.
    """

    return program(_rebuilt, function, treedef)


def _rebuilt(function, treedef, leaves, *args):
    return function(jax.tree.unflatten(treedef, leaves), *args)


def call(function: Callable[..., Any], value: Any, *args: Any) -> Any:
    """`function(value, *args)`, compiled once for each structure of `value` and shapes of `args`."""
    leaves, treedef = jax.tree.flatten(value)
    return compiled(function, treedef)(leaves, *args)


def pull(function: Callable[..., Any], value: Any, *args: Any) -> Any:
    """The cotangent of `value`, where that of `function(value, *args[:-1])` is the last of args; compiled in
    the same way.
    """
    leaves, treedef = jax.tree.flatten(value)
    return jax.tree.unflatten(treedef, _pull_value_compiled(function, treedef)(leaves, *args))


@functools.lru_cache(maxsize=256)
def _pull_value_compiled(function, treedef):
    return program(_pulled_value, function, treedef)


def _pulled_value(function, treedef, leaves, *args):
    _, pull = jax.vjp(lambda value: function(value, *args[:-1]), jax.tree.unflatten(treedef, leaves))
    return jax.tree.leaves(pull(args[-1])[0])


def _block(kernel, A, B):
    return kernel.block(A, B)


def _scaled_block(kernel, A, B, left, right):
    return kernel.block(A, B) * (left[:, None] * right[None, :])


def _block_times(kernel, A, B, V):
    return kernel.block(A, B) @ V


def _diag(kernel, A):
    return kernel.diag(A)


def matrix(kernel: Any, A: Any, B: Any, size: int | None = None) -> np.ndarray:
    """The covariance matrix (a, b), C-ordered."""
    size = size or tile_size(max(rows(A), rows(B)))
    left = Panels(A, size)
    if B is A:
        out = np.empty((left.n, left.n))
        upper(kernel, left, np.ones(left.n), out)
        return symmetrise(out)
    return between(kernel, left, Panels(B, size))


def rectangle(kernel: Any, left: Panels, right: Panels, out: np.ndarray) -> None:
    """Fill `out` (a, b) with the covariance between two sets of panels."""
    leaves, treedef = jax.tree.flatten(kernel)
    run = compiled(_block, treedef)
    calls = ((i, j, run(leaves, a, b)) for i, a in enumerate(left.tiles) for j, b in enumerate(right.tiles))
    _store(calls, left, right, out)


def strips(kernel: Any, panels: Panels) -> Callable[[Any], np.ndarray]:
    """The covariance (n, b) between panels and b encoded inputs, as a function of these, for whoever asks
    again and again for a few: the kernel is taken apart once, and nothing is padded.
    """
    leaves, treedef = jax.tree.flatten(kernel)
    run = functools.partial(compiled(_block, treedef), leaves)

    def columns(B: Any) -> np.ndarray:
        parts = [run(tile, B) for tile in panels.tiles]
        return np.concatenate([np.asarray(part) for part in parts])[: panels.n]

    return columns


def between(kernel: Any, left: Panels, right: Panels) -> np.ndarray:
    """The covariance (a, b) between two sets of panels."""
    out = np.empty((left.n, right.n))
    rectangle(kernel, left, right, out)
    return out


def upper(kernel: Any, panels: Panels, scale: np.ndarray, out: np.ndarray) -> None:
    """Fill the upper triangle of `out` with diag(scale) K diag(scale)."""
    leaves, treedef = jax.tree.flatten(kernel)
    run = compiled(_scaled_block, treedef)
    t, scales = panels.tiles, panels.vector(scale)
    pairs = ((i, j) for i in range(len(t)) for j in range(i, len(t)))
    _store(((i, j, run(leaves, t[i], t[j], scales[i], scales[j])) for i, j in pairs), panels, panels, out)


def _store(calls, left: Panels, right: Panels, out: np.ndarray) -> None:
    """Write finished tiles while the next ones are computed."""
    queue: list[tuple[int, int, Any]] = []

    def write(i, j, block):
        h, w = left.height(i), right.height(j)
        r, c = left.starts[i], right.starts[j]
        out[r : r + h, c : c + w] = np.asarray(block)[:h, :w]

    for item in calls:
        queue.append(item)
        if len(queue) > IN_FLIGHT:
            write(*queue.pop(0))
    for item in queue:
        write(*item)


def diagonal(kernel: Any, panels: Panels) -> np.ndarray:
    """k(x, x) for all rows (n,)."""
    return np.concatenate([np.asarray(call(_diag, kernel, a)) for a in panels.tiles])[: panels.n]


def few(panels: Panels) -> bool:
    """Whether these are a few new rows, beside which a matrix takes no room."""
    return panels.size == FEW


def times(kernel: Any, left: Panels, right: Panels, V: np.ndarray) -> np.ndarray:
    """K(left, right) V without storing K (but that of a few rows): (a, q)."""
    if few(left):
        return between(kernel, left, right) @ V
    columns = right.matrix(V)
    leaves, treedef = jax.tree.flatten(kernel)
    run = compiled(_block_times, treedef)
    out = np.empty((len(left.tiles) * left.size, V.shape[1]))
    for i, a in enumerate(left.tiles):
        parts = [run(leaves, a, b, v) for b, v in zip(right.tiles, columns, strict=True)]
        out[i * left.size : (i + 1) * left.size] = functools.reduce(np.add, map(np.asarray, parts))
    return out[: left.n]


# ------------------------------------------------------------------------------------------------- pulling
# back


def _pull_symmetric(kernel, A, B, i0, j0, n, coefficient, R, left, right, P, Q, *, with_inputs):
    """The cotangents of one tile of a symmetric matrix whose cotangent is
    coefficient * (diag(left) R diag(right)) + P Q', of which R is stored in the upper triangle only."""
    size = R.shape[0]
    row, column = i0 + jnp.arange(size)[:, None], j0 + jnp.arange(size)[None, :]
    inside = (row <= column) & (column < n)
    weight = jnp.where(row == column, 1.0, 2.0)
    bar = jnp.where(inside, weight * (coefficient * R * left[:, None] * right[None, :] + P @ Q.T), 0.0)
    return _pull_tile(kernel, A, B, bar, with_inputs=with_inputs)


def pull_symmetric(
    kernel: Any,
    panels: Panels,
    coefficient: float,
    R: np.ndarray,
    scale: np.ndarray,
    P: np.ndarray,
    Q: np.ndarray,
    inputs: bool = False,
) -> tuple[Any, Any]:
    """Cotangents of the kernel's leaves (and of the inputs, if asked) for K symmetric with cotangent
    coefficient * diag(scale) R diag(scale) + sym(P Q'), R (n, n) in its upper triangle, P and Q (n, q).

    P Q' is symmetrised by stacking; the caller hands it over already symmetric as a sum.
    """
    total = _Total(kernel)
    run = _pull_compiled(_pull_symmetric, total.treedef, inputs)
    scales, left, right = panels.vector(scale), panels.matrix(P), panels.matrix(Q)
    bars = [jax.tree.map(jnp.zeros_like, a) for a in panels.tiles] if inputs else []
    s, n = panels.size, np.int64(panels.n)
    for i, a in enumerate(panels.tiles):
        for j in range(i, len(panels.tiles)):
            part, ends = run(
                total.leaves,
                a,
                panels.tiles[j],
                np.int64(i * s),
                np.int64(j * s),
                n,
                np.float64(coefficient),
                _tile(R, panels, i, panels, j),
                scales[i],
                scales[j],
                left[i],
                right[j],
            )
            total.add(part)
            if inputs:
                bars[i] = jax.tree.map(jnp.add, bars[i], ends[0])
                bars[j] = jax.tree.map(jnp.add, bars[j], ends[1])
    return total.value, panels.join(bars) if inputs else None


def _pull_tile(kernel, A, B, bar, *, with_inputs):
    return _pull_rectangle(kernel, A, B, bar, with_inputs=with_inputs)[:-1]


def _pull_rectangle(kernel, A, B, bar, *, with_inputs):
    """The cotangents of one tile, and the sums of its cotangent times itself over each row."""
    if with_inputs:
        K, pull = jax.vjp(lambda k, a, b: k.block(a, b), kernel, A, B)
    else:
        K, pull = jax.vjp(lambda k: k.block(A, B), kernel)
    return (*pull(bar), jnp.sum(bar * K, 1))


@functools.lru_cache(maxsize=256)
def _pull_compiled(function, treedef, with_inputs: bool):
    return program(_pulled, function, treedef, with_inputs)


def _pulled(function, treedef, with_inputs, leaves, *args):
    out = function(jax.tree.unflatten(treedef, leaves), *args, with_inputs=with_inputs)
    return jax.tree.leaves(out[0]), out[1:]


def _tile(M: np.ndarray, left: Panels, i: int, right: Panels, j: int) -> np.ndarray:
    """Tile (i, j) of a matrix, padded by zeros."""
    s, h, w = left.size, left.height(i), right.height(j)
    tile = M[i * s : i * s + h, j * s : j * s + w]
    if h == w == s:
        return np.ascontiguousarray(tile, float)
    padded = np.zeros((s, s))
    padded[:h, :w] = tile
    return padded


class _Total:
    """The sum of the cotangents of a kernel's leaves, taken in while the next tiles are computed."""

    def __init__(self, kernel):
        self.leaves, self.treedef = jax.tree.flatten(kernel)
        self.sums = [np.zeros(np.shape(leaf)) for leaf in self.leaves]
        self.queue: list[Any] = []

    def add(self, part) -> None:
        self.queue.append(part)
        if len(self.queue) > IN_FLIGHT:
            self._take(self.queue.pop(0))

    def _take(self, part) -> None:
        for total, x in zip(self.sums, part, strict=True):
            total += np.asarray(x)

    @property
    def value(self):
        while self.queue:
            self._take(self.queue.pop(0))
        return jax.tree.unflatten(self.treedef, self.sums)


class PullRectangle:
    """Cotangents of K(left, right) taken block of rows by block: `add` what is known, then read `kernel`,
    `left`, `right`.

    `left` and `right` are the cotangents of the encoded inputs, where they were asked for (else None).
    `products` are the sums of K times its cotangent over each row.
    """

    def __init__(self, kernel: Any, right: Panels, inputs: bool = False):
        self.total, self.columns, self.inputs = _Total(kernel), right, inputs
        self.lefts: list[Any] = []
        self.sums: list[tuple[list, int]] = []
        self.rights = [jax.tree.map(jnp.zeros_like, b) for b in right.tiles] if inputs else []

    def add(self, left: Panels, bar: np.ndarray) -> None:
        """The cotangent `bar` (rows, columns) of the block with these rows."""
        run = _pull_compiled(_pull_rectangle, self.total.treedef, self.inputs)
        for i, a in enumerate(left.tiles):
            sums = []
            left_bar = jax.tree.map(jnp.zeros_like, a) if self.inputs else None
            for j, b in enumerate(self.columns.tiles):
                part, (*ends, products) = run(self.total.leaves, a, b, _tile(bar, left, i, self.columns, j))
                sums.append(products)
                if self.inputs:
                    left_bar = jax.tree.map(jnp.add, left_bar, ends[0])
                    self.rights[j] = jax.tree.map(jnp.add, self.rights[j], ends[1])
                self.total.add(part)
            self.sums.append((sums, left.height(i)))
            if self.inputs:
                self.lefts.append(jax.tree.map(lambda t, h=left.height(i): np.asarray(t)[:h], left_bar))

    @property
    def kernel(self) -> Any:
        """Cotangents of the kernel's leaves, summed over the tiles so far."""
        return self.total.value

    @property
    def left(self) -> Any:
        """Cotangents of the rows' inputs, or None where they were not asked for."""
        return jax.tree.map(lambda *t: np.concatenate(t), *self.lefts) if self.inputs else None

    @property
    def products(self) -> np.ndarray:
        """The products with the tiles that were asked for, row by row."""
        return np.concatenate([np.sum(sums, 0)[:height] for sums, height in self.sums])

    @property
    def right(self) -> Any:
        """Cotangents of the columns' inputs, or None where they were not asked for."""
        return self.columns.join(self.rights) if self.inputs else None


def pull_rows(function: Callable[..., Any], value: Any, panels: Panels, bar: np.ndarray) -> Any:
    """Cotangents of `value`'s leaves for a row-wise function(value, A) -> (a,) or (a, q) with cotangent
    `bar`.
    """
    leaves, treedef = jax.tree.flatten(value)
    if not leaves:
        return value
    run = _pull_value_compiled(function, treedef)
    pieces = panels.vector(bar) if bar.ndim == 1 else panels.matrix(bar)
    parts = [run(leaves, a, b) for a, b in zip(panels.tiles, pieces, strict=True)]
    return jax.tree.unflatten(treedef, [sum(np.asarray(x) for x in xs) for xs in zip(*parts, strict=True)])


def pull_diagonal(kernel: Any, panels: Panels, bar: np.ndarray) -> Any:
    """Cotangents of the kernel's leaves for k(x, x) with cotangent `bar` (n,)."""
    return pull_rows(_diag, kernel, panels, bar)


def map_rows(function: Callable[..., Any], value: Any, panels: Panels) -> np.ndarray:
    """function(value, A) for all rows: (n,) or (n, q)."""
    return np.concatenate([np.asarray(call(function, value, a)) for a in panels.tiles])[: panels.n]
