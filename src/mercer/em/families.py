"""Densities that can be components of a `Mixture`: a log density, a weighted maximum-likelihood fit,
draws.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import gammaln

from mercer.em.gaussian import Gaussians
from mercer.registry import Saved


@Saved.register
@dataclass(frozen=True)
class NormalComponent:
    """One Gaussian vector: mean (d,), covariance (d, d). Its fit is the weighted mean and the biased weighted
    covariance.

    >>> NormalComponent.of(X).covariance
    """

    mean: np.ndarray
    covariance: np.ndarray

    @classmethod
    def of(cls, X: Any, weights: Any = None) -> NormalComponent:
        """The maximum-likelihood Gaussian of rows X (n, d)."""
        X = np.asarray(X, np.float64)
        weights = np.ones(len(X)) if weights is None else np.asarray(weights, np.float64)
        found = Gaussians.fitted(X, weights[None])
        return cls(found.means[0], found.covariances[0])

    def log_prob(self, X: Any) -> np.ndarray:
        """Log density of every row of X: (n,)."""
        return Gaussians(np.asarray(self.mean)[None], np.asarray(self.covariance)[None]).log_prob(
            np.asarray(X, np.float64)
        )[0]

    def scores(self, X: Any) -> np.ndarray:
        """Derivatives (n, d + d(d + 1)/2) by the mean in standard deviations,
        and by relative changes of the covariance's root.
        """
        root = np.linalg.cholesky(np.asarray(self.covariance, np.float64))
        z = np.linalg.solve(root, (np.asarray(X, np.float64) - self.mean).T).T
        i, j = np.tril_indices(len(root))
        return np.hstack([z, z[:, i] * z[:, j] - (i == j)])

    def fit(self, X: Any, weights: np.ndarray) -> NormalComponent:
        """The most likely member of the family for X (n, ...) with weights (n,)."""
        return self.of(X, weights)

    def sample(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """n draws."""
        return rng.multivariate_normal(self.mean, self.covariance, n, method="cholesky")


@Saved.register
@dataclass(frozen=True)
class PoissonComponent:
    """Counts (n,) with the given mean."""

    mean: float

    def log_prob(self, X: Any) -> np.ndarray:
        """Log density of every row of X: (n,)."""
        X = np.asarray(X, np.float64)
        return X * np.log(self.mean) - self.mean - gammaln(X + 1)

    def scores(self, X: Any) -> np.ndarray:
        """The derivative (n, 1) by the log of the mean."""
        return (np.asarray(X, np.float64) - self.mean).reshape(-1, 1)

    def fit(self, X: Any, weights: np.ndarray) -> PoissonComponent:
        """The most likely member of the family for X (n, ...) with weights (n,)."""
        return PoissonComponent(max(_mean(X, weights), np.finfo(float).tiny))

    def sample(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """n draws."""
        return rng.poisson(self.mean, n)


@Saved.register
@dataclass(frozen=True)
class ExponentialComponent:
    """Waiting times (n,) with the given mean."""

    mean: float

    def log_prob(self, X: Any) -> np.ndarray:
        """Log density of every row of X: (n,)."""
        X = np.asarray(X, np.float64)
        return np.where(X >= 0, -X / self.mean - np.log(self.mean), -np.inf)

    def scores(self, X: Any) -> np.ndarray:
        """The derivative (n, 1) by the log of the mean."""
        return (np.asarray(X, np.float64) / self.mean - 1.0).reshape(-1, 1)

    def fit(self, X: Any, weights: np.ndarray) -> ExponentialComponent:
        """The most likely member of the family for X (n, ...) with weights (n,)."""
        return ExponentialComponent(max(_mean(X, weights), np.finfo(float).tiny))

    def sample(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """n draws."""
        return rng.exponential(self.mean, n)


def _mean(X: Any, weights: np.ndarray) -> float:
    return float(np.average(np.asarray(X, np.float64), weights=weights))
