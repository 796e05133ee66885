"""Sums over the table of all pairs of positions of two strings, and their derivative.

The pairs of strings are the vector: one step of the loop treats the same cell of the tables of many pairs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from mercer.compiled import strings
from mercer.compiled.strings import Loop
from mercer.linalg.lapack import thread_count
from mercer.linalg.tiles import rows

# pairs of strings that go through their tables together: enough to hide the cost of a step, few enough for
# the cache
PAIRS = 768
_STEP = 1e-30

States: TypeAlias = tuple[jax.Array, ...]


def forward(function: Callable[..., jax.Array], analytic: bool = False) -> Callable[..., jax.Array]:
    """function(theta, *data) of one number theta, or of a few (p,), its derivatives carried along with the
    value: nothing is stored for the way back.

    So a recursion over many steps is differentiated by `jax.grad` at two to three times the cost of its
    value for each number, and to any order. The data are constants.
    analytic: sums and products only; then the derivative travels as an imaginary part (a complex step theta +
    i e, exact to rounding), which takes half as many arrays and half the time.
    """

    def by_tangent(theta, *data):
        found = [jax.jvp(lambda t: function(t, *data), (theta,), (unit,)) for unit in _units(theta)]
        return jnp.stack([found[0][0], *(slope for _, slope in found)])

    def by_complex_step(theta, *data):
        found = [function(lax.complex(theta, _STEP * unit), *data) for unit in _units(theta)]
        return jnp.stack([found[0].real, *(both.imag / _STEP for both in found)])

    @jax.custom_jvp
    def value(theta, *data):
        return function(theta, *data)

    @value.defjvp
    def tangent(primals, tangents):
        result, *slopes = forward(by_complex_step if analytic else by_tangent)(*primals)
        along = zip(slopes, jnp.ravel(tangents[0]), strict=True)
        return result, sum(slope * part for slope, part in along)

    return value


def by_loops(loop: Loop, twin: Callable[..., jax.Array]) -> Callable[..., jax.Array]:
    """function(decay, A, B) of two tables of codes, or (decay, A) for the rows of one with themselves, on the
    host by a compiled loop: value and first derivative. `twin` is the same in JAX, for derivatives beyond.
    """

    def host(decay: Any, *tables: Any, slopes: bool = False) -> np.ndarray:
        codes, decay = [np.asarray(table) for table in tables], float(decay)
        same = len(codes) == 2 and np.array_equal(codes[0], codes[1])
        shape = [len(table) for table in codes]
        which = np.triu_indices(shape[0]) if same else [i.ravel() for i in np.indices(shape)]
        pairs = which[0], which[-1]
        found = strings.over_pairs(loop, decay, codes[0], codes[-1], pairs, thread_count(), slopes)
        if not same:
            return found.reshape(*found.shape[:-1], *shape)
        out = np.empty((*found.shape[:-1], *shape))
        out[..., which[0], which[1]] = out[..., which[1], which[0]] = found
        return out

    def call(function, leading, decay, tables):
        shape = jax.ShapeDtypeStruct((*leading, *map(rows, tables)), float)
        return jax.pure_callback(function, shape, decay, *tables, vmap_method="sequential")

    @jax.custom_jvp
    def value(decay, *tables):
        return call(host, (), decay, tables)

    @jax.custom_jvp
    def both(decay, *tables):
        return call(functools.partial(host, slopes=True), (2,), decay, tables)

    @value.defjvp
    def _(primals, tangents):
        result, slope = both(*primals)
        return result, slope * tangents[0]

    @both.defjvp
    def _(primals, tangents):
        decay, *tables = primals
        result, second = both(*primals), jax.jacfwd(jax.jacfwd(twin))(decay, *tables)
        return result, jnp.stack([result[1], second]) * tangents[0]

    return value


def _units(theta: jax.Array) -> list[jax.Array]:
    """The directions of its numbers: 1, or unit vectors."""
    return [jnp.reshape(row, jnp.shape(theta)) for row in jnp.eye(jnp.size(theta))]


class Cell:
    """Two symbols: whether both are real (not padding), whether they are real and equal."""

    def __init__(self, symbol: jax.Array, other: jax.Array):
        self.real = (symbol >= 0) & (other >= 0)
        self.match = (symbol == other) & (symbol >= 0)


class Step(Protocol):
    """What one cell of a table does; see `walk`."""

    def __call__(self, cell: Cell, before: States, above: States) -> tuple[States, States, jax.Array]:
        """The states to leave in the column and those to hand on, and the term to add."""


# the `step`, `start` and `zero` of `walk`
Recursion: TypeAlias = tuple[Step, States, jax.Array]


def walk(a: jax.Array, b: jax.Array, step: Step, start: States, zero: jax.Array) -> jax.Array:
    """Sum over all cells of the tables of pairs of strings: codes a (width, ...) and b (width, ...), whose
    other axes broadcast.

    `step(cell, before, above)` says for cell (i, j), from the states `before`, which cell (i, j - 1) handed
    on, and `above`, which row i - 1 left in column j: what to leave in column j, what to hand to cell (i, j +
    1), and the term to add. `start`: the states outside the table. `zero`: of the type of the sum.
    """
    shape = jnp.broadcast_shapes(a.shape[1:], b.shape[1:])
    outside = tuple(jnp.broadcast_to(s, shape) for s in start)

    def row(i, carry):
        symbol = lax.dynamic_index_in_dim(a, i, keepdims=False)

        def column(carry, of_column):
            before, total = carry
            other, above = of_column
            left, after, term = step(Cell(symbol, other), before, above)
            return (after, total + term), left

        columns, total = carry
        (_, total), columns = lax.scan(column, (outside, total), (b, columns))
        return columns, total

    columns = tuple(jnp.broadcast_to(s, (b.shape[0], *shape)) for s in start)
    longest = jnp.max(jnp.sum(a >= 0, 0))
    return lax.fori_loop(0, longest, row, (columns, jnp.broadcast_to(zero, shape)))[1]


def walk_all(A: jax.Array, B: jax.Array, *recursion: Any) -> jax.Array:
    """`walk` for all pairs of rows of A (a, width) and B (b, width), a few rows of A at a time: (a, b)."""
    n, m = rows(A), rows(B)
    few = max(r for r in range(1, n + 1) if n % r == 0 and r <= max(1, PAIRS // m))
    b = B.T[:, None, :]
    return lax.map(lambda a: walk(a.T[:, :, None], b, *recursion), A.reshape(n // few, few, -1)).reshape(n, m)
