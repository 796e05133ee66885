"""Additive noise that need not be Gaussian: y = f + e, with e symmetric about zero."""

from __future__ import annotations

import abc
from typing import Any, ClassVar

import numpy as np

from mercer.likelihoods import quadrature
from mercer.likelihoods.base import AbstractLikelihood, continuous_quantile


class AbstractNoise(AbstractLikelihood):
    """y = f + e. A subclass gives `log_prob` and what is abstract here."""

    mean_is_latent: ClassVar[bool] = True

    @property
    @abc.abstractmethod
    def width(self) -> Any:
        """Length over which the density of the noise changes, in units of y."""

    @property
    @abc.abstractmethod
    def noise_variance(self) -> Any:
        """Variance of the noise; infinite where it has none."""

    @property
    @abc.abstractmethod
    def kurtosis(self) -> float:
        """Excess kurtosis of the noise (zero for Gaussian noise); infinite or nan where there is none."""

    @abc.abstractmethod
    def noise_cdf(self, e) -> np.ndarray:
        """P(noise <= e)."""

    def influence(self, residual) -> np.ndarray:
        """Huber's psi: minus the slope of the log density of the noise, at residuals y - f. How hard a datum pulls."""
        return np.asarray(self.derivatives(np.zeros(np.shape(residual)), np.asarray(residual, float), 1)[1])

    def bend(self, y):
        return y, self.width

    def predict(self, mean, variance):
        return mean, variance + np.asarray(self.noise_variance)

    def cdf(self, y, mean, variance) -> np.ndarray:
        """P(Y <= y) where f ~ N(mean, variance)."""
        return np.asarray(quadrature.average(lambda f: self.noise_cdf(np.asarray(y - f)), mean, variance, y, float(self.width)))

    def quantile(self, q, mean, variance):
        mean, variance = np.broadcast_arrays(np.asarray(mean, float), np.asarray(variance, float))
        spread = np.sqrt(variance) + float(self.width)
        return continuous_quantile(lambda y: self.cdf(y, mean, variance), q, mean - 3 * spread, mean + 3 * spread)
