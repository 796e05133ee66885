"""The Bayesian GPLVM (Titsias and Lawrence 2010): latent points integrated out, by a lower bound of the
evidence.

Every column of the table is y = f(x) + noise with its own f ~ GP(0, k) and common latent points x_i, from
N(0, I). With q(x_i) = N(mu_i, diag s_i) and inducing inputs Z, for the columns of one group,

    F = -1/2 sum_d [ n log(2 pi s2) + |y_d|^2 / s2 + log|B| - |c_d|^2 + (n v - tr C) / s2 ] - KL(q | p)
    C = L^-1 Psi2 L^-T,   B = I + C / s2 = M M',   c_d = M^-1 L^-1 Psi1' y_d / s2,   K_mm = L L'

and the groups add up. The inducing variables are f(Z) and a little noise of their own (`JITTER`), for which
the bound holds as exactly.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import cho_solve, solve_triangular

from mercer.inputs import Array
from mercer.kernels import SE
from mercer.latent.expectations import psi1, psi2
from mercer.latent.mapping import Mapping, divergence
from mercer.latent.table import Grouped

JITTER = 1e-6  # of the prior variance


class Variational(NamedTuple):
    """What the bound depends on: the covariance function, the noise variance, means and log variances (n, Q)
    of the latent points, inducing inputs (m, Q).
    """

    kernel: SE
    noise_variance: Array | float
    mu: Array
    log_s: Array
    Z: Array


@jax.jit
def bound(at: Variational, table: Grouped) -> jax.Array:
    """Lower bound of log p(Y), in nats."""
    kernel, noise = at.kernel, at.noise_variance
    s = jnp.exp(at.log_s)
    L = _inducing_factor(kernel, at.Z)
    right = solve_triangular(L, psi1(kernel, at.Z, at.mu, s).T @ table.Y, lower=True)  # (m, D)
    Psi2 = psi2(kernel, at.Z, at.mu, s, table.rows)

    def of_group(group):
        Psi2, rows, columns = group
        C, M = _factor(L, Psi2, noise)
        c = solve_triangular(M, right * columns, lower=True) / noise
        n, D = jnp.sum(rows), jnp.sum(columns)
        each = n * jnp.log(2.0 * jnp.pi * noise) + 2.0 * jnp.sum(jnp.log(jnp.diag(M)))
        rest = (n * kernel.variance - jnp.trace(C)) / noise
        return -0.5 * D * (each + rest) + 0.5 * jnp.sum(c**2)

    parts = jax.lax.map(of_group, (Psi2, table.rows, table.columns))
    return jnp.sum(parts) - 0.5 * jnp.sum(table.Y**2) / noise - divergence(at.mu, s)


bound_and_gradient = jax.jit(jax.value_and_grad(bound))
"""The bound and its derivatives, as another `Variational`."""


@jax.jit
def mapping(at: Variational, table: Grouped) -> Mapping:
    """What is known of the functions at the best q(f(Z))."""
    kernel, noise = at.kernel, at.noise_variance
    s, m = jnp.exp(at.log_s), len(at.Z)
    L = _inducing_factor(kernel, at.Z)
    right = solve_triangular(L, psi1(kernel, at.Z, at.mu, s).T @ table.Y, lower=True)

    def of_group(group):
        Psi2, columns = group
        C, M = _factor(L, Psi2, noise)
        c = solve_triangular(M, right * columns, lower=True) / noise
        alpha = solve_triangular(L, solve_triangular(M, c, lower=True, trans=1), lower=True, trans=1)
        less = cho_solve((M, True), C / noise)  # I - B^-1
        half = solve_triangular(L, less, lower=True, trans=1)
        R = solve_triangular(L, half.T, lower=True, trans=1)
        return alpha, 0.5 * (R + R.T)

    Psi2 = psi2(kernel, at.Z, at.mu, s, table.rows)
    alpha, R = jax.lax.map(of_group, (Psi2, table.columns))
    noise, Z = jnp.asarray(noise), jnp.asarray(at.Z)
    return Mapping(kernel, noise, Z, jnp.sum(alpha, 0).reshape(m, -1), R, jnp.asarray(table.columns))


def _inducing_factor(kernel: SE, Z: Any) -> jax.Array:
    return jnp.linalg.cholesky(kernel.block(Z, Z) + JITTER * kernel.variance * jnp.eye(len(Z)))


def _factor(L: jax.Array, Psi2: jax.Array, noise: Any) -> tuple[jax.Array, jax.Array]:
    """C and the factor M of I + C / s2."""
    half = solve_triangular(L, Psi2, lower=True)
    C = solve_triangular(L, half.T, lower=True)
    C = 0.5 * (C + C.T)
    return C, jnp.linalg.cholesky(jnp.eye(len(C)) + C / noise)


def start(kernel: SE, noise_variance: float, X: np.ndarray, m: int, rng: np.random.Generator) -> Variational:
    """Points at X (n, Q), each with a variance of a half, and m of them as inducing inputs."""
    rows = np.sort(rng.permutation(len(X))[:m])
    spread = np.full(X.shape, np.log(0.5))
    return Variational(kernel, noise_variance, X, spread, X[rows])
