"""The GPLVM by its most probable latent points (Lawrence 2005). For the columns of one group, observed in n
rows,

    log p(Y | X) = -1/2 sum_d [ n log 2 pi + log|K| + y_d' K^-1 y_d ],   K = k(X, X) + s2 I
    d / dK       = 1/2 sum_d [ K^-1 y_d y_d' K^-1 - K^-1 ]

and the groups add up; with log p(X) = log N(X | 0, I). Rows that a group does not observe stand in K as ones
on the diagonal. n^3 flops for each group, and one n x n matrix at a time.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_solve, solve_triangular

from mercer.inputs import Array
from mercer.kernels import AbstractKernel
from mercer.latent.mapping import Mapping
from mercer.latent.table import Grouped


class Points(NamedTuple):
    """What the density depends on: the covariance function, the noise variance, the latent points (n, Q)."""

    kernel: AbstractKernel
    noise_variance: Array | float
    X: Array


@jax.jit
def log_joint_and_gradient(at: Points, table: Grouped) -> tuple[jax.Array, Points]:
    """log p(Y, X), in nats, and its derivatives, as other `Points`."""
    K, pull = jax.vjp(lambda kernel, X: kernel.block(X, X), at.kernel, at.X)
    n, Q = at.X.shape

    def add(total: Any, group: Any) -> tuple[Any, None]:
        value, slope = total
        rows, columns = group
        L, inverse, alpha = _solved(K, at.noise_variance, rows, table.Y * columns)
        D = jnp.sum(columns)
        log_det = 2.0 * jnp.sum(jnp.log(jnp.diag(L)))
        fit = jnp.sum(table.Y * columns * alpha)
        value += -0.5 * D * (jnp.sum(rows) * jnp.log(2.0 * jnp.pi) + log_det) - 0.5 * fit
        return (value, slope + 0.5 * (alpha @ alpha.T - D * inverse)), None

    start = (jnp.zeros(()), jnp.zeros((n, n)))
    (value, slope), _ = jax.lax.scan(add, start, (table.rows, table.columns))
    kernel_bar, X_bar = pull(slope)
    prior = -0.5 * jnp.sum(at.X**2) - 0.5 * n * Q * jnp.log(2.0 * jnp.pi)
    return value + prior, Points(kernel_bar, jnp.trace(slope), X_bar - at.X)


@jax.jit
def mapping(at: Points, table: Grouped) -> Mapping:
    """The functions, given the data at these points."""
    K = at.kernel.block(at.X, at.X)

    def of_group(group: Any) -> tuple[jax.Array, jax.Array]:
        rows, columns = group
        _, inverse, alpha = _solved(K, at.noise_variance, rows, table.Y * columns)
        return alpha, inverse

    alpha, R = jax.lax.map(of_group, (jnp.asarray(table.rows), jnp.asarray(table.columns)))
    noise, X = jnp.asarray(at.noise_variance), jnp.asarray(at.X)
    return Mapping(at.kernel, noise, X, jnp.sum(alpha, 0), R, jnp.asarray(table.columns))


def _solved(
    K: jax.Array, noise: Any, rows: jax.Array, Y: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The factor of K + s2 I, its inverse and the solution for Y (n, D), of the rows that are observed."""
    observed = K * rows[:, None] * rows + jnp.diag(jnp.where(rows > 0, noise, 1.0))
    L = jnp.linalg.cholesky(observed)
    half = solve_triangular(L, jnp.eye(len(L)), lower=True)
    inverse = (half.T @ half) * rows[:, None] * rows
    return L, inverse, cho_solve((L, True), Y)
