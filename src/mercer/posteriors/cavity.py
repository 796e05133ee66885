"""Cavities: the posterior at each datum without that datum's own site (3.56, 4.20).

With alpha, kappa and the marginal N(m, s): 1 - W s = kappa / W, so the cavity is N(m - v alpha, v) with v = s
/ (1 - W s). For exact regression it is the leave-one-out prediction of f (5.12), for EP and Laplace an
approximation to it (5.5.3). A power eta of the site may be taken out alone: then eta W and eta alpha stand
for W and alpha, and the share is 1 - eta + eta kappa / W.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mercer.solvers.protocol import AbstractState


class Cavity(NamedTuple):
    """Mean (n, L) and variance (n, 1), or (n, L, L) for several latent functions; `share` = 1 - W s, the part
    of the marginal's precision that is not the site's own (1 for several).
    """

    mean: np.ndarray
    variance: np.ndarray
    share: np.ndarray


def cavity(state: AbstractState, power: float = 1.0) -> Cavity:
    """Without this power of each datum's site; other powers than 1 for one latent function alone."""
    mean, variance = state.site_marginals()
    W = np.asarray(state.sites.precision)
    if W.shape[1] > 1:
        return _blocks(state, mean, variance, W)
    alpha, kappa = state.dual()
    share = np.divide(kappa, W, out=np.ones_like(variance), where=W != 0)
    share = 1.0 - power + power * share
    with np.errstate(divide="ignore", invalid="ignore"):
        v = variance / share
    return Cavity(mean - v * power * alpha, v, share)


def _blocks(state: AbstractState, mean: np.ndarray, A: np.ndarray, D: np.ndarray) -> Cavity:
    W = np.eye(D.shape[1]) * D[:, :, None]
    if state.sites.coupling is not None:
        W = W - state.sites.coupling @ np.swapaxes(state.sites.coupling, 1, 2)
    v = np.linalg.solve(np.eye(D.shape[1]) - A @ W, A)  # (A^-1 - W)^-1
    v = 0.5 * (v + np.swapaxes(v, 1, 2))
    return Cavity(mean - np.einsum("nij,nj->ni", v, state.alpha), v, np.ones_like(mean))
