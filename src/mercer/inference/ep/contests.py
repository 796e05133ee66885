"""EP where y says which of C latent functions wins: a site for each contest of the winner with another.

p(y | f) = E_u prod_{j != y} p(+1 | u + f_y - f_j), u ~ N(0, 1) (`AbstractLikelihood.contest`). Each factor is
a function of one number, the winner's lead h_j = u + f_y - f_j, and EP gives it a site of precision tau_j
(Riihimaki, Jylanki and Vehtari 2013, whose inner and outer loops are one here: they share their fixed
points). With u integrated out, and pi = tau with 1 in the place of y, those of a datum are one site of its
latent functions, of precision

    W = diag(pi) - pi pi' / s,    s = 1'pi,

the form that softmax has by Laplace's method, on the same coupled solver. At the posterior mean u and the
slopes of the contests are in alpha: E[u] = alpha_y, and a contest's slope is -alpha_j. Given f, the lead is
h_j = pi'f / s - f_j up to a constant, with variance 1 / s.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np

from mercer.inference import pointwise
from mercer.inference.ep.point import AbstractProblem, Point, changes, largest_change, matched_site
from mercer.inference.protocol import prior_mean
from mercer.posteriors.cavity import Cavity
from mercer.solvers.protocol import Sites

START = 3.0  # variance of the leads for which the first sites are right


@dataclasses.dataclass(eq=False)
class Contests(AbstractProblem):
    """Sites are (n, C), of leads h_j; those in the column of the winner are zero."""

    def __post_init__(self) -> None:
        C = self.model.likelihood.latents
        self.own = np.arange(C) == np.asarray(self.y, int)[:, None]

    def start(self) -> Sites:
        """The sites that contests would ask for at the prior mean, one alone."""
        m = prior_mean(self.model, self.X)
        lead = self._lead(m)
        v = np.full_like(lead, START)
        _, d, D = self._tilted(lead, v)
        W, g = matched_site(d, D, v)
        return self._masked(Sites(lead, W, g))

    def point(self, sites: Sites) -> Point:
        """One factorisation, then every cavity and the site that it asks for."""
        sites = self._masked(sites)
        joint, constant = self.onto_latents(sites)
        state = self.factor(joint)
        (f, A), alpha, tau = state.marginals(), state.alpha, sites.precision
        mean, slope = self._lead(f, np.sum(self.own * alpha, 1)), np.where(self.own, 0.0, -alpha)
        variance = np.where(self.own, 1.0, self._lead_variance(A, np.asarray(joint.precision)))
        share = 1.0 - tau * variance
        with np.errstate(divide="ignore", invalid="ignore"):
            v = variance / share
        c = Cavity(mean - v * slope, v, share)
        scales, dW, dg, proper = changes(sites, c, mean, variance, slope, self._tilted)
        scales, dW, dg = (np.where(self.own, 0.0, x) for x in (scales, dW, dg))
        log_scale = constant + float(np.sum(scales))
        change = largest_change(dW, dg, np.abs(variance))
        return Point(state, sites, mean, np.abs(variance), tau, slope, dW, dg, proper, change, log_scale)

    def onto_latents(self, sites: Sites) -> tuple[Sites, float]:
        """The sites of the latent functions, u integrated out, and the log of their value at their centres.

        At f = c with c_j = -h_j, c_y = 0 the integrand is exp(-s u^2 / 2 + b u), b the sum of the slopes.
        """
        tau, gamma = np.asarray(sites.precision), np.asarray(sites.slope)
        pi = tau + self.own
        s, b = np.sum(pi, 1, keepdims=True), np.sum(gamma, 1, keepdims=True)
        q = gamma - tau * b / s
        slope = np.where(self.own, np.sum(q, 1, keepdims=True), -q)
        constant = float(np.sum(0.5 * b**2 / s - 0.5 * np.log(s)))
        return Sites(-np.asarray(sites.centre), pi, slope, (pi / np.sqrt(s))[:, :, None]), constant

    def _lead(self, f: np.ndarray, u: Any = 0.0) -> np.ndarray:
        """u + f_y - f_j (n, C), zero for the winner itself."""
        winner = np.sum(np.where(self.own, f, 0.0), 1) + u
        return np.where(self.own, 0.0, winner[:, None] - f)

    @staticmethod
    def _lead_variance(A: np.ndarray, pi: np.ndarray) -> np.ndarray:
        """Variances (n, C) of the leads where f has the covariances A (n, C, C)."""
        s = np.sum(pi, 1, keepdims=True)
        Ap = np.einsum("nij,nj->ni", A, pi / s)
        return np.einsum("nii->ni", A) - 2.0 * Ap + (np.sum(pi * Ap, 1, keepdims=True) + 1.0) / s

    def _masked(self, sites: Sites) -> Sites:
        return Sites(*(np.where(self.own, 0.0, x) for x in (sites.centre, sites.precision, sites.slope)))

    def _tilted(self, mean: np.ndarray, variance: np.ndarray) -> Any:
        """log Z, d and D of every contest, all won."""
        flat = functools.partial(np.reshape, shape=(-1, 1))
        won = np.ones(mean.size)
        found = pointwise.tilted(self.model.likelihood.contest, won, flat(mean), flat(variance))
        return tuple(np.reshape(x, mean.shape) for x in found)
