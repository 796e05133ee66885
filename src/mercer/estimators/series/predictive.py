"""The predictive distribution of values of a series, back from the logarithm where that was modelled."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from scipy.special import ndtr

from mercer.likelihoods import Gaussian


@dataclasses.dataclass(frozen=True, eq=False)
class Predictive:
    """Values y (m,) whose latent f ~ N(mean, variance); with transform "log" the likelihood is that of log y,
    and Gaussian.
    """

    likelihood: Any
    transform: str | None
    mean: np.ndarray
    variance: np.ndarray

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of y; of the log-normal distribution where the logarithm was modelled."""
        mean, variance = self.likelihood.predict(self.mean, self.variance)
        if self.transform is None:
            return mean, variance
        with np.errstate(over="ignore"):
            centre = np.exp(mean + 0.5 * variance)
            return centre, centre**2 * np.expm1(variance)

    def quantile(self, q: float) -> np.ndarray:
        """Quantile q of y."""
        out = self.likelihood.quantile(q, self.mean, self.variance) if self.mean.size else np.zeros(0)
        return np.exp(out) if self.transform else out

    def columns(self, level: float) -> dict[str, np.ndarray]:
        """mean, std, and the ends lower, upper of the central interval."""
        if not 0 < level < 1:
            raise ValueError(f"level must lie strictly between 0 and 1, got {level}.")
        mean, variance = self.moments()
        ends = [self.quantile(q) for q in (0.5 - 0.5 * level, 0.5 + 0.5 * level)]
        return {"mean": mean, "std": np.sqrt(variance), "lower": ends[0], "upper": ends[1]}

    def log_density(self, y: np.ndarray) -> np.ndarray:
        """Log density (probability, for counts) of each y."""
        if self.transform is None:
            return self.likelihood.log_density(self.likelihood.targets(y), self.mean, self.variance)
        return self.likelihood.log_density(np.log(y), self.mean, self.variance) - np.log(y)

    def tail(self, y: np.ndarray) -> np.ndarray:
        """Two-sided tail probability of each y: twice the probability of what is as far out or further,
        at most 1.
        """
        z = np.log(y) if self.transform else y
        if isinstance(self.likelihood, Gaussian):
            scaled = (z - self.mean) / np.sqrt(self.likelihood.predict(self.mean, self.variance)[1])
            return 2.0 * ndtr(-np.abs(scaled))
        below = self.likelihood.cdf(z, self.mean, self.variance)
        short_of = self.likelihood.cdf(z - 1.0, self.mean, self.variance) if self._counts else below
        return np.minimum(1.0, 2.0 * np.minimum(below, 1.0 - short_of))

    @property
    def _counts(self) -> bool:
        return not hasattr(self.likelihood, "noise_cdf")
