"""Expectations of the squared exponential at Gaussian latent points x_i ~ N(mu_i, diag s_i), in closed form
(Titsias and Lawrence 2010): the psi statistics

    psi0 = E[k(x_i, x_i)],   Psi1_ij = E[k(x_i, z_j)],   Psi2_jk = sum_i w_i E[k(x_i, z_j) k(x_i, z_k)]

With c = 1 / (l^2 + 2 s) for each latent column, and sums over the columns,

    E[k_j k_k] = v^2 prod (1 + 2 s / l^2)^-1/2
                 exp(-1/2 sum c (mu - z_j)^2 - 1/2 sum c (mu - z_k)^2 - 1/4 sum (1 / l^2 - c) (z_j - z_k)^2)

in which nothing cancels. The last sum is a product of matrices, and rows are taken in blocks: there is never
an n x m x m array, neither on the way there nor on the way back (the blocks are computed again).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from mercer.inputs import Array
from mercer.kernels import SE

BLOCK = 2**18  # entries of a block of rows


def psi1(kernel: SE, Z: Array, mu: Array, s: Array) -> jax.Array:
    """E[k(x_i, z_j)] (n, m): mu and s (n, Q), means and variances; Z (m, Q)."""
    l2 = kernel.lengthscale**2
    scale = -0.5 * jnp.sum(jnp.log1p(s / l2), 1)
    return kernel.variance * jnp.exp(scale[:, None] - 0.5 * _distances(mu, Z, 1.0 / (l2 + s)))


def psi2(kernel: SE, Z: Array, mu: Array, s: Array, weights: Array) -> jax.Array:
    """sum_i w_pi E[k(x_i, z_j) k(x_i, z_k)] (P, m, m) for P sets of weights (P, n)."""
    n, m, P = len(mu), len(Z), len(weights)
    apart = ((Z[:, None] - Z[None]) ** 2).reshape(m * m, -1)
    size = max(1, min(n, BLOCK // (m * m)))
    blocks = -(-n // size)

    def cut(a: Array, fill: float) -> jax.Array:
        padded = jnp.pad(a, ((0, blocks * size - n), (0, 0)), constant_values=fill)
        return padded.reshape(blocks, size, -1)

    @jax.checkpoint
    def add(total, block):
        mu, s, w = block
        return total + w.T @ products(kernel, Z, mu, s, apart), None

    total, _ = jax.lax.scan(add, jnp.zeros((P, m * m)), (cut(mu, 0.0), cut(s, 1.0), cut(weights.T, 0.0)))
    return total.reshape(P, m, m)


def products(kernel: SE, Z: Array, mu: Array, s: Array, apart: Array) -> jax.Array:
    """E[k(x_i, z_j) k(x_i, z_k)] (n, m m) of few rows; `apart` (m m, Q): (z_j - z_k)^2."""
    l2 = kernel.lengthscale**2
    c = 1.0 / (l2 + 2.0 * s)
    near = -0.5 * _distances(mu, Z, c) - 0.25 * jnp.sum(jnp.log1p(2.0 * s / l2), 1)[:, None]
    spread = -0.25 * (2.0 * s * c / l2) @ apart.T
    pairs = near[:, :, None] + near[:, None, :]
    return kernel.variance**2 * jnp.exp(pairs.reshape(len(mu), -1) + spread)


def _distances(mu: Array, Z: Array, weight: Array) -> jax.Array:
    """sum_q weight_iq (mu_iq - z_jq)^2: (n, m), column by column."""
    total = jnp.zeros((len(mu), len(Z)))
    for q in range(Z.shape[1]):
        total = total + weight[:, q, None] * (mu[:, q, None] - Z[:, q]) ** 2
    return total
