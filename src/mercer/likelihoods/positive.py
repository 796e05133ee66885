"""Positive targets and waiting times: y = exp(f) e with positive noise e, additive in the logarithm."""

from __future__ import annotations

import abc
import math
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from mercer.hyperpriors import LogNormal
from mercer.inputs import Array
from mercer.likelihoods import quadrature
from mercer.likelihoods.base import AbstractLikelihood, continuous_quantile, per_row, refuse
from mercer.likelihoods.special import log_sigmoid, sigmoid
from mercer.params import Hyper, Info, ParameterError, hyper, positive, unit

SHAPE_PRIOR = LogNormal(1.5, 1.0)  # median 4.5, most probable 1.6


class AbstractPositive(AbstractLikelihood):
    """y = exp(f) e. A subclass says the distribution of log e and the moments of e, for its `shape`."""

    shape: Hyper = hyper(2.0, positive)

    @abc.abstractmethod
    def log_cdf_of_noise(self, z: Array) -> jax.Array:
        """P(log e <= z)."""

    @abc.abstractmethod
    def moments_of_noise(self) -> tuple[float, float]:
        """E[e] and E[e^2]; infinite where there is none."""

    @property
    def log_concave(self) -> bool:
        return True

    def weak_priors(self, scale: float) -> dict[str, Info]:
        return {"shape": Info(prior=SHAPE_PRIOR)}

    def encode(self, y: np.ndarray) -> np.ndarray:
        refuse(y <= 0, y, "positive numbers")
        return y

    def guess(self, y: np.ndarray) -> np.ndarray:
        return np.log(y)

    def predict(self, mean: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        first, second = self.moments_of_noise()
        centre = np.exp(np.asarray(mean) + 0.5 * np.asarray(variance))
        if not np.isfinite(second):
            return first * centre, np.full_like(centre, np.inf)
        spread = second - first**2 + second * np.expm1(variance)  # E[e^2] exp(v) - E[e]^2
        return first * centre, centre**2 * spread

    def cdf(self, y: np.ndarray | float, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """P(Y <= y) where f ~ N(mean, variance)."""
        return self.compute(AbstractPositive._cdf, np.log(y), mean, variance)

    def _cdf(self, z, mean, variance):
        return quadrature.average(lambda f: self.log_cdf_of_noise(z - f), mean, variance, z, 1.0 / self.shape)

    def quantile(self, q: float, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        mean, variance = np.broadcast_arrays(np.asarray(mean, float), np.asarray(variance, float))
        reach = 3.0 * (np.sqrt(variance) + 1.0 / float(self.shape))

        def cdf(z):
            return self.compute(AbstractPositive._cdf, z, mean, variance)

        return np.exp(continuous_quantile(cdf, q, mean - reach, mean + reach))


class Gamma(AbstractPositive):
    """y ~ Gamma with mean exp(f) and `shape`: positive numbers whose standard deviation is their mean over
    sqrt(shape). An exponential distribution has shape 1.

    >>> post = mercer.fit(mercer.Model(mercer.GP(kernels.SE()), Gamma()), X, y).posterior
    >>> post.mean(Xs), post.quantile(Xs, [0.05, 0.95])        # (m,), (m, 2), all positive
    """

    def start(self, y: np.ndarray) -> dict[str, float]:
        """Half of the variance of log y as that of the noise."""
        return {"shape": float(np.clip(2.0 / (np.var(np.log(y)) or 1.0), 0.3, 100.0))}

    def log_prob(self, f: Array, y: Array) -> jax.Array:
        a, z = self.shape, jnp.log(y) - f
        return a * (jnp.log(a) + z - jnp.exp(z)) - jax.scipy.special.gammaln(a) - jnp.log(y)

    def expectation(self, y: Array, mean: Array, variance: Array) -> jax.Array:
        a, z = self.shape, jnp.log(y) - mean
        average = jnp.log(a) + z - jnp.exp(z + 0.5 * variance)
        return a * average - jax.scipy.special.gammaln(a) - jnp.log(y)

    def bend(self, y: Array) -> tuple[jax.Array, jax.Array]:
        return jnp.log(y), 1.0 / jnp.sqrt(self.shape)

    def log_cdf_of_noise(self, z: Array) -> jax.Array:
        return jax.scipy.special.gammainc(self.shape, self.shape * jnp.exp(jnp.minimum(z, 700.0)))

    def moments_of_noise(self) -> tuple[float, float]:
        return 1.0, 1.0 + 1.0 / float(self.shape)

    def sample(self, rng: np.random.Generator, f: np.ndarray) -> np.ndarray:
        a = float(self.shape)
        return np.exp(f) * rng.gamma(a, 1.0 / a, np.shape(f))


class AbstractSurvival(AbstractPositive):
    """Times until something happens, some of which are known only to be longer: `event` is 1 where it
    happened at y, 0 where it had not by then (censored on the right); (n,), or None where it always did.
    """

    side: ClassVar[tuple[str, ...]] = ("event",)

    event: Hyper = hyper(None, unit, free=False)

    def __check_init__(self):
        per_row(self, "event")
        if isinstance(self.event, np.ndarray) and not np.isin(self.event, (0.0, 1.0)).all():
            raise ParameterError(
                f"{type(self).__name__}.event must be 1 (it happened) or 0 (it had not yet)."
            )

    @property
    def per_datum(self) -> bool:
        return self.event is not None

    @property
    def seen(self) -> np.ndarray | None:
        return None if self.event is None else np.asarray(self.event) == 1.0

    def elsewhere(self, X: np.ndarray) -> AbstractSurvival:
        return self.without_side()

    def start(self, y: np.ndarray) -> dict[str, float]:
        """Half of the variance of log y as that of the noise; its deviation is about 1.5 / shape."""
        return {"shape": float(np.clip(2.0 / (np.std(np.log(y)) or 1.0), 0.3, 30.0))}

    @property
    def _event(self):
        return 1.0 if self.event is None else self.event

    def bend(self, y: Array) -> tuple[jax.Array, jax.Array]:
        return jnp.log(y), 1.0 / jnp.asarray(self.shape)


class Weibull(AbstractSurvival):
    """Times with survival P(T > t) = exp(-(t / exp(f))^shape): the logarithm of the scale is the latent
    function. A shape above 1 is a hazard that grows with age, 1 an exponential distribution.

    event: see `AbstractSurvival`; 0 for a row that was still waiting at y

    >>> model = mercer.Model(mercer.GP(kernels.SE()), Weibull(event=died))
    >>> mercer.fit(model, X, days).posterior.quantile(Xs, 0.5)    # median survival times, (m,)
    """

    def log_prob(self, f: Array, y: Array) -> jax.Array:
        log_hazards = self.shape * (jnp.log(y) - f)  # of the cumulative hazard
        return self._event * (jnp.log(self.shape) + log_hazards - jnp.log(y)) - jnp.exp(log_hazards)

    def expectation(self, y: Array, mean: Array, variance: Array) -> jax.Array:
        log_hazards = self.shape * (jnp.log(y) - mean)
        average = jnp.exp(log_hazards + 0.5 * self.shape**2 * variance)
        return self._event * (jnp.log(self.shape) + log_hazards - jnp.log(y)) - average

    def log_cdf_of_noise(self, z: Array) -> jax.Array:
        return -jnp.expm1(-jnp.exp(jnp.minimum(self.shape * z, 700.0)))

    def moments_of_noise(self) -> tuple[float, float]:
        k = float(self.shape)
        return math.gamma(1.0 + 1.0 / k), math.gamma(1.0 + 2.0 / k)

    def sample(self, rng: np.random.Generator, f: np.ndarray) -> np.ndarray:
        return np.exp(f) * rng.weibull(float(self.shape), np.shape(f))


class LogLogistic(AbstractSurvival):
    """Times with survival P(T > t) = 1 / (1 + (t / exp(f))^shape): exp(f) is the median. The hazard of a
    shape above 1 rises and falls again; tails are heavy, and there is no mean where shape <= 1.

    event: see `AbstractSurvival`; 0 for a row that was still waiting at y

    >>> model = mercer.Model(mercer.GP(kernels.SE()), LogLogistic(event=died))
    >>> mercer.fit(model, X, days).posterior.quantile(Xs, [0.1, 0.5])    # (m, 2)
    """

    def log_prob(self, f: Array, y: Array) -> jax.Array:
        z = self.shape * (jnp.log(y) - f)
        return self._event * (jnp.log(self.shape) + log_sigmoid(z) - jnp.log(y)) + log_sigmoid(-z)

    def log_cdf_of_noise(self, z: Array) -> jax.Array:
        return sigmoid(self.shape * z)

    def moments_of_noise(self) -> tuple[float, float]:
        k = float(self.shape)
        first = math.pi / k / math.sin(math.pi / k) if k > 1 else math.inf
        return first, 2.0 * math.pi / k / math.sin(2.0 * math.pi / k) if k > 2 else math.inf

    def sample(self, rng: np.random.Generator, f: np.ndarray) -> np.ndarray:
        return np.exp(f + rng.logistic(0.0, 1.0 / float(self.shape), np.shape(f)))
