"""Hyperparameters of the processes that dynamics are made of, learned warm as data grow.

Each is an SE process with a length-scale for each column, on standardised columns and targets; log-normal
priors hold what few data leave open. The signal is at most a thousand times the noise, as moments of
predictions need (they cancel otherwise). Rows are padded to powers of two.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mercer.decide.surrogate import bucket, pad
from mercer.processes import check_fork

__all__ = ["factors", "learned", "spread", "start_values"]

LENGTHSCALE = (2.0, 1.0)  # centre and spread, of the logarithm, in standard deviations of a column
VARIANCE = (1.0, 1.5)
NOISE = (1e-4, 3.0)
BOUNDS = {"lengthscale": (0.05, 100.0), "variance": (0.01, 1000.0), "noise": (1e-6, 2.0)}


def start_values(d: int) -> np.ndarray:
    """Where learning starts: (d + 2,), logarithms of length-scales, variance, noise."""
    return np.log([*[LENGTHSCALE[0]] * d, VARIANCE[0], 1e-2])


def learned(
    X: np.ndarray,
    y: np.ndarray,
    start: np.ndarray,
    max_evaluations: int = 100,
    rows: np.ndarray | None = None,
) -> np.ndarray:
    """The mode of theta (d + 2,) given standardised X (n, d) and y (n,), climbed to from a start; rows (n,):
    which of them count, where not all do.
    """
    from scipy.optimize import minimize

    check_fork()
    size = bucket(len(y))
    counted = np.ones(len(y)) if rows is None else rows
    data = (pad(X, size), pad(y * counted, size), pad(counted, size))
    d = X.shape[1]
    limits = np.log([*[BOUNDS["lengthscale"]] * d, BOUNDS["variance"], BOUNDS["noise"]])

    def negative(theta: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = _value_and_gradient(theta, *data)
        if not math.isfinite(value):
            return 1e25, np.zeros_like(theta)
        return float(value), np.asarray(slope)

    options = {"maxfun": max_evaluations, "ftol": 1e-7, "gtol": 1e-3}
    begin = np.clip(start, limits[:, 0], limits[:, 1])
    found = minimize(negative, begin, jac=True, method="L-BFGS-B", bounds=limits, options=options)
    return np.asarray(found.x)


def covariance(theta: Any, X: Any, Y: Any) -> Any:
    """k(X, Y) (n, m) of standardised columns."""
    scaled, other = X / jnp.exp(theta[:-2]), Y / jnp.exp(theta[:-2])
    squares = jnp.sum(scaled**2, 1)[:, None] + jnp.sum(other**2, 1) - 2.0 * scaled @ other.T
    return jnp.exp(theta[-2] - 0.5 * jnp.maximum(squares, 0.0))


def noise_variance(theta: Any) -> Any:
    """Of the noise; no less than a millionth of the signal's."""
    return jnp.exp(theta[-1]) + 1e-6 * jnp.exp(theta[-2])


def _negative_log_posterior(theta: Any, X: Any, y: Any, mask: Any) -> Any:
    K = covariance(theta, X, X) * (mask[:, None] * mask)
    K = K + jnp.diag(jnp.where(mask > 0, noise_variance(theta), 1.0))
    d = X.shape[1]
    centres = jnp.log(jnp.array([*[LENGTHSCALE[0]] * d, VARIANCE[0], NOISE[0]]))
    spreads = jnp.array([*[LENGTHSCALE[1]] * d, VARIANCE[1], NOISE[1]])
    return _energy(K, y) + 0.5 * jnp.sum(((theta - centres) / spreads) ** 2)


@jax.custom_vjp
def _energy(K: Any, y: Any) -> Any:
    """1/2 y' K^-1 y + 1/2 log|K|."""
    return _energy_forward(K, y)[0]


def _energy_forward(K, y):
    L = jnp.linalg.cholesky(K)
    alpha = jax.scipy.linalg.cho_solve((L, True), y)
    return 0.5 * y @ alpha + jnp.sum(jnp.log(jnp.diagonal(L))), (L, alpha)


def _energy_backward(kept, bar):
    L, alpha = kept
    inverse = jax.scipy.linalg.cho_solve((L, True), jnp.eye(len(alpha)))
    return 0.5 * bar * (inverse - jnp.outer(alpha, alpha)), bar * alpha  # (5.9)


_energy.defvjp(_energy_forward, _energy_backward)

_value_and_gradient = jax.jit(jax.value_and_grad(_negative_log_posterior))


def spread(
    X: np.ndarray, y: np.ndarray, theta: np.ndarray, folds: int = 4, max_evaluations: int = 30
) -> float:
    """By what to multiply standard deviations so that central 95 % intervals hold 95 % of rows that neither
    function nor hyperparameters had seen, at least 1: learned hyperparameters make intervals too narrow where
    data are few. Rows (n,) are held out in turns.
    """
    n, size = len(y), bucket(len(y))
    fold = np.random.default_rng(0).permutation(n) % folds
    away = np.zeros(n)
    for k in range(folds):
        kept = (fold != k).astype(float)
        own = learned(X, y, theta, max_evaluations, kept)
        mean, variance = map(np.asarray, _held_out(own, pad(X, size), pad(y * kept, size), pad(kept, size)))
        away[fold == k] = (np.abs(y - mean[:n]) / np.sqrt(variance[:n]))[fold == k]
    return max(1.0, float(np.quantile(away, 0.95)) / 1.96)


@jax.jit
def _held_out(theta: Any, X: Any, y: Any, mask: Any) -> tuple[Any, Any]:
    """Mean and variance (N,) of observations at all rows, from those that count."""
    alpha, R = factors(theta, X, y, mask)
    K = covariance(theta, X, X) * mask
    explained = jnp.sum((K @ R) * K, 1)
    return K @ alpha, jnp.maximum(jnp.exp(theta[-2]) - explained, 0.0) + noise_variance(theta)


@jax.jit
def factors(theta: Any, X: Any, y: Any, mask: Any) -> tuple[Any, Any]:
    """alpha (N,) and R = (K + noise)^-1 (N, N), zero in padded rows."""
    K = covariance(theta, X, X) * (mask[:, None] * mask)
    K = K + jnp.diag(jnp.where(mask > 0, noise_variance(theta), 1.0))
    R = jnp.linalg.inv(K) * (mask[:, None] * mask)
    R = 0.5 * (R + R.T)
    return R @ y, R


@jax.jit
def sparse_factors(theta: Any, Z: Any, of_Z: Any, X: Any, y: Any, mask: Any) -> tuple[Any, Any]:
    """alpha (M,) and R (M, M) of the variational sparse process (VFE) with inducing inputs Z, of which of_Z
    are there: with S = K_uu + K_uf K_fu / noise, alpha = S^-1 K_uf y / noise and R = K_uu^-1 - S^-1.
    """
    both = of_Z[:, None] * of_Z
    Kuu = covariance(theta, Z, Z) * both + jnp.diag(jnp.where(of_Z > 0, 1e-6 * jnp.exp(theta[-2]), 1.0))
    Kuf = covariance(theta, Z, X) * (of_Z[:, None] * mask)
    noise = noise_variance(theta)
    L = jnp.linalg.cholesky(Kuu)
    A = jax.scipy.linalg.solve_triangular(L, Kuf, lower=True)
    B = jnp.linalg.cholesky(jnp.eye(len(Z)) + A @ A.T / noise)
    back = jax.scipy.linalg.solve_triangular(L, jnp.eye(len(Z)), lower=True)  # L^-1
    inner = jax.scipy.linalg.solve_triangular(B, back, lower=True)  # S^-1 = inner' inner
    alpha = inner.T @ (jax.scipy.linalg.solve_triangular(B, A @ y, lower=True)) / noise
    R = (back.T @ back - inner.T @ inner) * both
    return alpha * of_Z, 0.5 * (R + R.T)
