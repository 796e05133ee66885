"""Expectation propagation: each site makes the approximate marginal match the moments of cavity times
likelihood.

With log Z(mu) = log of the integral of p(y|f) N(f | mu, v) over the cavity, d = dlogZ/dmu and D =
-d2logZ/dmu2, the site centred at the cavity's mean has slope d / (1 - v D) and precision D / (1 - v D) (3.59
without a division by anything small). The evidence (3.65) is the log normaliser of the sites plus the log of
their scales, which stays finite as a precision tends to zero (3.73-3.75).
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import numpy as np

from mercer.inference import pointwise
from mercer.inference.anderson import Anderson
from mercer.inference.gradient import prior_gradient
from mercer.inference.laplace import Laplace
from mercer.inference.protocol import (
    AbstractSiteProblem,
    AbstractSiteRule,
    Result,
    begin,
    gaussian_start,
    jitter_notes,
    prior_mean,
)
from mercer.inference.scale_mixture import ScaleMixture
from mercer.likelihoods.noise import AbstractNoise
from mercer.linalg.cholesky import NotPositiveDefinite
from mercer.posteriors.answers import InferenceStatus
from mercer.posteriors.cavity import Cavity, cavity
from mercer.solvers.protocol import AbstractState, Sites, SolverError

NEAR = 1e-3  # sites that change by less are better than those of another rule


@dataclasses.dataclass(frozen=True)
class EP(AbstractSiteRule):
    """Expectation propagation (GPML 3.6, Kuss 4.2) for likelihoods of one latent function.

    schedule: "parallel" (all sites at once, one factorisation each sweep, damped where it must be) or
    "sequential" (one site after the other with rank-one updates, Algorithm 3.5). Both have the same fixed
    points. A parallel run that does not settle goes on sequentially, and the notes say so. tol: largest
    change of a site, in units of the marginal's standard deviation.

    Noise that is not log-concave may leave EP without a fixed point, mostly where its scale is far too small
    for the data. Runs then start from the sites of ScaleMixture, from none, and with short steps; if none
    converges the status says so, and what ScaleMixture finds is returned.
    """

    schedule: str = "parallel"
    tol: float = 1e-8
    max_iterations: int = 200
    damping: float = 1.0

    needs: ClassVar[frozenset[str]] = frozenset({"logdet", "variance"})

    def __post_init__(self):
        if self.schedule not in ("parallel", "sequential"):
            raise ValueError(f"EP.schedule must be 'parallel' or 'sequential', got {self.schedule!r}.")
        if not 0 < self.damping <= 1:
            raise ValueError(
                f"EP.damping is the step towards the new sites and lies in (0, 1], got {self.damping}."
            )

    def rough(self, tight=False):
        """The evidence is stationary in the sites: it is right to the square of their error."""
        return self if tight else dataclasses.replace(self, tol=max(self.tol, 1e-5))

    def run(self, model, X, y, solver, workspace=None):
        self.check(solver)
        self.check_single(model)
        if self.schedule == "sequential" and "full" not in solver.offers:
            raise SolverError(
                "EP(schedule='sequential') needs the joint posterior at the data, which "
                f"{type(solver).__name__} does not offer: "
                "use schedule='parallel'."
            )
        workspace = begin(model, X, solver, workspace)
        problem = _Problem(model, X, y, solver, workspace)
        notes: list[str] = []
        schedule, warm = self.schedule, self._warm(y, workspace)
        if schedule == "parallel":
            sweeps, half = 0, max(1, self.max_iterations // 2)
            ends: list[_End] = []
            for start, damping in self._attempts(model, warm):
                try:
                    end = problem.parallel(start(problem), damping, self.tol, half, sweeps)
                except NotPositiveDefinite:  # earlier sites of negative precision need not suit this prior
                    if warm is None or ends:
                        raise
                    continue
                sweeps = end.sweeps
                ends.append(end)
                if end.converged:
                    break
            else:
                nearest = min(ends, key=lambda end: end.change)
                end = problem.end(problem.point(nearest.sites), self.tol, sweeps)
            if not end.converged and not _several_modes(model) and "full" in solver.offers:
                schedule, change = "parallel, then sequential", end.change
                end = problem.sequential(
                    end.sites, self.damping, self.tol, max(20, self.max_iterations // 5), sweeps
                )
                notes.append(
                    f"parallel EP had not settled after {sweeps} sweeps (last change {change:.1e}), so "
                    "sites were visited "
                    f"one after the other: {'converged' if end.converged else 'not converged'} after "
                    f"{end.sweeps - sweeps} more"
                )
        else:
            end = problem.sequential(warm or _cold(problem), self.damping, self.tol, self.max_iterations)
        status = InferenceStatus(end.converged, end.sweeps, f"{schedule}, last change {end.change:.1e}")
        if end.converged:
            workspace.memory["ep"] = end.sites
        else:
            notes.append(
                f"EP did not converge: sites still change by {end.change:.1e} after {end.sweeps} sweeps"
            )
            lost = not end.change <= NEAR or not np.isfinite(end.log_evidence)
            if lost and _several_modes(model) and model.likelihood.scale_mixture:
                found = ScaleMixture().run(model, X, y, solver, workspace)
                notes.append("the sites and the lower bound of ScaleMixture are given instead")
                return dataclasses.replace(found, notes=(*notes, *found.notes), status=status)
            if lost and (_several_modes(model) or not np.isfinite(end.log_evidence)):
                end = problem.end(problem.point(_cold(problem)), self.tol, end.sweeps)
                notes.append("the sites that EP started from are given instead")
        return Result(end.state, end.log_evidence, (*jitter_notes(end.state), *notes), status)

    def gradient(self, model, y, result, consume=False, log_evidence_bar=1.0, **bars):
        self.check_bars(bars)
        if result.state.sites.slope is None:  # those of ScaleMixture
            return ScaleMixture().gradient(model, y, result, consume, log_evidence_bar)
        c = cavity(result.state)
        bar = result.state.pullback(log_evidence_bar, consume=consume)
        gradient = prior_gradient(model, bar.prior)
        by_name = pointwise.pull_partition(model.likelihood, y, c.mean, c.variance)
        return gradient | {name: log_evidence_bar * value for name, value in by_name.items()}

    def _warm(self, y, workspace) -> Sites | None:
        """The last sites found in this workspace."""
        old = workspace.memory.get("ep")
        return old if old is not None and old.centre.shape[0] == y.shape[0] else None

    def _attempts(self, model, warm) -> list:
        """Where parallel runs start, and their damping: until one of them converges."""
        first = _cold if warm is None else lambda _: warm
        if _several_modes(model):
            return [(first, self.damping), (_flat, self.damping), (_cold, 0.2 * self.damping)]
        return [(first, self.damping), (_cold, 0.5 * self.damping)]


def _several_modes(model) -> bool:
    return isinstance(model.likelihood, AbstractNoise) and not model.likelihood.log_concave


def _flat(problem: _Problem) -> Sites:
    """No sites; Gaussian ones where the prior needs data to be proper."""
    if problem.model.gp.basis is not None:
        return gaussian_start(problem.model, problem.X, problem.y)
    m = prior_mean(problem.model, problem.X)
    return Sites(m, np.zeros_like(m), np.zeros_like(m))


def _cold(problem: _Problem) -> Sites:
    """Where the posterior may have several modes, sites of a rule that finds one of them, all of positive
    precision so that every cavity is proper; else none.
    """
    model, X, y = problem.model, problem.X, problem.y
    if not _several_modes(model):
        return _flat(problem)
    rule = ScaleMixture(tol=1e-3) if model.likelihood.scale_mixture else Laplace()
    found = rule.run(model, X, y, problem.solver, problem.workspace).state
    mean = found.mean()
    return Sites(mean, pointwise.fisher(model.likelihood, mean, y)[0], found.alpha[:, None] + 0.0)


@dataclasses.dataclass(frozen=True, eq=False)
class _Point:
    """Sites in use and how EP would change them: W and g, the slope at the posterior mean, by dW and dg;
    all (n, 1).
    """

    state: AbstractState
    mean: np.ndarray
    variance: np.ndarray
    W: np.ndarray
    g: np.ndarray
    dW: np.ndarray
    dg: np.ndarray
    proper: bool
    change: float
    log_evidence: float


@dataclasses.dataclass(frozen=True, eq=False)
class _End:
    state: AbstractState
    sites: Sites
    log_evidence: float
    converged: bool
    sweeps: int
    change: float


class _Problem(AbstractSiteProblem):
    def point(self, sites: Sites) -> _Point:
        state = self.factor(sites)
        mean, variance = state.marginals()
        c = cavity(state)
        ok = (c.share > 0) & (variance > 0)
        v = np.where(ok, c.variance, 1.0)
        log_Z, d, D = pointwise.tilted(self.model.likelihood, self.y, np.where(ok, c.mean, mean), v)
        W, g = _site(d, D, v)
        g = g + W * (c.mean - mean)  # the slope at the posterior mean, which is where alpha is the old one
        old_W, old_g = state.sites.precision, state.alpha[:, None]
        ok &= np.isfinite(W) & np.isfinite(g)
        # a site without a proper cavity is taken back a little, so that the others can make room for it
        dW, dg = np.where(ok, W - old_W, -0.3 * old_W), np.where(ok, g - old_g, -0.3 * old_g)
        variance = np.maximum(np.abs(variance), 1e-300)
        change = float(max(np.max(np.abs(dW) * variance), np.max(np.abs(dg) * np.sqrt(variance))))
        return _Point(
            state, mean, variance, old_W, old_g, dW, dg, bool(ok.all()), change, _evidence(state, c, log_Z)
        )

    def step(self, sites: Sites, needed: bool) -> _Point | None:
        """The point at these sites; None where the posterior, or a cavity that is needed, is not proper."""
        try:
            point = self.point(sites)
        except NotPositiveDefinite:
            return None
        return point if point.proper or not needed else None

    def end(self, point: _Point, tol: float, sweeps: int) -> _End:
        converged = point.proper and point.change <= tol and np.isfinite(point.log_evidence)
        return _End(point.state, point.state.sites, point.log_evidence, bool(converged), sweeps, point.change)

    def parallel(self, sites: Sites, step: float, tol: float, max_iterations: int, before: int = 0) -> _End:
        """All sites at once, accelerated while that goes well. The step is shortened when changes grow, and
        lengthened again slowly while they shrink; from sites of positive precision, also where a cavity would
        be improper.
        """
        point, last, longest, memory = self.point(sites), np.inf, step, Anderson()
        careful = point.proper and bool(point.W.any() and (point.W >= 0).all())
        sweep = before
        for sweep in range(before + 1, before + max_iterations + 1):
            if point.change <= tol:
                break
            if point.change > last:
                step, memory = max(0.5 * step, 0.02), Anderson()
            elif point.change < (1.0 - 0.4 * step) * last:
                step = min(1.2 * step, longest)
            last = point.change
            mean, W, g, dW, dg = point.mean, point.W, point.g, point.dW, point.dg
            faster = memory.step(W, g + W * mean, dW, dg + dW * mean, np.sqrt(point.variance))
            if (
                faster is not None
                and step > 0.1
                and (not self.model.likelihood.log_concave or (faster[0] >= 0).all())
            ):
                new = self.step(Sites(mean, faster[0], faster[1] - faster[0] * mean), careful)
                if new is not None:
                    point = new
                    continue
                memory = Anderson()
            new, length = None, step
            while new is None and length > 1e-5:
                step, length = length, 0.5 * length
                new = self.step(Sites(mean, W + step * dW, g + step * dg), careful)
            if new is None:
                return self.end(self.point(Sites(mean, W, g)), tol, sweep)
            point = new
        return self.end(point, tol, sweep)

    def sequential(
        self, sites: Sites, longest: float, tol: float, max_iterations: int, before: int = 0
    ) -> _End:
        """One site after the other, with a rank-one update of the covariance each;
        factored afresh after every sweep.
        """
        point, change, sweep = self.point(sites), np.inf, 0
        for sweep in range(1, max_iterations + 1):  # noqa: B007
            mean, A = point.state.predict(self.X, full=True)
            assert A is not None
            mean, W = mean[:, 0].copy(), point.W[:, 0].copy()
            gamma = point.state.alpha + 0.0  # slope of each site at the current mean
            c0, W0, g0 = mean.copy(), W.copy(), gamma.copy()
            for i in range(self.y.shape[0]):
                self._visit(i, mean, A, W, gamma, longest)
            s0 = np.maximum(np.abs(np.diag(A)), 1e-300)
            slope0 = gamma + W * (mean - c0)  # at the old centre
            change = float(max(np.max(np.abs(W - W0) * s0), np.max(np.abs(slope0 - g0) * np.sqrt(s0))))
            new = self.step(Sites(mean[:, None], W[:, None], gamma[:, None]), point.proper)
            if new is None:
                point = self.point(Sites(c0[:, None], W0[:, None], g0[:, None]))
                break
            point = new
            if change <= tol:
                break
        return self.end(
            dataclasses.replace(point, change=max(change, point.change if change <= tol else 0.0)),
            tol,
            before + sweep,
        )

    def _visit(self, i: int, mean, A, W, gamma, longest: float) -> None:
        """Update site i in place. The site's slope moves with the mean, g(m) = g(c) + W (c - m),
        and is kept up to date.
        """
        s = A[i, i]
        share = 1.0 - W[i] * s
        if not share > 0:
            return
        v = s / share
        mu = mean[i] - v * gamma[i]
        d, D = self._tilted(i, mu, v)
        if not (np.isfinite(d) and np.isfinite(D) and 1.0 - v * D > 0):
            return
        new_W, new_g = D / (1.0 - v * D), d / (1.0 - v * D)
        dW, dg = new_W - W[i], new_g + new_W * (mu - mean[i]) - gamma[i]
        a, diagonal = A[:, i].copy(), np.diag(A)
        proper = W * diagonal < 1.0
        step, scale = longest, 1.0
        while step > 1e-6:  # the largest part of the step that leaves the posterior and all cavities proper
            rest = 1.0 + step * dW * s
            if rest > 1e-8:
                scale = 1.0 / rest
                after = W.copy()
                after[i] += step * dW
                if (after * (diagonal - step * dW * scale * a**2) < 1.0)[proper].all():
                    break
            step *= 0.5
        else:
            return
        dW, dg = step * dW, step * dg
        shift = a * (dg * scale)
        mean += shift
        gamma -= W * shift
        gamma[i] += dg - dW * shift[i]
        W[i] += dW
        A -= np.outer(a * (dW * scale), a)

    def _tilted(self, i: int, mean: float, variance: float) -> tuple[float, float]:
        """d and D of datum i. A likelihood with a parameter for each datum needs all of them in their
        places.
        """
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
    """log Z_EP: the log normaliser plus the scales that make each site integrate to Z_i over its cavity (1 +
    v W = 1 / share).
    """
    W, g = np.asarray(state.sites.precision), np.asarray(state.sites.slope)
    e = c.mean - state.sites.centre
    slope = g - W * e
    with np.errstate(invalid="ignore", divide="ignore"):
        integral = g * e - 0.5 * W * e**2 + 0.5 * slope**2 * c.variance * c.share + 0.5 * np.log(c.share)
    return state.log_normaliser + float(np.sum(log_Z - integral))
