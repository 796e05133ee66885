"""Importance sampling (Kuss 4.31-4.32): weights in logarithms, self-normalised averages,
and how many draws they are worth.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from scipy.special import logsumexp

from mercer.sampling.target import Whitening, latent_target


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
        """Of `log_normaliser`, from the spread of the weights: sqrt(1 / ESS - 1 / S).
        It is too small where ESS is a few.
        """
        return float(np.sqrt(max(1.0 / self.effective_sample_size - 1.0 / self.log_weights.shape[0], 0.0)))

    def average(self, values: np.ndarray) -> np.ndarray:
        """Self-normalised estimate of E[values], values (S, ...)."""
        return np.tensordot(self.weights, np.asarray(values, float), 1)


def self_normalised(log_density: np.ndarray, log_proposal: np.ndarray, draws: np.ndarray) -> Weighted:
    """Weights p / q for draws of q, from both log densities at the draws, each (S,)."""
    log_weights = np.asarray(log_density, float) - np.asarray(log_proposal, float)
    if np.isnan(log_weights).any() or not np.isfinite(log_weights).any():
        raise ValueError(
            "importance weights are not numbers, or all are zero: the proposal misses the density."
        )
    return Weighted(draws, log_weights)


def importance_sample(
    log_density: Callable, proposal: Callable, log_proposal: Callable, draws: int, seed: int = 0
) -> Weighted:
    """`draws` from proposal(rng, size) -> (size, ...), weighted to stand for the density;
    both log densities take (S, ...).
    """
    x = proposal(np.random.default_rng(seed), draws)
    return self_normalised(log_density(x), log_proposal(x), x)


def latent_importance(
    likelihood: Any, y: np.ndarray, white: Whitening, draws: int, seed: int = 0
) -> Weighted:
    """Latent values (S, n, L) drawn from prior times Gaussian sites and weighted by likelihood over sites:
    `log_normaliser` then estimates the log evidence. The weights spread the more the less Gaussian the
    posterior is, and the more data there are.
    """
    n, L = white.shape
    target = latent_target(likelihood, y, white)
    v = np.random.default_rng(seed).standard_normal((draws, n * L))
    log_weights = []
    for i in range(0, draws, 1000):  # blocks of one size, so that one compilation serves them all
        block = np.zeros((1000, target.size))
        part = v[i : i + 1000]
        block[: part.shape[0], target.data["where"]] = part
        value = np.asarray(_compiled(target.log_density)(target.data, block))
        log_weights.append((value + 0.5 * np.sum(block**2, 1))[: part.shape[0]])
    return Weighted(
        white.latents(white.prior_whitened(v)), np.concatenate(log_weights) + white.log_normaliser
    )


@functools.lru_cache(maxsize=32)
def _compiled(log_density):
    return jax.jit(lambda data, z: jax.vmap(lambda x: log_density(x, data))(z))
