"""Moments of functions at a Gaussian input for any kernel: linearised, by quadrature, by Monte Carlo."""

from __future__ import annotations

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np

from mercer.uncertain.predictor import Moments, Predictor

NODES = {1: 64, 2: 32, 3: 16}  # of quadrature along each of d columns; 6 along each of more
ROUNDING = 1e-14  # of the largest variance: what keeps the factor of a singular Sigma finite


def linearised(predictor: Predictor, mu: jax.Array, Sigma: jax.Array) -> Moments:
    """Moments as if the means were straight within the spread of x, and the variances those at mu: good where
    the functions bend little there, as in an extended Kalman filter. Arguments as of `moments`; for every
    kernel that is differentiable once (Matern 3/2, 5/2 ..., not 1/2).
    """
    mu, Sigma = jnp.asarray(mu, float), _symmetric(Sigma)
    slope = jax.jacfwd(predictor.mean)(mu)  # (p, d)
    doubt = jnp.maximum(predictor.variance(mu), 0.0)
    return Moments(predictor.mean(mu), slope @ Sigma @ slope.T, doubt, Sigma @ slope.T)


def quadrature(predictor: Predictor, mu: jax.Array, Sigma: jax.Array, nodes: int | None = None) -> Moments:
    """Moments by Gauss-Hermite quadrature on a grid of nodes^d points: exact where means and variances are
    polynomials of degree below 2 nodes within the spread of x. Arguments as of `moments`; nodes: along each
    column, by default 64, 32 and 16 for one, two and three of them, and 6 for more. For a few columns, and
    any kernel that JAX can differentiate.
    """
    z, weights = hermite_grid(predictor.d, nodes)
    return _by_points(predictor, mu, Sigma, jnp.asarray(z), jnp.asarray(weights))


def monte_carlo(
    predictor: Predictor, mu: jax.Array, Sigma: jax.Array, draws: int = 4096, seed: int | jax.Array = 0
) -> Moments:
    """Moments from draws of x, which come in pairs mu + e and mu - e. Arguments as of `moments`; seed: a
    whole number or a key of `jax.random`. The same seed has the same draws, so that derivatives are those of
    the answer.
    """
    key = jax.random.key(seed) if isinstance(seed, int) else seed
    half = jax.random.normal(key, ((draws + 1) // 2, predictor.d))
    z = jnp.concatenate([half, -half])
    return _by_points(predictor, mu, Sigma, z, jnp.full(len(z), 1.0 / len(z)))


def hermite_grid(d: int, nodes: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Points (N, d) and weights (N,) that stand for a standard normal in d columns."""
    count = NODES.get(d, 6) if nodes is None else nodes
    if count < 1 or count**d > 1_000_000:
        raise ValueError(
            f"a grid of {count} nodes along each of {d} columns has {count**d} points: take from one to a "
            "million of them, or use Monte Carlo."
        )
    at, weights = np.polynomial.hermite_e.hermegauss(count)
    grid = np.array(list(itertools.product(at, repeat=d))).reshape(count**d, d)
    return grid, functools.reduce(np.multiply.outer, [weights / weights.sum()] * d, np.ones(())).ravel()


def _by_points(
    predictor: Predictor, mu: jax.Array, Sigma: jax.Array, z: jax.Array, weights: jax.Array
) -> Moments:
    mu, Sigma = jnp.asarray(mu, float), _symmetric(Sigma)
    smallest = ROUNDING * jnp.max(jnp.diag(Sigma)) + jnp.finfo(float).tiny
    away = z @ jnp.linalg.cholesky(Sigma + smallest * jnp.eye(len(mu))).T
    means = jax.vmap(predictor.mean)(mu + away)
    variances = jnp.maximum(jax.vmap(predictor.variance)(mu + away), 0.0)
    mean = weights @ means
    centred = weights[:, None] * (means - mean)
    return Moments(mean, centred.T @ (means - mean), weights @ variances, away.T @ centred)


def _symmetric(Sigma: jax.Array) -> jax.Array:
    Sigma = jnp.asarray(Sigma, float)
    return 0.5 * (Sigma + Sigma.T)
