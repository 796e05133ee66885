"""Gaussian noise with outliers that may be anywhere in a known range."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from mercer.inputs import Array
from mercer.likelihoods.contaminated import AbstractContaminated
from mercer.likelihoods.scales import robust_scale
from mercer.params import Hyper, hyper, positive


class ContaminatedUniform(AbstractContaminated):
    """p(y | f) = (1 - weight) N(y | f, variance) + weight / width: outliers that have nothing to do with f
    (GPML 9.2, Kuss 5.3).

    weight: the share of outliers; width: the length of the range they fall in, in units of y, held unless
    given as `param(...)` (a detector's range, or that of the data). The background is flat without an end: a
    datum beyond the range keeps its density weight / width, so p is not normalised there, and no datum,
    however far, moves f. Predictions, draws and quantiles take the outliers as uniform over `width` around f.
    Not log-concave, nor a scale mixture; EP is in closed form.

    >>> ContaminatedUniform(weight=0.05, variance=0.01, width=np.ptp(y))
    """

    width: Hyper = hyper(10.0, positive, free=False)

    def start(self, y: np.ndarray) -> dict[str, float]:
        return super().start(y) | {"width": max(float(np.ptp(y)), 10 * robust_scale(y)) or 10.0}

    def log_outlier(self, y: Array, mean: Array, variance: Array | float) -> jax.Array:
        return jnp.log(self.weight / self.width)

    def fisher(self, f: Array, y: Array) -> tuple[jax.Array, None]:
        """The weight of expectation maximisation: P(regular | residual) / variance."""
        regular, outlier = self._log_components(y, f, 0.0)
        return jax.nn.sigmoid(regular - outlier) / self.variance, None

    @property
    def noise_variance(self) -> Array:
        return (1.0 - self.weight) * self.variance + self.weight * self.width**2 / 12.0

    @property
    def kurtosis(self) -> float:
        w, v, b = float(self.weight), float(self.variance), float(self.width)
        return ((1.0 - w) * 3.0 * v**2 + w * b**4 / 80.0) / float(self.noise_variance) ** 2 - 3.0

    def cdf(
        self, y: np.ndarray | float, mean: np.ndarray | float, variance: np.ndarray | float
    ) -> np.ndarray:
        from scipy.special import ndtr

        sd = np.sqrt(np.asarray(variance, float))
        regular = ndtr((y - mean) / np.sqrt(sd**2 + self.variance))
        half = 0.5 * float(self.width)
        outlier = (_ramp(y - mean + half, sd) - _ramp(y - mean - half, sd)) / float(self.width)
        return (1.0 - self.weight) * regular + self.weight * outlier

    def sample(self, rng: np.random.Generator, f: np.ndarray) -> np.ndarray:
        shape = np.shape(f)
        far = float(self.width) * (rng.random(shape) - 0.5)
        near = np.sqrt(float(self.variance)) * rng.standard_normal(shape)
        return f + np.where(rng.random(shape) < self.weight, far, near)


def _ramp(d, sd):
    """E[max(x, 0)], x ~ N(d, sd^2)."""
    from scipy.special import ndtr

    z = np.clip(d / np.maximum(sd, 1e-300), -40.0, 40.0)
    return sd * np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi) + d * ndtr(z)
