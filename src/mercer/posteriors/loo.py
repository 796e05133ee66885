"""Leave-one-out predictions from one factorisation (5.10-5.12), and k-fold ones: written once, for every rule
and solver.

For Gaussian noise, with alpha and kappa = diag R: the prediction of y_i without y_i has mean y_i - alpha_i /
kappa_i and variance 1 / kappa_i. For other likelihoods it is the likelihood averaged over the cavity (5.5.3):
very accurate for EP, a good guide for Laplace. A fold I left out together: residual R_II^-1 alpha_I,
covariance R_II^-1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.likelihoods.gaussian import Gaussian
from mercer.posteriors.answers import LeaveOneOut
from mercer.posteriors.cavity import cavity
from mercer.posteriors.protocol import class_probabilities
from mercer.processes import check_fork
from mercer.solvers.protocol import AbstractState

_LOG_2PI = float(np.log(2 * np.pi))


def leave_one_out(state: AbstractState, y: np.ndarray, likelihood: Any) -> LeaveOneOut:
    """Predictions of each y_i from all the others, at the sites of a State."""
    check_fork()
    if not isinstance(likelihood, Gaussian):
        c = cavity(state)
        m, v = (c.mean, c.variance) if likelihood.latents > 1 else (c.mean[:, 0], c.variance[:, 0])
        mean, variance = likelihood.predict(m, v)
        probability = None
        if likelihood.categorical:
            probability = mean if mean.ndim == 2 else class_probabilities(likelihood, m, v, "average")
        return LeaveOneOut(mean, variance, likelihood.log_density(y, m, v), probability)
    alpha, kappa = (np.asarray(x)[:, 0] for x in state.dual())
    residual, variance = alpha / kappa, 1.0 / kappa
    log_density = -0.5 * (np.log(variance) + residual**2 / variance + _LOG_2PI)
    return LeaveOneOut(y - residual, variance, log_density)


def folds(n: int, k: int, seed: Any = 0) -> list[np.ndarray]:
    """k random folds of n rows, of sizes that differ by at most one."""
    if not 2 <= k <= n:
        raise ValueError(f"the number of folds must be between 2 and the number of data ({n}), got {k}.")
    return [np.sort(part) for part in np.array_split(np.random.default_rng(seed).permutation(n), k)]
