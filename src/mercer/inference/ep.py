"""Expectation propagation: each site makes the approximate marginal match the moments of cavity times likelihood.

With log Z(mu) = log of the integral of p(y|f) N(f | mu, v) over the cavity, d = dlogZ/dmu and D = -d2logZ/dmu2, the site centred
at the cavity's mean has slope d / (1 - v D) and precision D / (1 - v D) (3.59 without a division by anything small). The evidence
(3.65) is the log normaliser of the sites plus the log of their scales, which stays finite as a precision tends to zero (3.73-3.75).
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import numpy as np

from mercer.inference import pointwise
from mercer.inference.anderson import Anderson
from mercer.inference.base import AbstractInference, InferenceStatus, Result, begin, gaussian_start, jitter_notes, prior_mean
from mercer.inference.cavity import Cavity, cavity
from mercer.inference.gradient import prior_gradient
from mercer.linalg.cholesky import NotPositiveDefinite
from mercer.solvers.protocol import AbstractSolver, AbstractState, Sites


@dataclasses.dataclass(frozen=True)
class EP(AbstractInference):
    """Expectation propagation (GPML 3.6, Kuss 4.2) for likelihoods of one latent function.

    schedule: "parallel" (all sites at once, one factorisation each sweep, damped where it must be) or "sequential" (one site after
    the other with rank-one updates, Algorithm 3.5). Both have the same fixed points. A parallel run that does not settle goes on
    sequentially, and the notes say so. tol: largest change of a site, in units of the marginal's standard deviation.
    """

    schedule: str = "parallel"
    tol: float = 1e-8
    max_sweeps: int = 200
    damping: float = 1.0

    needs: ClassVar[frozenset[str]] = frozenset({"logdet", "variance"})

    def __post_init__(self):
        if self.schedule not in ("parallel", "sequential"):
            raise ValueError(f"EP.schedule must be 'parallel' or 'sequential', got {self.schedule!r}.")
        if not 0 < self.damping <= 1:
            raise ValueError(f"EP.damping is the step towards the new sites and lies in (0, 1], got {self.damping}.")

    def run(self, model, X, y, solver, workspace=None):
        self.check(solver)
        self.check_single(model)
        workspace = begin(model, X, solver, workspace)
        sites = self._warm(y, workspace) or self._cold(model, X, y)
        problem = _Problem(model, X, y, solver, workspace)
        notes: list[str] = []
        schedule = self.schedule
        if schedule == "parallel":
            end = problem.parallel(sites, self.damping, self.tol, max(1, self.max_sweeps // 2))
            if not end.converged:  # afresh, with shorter steps
                end = problem.parallel(self._cold(model, X, y), 0.5 * self.damping, self.tol, self.max_sweeps, end.sweeps)
            if not end.converged and "full" in solver.offers:
                schedule = "parallel, then sequential"
                again = problem.sequential(end.state.sites, self.damping, self.tol, max(20, self.max_sweeps // 5), end.sweeps)
                notes.append(
                    f"parallel EP had not settled after {end.sweeps} sweeps (last change {end.change:.1e}), so sites were visited "
                    f"one after the other: {'converged' if again.converged else 'not converged'} after "
                    f"{again.sweeps - end.sweeps} more"
                )
                end = again
        else:
            end = problem.sequential(sites, self.damping, self.tol, self.max_sweeps)
        if not end.converged:
            notes.append(f"EP did not converge: sites still change by {end.change:.1e} after {end.sweeps} sweeps")
        else:
            workspace.memory["ep"] = end.state.sites
        status = InferenceStatus(end.converged, end.sweeps, f"{schedule}, last change {end.change:.1e}")
        return Result(end.state, end.log_evidence, (*jitter_notes(end.state), *notes), status)

    def gradient(self, model, y, result, consume=False, log_evidence_bar=1.0, **bars):
        self.check_bars(bars)
        c = cavity(result.state)
        bar = result.state.pullback(log_evidence_bar, consume=consume)
        gradient = prior_gradient(model, bar.prior)
        by_name = pointwise.pull_partition(model.likelihood, y, c.mean, c.variance)
        return gradient | {name: log_evidence_bar * value for name, value in by_name.items()}

    def _warm(self, y, workspace) -> Sites | None:
        """The last sites found in this workspace."""
        old = workspace.memory.get("ep")
        return old if old is not None and old.centre.shape[0] == y.shape[0] else None

    def _cold(self, model, X, y) -> Sites:
        """No sites, or Gaussian ones where the prior needs data to be proper."""
        if model.gp.basis is not None:
            return gaussian_start(model, X, y)
        m = prior_mean(model, X)
        return Sites(m, np.zeros_like(m), np.zeros_like(m))


@dataclasses.dataclass(frozen=True)
class _End:
    state: AbstractState
    log_evidence: float
    converged: bool
    sweeps: int
    change: float


@dataclasses.dataclass(eq=False)
class _Problem:
    model: Any
    X: np.ndarray
    y: np.ndarray
    solver: AbstractSolver
    workspace: Any

    def factor(self, sites: Sites) -> AbstractState:
        return self.solver.factor(self.model.priors, self.X, sites, self.workspace)

    def parallel(self, sites: Sites, step: float, tol: float, max_sweeps: int, before: int = 0) -> _End:
        """All sites at once, accelerated while that goes well. The step is shortened when changes grow, and lengthened again slowly
        while they shrink.
        """
        state, last, longest, memory = self.factor(sites), np.inf, step, Anderson()
        evidence, change, sweep = -np.inf, np.inf, before
        for sweep in range(before + 1, max(before + 1, max_sweeps) + 1):
            mean, variance = state.marginals()
            c = cavity(state)
            ok = (c.share > 0) & (variance > 0)
            log_Z, d, D = pointwise.tilted(self.model.likelihood, self.y, np.where(ok, c.mean, mean), np.where(ok, c.variance, 1.0))
            evidence = _evidence(state, c, log_Z)
            W, g = _site(d, D, np.where(ok, c.variance, 1.0))
            g = g + W * (c.mean - mean)  # the slope at the posterior mean, which is where alpha is the old one
            old_W, old_g = state.sites.precision, state.alpha[:, None]
            ok &= np.isfinite(W) & np.isfinite(g)
            # a site without a proper cavity is taken back a little, so that the others can make room for it
            dW, dg = np.where(ok, W - old_W, -0.3 * old_W), np.where(ok, g - old_g, -0.3 * old_g)
            change = float(max(np.max(np.abs(dW) * variance), np.max(np.abs(dg) * np.sqrt(np.abs(variance)))))
            if change <= tol:
                return _End(state, evidence, bool(ok.all()), sweep, change)
            if change > last:
                step, memory = max(0.5 * step, 0.05), Anderson()
            elif change < (1.0 - 0.4 * step) * last:
                step = min(1.2 * step, longest)
            last = change
            faster = memory.step(old_W, old_g + old_W * mean, dW, dg + dW * mean, np.sqrt(np.maximum(variance, 1e-300)))
            if faster is not None and step > 0.1 and (not self.model.likelihood.log_concave or (faster[0] >= 0).all()):
                try:
                    state = self.factor(Sites(mean, faster[0], faster[1] - faster[0] * mean))
                    continue
                except NotPositiveDefinite:
                    memory = Anderson()
            while True:
                try:
                    state = self.factor(Sites(mean, old_W + step * dW, old_g + step * dg))
                    break
                except NotPositiveDefinite:
                    step *= 0.5
                    if step < 1e-4:
                        return _End(self.factor(Sites(mean, old_W, old_g)), evidence, False, sweep, change)
        return _End(state, evidence, False, sweep, change)

    def sequential(self, sites: Sites, longest: float, tol: float, max_sweeps: int, before: int = 0) -> _End:
        """One site after the other, with a rank-one update of the covariance each; factored afresh after every sweep."""
        n = self.y.shape[0]
        state, evidence, change, sweep = self.factor(sites), -np.inf, np.inf, 0
        for sweep in range(1, max_sweeps + 1):  # noqa: B007
            mean, A = state.predict(self.X, full=True)
            assert A is not None
            mean, W = mean[:, 0].copy(), state.sites.precision[:, 0].copy()
            gamma = state.alpha + 0.0  # slope of each site at the current mean
            c0, W0, g0 = mean.copy(), W.copy(), gamma.copy()
            for i in range(n):
                s = A[i, i]
                # the site's slope has moved with the mean: g(m) = g(c0) + W (c0 - m), kept up to date below
                share = 1.0 - W[i] * s
                if not share > 0:
                    continue
                v = s / share
                mu = mean[i] - v * gamma[i]
                d, D = self._tilted(i, mu, v)
                if not (np.isfinite(d) and np.isfinite(D) and 1.0 - v * D > 0):
                    continue
                new_W, new_g = D / (1.0 - v * D), d / (1.0 - v * D)
                dW, dg = new_W - W[i], new_g + new_W * (mu - mean[i]) - gamma[i]
                step = longest
                while 1.0 + step * dW * s <= 1e-8:  # stay proper: the largest feasible part of the step
                    step *= 0.5
                dW, dg = step * dW, step * dg
                a, scale = A[:, i].copy(), 1.0 / (1.0 + dW * s)
                shift = a * (dg * scale)
                mean += shift
                gamma -= W * shift
                gamma[i] += dg - dW * shift[i]
                W[i] += dW
                A -= np.outer(a * (dW * scale), a)
            s0 = np.maximum(np.abs(np.diag(A)), 1e-300)
            slope0 = gamma + W * (mean - c0)  # at the old centre
            change = float(max(np.max(np.abs(W - W0) * s0), np.max(np.abs(slope0 - g0) * np.sqrt(s0))))
            try:
                state = self.factor(Sites(mean[:, None], W[:, None], gamma[:, None]))
            except NotPositiveDefinite:
                state = self.factor(Sites(c0[:, None], W0[:, None], g0[:, None]))
                break
            if change <= tol:
                break
        c = cavity(state)
        ok = c.share > 0
        log_Z, _, _ = pointwise.tilted(self.model.likelihood, self.y, np.where(ok, c.mean, 0.0), np.where(ok, c.variance, 1.0))
        evidence = _evidence(state, c, log_Z)
        return _End(state, evidence, change <= tol and bool(ok.all()), before + sweep, change)

    def _tilted(self, i: int, mean: float, variance: float) -> tuple[float, float]:
        """d and D of datum i. A likelihood with a parameter for each datum needs all of them in their places."""
        likelihood, n = self.model.likelihood, self.y.shape[0]
        rows, at = (np.arange(n), i) if likelihood.per_datum else (np.array([i]), 0)
        shape = (rows.size, 1)
        _, d, D = pointwise.tilted(likelihood, self.y[rows], np.full(shape, mean), np.full(shape, variance))
        return float(d[at, 0]), float(D[at, 0])


def _site(d, D, v):
    rest = 1.0 - v * D
    with np.errstate(divide="ignore", invalid="ignore"):
        return D / rest, d / rest


def _evidence(state: AbstractState, c: Cavity, log_Z: np.ndarray) -> float:
    """log Z_EP: the log normaliser plus the scales that make each site integrate to Z_i over its cavity (1 + v W = 1 / share)."""
    W, g = np.asarray(state.sites.precision), np.asarray(state.sites.slope)
    e = c.mean - state.sites.centre
    slope = g - W * e
    with np.errstate(invalid="ignore", divide="ignore"):
        integral = g * e - 0.5 * W * e**2 + 0.5 * slope**2 * c.variance * c.share + 0.5 * np.log(c.share)
    return state.log_normaliser + float(np.sum(log_Z - integral))
