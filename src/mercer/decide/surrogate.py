"""The Gaussian process that stands in for an expensive function while it is optimised.

    w(y) ~ GP(0, Matern 5/2 with a length-scale for each column + a constant) + noise, on the unit cube

w standardises the values, after a warp that leaves those below the best alone and shortens the tail of bad
ones: gamma log(1 + t / gamma) of the distance t from the best; gamma is learned with the rest, and a large
one changes nothing. Hyperparameters are at the mode of the posterior, under log-normal priors: length-scales
about 0.5 sqrt(d), since distances between random points grow so (Hvarfner et al. 2024).

Data are padded with rows that count for nothing to 16, 32, 64 ..., so that a program is compiled once for
each doubling of their number. The factor's inverse is kept; a row is appended to it in O(n^2).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from mercer.kernels import Constant, Matern
from mercer.kernels.base import AbstractKernel
from mercer.processes import check_fork

__all__ = [
    "CONSTANT",
    "Surrogate",
    "Warp",
    "append",
    "believe",
    "bucket",
    "condition",
    "covariance",
    "default_start",
    "kernel",
    "learn",
    "of",
    "pad",
    "predict",
    "predict_jit",
]

SMALLEST = 16  # rows that data are padded to at least
LENGTHSCALE = (0.5, 1.2)  # centre over sqrt(d), and spread, of the logarithm of length-scales
VARIANCE = (1.0, 1.0)
NOISE = (1e-5, 3.0)
WARP = (10.0, 2.0)
CONSTANT = 1.0  # prior variance of the constant
LOG_BOUNDS = {
    "lengthscale": (math.log(5e-3), math.log(1e3)),
    "variance": (math.log(1e-2), math.log(1e2)),
    "noise": (math.log(1e-8), math.log(3.0)),
    "warp": (math.log(1e-3), math.log(1e6)),
}
MAX_EVALUATIONS = 80


class Warp(NamedTuple):
    """How values become targets: (gamma log(1 + t / gamma) - centre) / spread, t = (y - best) / unit; a value
    below the best is not shortened.
    """

    best: Any
    unit: Any
    gamma: Any
    centre: Any
    spread: Any

    def __call__(self, y: Any) -> Any:
        """Targets of values, also of traced ones."""
        t = (y - self.best) / self.unit
        return (_bend(t, self.gamma) - self.centre) / self.spread

    def back(self, z: Any) -> Any:
        """Values of targets."""
        w = z * self.spread + self.centre
        ahead = jnp.maximum(w, 0.0)
        t = jnp.where(w < 0, w, self.gamma * jnp.expm1(jnp.minimum(ahead / self.gamma, 700.0)))
        return self.best + self.unit * t


class Surrogate(NamedTuple):
    """Data, hyperparameters and the inverse factor; arrays only, padded to N rows.

    inputs (N, D), targets (N,), mask (N,); theta: logarithms of G length-scales, variance, noise variance and
    warp; lengthscale (D,); inverse_factor L^-1 (N, N) of K + noise; alpha (N,) = (K + noise)^-1 targets
    """

    inputs: Any
    targets: Any
    mask: Any
    theta: Any
    lengthscale: Any
    inverse_factor: Any
    alpha: Any
    warp: Warp

    @property
    def variance(self) -> Any:
        return jnp.exp(self.theta[-3])

    @property
    def noise_variance(self) -> Any:
        return jnp.exp(self.theta[-2])


def bucket(n: int) -> int:
    """Rows to pad n rows to: a power of two."""
    return max(SMALLEST, 1 << max(n - 1, 0).bit_length())


def kernel(lengthscale: Any, variance: Any) -> AbstractKernel:
    """The covariance of the surrogate on the unit cube."""
    return Matern(lengthscale, variance, nu=2.5) + Constant(CONSTANT)


def of(gp: Surrogate) -> AbstractKernel:
    """The covariance of a surrogate."""
    return kernel(gp.lengthscale, gp.variance)


# ------------------------------------------------------------------------------------------- predictions


def predict(gp: Surrogate, A: Any) -> tuple[Any, Any]:
    """Mean and variance (m,) of the targets' function at A (m, D)."""
    cross = of(gp).block(A, gp.inputs) * gp.mask
    solved = cross @ gp.inverse_factor.T
    prior = gp.variance + CONSTANT
    return cross @ gp.alpha, jnp.maximum(prior - jnp.sum(solved**2, 1), 1e-12 * prior)


def covariance(gp: Surrogate, A: Any, B: Any) -> Any:
    """Posterior covariance (a, b) of the function between points."""
    k = of(gp)
    first = (k.block(A, gp.inputs) * gp.mask) @ gp.inverse_factor.T
    second = (k.block(B, gp.inputs) * gp.mask) @ gp.inverse_factor.T
    return k.block(A, B) - first @ second.T


# ---------------------------------------------------------------------------------------------- learning


def learn(
    U: np.ndarray, y: np.ndarray, groups: np.ndarray, starts: list[np.ndarray], warped: bool = True
) -> np.ndarray:
    """The logarithms of the hyperparameters at the best of the modes climbed to from the starts.

    U (n, D) in the unit cube, y (n,) to be minimised, groups (D,): the length-scale of each column. Without
    `warped` values are only standardised.
    """
    from scipy.optimize import minimize

    check_fork()
    n, size, count = len(y), bucket(len(y)), int(groups.max()) + 1
    best, unit = anchor(y)
    data = (pad(U, size), pad((y - best) / unit, size), pad(np.ones(n), size), np.asarray(groups))
    bounds = [LOG_BOUNDS["lengthscale"]] * count + [LOG_BOUNDS[k] for k in ("variance", "noise", "warp")]
    if not warped:
        bounds[-1] = (LOG_BOUNDS["warp"][1],) * 2
    low, high = np.array(bounds).T

    def negative(theta: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = _log_posterior_and_gradient(theta, *data)
        value, slope = float(value), np.asarray(slope)
        if not (math.isfinite(value) and np.isfinite(slope).all()):
            return 1e25, np.zeros_like(slope)
        return -value, -slope

    found = [
        minimize(
            negative, np.clip(start, low, high), jac=True, method="L-BFGS-B", bounds=bounds,
            options={"maxfun": MAX_EVALUATIONS, "ftol": 1e-7, "gtol": 1e-4},
        )
        for start in starts
    ]  # fmt: skip
    return np.asarray(min(found, key=lambda f: f.fun).x)


def default_start(count: int, warp: float = 100.0) -> np.ndarray:
    """Where learning starts without anything known: `count` length-scales at the middle of their prior."""
    middle = [math.log(LENGTHSCALE[0] * math.sqrt(count))] * count
    return np.array([*middle, 0.0, math.log(1e-3), math.log(warp)])


def anchor(y: np.ndarray) -> tuple[float, float]:
    """The best value, and a unit in which the others stand above it: the median distance."""
    above = y - y.min()
    unit = float(np.median(above[above > 0])) if (above > 0).any() else 1.0
    return float(y.min()), unit


def log_posterior(theta: Any, U: Any, t: Any, mask: Any, groups: Any) -> Any:
    """Log evidence of warped values and log prior of theta."""
    gamma = jnp.exp(theta[-1])
    z, log_jacobian, _, _ = _standardised(t, mask, gamma)
    k = kernel(jnp.exp(theta[:-3])[groups], jnp.exp(theta[-3]))
    K = k.block(U, U) * (mask[:, None] * mask) + jnp.diag(jnp.where(mask > 0, jnp.exp(theta[-2]), 1.0))
    count = theta.shape[0] - 3
    centres = jnp.log(
        jnp.array([*[LENGTHSCALE[0] * math.sqrt(count)] * count, VARIANCE[0], NOISE[0], WARP[0]])
    )
    spreads = jnp.array([*[LENGTHSCALE[1]] * count, VARIANCE[1], NOISE[1], WARP[1]])
    log_prior = -0.5 * jnp.sum(((theta - centres) / spreads) ** 2)
    return _log_density(K, z) - 0.5 * jnp.sum(mask) * math.log(2 * math.pi) + log_jacobian + log_prior


_log_posterior_and_gradient = jax.jit(jax.value_and_grad(log_posterior))


def _standardised(t: Any, mask: Any, gamma: Any) -> tuple[Any, Any, Any, Any]:
    """Targets (N,), the log derivative of all of them, and the centre and spread of the bent values."""
    w = _bend(t, gamma) * mask
    n = jnp.sum(mask)
    centre = jnp.sum(w) / n
    spread = jnp.sqrt(jnp.sum(mask * (w - centre) ** 2) / n) + 1e-12
    slope = -jnp.sum(mask * jnp.log1p(jnp.maximum(t, 0.0) / gamma)) - n * jnp.log(spread)
    return (w - centre) / spread * mask, slope, centre, spread


def _bend(t: Any, gamma: Any) -> Any:
    above = jnp.maximum(t, 0.0)
    return jnp.minimum(t, 0.0) + gamma * jnp.log1p(above / gamma)


@jax.custom_vjp
def _log_density(K: Any, z: Any) -> Any:
    """-1/2 z' K^-1 z - 1/2 log|K|."""
    return _log_density_forward(K, z)[0]


def _log_density_forward(K, z):
    L = jnp.linalg.cholesky(K)
    alpha = jax.scipy.linalg.cho_solve((L, True), z)
    return -0.5 * z @ alpha - jnp.sum(jnp.log(jnp.diagonal(L))), (L, alpha)


def _log_density_backward(kept, bar):
    L, alpha = kept
    inverse = jax.scipy.linalg.cho_solve((L, True), jnp.eye(L.shape[0]))
    return bar * 0.5 * (jnp.outer(alpha, alpha) - inverse), -bar * alpha  # (5.9)


_log_density.defvjp(_log_density_forward, _log_density_backward)


# ------------------------------------------------------------------------------------------ conditioning


def condition(theta: np.ndarray, U: np.ndarray, y: np.ndarray, groups: np.ndarray) -> Surrogate:
    """The surrogate of values y (n,) at U (n, D) with hyperparameters theta."""
    size = bucket(len(y))
    best, unit = anchor(y)
    mask = pad(np.ones(len(y)), size)
    return _condition(theta, pad(U, size), pad((y - best) / unit, size), mask, groups, best, unit)


@jax.jit
def _condition(theta, U, t, mask, groups, best, unit):
    gamma = jnp.exp(theta[-1])
    z, _, centre, spread = _standardised(t, mask, gamma)
    lengthscale = jnp.exp(theta[:-3])[groups]
    K = kernel(lengthscale, jnp.exp(theta[-3])).block(U, U) * (mask[:, None] * mask)
    K = K + jnp.diag(jnp.where(mask > 0, jnp.exp(theta[-2]), 1.0))
    L = jnp.linalg.cholesky(K)
    inverse = jax.scipy.linalg.solve_triangular(L, jnp.eye(len(z)), lower=True)
    alpha = inverse.T @ (inverse @ z)
    return Surrogate(U, z, mask, theta, lengthscale, inverse, alpha, Warp(best, unit, gamma, centre, spread))


def append(gp: Surrogate, u: np.ndarray, y: float) -> Surrogate:
    """The surrogate with one row more, at the same hyperparameters and warp, in O(n^2)."""
    return believe(gp, u, gp.warp(y))


def believe(gp: Surrogate, u: np.ndarray, target: Any) -> Surrogate:
    """The surrogate as if a target had been seen at u (D,)."""
    if int(np.sum(gp.mask)) == len(gp.mask):
        gp = _grown(gp)
    return _append(gp, u, target)


def _grown(gp: Surrogate) -> Surrogate:
    """The same with room for twice as many rows."""
    size = len(gp.mask)
    inverse = np.eye(2 * size)
    inverse[:size, :size] = gp.inverse_factor
    inputs, targets, mask, alpha = (
        pad(np.asarray(rows), 2 * size) for rows in (gp.inputs, gp.targets, gp.mask, gp.alpha)
    )
    return gp._replace(inputs=inputs, targets=targets, mask=mask, alpha=alpha, inverse_factor=inverse)


@jax.jit
def _append(gp, u, target):
    at = jnp.sum(gp.mask).astype(int)
    cross = of(gp).block(u[None], gp.inputs)[0] * gp.mask
    below = gp.inverse_factor @ cross
    prior = gp.variance + CONSTANT + gp.noise_variance
    pivot = jnp.sqrt(jnp.maximum(prior - below @ below, 0.5 * gp.noise_variance))
    row = (-(below @ gp.inverse_factor) / pivot).at[at].set(1.0 / pivot)
    inverse = gp.inverse_factor.at[at].set(row)
    z = gp.targets.at[at].set(target)
    return gp._replace(
        inputs=gp.inputs.at[at].set(u),
        targets=z,
        mask=gp.mask.at[at].set(1.0),
        inverse_factor=inverse,
        alpha=inverse.T @ (inverse @ z),
    )


def pad(values: np.ndarray, size: int) -> np.ndarray:
    """So many rows, the further ones zero."""
    values = np.asarray(values, float)
    return np.concatenate([values, np.zeros((size - len(values), *values.shape[1:]))])


predict_jit = jax.jit(predict)
