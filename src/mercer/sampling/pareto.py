"""Importance weights with their tail smoothed by a generalised Pareto distribution, whose shape k-hat says
how far to trust them (Vehtari, Simpson, Gelman, Yao and Gabry).

Averages of weights with shape k have a variance for k < 1/2 and a mean for k < 1. Smoothed, they can be
relied upon up to about 0.7.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

__all__ = ["RELIABLE", "SmoothedWeights", "fit_pareto", "pareto_smooth"]

RELIABLE = 0.7  # k-hat up to which averages can be relied upon
FEWEST = 5  # of weights in the tail to which a distribution is fitted


class SmoothedWeights(NamedTuple):
    """Log weights (S, ...) that sum to one over the first axis, and k-hat (...) of each set of them."""

    log_weights: np.ndarray
    pareto_k: np.ndarray


def fit_pareto(excess: np.ndarray) -> tuple[float, float]:
    """Shape k and scale sigma of a generalised Pareto distribution, density (1 + k x / sigma)^(-1/k - 1) /
    sigma, from draws x > 0 in ascending order: the posterior mean of Zhang and Stephens (2009), k drawn
    towards 1/2 by the weight of ten draws as Vehtari, Gelman and Gabry do.

    >>> k, scale = fit_pareto(np.sort(excess))
    """
    x, n = np.asarray(excess, float), len(excess)
    grid = 30 + math.isqrt(n)
    quartile = x[int(n / 4 + 0.5) - 1]
    theta = 1.0 / x[-1] + (1.0 - np.sqrt(grid / (np.arange(grid) + 0.5))) / (3.0 * quartile)
    shape = np.mean(np.log1p(-theta[:, None] * x), 1)  # of the likelihood's maximum for each theta
    log_profile = n * (np.log(-theta / shape) - shape - 1.0)
    theta = float(np.exp(log_profile - logsumexp(log_profile)) @ theta)
    k = float(np.mean(np.log1p(-theta * x)))
    return (n * k + 10 * 0.5) / (n + 10), -k / theta


def pareto_smooth(log_ratios: np.ndarray) -> SmoothedWeights:
    """Normalised weights from logarithms of importance ratios (S,) or (S, n), a set in each column: the
    largest min(S / 5, 3 sqrt S) of each are replaced by quantiles of the distribution fitted to them.

    >>> smoothed = pareto_smooth(-log_likelihood); smoothed.pareto_k.max()
    """
    log_ratios = np.asarray(log_ratios, float)
    if not np.isfinite(log_ratios).all():
        raise ValueError("importance ratios must be finite and positive.")
    columns = log_ratios.reshape(len(log_ratios), -1)
    found = [_smooth(column) for column in columns.T]
    weights = np.stack([w for w, _ in found], 1).reshape(log_ratios.shape)
    return SmoothedWeights(weights, np.array([k for _, k in found]).reshape(log_ratios.shape[1:]))


def _smooth(log_ratios: np.ndarray) -> tuple[np.ndarray, float]:
    """One set: log weights (S,) and k-hat, infinite where the tail is too short to be judged."""
    S = len(log_ratios)
    weights = log_ratios - log_ratios.max()
    size = math.ceil(min(0.2 * S, 3.0 * math.sqrt(S)))
    order = np.argsort(weights, kind="stable")
    tail, cut = order[S - size :], math.exp(weights[order[S - size - 1]])
    excess = np.exp(weights[tail]) - cut
    if excess[-1] <= 1e-12:  # all equal: nothing is in a tail
        return weights - logsumexp(weights), 0.0
    if size < FEWEST:
        return weights - logsumexp(weights), math.inf
    k, sigma = fit_pareto(np.maximum(excess, 1e-12 * excess[-1]))
    p = (np.arange(size) + 0.5) / size
    quantile = -sigma * np.log1p(-p) if abs(k) < 1e-12 else sigma * np.expm1(-k * np.log1p(-p)) / k
    weights[tail] = np.minimum(np.log(cut + quantile), 0.0)  # none beyond the largest that was seen
    return weights - logsumexp(weights), k
