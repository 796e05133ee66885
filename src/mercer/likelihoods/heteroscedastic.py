"""Gaussian noise whose variance depends on the input, through a latent function of its own."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from mercer.inputs import Array
from mercer.likelihoods import quadrature
from mercer.likelihoods.base import AbstractLikelihood, continuous_quantile
from mercer.likelihoods.quadrature import log_normal
from mercer.likelihoods.special import LOG_2PI


class Heteroscedastic(AbstractLikelihood):
    """p(y | f, g) = N(y | f, exp(g)): two latent functions, the mean and the log noise variance (Goldberg,
    Williams and Bishop).

    Latent arrays are (n, 2): f first, then g. Not log-concave in (f, g) jointly.
    """

    @property
    def latents(self) -> int:
        return 2

    def words(self) -> str:
        return "Gaussian, with a variance that varies with the inputs"

    def guess(self, y: np.ndarray) -> np.ndarray:
        """f = y, and a tenth of the squared deviations as noise."""
        y = np.asarray(y, float)
        spread = max(float(np.var(y)), 1e-12)
        return np.stack([y, np.log(0.1 * spread) + 0.5 * np.log(0.1 + (y - y.mean()) ** 2 / spread)], -1)

    def log_prob(self, f: Array, y: Array) -> jax.Array:
        return log_normal(y, f[..., 0], jnp.exp(f[..., 1]))

    def curvature(self, f: Array, y: Array) -> tuple[jax.Array, jax.Array]:
        """Minus the Hessian, [[a, a r], [a r, a r^2 / 2]] with a = exp(-g) and r = y - f,
        as diag(D) - P P'.
        """
        a, r = jnp.exp(-f[..., 1]), y - f[..., 0]
        D = jnp.stack([2.0 * a, 1.5 * a * r**2 + 0.5], -1)
        root, half = jnp.sqrt(a), jnp.full_like(a, np.sqrt(0.5))
        P = jnp.stack([jnp.stack([root, jnp.zeros_like(a)], -1), jnp.stack([-r * root, half], -1)], -2)
        return D, P

    def fisher(self, f: Array, y: Array) -> tuple[jax.Array, jax.Array]:
        """The expected information diag(exp(-g), 1/2)."""
        a = jnp.exp(-f[..., 1])
        return jnp.stack([a, jnp.full_like(a, 0.5)], -1), jnp.zeros((*a.shape, 2, 1))

    def expectation(self, y: Array, mean: Array, variance: Array) -> jax.Array:
        m, g = mean[..., 0], mean[..., 1]
        vf, vg, c = _entries(variance)
        return -0.5 * (LOG_2PI + g + jnp.exp(0.5 * vg - g) * ((y - m + c) ** 2 + vf))

    def log_partition(self, y: Array, mean: Array, variance: Array) -> jax.Array:
        """log of the integral over f and g; that over f is in closed form, that over g by quadrature."""
        m, g = mean[..., 0], mean[..., 1]
        log_p, vg, bend = self._given_g(y, m, g, variance)
        return quadrature.log_integral(log_p, g, vg, *bend)

    def _given_g(self, y, m, g, variance):
        vf, vg, c = _entries(variance)
        slope = c / jnp.maximum(vg, 1e-300)
        rest = jnp.maximum(vf - c * slope, 0.0)

        def log_p(x):
            return log_normal(y, m + slope * (x - g), rest + jnp.exp(x))

        return log_p, vg, (jnp.log((y - m) ** 2 + rest + 1e-12), 1.0)

    # -- predictions -----------------------------------------------------------------------------------------

    def predict(self, mean: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        vf, vg, _ = (np.asarray(v) for v in _entries(np.asarray(variance)))
        mean = np.asarray(mean)
        return mean[..., 0], vf + np.exp(mean[..., 1] + 0.5 * vg)

    def log_density(
        self, y: np.ndarray | float, mean: np.ndarray, variance: np.ndarray | float
    ) -> np.ndarray:
        return np.asarray(
            self.log_partition(np.asarray(y, float), np.asarray(mean, float), np.asarray(variance, float))
        )

    def cdf(self, y: np.ndarray | float, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """P(Y <= y) where (f, g) ~ N(mean, variance)."""
        from scipy.special import ndtr

        mean = np.asarray(mean, float)
        m, g = mean[..., 0], mean[..., 1]
        vf, vg, c = (np.asarray(v) for v in _entries(np.asarray(variance, float)))
        slope = c / np.maximum(vg, 1e-300)
        rest = np.maximum(vf - c * slope, 0.0)
        return np.asarray(
            quadrature.average(lambda x: ndtr((y - m - slope * (x - g)) / np.sqrt(rest + np.exp(x))), g, vg)
        )

    def quantile(self, q: float, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        centre, total = self.predict(mean, variance)
        sd = np.sqrt(total)
        return continuous_quantile(lambda y: self.cdf(y, mean, variance), q, centre - 3 * sd, centre + 3 * sd)

    def sample(self, rng: np.random.Generator, f: np.ndarray) -> np.ndarray:
        f = np.asarray(f)
        return f[..., 0] + np.exp(0.5 * f[..., 1]) * rng.standard_normal(f.shape[:-1])


def _entries(variance):
    """Variance of f, of g, and their covariance, from (n, 2) or (n, 2, 2)."""
    if jnp.ndim(variance) == 2:
        return variance[..., 0], variance[..., 1], jnp.zeros(variance.shape[:-1])
    return variance[..., 0, 0], variance[..., 1, 1], variance[..., 0, 1]
