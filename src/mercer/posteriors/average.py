"""Predictions averaged over several posteriors with weights: models (Kuss 2.11),
or settings of hyperparameters (5.2).
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from scipy.special import logsumexp, ndtr

from mercer.likelihoods.base import continuous_quantile
from mercer.likelihoods.gaussian import Gaussian


@dataclasses.dataclass(frozen=True, eq=False)
class AveragedPosterior:
    """A mixture of posteriors of the same data: means are averaged, variances gain the spread of the means.

    weights (k,) sum to one. `log_evidence` is that of the mixture where the parts' weights came from their
    evidences, else None.
    """

    posteriors: tuple[Any, ...]
    weights: np.ndarray
    log_evidence: float | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self):
        weights = np.asarray(self.weights, float)
        if len(self.posteriors) == 0 or weights.shape != (len(self.posteriors),):
            raise ValueError(
                f"{len(self.posteriors)} posteriors need as many weights, got shape {weights.shape}."
            )
        if np.any(weights < 0) or not np.isclose(weights.sum(), 1.0):
            raise ValueError(f"weights must be non-negative and sum to one, got {weights}.")
        object.__setattr__(self, "weights", weights)

    @property
    def model(self) -> Any:
        """The model of the heaviest part."""
        return self.posteriors[int(np.argmax(self.weights))].model

    @property
    def inputs(self) -> Any:
        return self.posteriors[0].inputs

    @property
    def y(self) -> np.ndarray:
        return self.posteriors[0].y

    def _sum(self, values) -> np.ndarray:
        return np.tensordot(self.weights, np.stack(values), 1)

    def mean(self, Xs, latent: bool = False) -> np.ndarray:
        """Predictive mean of y, or of f."""
        return self._sum([p.mean(Xs, latent) for p in self.posteriors])

    def mean_and_std(self, Xs, latent: bool = False, noise_variance=None) -> tuple[np.ndarray, np.ndarray]:
        """Predictive mean and standard deviation of y, or of f."""
        pairs = [p.mean_and_std(Xs, latent, noise_variance) for p in self.posteriors]
        mean = self._sum([m for m, _ in pairs])
        return mean, np.sqrt(self._sum([s**2 + (m - mean) ** 2 for m, s in pairs]))

    def variance(self, Xs, latent: bool = False, noise_variance=None) -> np.ndarray:
        """Predictive variance of y, or of f."""
        return self.mean_and_std(Xs, latent, noise_variance)[1] ** 2

    def std(self, Xs, latent: bool = False, noise_variance=None) -> np.ndarray:
        """Predictive standard deviation of y, or of f."""
        return self.mean_and_std(Xs, latent, noise_variance)[1]

    def latent_moments(self, Xs, variance: bool = True) -> tuple[np.ndarray, np.ndarray | None]:
        """Mean and variance of f (m,)."""
        mean, std = self.mean_and_std(Xs, latent=True)
        return mean, std**2 if variance else None

    def probability(self, Xs, how: str = "average") -> np.ndarray:
        """Class probabilities."""
        return self._sum([p.probability(Xs, how) for p in self.posteriors])

    def log_density(self, Xs, ys, noise_variance=None) -> np.ndarray:
        """Log of the averaged predictive density of each ys."""
        logs = np.stack([p.log_density(Xs, ys, noise_variance) for p in self.posteriors])
        return logsumexp(logs, axis=0, b=self.weights[:, None])

    def quantile(self, Xs, q, noise_variance=None) -> np.ndarray:
        """Quantiles of the mixture, (m,) for one q, (m, len(q)) for several; for Gaussian noise."""
        levels = np.asarray(q, float)
        if np.any((levels <= 0) | (levels >= 1)):
            raise ValueError(f"quantiles must lie strictly between 0 and 1, got {levels}.")
        if not all(isinstance(p.model.likelihood, Gaussian) for p in self.posteriors):
            raise ValueError(
                "quantiles of a mixture are available for Gaussian noise; use sample or probability."
            )
        mean, sd = (
            np.stack(x)
            for x in zip(*(p.mean_and_std(Xs, False, noise_variance) for p in self.posteriors), strict=True)
        )

        def cdf(y):
            return self.weights @ ndtr((y - mean) / sd)

        low, high = (mean - 3 * sd).min(0), (mean + 3 * sd).max(0)
        found = np.stack([continuous_quantile(cdf, p, low, high) for p in np.atleast_1d(levels)], 1)
        return found[:, 0] if levels.ndim == 0 else found

    def sample(
        self, Xs, size: int = 1, seed: Any = None, latent: bool = False, noise_variance=None
    ) -> np.ndarray:
        """`size` joint draws at Xs (size, m), each from a part chosen by its weight."""
        rng = np.random.default_rng(seed)
        counts = rng.multinomial(size, self.weights)
        parts = [
            p.sample(Xs, int(c), rng, latent, noise_variance)
            for p, c in zip(self.posteriors, counts, strict=True)
            if c
        ]
        return np.concatenate(parts)[rng.permutation(size)]

    def __repr__(self) -> str:
        return f"AveragedPosterior({len(self.posteriors)} parts, heaviest {self.weights.max():.3f})"
