"""Additive noise that need not be Gaussian: y = f + e, with e symmetric about zero."""

from __future__ import annotations

import abc
from typing import ClassVar

import numpy as np

from mercer.inputs import Array
from mercer.likelihoods import quadrature
from mercer.likelihoods.base import AbstractLikelihood, continuous_quantile


class AbstractNoise(AbstractLikelihood):
    """y = f + e. A subclass gives `log_prob` and what is abstract here."""

    mean_is_latent: ClassVar[bool] = True
    # outliers are a component of their own: `outlier_score` is the probability of being one
    has_outliers: ClassVar[bool] = False

    @property
    @abc.abstractmethod
    def grain(self) -> Array:
        """Length over which the density of the noise changes, in units of y."""

    @property
    @abc.abstractmethod
    def noise_variance(self) -> Array:
        """Variance of the noise; infinite where it has none."""

    @property
    @abc.abstractmethod
    def kurtosis(self) -> float:
        """Excess kurtosis of the noise (zero for Gaussian noise); infinite or nan where there is none."""

    @abc.abstractmethod
    def noise_cdf(self, e: np.ndarray) -> np.ndarray:
        """P(noise <= e)."""

    def influence(self, residual: np.ndarray) -> np.ndarray:
        """Huber's psi: minus the slope of the log density of the noise, at residuals y - f.
        How hard a datum pulls.
        """
        return np.asarray(self.derivatives(np.zeros(np.shape(residual)), np.asarray(residual, float), 1)[1])

    def outlier_score(self, y: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """How far y is from being a regular observation where, without it, f ~ N(mean, variance): 0 to 1,
        (n,).

        One minus the weight of y in the posterior of f relative to that of a regular observation; the
        probability of an outlier where the noise has a component for them. Here for noise with straight
        tails, whose weight falls as 1 / |residual|: a residual y - E[f | y] of up to one standard deviation
        of the noise counts as regular.
        """
        _, slope = quadrature.derivatives(lambda m: self.log_partition(y, m, variance), mean, 1)
        distance = np.abs(y - mean - variance * np.asarray(slope))
        return np.maximum(0.0, 1.0 - np.sqrt(float(self.noise_variance)) / np.maximum(distance, 1e-300))

    def bend(self, y: Array) -> tuple[Array, Array]:
        return y, self.grain

    def predict(self, mean: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return mean, variance + np.asarray(self.noise_variance)

    def cdf(
        self, y: np.ndarray | float, mean: np.ndarray | float, variance: np.ndarray | float
    ) -> np.ndarray:
        """P(Y <= y) where f ~ N(mean, variance)."""
        return np.asarray(
            quadrature.average(
                lambda f: self.noise_cdf(np.asarray(y - f)), mean, variance, y, float(self.grain)
            )
        )

    def quantile(self, q: float, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        mean, variance = np.broadcast_arrays(np.asarray(mean, float), np.asarray(variance, float))
        spread = np.sqrt(variance) + float(self.grain)
        return continuous_quantile(
            lambda y: self.cdf(y, mean, variance), q, mean - 3 * spread, mean + 3 * spread
        )
