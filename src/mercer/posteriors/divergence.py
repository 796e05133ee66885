"""How far a posterior has moved from its prior."""

from __future__ import annotations

import numpy as np

from mercer.posteriors.gaussian import GaussianPosterior
from mercer.posteriors.protocol import AbstractPosterior


def prior_divergence(posterior: AbstractPosterior) -> float:
    """KL(q || p) in nats of the posterior q(f) from the prior p(f), at the training inputs (7.33): for one
    latent function, by Laplace, EP or a variational bound, with any solver (a low-rank one: that of its own
    prior, 8.32).

    q is p times Gaussian sites t_i over their normaliser Z, so that the divergence is the sum of E_q[log t_i]
    less log Z: nothing is inverted.

    >>> prior_divergence(GPClassifier().fit(X, y).posterior_)
    """
    if not isinstance(posterior, GaussianPosterior):
        raise ValueError(f"the divergence is that of one Gaussian, not of a {type(posterior).__name__}.")
    state = posterior.state
    sites = state.sites
    if np.shape(sites.centre)[1] != 1 or sites.coupling is not None:
        raise ValueError("the divergence is that of one latent function, and this model has several.")
    mean, variance = state.site_marginals()
    away = np.asarray(mean) - np.asarray(sites.centre)
    slope = 0.0 if sites.slope is None else np.asarray(sites.slope)
    expected = slope * away - 0.5 * np.asarray(sites.precision) * (away**2 + np.asarray(variance))
    return max(float(np.sum(expected)) - float(state.log_normaliser), 0.0)
