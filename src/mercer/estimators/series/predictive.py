"""The predictive distribution of values of a series, back from the logarithm where that was modelled."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from scipy.special import logsumexp, ndtr, ndtri

from mercer.likelihoods import Gaussian

HALVINGS = 45  # of an interval in which a quantile lies


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

    def normal(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation of what is modelled, y or its logarithm, where that is normal."""
        mean, variance = self.likelihood.predict(self.mean, self.variance)
        return mean, np.sqrt(variance)

    def quantile(self, q: float) -> np.ndarray:
        """Quantile q of y."""
        out = self.likelihood.quantile(q, self.mean, self.variance) if self.mean.size else np.zeros(0)
        return np.exp(out) if self.transform else out

    def columns(self, level: float) -> dict[str, np.ndarray]:
        """mean, std, and the ends lower, upper of the central interval."""
        return _columns(self, level)

    def cdf(self, y: np.ndarray) -> np.ndarray:
        """Probability of values up to each y."""
        z = np.log(y) if self.transform else y
        if isinstance(self.likelihood, Gaussian):
            mean, std = self.normal()
            return ndtr((z - mean) / std)
        return self.likelihood.cdf(z, self.mean, self.variance)

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
            mean, std = self.normal()
            return 2.0 * ndtr(-np.abs((z - mean) / std))
        below = self.likelihood.cdf(z, self.mean, self.variance)
        short_of = self.likelihood.cdf(z - 1.0, self.mean, self.variance) if self._counts else below
        return np.minimum(1.0, 2.0 * np.minimum(below, 1.0 - short_of))

    @property
    def _counts(self) -> bool:
        return not hasattr(self.likelihood, "noise_cdf")


@dataclasses.dataclass(frozen=True, eq=False)
class Averaged:
    """Values y (m,) whose distribution, or that of log y, is an average of normal ones, with weights (k,)
    that sum to one.
    """

    parts: tuple[Predictive, ...]
    weights: np.ndarray

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of y."""
        found = np.array([part.moments() for part in self.parts])  # (k, 2, m)
        mean = self.weights @ found[:, 0]
        return mean, self.weights @ (found[:, 1] + (found[:, 0] - mean) ** 2)

    def quantile(self, q: float) -> np.ndarray:
        """Quantile q of y, by halving the interval between the least and the largest of the parts."""
        mean, std = np.array([part.normal() for part in self.parts]).swapaxes(0, 1)  # (k, m)
        ends = mean + std * ndtri(q)
        low, high = ends.min(0), ends.max(0)
        for _ in range(HALVINGS):
            middle = 0.5 * (low + high)
            below = self.weights @ ndtr((middle - mean) / std) < q
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        found = 0.5 * (low + high)
        return np.exp(found) if self.parts[0].transform else found

    def columns(self, level: float) -> dict[str, np.ndarray]:
        """mean, std, and the ends lower, upper of the central interval."""
        return _columns(self, level)

    def log_density(self, y: np.ndarray) -> np.ndarray:
        """Log density of each y."""
        found = np.array([part.log_density(y) for part in self.parts])
        return np.asarray(logsumexp(found, axis=0, b=self.weights[:, None]))


def _columns(found: Predictive | Averaged, level: float) -> dict[str, np.ndarray]:
    if not 0 < level < 1:
        raise ValueError(f"level must lie strictly between 0 and 1, got {level}.")
    mean, variance = found.moments()
    ends = [found.quantile(q) for q in (0.5 - 0.5 * level, 0.5 + 0.5 * level)]
    return {"mean": mean, "std": np.sqrt(variance), "lower": ends[0], "upper": ends[1]}
