"""Noise that is a mixture of two Gaussians: regular observations and outliers."""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from mercer.likelihoods.noise import AbstractNoise
from mercer.likelihoods.quadrature import log_normal
from mercer.params import Constraint, Hyper, hyper, positive

OPEN_UNIT = Constraint("strictly between 0 and 1", 0.0, 1.0)
_ABOVE_ONE = Constraint("greater than 1", lower=1.0)


class GaussianMixtureNoise(AbstractNoise):
    """p(y | f) = (1 - weight) N(y | f, variance) + weight N(y | f, ratio variance), ratio > 1 (Kuss 5.3).

    weight: the share of outliers. Written with a ratio the two components cannot change places. Everything but quantiles is in
    closed form. Not log-concave.
    """

    scale_mixture: ClassVar[bool] = True

    weight: Hyper = hyper(0.1, OPEN_UNIT)
    variance: Hyper = hyper(0.1, positive)
    ratio: Hyper = hyper(100.0, _ABOVE_ONE)

    def log_prob(self, f, y):
        return self.log_partition(y, f, 0.0)

    def log_partition(self, y, mean, variance):
        regular, outlier = self._log_components(y, mean, variance)
        return jnp.logaddexp(regular, outlier)

    def _log_components(self, y, mean, variance):
        regular = jnp.log1p(-self.weight) + log_normal(y, mean, variance + self.variance)
        return regular, jnp.log(self.weight) + log_normal(y, mean, variance + self.variance * self.ratio)

    def outlier_probability(self, y, mean, variance) -> np.ndarray:
        """Posterior probability that y is an outlier where, without it, f ~ N(mean, variance)."""
        regular, outlier = self._log_components(y, mean, variance)
        return np.asarray(jax.nn.sigmoid(outlier - regular))

    outlier_score = outlier_probability

    def fisher(self, f, y):
        """The weight of expectation maximisation: E[1 / noise variance] given the residual."""
        regular, outlier = self._log_components(y, f, 0.0)
        p = jax.nn.sigmoid(outlier - regular)
        return (1.0 - p + p / self.ratio) / self.variance, None

    @property
    def grain(self):
        return jnp.sqrt(self.variance)

    @property
    def noise_variance(self):
        return self.variance * (1.0 - self.weight + self.weight * self.ratio)

    @property
    def kurtosis(self):
        w, k = float(self.weight), float(self.ratio)
        return 3.0 * (1.0 - w + w * k**2) / (1.0 - w + w * k) ** 2 - 3.0

    def noise_cdf(self, e):
        return self.cdf(e, 0.0, 0.0)

    def cdf(self, y, mean, variance):
        from scipy.special import ndtr

        sds = (np.sqrt(variance + v) for v in (self.variance, self.variance * self.ratio))
        regular, outlier = (ndtr((y - mean) / sd) for sd in sds)
        return (1.0 - self.weight) * regular + self.weight * outlier

    def sample(self, rng, f):
        outlier = rng.random(np.shape(f)) < self.weight
        return f + np.sqrt(self.variance * np.where(outlier, self.ratio, 1.0)) * rng.standard_normal(np.shape(f))
