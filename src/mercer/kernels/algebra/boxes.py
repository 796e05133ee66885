"""Covariances averaged over boxes: in closed form where the kernel has one, else by Gauss-Legendre nodes.

By nodes, an integral is a weighted sum of values of f, whose covariances are exact: the matrix stays positive
semi-definite, whatever the kernel.
"""

from __future__ import annotations

import functools
import itertools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import erf

from mercer.inputs import Array
from mercer.kernels.algebra.columns import On
from mercer.kernels.algebra.sums import Product, Scale, Sum
from mercer.kernels.base import AbstractKernel
from mercer.kernels.families.dot import Constant
from mercer.kernels.families.stationary import SE
from mercer.observe.rows import nodes, unit_nodes

NARROW = 1.0  # length-scales: up to this width the average of an SE is by nodes, right to 2e-12
FEW = 6  # of them


class Boxes(NamedTuple):
    """{x + t * width, 0 <= t <= 1}: lower corners and widths (n, d), and the columns that have any."""

    x: Array
    width: Array
    boxed: tuple[int, ...]

    def on(self, columns: tuple[int, ...]) -> Boxes:
        """The same of some columns."""
        at = list(columns)
        boxed = tuple(i for i, column in enumerate(columns) if column in self.boxed)
        return Boxes(self.x[:, at], self.width[:, at], boxed)


def averaged(kernel: AbstractKernel, A: Boxes, B: Boxes) -> jax.Array:
    """The covariance (a, b) of the averages of f over the boxes A and B."""
    boxed = {*A.boxed, *B.boxed}
    if not boxed:
        return kernel.block(kernel.encode(A.x), kernel.encode(B.x))
    if isinstance(kernel, Scale):
        return kernel.variance * averaged(kernel.kernel, A, B)
    if isinstance(kernel, Sum):
        return functools.reduce(jnp.add, [averaged(term, A, B) for term in kernel.terms])
    if isinstance(kernel, On):
        columns = tuple(int(column) for column in kernel.columns)
        return averaged(kernel.kernel, A.on(columns), B.on(columns))
    if isinstance(kernel, Product):
        read = [boxed & set(_columns(factor, A.x.shape[1])) for factor in kernel.factors]
        if sum(map(len, read)) == len(set().union(*read)):  # no column of a box is read twice
            return functools.reduce(jnp.multiply, [averaged(factor, A, B) for factor in kernel.factors])
    if isinstance(kernel, SE) and kernel.loadings is None:
        return _squared_exponential(kernel, A, B, boxed)
    return _by_nodes(kernel, A, B)


def node_error(kernel: AbstractKernel, box: Boxes) -> float:
    """How wrong the average of f over a box (one row) is by nodes: the standard deviation of its difference
    to that by twice as many along each column, relative to its own. Zero where it is in closed form.
    """
    if not box.boxed:
        return 0.0
    if isinstance(kernel, Scale):
        return node_error(kernel.kernel, box)
    if isinstance(kernel, Sum):
        return max(node_error(term, box) for term in kernel.terms)
    if isinstance(kernel, On):
        return node_error(kernel.kernel, box.on(tuple(int(column) for column in kernel.columns)))
    if isinstance(kernel, Product):
        read = [set(box.boxed) & set(_columns(factor, box.x.shape[1])) for factor in kernel.factors]
        if sum(map(len, read)) == len(set().union(*read)):
            return max(node_error(factor, box) for factor in kernel.factors)
    if isinstance(kernel, SE) and kernel.loadings is None:
        return 0.0
    t, weights = nodes(box.boxed, box.x.shape[1])
    halves = np.array(list(itertools.product((0.0, 0.5), repeat=len(box.boxed))))
    corners = np.zeros((len(halves), t.shape[1]))
    corners[:, list(box.boxed)] = halves
    finer = (corners[:, None, :] + 0.5 * t).reshape(-1, t.shape[1])
    finer_weights = np.tile(weights, len(halves)) / len(halves)
    places = np.asarray(box.x) + np.vstack([finer, t]) * np.asarray(box.width)
    K = kernel(places)
    own = np.concatenate([finer_weights, np.zeros_like(weights)])
    difference = np.concatenate([finer_weights, -weights])
    return float(np.sqrt(max(difference @ K @ difference, 0.0) / (own @ K @ own)))


def _columns(kernel: AbstractKernel, d: int) -> tuple[int, ...]:
    """The columns that a kernel on d of them reads."""
    if isinstance(kernel, Constant):
        return ()
    if isinstance(kernel, Scale):
        return _columns(kernel.kernel, d)
    return tuple(int(column) for column in kernel.columns) if isinstance(kernel, On) else tuple(range(d))


def _by_nodes(kernel: AbstractKernel, A: Boxes, B: Boxes) -> jax.Array:
    d = A.x.shape[1]
    (s, s_weights), (t, t_weights) = nodes(A.boxed, d), nodes(B.boxed, d)
    right = kernel.encode((B.x[:, None, :] + t * B.width[:, None, :]).reshape(-1, d))

    @jax.checkpoint
    def add(total, node):
        place, weight = node
        K = kernel.block(kernel.encode(A.x + place * A.width), right)
        return total + weight * (K.reshape(A.x.shape[0], -1, len(t)) @ t_weights), None

    start = jnp.zeros((A.x.shape[0], B.x.shape[0]))
    if len(s) == 1:
        return add(start, (s[0], s_weights[0]))[0]
    return jax.lax.scan(add, start, (jnp.asarray(s), jnp.asarray(s_weights)))[0]


def _squared_exponential(kernel: SE, A: Boxes, B: Boxes, boxed: set[int]) -> jax.Array:
    """A product over columns of averages of exp(-u^2 / 2)."""
    scale = jnp.broadcast_to(kernel.lengthscale, (A.x.shape[1],))
    r2, product = jnp.zeros((A.x.shape[0], B.x.shape[0])), kernel.variance
    for j in range(A.x.shape[1]):
        u = (A.x[:, None, j] - B.x[None, :, j]) / scale[j]
        if j in boxed:
            product = product * _average(u, A.width[:, j, None] / scale[j], B.width[None, :, j] / scale[j])
        else:
            r2 = r2 + u**2
    return product * jnp.exp(-0.5 * r2)


def _average(u, w, v):
    """Of exp(-(u + s w - t v)^2 / 2) over s and t in [0, 1]: by nodes over a width of up to a length-scale,
    by antiderivatives over a larger one.
    """
    swap = v > w  # the average over s is the one of the wider box
    u, w, v = jnp.where(swap, -u, u), jnp.maximum(w, v), jnp.minimum(w, v)
    wide, both_wide = w > NARROW, v > NARROW
    long, long_too = jnp.where(wide, w, 1.0), jnp.where(both_wide, v, 1.0)
    short, short_too = jnp.where(wide, 0.0, w), jnp.where(both_wide, 0.0, v)
    t, weights = unit_nodes(FEW)  # along a last axis
    at = u[..., None] - t * short_too[..., None]
    by_nodes = jnp.exp(-0.5 * (at[..., None] + t * short[..., None, None]) ** 2) @ weights
    by_ends = (_once(at + long[..., None]) - _once(at)) / long[..., None]
    over_narrow = jnp.where(wide[..., None], by_ends, by_nodes) @ weights
    over_wide = _twice(u + long) + _twice(u - long_too) - _twice(u + long - long_too) - _twice(u)
    return jnp.where(both_wide, over_wide / (long * long_too), over_narrow)


def _once(u):
    """The antiderivative of exp(-u^2 / 2)."""
    return math.sqrt(0.5 * math.pi) * erf(u / math.sqrt(2.0))


def _twice(u):
    """That of the antiderivative."""
    return u * _once(u) + jnp.exp(-0.5 * u**2)
