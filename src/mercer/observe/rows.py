"""One linear observation as a row of numbers, so that it can stand wherever an input stands.

A row says L f = weight * the average over a box of (c_1 + v_1 . grad) ... (c_M + v_M . grad) f, and reads

    x (d) | width (d) | weight | kind | c_1 | v_1 (d) | ... | c_M | v_M (d)

The box is {x + t * width, 0 <= t <= 1}; columns of width 0 are held at x. A value has width 0, weight 1 and
M = 0; a derivative has factors with c = 0; an integral has the volume of its box as its weight. A factor with
c = 1 and v = 0 changes nothing, so rows of fewer derivatives are padded by them. `kind` is for people, and
for noise of its own: no covariance reads it.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from mercer.inputs import Array, InputError

VALUE, INTEGRAL = 0, -1  # kinds; a derivative of order q is q + COLUMN (column + 1), or q along a direction
COLUMN = 100
# Gauss-Legendre nodes for each column of a box that is wide in one, two or three columns
NODES = {1: 24, 2: 10, 3: 6}


def width_of(d: int, order: int) -> int:
    """How many numbers a row has, for d columns and up to so many derivatives."""
    return 2 * d + 2 + order * (1 + d)


def order_of(numbers: int, d: int) -> int:
    """How many derivatives rows of so many numbers have room for; an error where it is no row."""
    order, rest = divmod(numbers - 2 * d - 2, 1 + d)
    if order < 0 or rest:
        raise InputError(
            f"a row of an observation of {d} column{'s' * (d != 1)} has {2 * d + 2} numbers and {1 + d} more "
            f"for each derivative, got {numbers}: make rows with mercer.observe."
        )
    return order


def make(x: np.ndarray, width: np.ndarray, weight: np.ndarray, kind: int, along: np.ndarray) -> np.ndarray:
    """Rows (n, ...) at x (n, d), averaged over boxes of `width` (n, d), and differentiated along the
    directions `along` (n, M, d)."""
    n, order, d = along.shape
    factors = np.concatenate([np.zeros((n, order, 1)), along], 2).reshape(n, order * (1 + d))
    return np.concatenate([x, width, weight[:, None], np.full((n, 1), float(kind)), factors], 1)


def padded(rows: np.ndarray, d: int, order: int) -> np.ndarray:
    """The same rows with room for so many derivatives."""
    more = order - order_of(rows.shape[1], d)
    idle = np.tile(np.eye(1 + d)[0], max(more, 0))
    return np.concatenate([rows, np.broadcast_to(idle, (len(rows), idle.size))], 1)


class Rows(eqx.Module):
    """Rows taken apart: x and width (n, d), weight (n,), c as `keep` (n, M) and v as `along` (n, M, d).
    boxed: the columns in which some box has a width.
    """

    x: Array
    width: Array
    weight: Array
    keep: Array
    along: Array
    boxed: tuple[int, ...] = eqx.field(static=True)


def read(rows: Array, d: int, boxed: tuple[int, ...] | None = None) -> Rows:
    """Rows (n, ...) of d columns taken apart; plain inputs (n, d) are values. Of numbers on the host what no
    row uses is left out. boxed: the columns in which boxes may have a width, where that is known.
    """
    if rows.shape[1] == d:
        none = np.zeros((rows.shape[0], 0, d))
        return Rows(rows, np.zeros(rows.shape), np.ones(rows.shape[0]), none[:, :, 0], none, ())
    n, order = rows.shape[0], order_of(rows.shape[1], d)
    factors = rows[:, 2 * d + 2 :].reshape(n, order, 1 + d)
    known = boxed is not None
    boxed = tuple(range(d)) if boxed is None else boxed
    if isinstance(rows, np.ndarray):
        used = np.any(factors != np.eye(1 + d)[0], (0, 2))
        factors = factors[:, used]
        wide = tuple(np.flatnonzero(np.any(rows[:, d : 2 * d] != 0.0, 0)).tolist())
        boxed = boxed if known else wide
    parts = rows[:, :d], rows[:, d : 2 * d], rows[:, 2 * d], factors[:, :, 0], factors[:, :, 1:]
    return Rows(*parts, boxed)


def differentiated(
    function: Callable[[Array], jax.Array], rows: Rows, axis: int = 0
) -> Callable[[Array], jax.Array]:
    """(c_1 + v_1 . grad) ... (c_M + v_M . grad) of a function of x (n, d) whose result has the rows along
    `axis`, each depending on its own row of x.
    """
    for m in range(rows.keep.shape[1]):
        function = _factor(function, rows.keep[:, m], rows.along[:, m], axis)
    return function


def _factor(function, keep, along, axis):
    def derived(x):
        value, slope = jax.jvp(function, (x,), (along,))
        shape = [1] * value.ndim
        shape[axis] = -1
        return keep.reshape(shape) * value + slope

    return derived


def nodes(boxed: tuple[int, ...], d: int) -> tuple[np.ndarray, np.ndarray]:
    """Gauss-Legendre nodes t (Q, d) in the unit box of these columns, 0 in the others, and their weights
    (Q,), which sum to 1.
    """
    if len(boxed) > max(NODES):
        raise InputError(
            f"integrals over {len(boxed)} columns at once need a kernel and a mean that are products of "
            f"functions of fewer, such as SE; by nodes at most {max(NODES)} are integrated over."
        )
    at, weights = unit_nodes(NODES[len(boxed)]) if boxed else (np.zeros(0), np.zeros(0))
    t, total = np.zeros((at.size ** len(boxed), d)), np.ones(at.size ** len(boxed))
    for row, each in enumerate(itertools.product(range(at.size), repeat=len(boxed))):
        t[row, list(boxed)] = at[list(each)]
        total[row] = np.prod(weights[list(each)])
    return t, total


@functools.lru_cache
def unit_nodes(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Gauss-Legendre nodes and weights (count,) of the average over [0, 1]."""
    at, weights = np.polynomial.legendre.leggauss(count)
    return 0.5 * (1.0 + at), 0.5 * weights


def applied(function: Callable[[Array], Array], rows: Rows) -> jax.Array:
    """L f for every row, of a function X (n, d) -> (n,) or (n, p) written in `jax.numpy`."""
    width = jnp.asarray(rows.width)
    t, weights = nodes(rows.boxed, width.shape[1])

    def averaged(x):
        if not rows.boxed:
            return jnp.asarray(function(x))
        points = (x[:, None, :] + t * width[:, None, :]).reshape(-1, x.shape[1])
        values = jnp.asarray(function(points))
        return jnp.tensordot(values.reshape(x.shape[0], len(t), *values.shape[1:]), weights, (1, 0))

    try:
        found = differentiated(averaged, rows)(jnp.asarray(rows.x))
    except jax.errors.TracerArrayConversionError:
        raise InputError(
            "a mean or basis function that is differentiated must be written in jax.numpy: "
            f"{function} reads its inputs as NumPy arrays."
        ) from None
    return found * jnp.asarray(rows.weight).reshape(-1, *[1] * (found.ndim - 1))
