"""Gaussian noise in which a share of the data are outliers."""

from __future__ import annotations

import abc
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from mercer.hyperpriors import Beta
from mercer.inputs import Array
from mercer.likelihoods.noise import AbstractNoise
from mercer.likelihoods.quadrature import log_normal
from mercer.likelihoods.scales import NOISE_PRIOR, noise_scale
from mercer.params import Constraint, Hyper, Info, hyper, positive

# of the share of outliers, where it is learned; most probable: 5 %
WEIGHT_PRIOR, WEIGHT_BOUNDS = Beta(1.5, 10.0), (1e-3, 0.45)
OPEN_UNIT = Constraint("strictly between 0 and 1", 0.0, 1.0)


class AbstractContaminated(AbstractNoise):
    """p(y | f) = (1 - weight) N(y | f, variance) + weight p(y | f, outlier).
    A subclass says what outliers are.
    """

    weight: Hyper = hyper(0.1, OPEN_UNIT)
    variance: Hyper = hyper(0.1, positive)

    has_outliers: ClassVar[bool] = True

    @property
    def default_rule(self) -> str:
        return "ep"

    def start(self, y: np.ndarray) -> dict[str, float]:
        return {"variance": noise_scale(y) ** 2}

    def weak_priors(self, scale: float) -> dict[str, Info]:
        return {
            "variance": Info(prior=NOISE_PRIOR.scaled(scale**2)),
            "weight": Info(prior=WEIGHT_PRIOR, bounds=WEIGHT_BOUNDS),
        }

    @abc.abstractmethod
    def log_outlier(self, y: Array, mean: Array, variance: Array | float) -> jax.Array:
        """log of weight times the density of an outlier at y, where f ~ N(mean, variance)."""

    def log_prob(self, f: Array, y: Array) -> jax.Array:
        return self.log_partition(y, f, 0.0)

    def log_partition(self, y: Array, mean: Array, variance: Array | float) -> jax.Array:
        return jnp.logaddexp(*self._log_components(y, mean, variance))

    def _log_components(self, y, mean, variance):
        regular = jnp.log1p(-self.weight) + log_normal(y, mean, variance + self.variance)
        return regular, self.log_outlier(y, mean, variance)

    def outlier_probability(self, y: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """Posterior probability that y is an outlier where, without it, f ~ N(mean, variance)."""
        regular, outlier = self._log_components(y, mean, variance)
        return np.asarray(jax.nn.sigmoid(outlier - regular))

    outlier_score = outlier_probability

    @property
    def grain(self) -> jax.Array:
        return jnp.sqrt(self.variance)

    def noise_cdf(self, e: np.ndarray) -> np.ndarray:
        return self.cdf(e, 0.0, 0.0)
