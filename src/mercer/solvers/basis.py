"""Explicit basis functions for every solver (2.39-2.45): f = f0 + h(x)' beta, beta ~ N(b, B) or vague.

The log normaliser of any State is quadratic in the mean, with slope alpha and curvature -R. Integrating the
weights out needs only those two, so one wrapper serves all: with A = B^-1 + H' R H (B^-1 = 0 if vague) and a
= H' alpha,

    log Z = log Z0 + 1/2 a' A^-1 a - 1/2 log|A| - 1/2 log|B|   (vague: without log|B|, plus p/2 log 2 pi, so
    that 2.45 has n - p).
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import scipy.linalg as sla

from mercer.means import AbstractMean, Sum
from mercer.solvers.protocol import (
    AbstractSolver,
    AbstractState,
    BasisWeights,
    Cotangents,
    Diagnostics,
    SiteBars,
    SolverError,
)


@dataclasses.dataclass(frozen=True)
class WithBasis(AbstractSolver):
    """Any solver, with the prior's basis functions integrated out."""

    base: AbstractSolver

    @property
    def offers(self) -> frozenset[str]:  # type: ignore[override]
        return frozenset({"variance", "logdet", "sample", "full", "indefinite"}) | (
            self.base.offers & {"exact"}
        )

    @property
    def why(self):  # type: ignore[override]
        return self.base.why

    @property
    def pilot(self):  # type: ignore[override]
        return self.base.pilot

    def with_basis(self):
        return self

    def rows(self, pool):
        return self.base.rows(pool)

    def prepare(self, prior, X, y, noise_variance=None):
        return WithBasis(self.base.prepare(prior, X, y, noise_variance))

    def workspace(self, prior, X):
        return self.base.workspace(prior, X)

    def factor(self, prior, X, sites, workspace=None):
        return BasisState(self.base, prior, X, sites, workspace)

    def cost(self, n, d, L=1):
        return self.base.cost(n, d, L)


class BasisState(AbstractState):
    """`basis_weights()` is the posterior of beta."""

    def __init__(self, solver, prior, X, sites, workspace):
        self.prior, self.X, self.sites = prior, X, sites
        self.H = np.asarray(prior.basis.features(X), float)
        n, p = self.H.shape
        b, B = prior.basis.prior(p)
        mean = Sum((prior.mean, _Vector(b, prior.basis))) if np.any(b) else prior.mean
        self.base = solver.factor(type(prior)(prior.kernel, mean), X, sites, workspace)
        self.jitter, self.notes, self.exact = self.base.jitter, self.base.notes, self.base.exact
        self.RH = self.base.apply(self.H)
        self.B = B  # None: vague
        precision = np.zeros((p, p)) if B is None else np.linalg.inv(B)
        A = precision + self.H.T @ self.RH
        try:
            self.A = sla.cho_factor(0.5 * (A + A.T), lower=True)
            # each pivot is the part of a basis function that the ones before it do not explain
            independent = B is not None or bool(np.all(np.diag(self.A[0]) > 1e-7 * np.sqrt(np.diag(A))))
        except np.linalg.LinAlgError:
            independent = False
        if not independent:
            raise SolverError(
                f"the {p} basis functions are linearly dependent at these {n} inputs, so a vague prior "
                "leaves their weights "
                "undetermined: use fewer, or give them a covariance."
            )
        base_alpha = self.base.alpha
        self.shift = sla.cho_solve(self.A, self.H.T @ base_alpha)
        self.weights = BasisWeights(b + self.shift, sla.cho_solve(self.A, np.eye(p)), self.RH)
        self.alpha = base_alpha - self.RH @ self.shift
        logdet_A = 2.0 * np.sum(np.log(np.diag(self.A[0])))
        constant = 0.5 * p * np.log(2 * np.pi) if B is None else -0.5 * np.linalg.slogdet(B)[1]
        self.log_normaliser = float(
            self.base.log_normaliser + 0.5 * (self.H.T @ base_alpha) @ self.shift - 0.5 * logdet_A + constant
        )

    def prior_mean(self):
        return self.base.prior_mean()

    def mean(self):
        rest = self.H - self.base.cross(self.X, self.RH)
        return self.base.mean() + (rest @ self.shift)[:, None]

    def _leverage(self, rest):
        """diag(rest A^-1 rest') for rest (m, p)."""
        return np.einsum("ij,ij->j", *[sla.solve_triangular(self.A[0], rest.T, lower=True)] * 2)

    def marginals(self):
        mean, variance = self.base.marginals()
        rest = self.H - self.base.cross(self.X, self.RH)
        return mean + (rest @ self.shift)[:, None], variance + self._leverage(rest)[:, None]

    def dual(self):
        _, kappa = self.base.dual()
        return self.alpha[:, None], kappa - self._leverage(self.RH)[:, None]

    def apply(self, V):
        RV = self.base.apply(V)
        return RV - self.RH @ sla.cho_solve(self.A, self.H.T @ RV)

    def times_K(self, V):
        return self.base.times_K(V) + self.H @ self._times_BH(V)

    def cross(self, Xs, V):
        return self.base.cross(Xs, V) + self._features(Xs) @ self._times_BH(V)

    def _times_BH(self, V: np.ndarray) -> np.ndarray:
        """B H' V: with the basis functions the prior covariance is K + H B H'."""
        if self.B is None:
            raise SolverError(
                "a prior with basis functions of vague weight has no finite covariance; ask for predictions "
                "instead."
            )
        return self.B @ (self.H.T @ V)

    def _features(self, Xs: np.ndarray) -> np.ndarray:
        assert self.prior.basis is not None
        return np.asarray(self.prior.basis.features(Xs), float)

    def diagnostics(self) -> Diagnostics:
        """Of the solver without basis functions."""
        return dataclasses.replace(self.base.diagnostics(), bounds=None)

    def basis_weights(self) -> BasisWeights:
        return self.weights

    def smoother(self, Xs):
        """Those of the prior without basis functions, and h(x)' A^-1 H'R of the rest h - K_* R H (2.42)."""
        rest = self._features(Xs) - self.base.cross(Xs, self.RH)
        return self.base.smoother(Xs) + rest @ self.weights.covariance @ self.RH.T

    def predict(self, Xs, full=False, variance=True):
        mean, second = self.base.predict(Xs, full, variance)
        rest = self._features(Xs) - self.base.cross(Xs, self.RH)  # R of (2.41), transposed
        mean = mean + (rest @ self.shift)[:, None]
        if not variance:
            return mean, None
        extra = rest @ sla.cho_solve(self.A, rest.T) if full else self._leverage(rest)[:, None]
        return mean, second + extra

    def pullback(
        self,
        log_normaliser_bar=0.0,
        mean_bar=None,
        var_bar=None,
        alpha_bar=None,
        kappa_bar=None,
        apply_bar=None,
        *,
        inputs=False,
        consume=False,
    ):
        if var_bar is not None:
            raise SolverError("with basis functions, derivatives of variances are not available.")
        if inputs:
            raise SolverError(
                "with basis functions, derivatives of the inputs are not available; use a mean or a linear "
                "kernel."
            )
        if mean_bar is not None:  # by the site's own equation, mean = c - (alpha - g) / W
            return self._pull_mean(log_normaliser_bar, mean_bar, alpha_bar, kappa_bar, apply_bar, consume)
        H, RH, n = self.H, self.RH, self.H.shape[0]
        a_bar, S_bar = log_normaliser_bar * self.shift, np.zeros((H.shape[1],) * 2)
        # log Z = ... + 1/2 a'A^-1 a - 1/2 log|A|, S = H'RH inside A
        S_bar -= 0.5 * log_normaliser_bar * (np.outer(self.shift, self.shift) + self.weights.covariance)
        base_alpha_bar = np.zeros(n)
        V, Y_bar = [H], [np.zeros_like(H)]
        if alpha_bar is not None:  # alpha = alpha0 - RH A^-1 H' alpha0
            t = np.asarray(alpha_bar, float).reshape(n)
            c = sla.cho_solve(self.A, RH.T @ t)
            base_alpha_bar += t - H @ c
            Y_bar[0] -= np.outer(t, self.shift)
            S_bar += np.outer(c, self.shift)
        if kappa_bar is not None:  # kappa = kappa0 - diag(RH A^-1 RH')
            k = np.asarray(kappa_bar, float).reshape(n)
            G = sla.cho_solve(self.A, RH.T).T  # RH A^-1
            Y_bar[0] -= 2.0 * k[:, None] * G
            S_bar += (G * k[:, None]).T @ G
        if apply_bar is not None:  # Y = R V - RH A^-1 H'R V
            V1, Y1 = apply_bar
            RV = self.base.apply(V1)
            C, D = sla.cho_solve(self.A, H.T @ RV), sla.cho_solve(self.A, RH.T @ Y1)
            V.append(V1)
            Y_bar.append(Y1 - H @ D)
            Y_bar[0] -= Y1 @ C.T
            S_bar += D @ C.T
        base_alpha_bar += H @ a_bar
        Y_bar[0] += H @ S_bar.T
        bars = dict(alpha_bar=base_alpha_bar, kappa_bar=kappa_bar, apply_bar=(np.hstack(V), np.hstack(Y_bar)))
        out = self.base.pullback(log_normaliser_bar, **bars, inputs=inputs, consume=consume)
        if self.base.prior.mean is self.prior.mean:
            return out
        return dataclasses.replace(out, prior=dataclasses.replace(out.prior, mean=out.prior.mean.terms[0]))

    def _pull_mean(self, log_normaliser_bar, mean_bar, alpha_bar, kappa_bar, apply_bar, consume):
        W = np.asarray(self.sites.precision, float)
        u = np.asarray(mean_bar, float).reshape(W.shape)
        if np.any((W == 0) & (u != 0)):
            raise SolverError(
                "with basis functions, the mean at a datum whose site says nothing has no derivative here."
            )
        scaled = np.divide(u, W, out=np.zeros_like(u), where=W != 0)
        total = -scaled if alpha_bar is None else np.asarray(alpha_bar, float).reshape(W.shape) - scaled
        out = self.pullback(
            log_normaliser_bar, alpha_bar=total, kappa_bar=kappa_bar, apply_bar=apply_bar, consume=consume
        )
        bars, dual = out.sites, self.alpha[:, None] - (0.0 if self.sites.slope is None else self.sites.slope)
        slope = None if bars.slope is None else bars.slope + scaled
        ratio = np.divide(dual, W, out=np.zeros_like(u), where=W != 0)
        sites = SiteBars(bars.centre + u, bars.precision + scaled * ratio, slope)
        return Cotangents(out.prior, sites, out.inputs)


class _Vector(AbstractMean):
    """h(x)' b for the prior mean b of the weights."""

    weights: Any
    basis: Any

    def value(self, X):
        return self.basis.features(X) @ self.weights
