"""Gaussian noise: y = f + e, e ~ N(0, noise_variance)."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from mercer.likelihoods.base import AbstractLikelihood
from mercer.params import Hyper, Info, ParameterError, hyper, nonnegative

_LOG_2PI = float(np.log(2 * np.pi))


class Gaussian(AbstractLikelihood):
    """Independent Gaussian noise, in the squared units of y.

    noise_variance: one number (learned unless `fixed`), or one known variance for each datum (never learned). Zero means noise-free
    observations: they are matched up to the jitter policy's floor, which is reported.
    """

    noise_variance: Hyper = hyper(0.1, nonnegative)

    def __check_init__(self):
        value = self.noise_variance
        if jnp.ndim(value) > 1:
            raise ParameterError("Gaussian.noise_variance must be one number or one for each datum.")
        known = jnp.ndim(value) == 1 or (isinstance(value, np.ndarray) and float(value) == 0.0)
        info = dict(self.info)
        if known and info.get("noise_variance", Info()).free:
            info["noise_variance"] = Info(free=False)
            object.__setattr__(self, "info", tuple(sorted(info.items())))

    @property
    def per_datum(self) -> bool:
        return jnp.ndim(self.noise_variance) == 1

    def log_prob(self, f, y):
        return -0.5 * ((y - f) ** 2 / self.noise_variance + jnp.log(self.noise_variance) + _LOG_2PI)

    def predict(self, mean, variance):
        return mean, variance + self.noise_variance

    def log_density(self, y, mean, variance):
        total = variance + self.noise_variance
        return -0.5 * ((y - mean) ** 2 / total + np.log(total) + _LOG_2PI)

    def quantile(self, q, mean, variance):
        from scipy.special import ndtri

        return mean + np.sqrt(variance + self.noise_variance) * ndtri(q)
