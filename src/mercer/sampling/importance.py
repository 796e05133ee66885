"""Importance sampling (Kuss 4.31-4.32): weights in logarithms, self-normalised averages, and how many draws they are worth."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
from scipy.special import logsumexp


@dataclasses.dataclass(frozen=True, eq=False)
class Weighted:
    """Draws (S, ...) with log weights (S,) of an unnormalised density p over the proposal's q."""

    draws: np.ndarray
    log_weights: np.ndarray

    @property
    def weights(self) -> np.ndarray:
        """Normalised weights: they sum to one."""
        return np.exp(self.log_weights - logsumexp(self.log_weights))

    @property
    def effective_sample_size(self) -> float:
        """(sum w)^2 / sum w^2: as many independent draws of p would say as much."""
        return float(np.exp(2 * logsumexp(self.log_weights) - logsumexp(2 * self.log_weights)))

    @property
    def log_normaliser(self) -> float:
        """log of the average weight: an estimate of the log integral of p."""
        return float(logsumexp(self.log_weights) - np.log(self.log_weights.shape[0]))

    @property
    def standard_error(self) -> float:
        """Of `log_normaliser`, from the spread of the weights: sqrt(1 / ESS - 1 / S). It is too small where ESS is a few."""
        return float(np.sqrt(max(1.0 / self.effective_sample_size - 1.0 / self.log_weights.shape[0], 0.0)))

    def average(self, values: np.ndarray) -> np.ndarray:
        """Self-normalised estimate of E[values], values (S, ...)."""
        return np.tensordot(self.weights, np.asarray(values, float), 1)


def self_normalised(log_density: np.ndarray, log_proposal: np.ndarray, draws: np.ndarray) -> Weighted:
    """Weights p / q for draws of q, from both log densities at the draws, each (S,)."""
    log_weights = np.asarray(log_density, float) - np.asarray(log_proposal, float)
    if np.isnan(log_weights).any() or not np.isfinite(log_weights).any():
        raise ValueError("importance weights are not numbers, or all are zero: the proposal misses the density.")
    return Weighted(draws, log_weights)


def importance_sample(log_density: Callable, proposal: Callable, log_proposal: Callable, draws: int, seed: int = 0) -> Weighted:
    """`draws` from proposal(rng, size) -> (size, ...), weighted to stand for the density; both log densities take (S, ...)."""
    x = proposal(np.random.default_rng(seed), draws)
    return self_normalised(log_density(x), log_proposal(x), x)
