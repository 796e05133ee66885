"""Noise that is a mixture of two Gaussians: regular observations and outliers."""

from __future__ import annotations

import math
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from mercer.hyperpriors import LogNormal
from mercer.inputs import Array
from mercer.likelihoods.contaminated import AbstractContaminated
from mercer.likelihoods.quadrature import log_normal
from mercer.likelihoods.scales import noise_scale, robust_scale
from mercer.params import Constraint, Hyper, Info, hyper

# of the variance of outliers over that of the noise, where it is learned
RATIO_PRIOR = LogNormal(math.log(100.0), 2.0)
_ABOVE_ONE = Constraint("greater than 1", lower=1.0)


class GaussianMixtureNoise(AbstractContaminated):
    """p(y | f) = (1 - weight) N(y | f, variance) + weight N(y | f, ratio variance), ratio > 1 (Kuss 5.3).

    weight: the share of outliers. Written with a ratio the two components cannot change places. Everything
    but quantiles is in closed form. Not log-concave.
    """

    scale_mixture: ClassVar[bool] = True
    sampled_by: ClassVar[str] = "gibbs"

    ratio: Hyper = hyper(100.0, _ABOVE_ONE)

    def start(self, y: np.ndarray) -> dict[str, float]:
        return super().start(y) | {"ratio": _outlier_ratio(y)}

    def weak_priors(self, scale: float) -> dict[str, Info]:
        return super().weak_priors(scale) | {"ratio": Info(prior=RATIO_PRIOR)}

    def words(self) -> str:
        sd, share = float(np.sqrt(self.variance)), 100 * float(self.weight)
        wide = sd * float(np.sqrt(self.ratio))
        return (
            f"Gaussian mixture: standard deviation {sd:.4g}, but {wide:.4g} for the {share:.3g} % that "
            "are outliers"
        )

    def log_outlier(self, y: Array, mean: Array, variance: Array | float) -> jax.Array:
        return jnp.log(self.weight) + log_normal(y, mean, variance + self.variance * self.ratio)

    def fisher(self, f: Array, y: Array) -> tuple[jax.Array, None]:
        """The weight of expectation maximisation: E[1 / noise variance] given the residual."""
        regular, outlier = self._log_components(y, f, 0.0)
        p = jax.nn.sigmoid(outlier - regular)
        return (1.0 - p + p / self.ratio) / self.variance, None

    @property
    def noise_variance(self) -> Array:
        return self.variance * (1.0 - self.weight + self.weight * self.ratio)

    @property
    def kurtosis(self) -> float:
        w, k = float(self.weight), float(self.ratio)
        return 3.0 * (1.0 - w + w * k**2) / (1.0 - w + w * k) ** 2 - 3.0

    def cdf(
        self, y: np.ndarray | float, mean: np.ndarray | float, variance: np.ndarray | float
    ) -> np.ndarray:
        from scipy.special import ndtr

        sds = (np.sqrt(variance + v) for v in (self.variance, self.variance * self.ratio))
        regular, outlier = (ndtr((y - mean) / sd) for sd in sds)
        return (1.0 - self.weight) * regular + self.weight * outlier

    def sample(self, rng: np.random.Generator, f: np.ndarray) -> np.ndarray:
        outlier = rng.random(np.shape(f)) < self.weight
        return f + np.sqrt(self.variance * np.where(outlier, self.ratio, 1.0)) * rng.standard_normal(
            np.shape(f)
        )


def _outlier_ratio(y: np.ndarray) -> float:
    """Mean square of y further than 5 robust scales from the median, over the noise variance;
    100 if there are none.
    """
    away = np.abs(y - np.median(y))
    far = away[away > 5 * robust_scale(y)]
    return max(float(np.mean((far / noise_scale(y)) ** 2)) if far.size else 0.0, 100.0)
