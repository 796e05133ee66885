"""Gaussian noise in which a share of the data are outliers."""

from __future__ import annotations

import abc
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from mercer.likelihoods.noise import AbstractNoise
from mercer.likelihoods.quadrature import log_normal
from mercer.params import Constraint, Hyper, hyper, positive

OPEN_UNIT = Constraint("strictly between 0 and 1", 0.0, 1.0)


class AbstractContaminated(AbstractNoise):
    """p(y | f) = (1 - weight) N(y | f, variance) + weight p(y | f, outlier).
    A subclass says what outliers are.
    """

    weight: Hyper = hyper(0.1, OPEN_UNIT)
    variance: Hyper = hyper(0.1, positive)

    has_outliers: ClassVar[bool] = True

    @abc.abstractmethod
    def log_outlier(self, y, mean, variance) -> Any:
        """log of weight times the density of an outlier at y, where f ~ N(mean, variance)."""

    def log_prob(self, f, y):
        return self.log_partition(y, f, 0.0)

    def log_partition(self, y, mean, variance):
        return jnp.logaddexp(*self._log_components(y, mean, variance))

    def _log_components(self, y, mean, variance):
        regular = jnp.log1p(-self.weight) + log_normal(y, mean, variance + self.variance)
        return regular, self.log_outlier(y, mean, variance)

    def outlier_probability(self, y, mean, variance) -> np.ndarray:
        """Posterior probability that y is an outlier where, without it, f ~ N(mean, variance)."""
        regular, outlier = self._log_components(y, mean, variance)
        return np.asarray(jax.nn.sigmoid(outlier - regular))

    outlier_score = outlier_probability

    @property
    def grain(self):
        return jnp.sqrt(self.variance)

    def noise_cdf(self, e):
        return self.cdf(e, 0.0, 0.0)
