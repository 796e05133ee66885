"""Shares between 0 and 1."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from mercer.hyperpriors import LogNormal
from mercer.inputs import Array
from mercer.likelihoods import quadrature
from mercer.likelihoods.base import AbstractLikelihood, continuous_quantile, refuse
from mercer.likelihoods.special import log_sigmoid, sigmoid
from mercer.params import Hyper, Info, hyper, positive

PRECISION_PRIOR = LogNormal(4.0, 1.5)  # median 55, most probable 6


class Beta(AbstractLikelihood):
    """y ~ Beta(precision mu, precision (1 - mu)) with mean mu = 1 / (1 + exp(-f)): shares, rates and other
    numbers strictly between 0 and 1. Their variance is mu (1 - mu) / (1 + precision).

    precision: how closely y follows mu; learned

    Not log-concave everywhere.

    >>> post = mercer.fit(mercer.Model(mercer.GP(kernels.SE()), Beta()), X, shares).posterior
    >>> post.mean(Xs), post.quantile(Xs, [0.05, 0.95])        # (m,), (m, 2), all between 0 and 1
    """

    precision: Hyper = hyper(10.0, positive)

    def start(self, y: np.ndarray) -> dict[str, float]:
        """Half of the variance of y as that of the noise."""
        mean, variance = float(np.mean(y)), float(np.var(y)) or 1e-4
        return {"precision": float(np.clip(2.0 * mean * (1.0 - mean) / variance - 1.0, 1.0, 1e4))}

    def weak_priors(self, scale: float) -> dict[str, Info]:
        return {"precision": Info(prior=PRECISION_PRIOR)}

    def encode(self, y: np.ndarray) -> np.ndarray:
        refuse((y <= 0) | (y >= 1), y, "numbers strictly between 0 and 1")
        return y

    def guess(self, y: np.ndarray) -> np.ndarray:
        return np.log(y) - np.log1p(-y)

    def _log_shapes(self, f: Array) -> tuple[jax.Array, jax.Array]:
        return jnp.log(self.precision) + log_sigmoid(f), jnp.log(self.precision) + log_sigmoid(-f)

    def _shapes(self, f: Array) -> tuple[jax.Array, jax.Array]:
        a, b = self._log_shapes(f)
        return jnp.exp(jnp.maximum(a, -600.0)), jnp.exp(jnp.maximum(b, -600.0))

    def log_prob(self, f: Array, y: Array) -> jax.Array:
        gammaln, (log_a, log_b) = jax.scipy.special.gammaln, self._log_shapes(f)
        a, b = jnp.exp(log_a), jnp.exp(log_b)
        # 1 / Gamma(a) = a / Gamma(1 + a), which holds its digits as a vanishes
        normaliser = gammaln(self.precision) + log_a + log_b - gammaln(1.0 + a) - gammaln(1.0 + b)
        return normaliser + (a - 1.0) * jnp.log(y) + (b - 1.0) * jnp.log1p(-y)

    def fisher(self, f: Array, y: Array) -> tuple[Array, None]:
        """Of the mean: a second derivative that is always positive."""
        trigamma = jax.scipy.special.polygamma
        a, b = self._shapes(f)
        slope = self.precision * sigmoid(f) * sigmoid(-f)
        return slope**2 * (trigamma(1, a) + trigamma(1, b)), None

    def bend(self, y: Array) -> tuple[jax.Array, jax.Array]:
        a, b = self.precision * y, self.precision * (1.0 - y)
        return jnp.log(y) - jnp.log1p(-y), jnp.minimum(jnp.sqrt(1.0 / a + 1.0 / b), 3.0)

    def _moments(self, mean, variance):
        return quadrature.share_moments(sigmoid, mean, variance)

    def predict(self, mean: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        mu, both = np.moveaxis(self.compute(Beta._moments, mean, variance), -1, 0)
        spread = np.maximum(mu * (1.0 - mu) - both, 0.0)
        return mu, both / (1.0 + float(self.precision)) + spread

    def cdf(self, y: np.ndarray | float, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """P(Y <= y) where f ~ N(mean, variance)."""
        return self.compute(Beta._cdf, y, mean, variance)

    def _cdf(self, y, mean, variance):
        def cdf(f):
            a, b = self._shapes(f)
            return jax.scipy.special.betainc(a, b, y)

        return quadrature.average(cdf, mean, variance, *self.bend(y))

    def quantile(self, q: float, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        mean, variance = np.broadcast_arrays(np.asarray(mean, float), np.asarray(variance, float))
        reach = 3.0 * np.sqrt(variance) + 3.0

        def share(z):
            return np.clip(np.asarray(sigmoid(z)), 1e-300, 1.0 - 1e-16)

        found = continuous_quantile(
            lambda z: self.cdf(share(z), mean, variance), q, mean - reach, mean + reach
        )
        return np.asarray(share(found))

    def sample(self, rng: np.random.Generator, f: np.ndarray) -> np.ndarray:
        from scipy.special import expit

        f = np.asarray(f, float)
        a, b = (np.maximum(self.precision * expit(z), np.exp(-600.0)) for z in (f, -f))
        return np.clip(rng.beta(a, b), 1e-300, 1.0 - 1e-16)
