"""Laplace noise (least absolute deviations) and the noise that belongs to the epsilon-insensitive loss;
both log-concave.
"""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from mercer.inputs import Array
from mercer.likelihoods.noise import AbstractNoise
from mercer.likelihoods.scales import NOISE_SCALE_PRIOR, noise_scale
from mercer.likelihoods.special import LOG_2PI, inverse_mills, log_ndtr, log_sub
from mercer.params import Hyper, Info, hyper, positive


class Laplace(AbstractNoise):
    """p(y | f) = exp(-|y - f| / scale) / (2 scale): the posterior mode is a least-absolute-deviations fit
    (Kuss 5.48).

    scale: in units of y; the noise variance is 2 scale^2

    The second derivative is zero wherever it exists, so Laplace's approximation cannot be used; `fisher` is
    the expected information 1 / scale^2.

    >>> mercer.Model(mercer.GP(kernels.SE()), Laplace(0.2)).condition(X, y, inference="ep").mean(Xs)
    """

    smooth: ClassVar[bool] = False
    scale_mixture: ClassVar[bool] = True
    sampled_by: ClassVar[str] = "gibbs"

    scale: Hyper = hyper(1.0, positive)

    def start(self, y: np.ndarray) -> dict[str, float]:
        return {"scale": noise_scale(y) / np.sqrt(2.0)}

    def weak_priors(self, scale: float) -> dict[str, Info]:
        return {"scale": Info(prior=NOISE_SCALE_PRIOR.scaled(scale))}

    def words(self) -> str:
        return f"Laplace (double exponential) with scale {float(self.scale):.4g}"

    @property
    def log_concave(self) -> bool:
        return True

    def log_prob(self, f: Array, y: Array) -> jax.Array:
        return -jnp.abs(y - f) / self.scale - jnp.log(2.0 * self.scale)

    def fisher(self, f: Array, y: Array) -> tuple[jax.Array, None]:
        return jnp.full(jnp.shape(f), 1.0 / self.scale**2), None

    def log_partition(self, y: Array, mean: Array, variance: Array) -> jax.Array:
        return self.power_partition(y, mean, variance, 1.0)

    def power_partition(self, y: Array, mean: Array, variance: Array, power: Array | float) -> jax.Array:
        right, left = _log_tails(mean - y, variance, self.scale / power)
        return jnp.logaddexp(right, left) - power * jnp.log(2.0 * self.scale)

    def expectation(self, y: Array, mean: Array, variance: Array) -> jax.Array:
        d, sd = mean - y, jnp.sqrt(jnp.maximum(variance, 1e-300))
        return -(_mean_above(d, sd) + _mean_above(-d, sd)) / self.scale - jnp.log(2.0 * self.scale)

    @property
    def grain(self) -> Array:
        return self.scale

    @property
    def noise_variance(self) -> Array:
        return 2.0 * self.scale**2

    @property
    def kurtosis(self) -> float:
        return 3.0

    def noise_cdf(self, e: np.ndarray) -> np.ndarray:
        tail = 0.5 * np.exp(-np.abs(e) / float(self.scale))
        return np.where(e < 0, tail, 1.0 - tail)

    def cdf(
        self, y: np.ndarray | float, mean: np.ndarray | float, variance: np.ndarray | float
    ) -> np.ndarray:
        return self.compute(Laplace._cdf, y, mean, variance)

    def _cdf(self, y, mean, variance):
        right, left = _log_tails(mean - y, variance, self.scale)
        sd = jnp.sqrt(jnp.maximum(variance, 1e-300))
        return jnp.exp(log_ndtr((y - mean) / sd)) + 0.5 * (jnp.exp(right) - jnp.exp(left))

    def sample(self, rng: np.random.Generator, f: np.ndarray) -> np.ndarray:
        return f + rng.laplace(0.0, float(self.scale), np.shape(f))


class EpsilonInsensitive(AbstractNoise):
    """p(y | f) proportional to exp(-max(|y - f| - epsilon, 0) / scale): residuals below epsilon cost nothing
    (Kuss 5.53).

    The negative logarithm is the loss of support vector regression. `Laplace` is the limit epsilon -> 0.
    """

    smooth: ClassVar[bool] = False

    scale: Hyper = hyper(1.0, positive)
    epsilon: Hyper = hyper(0.1, positive)

    def start(self, y: np.ndarray) -> dict[str, float]:
        return {"scale": 0.5 * noise_scale(y), "epsilon": 0.5 * noise_scale(y)}

    def weak_priors(self, scale: float) -> dict[str, Info]:
        prior = NOISE_SCALE_PRIOR.scaled(scale)
        return {"scale": Info(prior=prior), "epsilon": Info(prior=prior)}

    @property
    def log_concave(self) -> bool:
        return True

    def _log_total(self):
        return jnp.log(2.0 * (self.scale + self.epsilon))

    def log_prob(self, f: Array, y: Array) -> jax.Array:
        return -jnp.maximum(jnp.abs(y - f) - self.epsilon, 0.0) / self.scale - self._log_total()

    def fisher(self, f: Array, y: Array) -> tuple[jax.Array, None]:
        """The expected information 1 / (scale (scale + epsilon))."""
        return jnp.full(jnp.shape(f), 1.0 / (self.scale * (self.scale + self.epsilon))), None

    def log_partition(self, y: Array, mean: Array, variance: Array) -> jax.Array:
        return self.power_partition(y, mean, variance, 1.0)

    def power_partition(self, y: Array, mean: Array, variance: Array, power: Array | float) -> jax.Array:
        scale = self.scale / power
        sd = jnp.sqrt(_floor(variance, scale))
        d = jnp.where(mean < y, y - mean, mean - y)  # by symmetry; so the tube is a difference of lower tails
        right = _log_tails(d - self.epsilon, variance, scale)[0]
        left = _log_tails(d + self.epsilon, variance, scale)[1]
        tube = log_sub(log_ndtr((self.epsilon - d) / sd), log_ndtr((-self.epsilon - d) / sd))
        return jnp.logaddexp(jnp.logaddexp(right, left), tube) - power * self._log_total()

    def expectation(self, y: Array, mean: Array, variance: Array) -> jax.Array:
        d, sd = mean - y, jnp.sqrt(jnp.maximum(variance, 1e-300))
        beyond = _mean_above(d - self.epsilon, sd) + _mean_above(-d - self.epsilon, sd)
        return -beyond / self.scale - self._log_total()

    @property
    def grain(self) -> jax.Array:
        return jnp.minimum(self.scale, self.epsilon)

    @property
    def noise_variance(self) -> Array:
        s, e = self.scale, self.epsilon
        return (e**3 / 3.0 + s * (e**2 + 2.0 * e * s + 2.0 * s**2)) / (s + e)

    @property
    def kurtosis(self) -> float:
        s, e = float(self.scale), float(self.epsilon)
        fourth = (e**5 / 5 + s * (e**4 + 4 * e**3 * s + 12 * e**2 * s**2 + 24 * e * s**3 + 24 * s**4)) / (
            s + e
        )
        return fourth / float(self.noise_variance) ** 2 - 3.0

    def noise_cdf(self, e: np.ndarray) -> np.ndarray:
        s, eps = float(self.scale), float(self.epsilon)
        a = np.abs(e)
        upper = np.where(a > eps, s * np.exp(-np.maximum(a - eps, 0.0) / s), s + eps - a) / (2.0 * (s + eps))
        return np.where(e < 0, upper, 1.0 - upper)

    def sample(self, rng: np.random.Generator, f: np.ndarray) -> np.ndarray:
        s, eps = float(self.scale), float(self.epsilon)
        shape = np.shape(f)
        size = np.where(
            rng.random(shape) < eps / (s + eps), eps * rng.random(shape), eps + rng.exponential(s, shape)
        )
        return f + np.where(rng.random(shape) < 0.5, -size, size)


def _floor(variance, scale):
    return jnp.maximum(variance, 1e-16 * scale**2)


def _mean_above(d, sd):
    """E[max(x, 0)], x ~ N(d, sd^2)."""
    z = d / sd
    return sd * jnp.exp(-0.5 * z**2 - 0.5 * LOG_2PI) + d * jnp.exp(log_ndtr(z))


def _log_tails(d, variance, scale):
    """log E[exp(-(d + e) / s); d + e > 0] and log E[exp((d + e) / s); d + e < 0], e ~ N(0, variance),
    without overflow.
    """
    variance = _floor(variance, scale)
    sd = jnp.sqrt(variance)

    def tail(d):
        z = d / sd - sd / scale
        inside = z > 0
        near = 0.5 * variance / scale**2 - d / scale + log_ndtr(jnp.where(inside, z, 0.0))
        far = -0.5 * d**2 / variance - 0.5 * LOG_2PI - jnp.log(inverse_mills(jnp.where(inside, 0.0, z)))
        return jnp.where(inside, near, far)

    return tail(d), tail(-d)
