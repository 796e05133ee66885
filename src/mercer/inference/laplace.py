"""Laplace's approximation: sites are the second-order expansion of the log likelihood at the mode of the
posterior.

Newton's iteration in the form B = I + W^1/2 K W^1/2 (Algorithm 3.1), for several latent functions by
Algorithm 3.3: a site centred at the current f has slope g = grad log p and precision W = -Hessian, so the
mean of the State is the full Newton step. Steps are taken along a = K^-1 (f - m), which is linear in f, and
shortened until the posterior density rises.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, NamedTuple

import numpy as np

from mercer.inference import pointwise
from mercer.inference.gradient import prior_gradient
from mercer.inference.protocol import (
    AbstractSiteProblem,
    AbstractSiteRule,
    Result,
    begin,
    jitter_notes,
    prior_mean,
)
from mercer.inference.scale_mixture import ScaleMixture
from mercer.linalg.cholesky import NotPositiveDefinite
from mercer.posteriors.answers import InferenceStatus
from mercer.solvers.protocol import AbstractSolver, AbstractState, AbstractWorkspace, Sites, SolverError

NEAR = 1e-2  # gain of a step below which negative precisions are no longer left out
EXACT = 1e-5  # of `tol`: a gain so small that no other step is taken
UNCARRIED = 1e-6  # of that, where the evidence is not carried along the last step
BASIN = 0.1  # tolerance of ScaleMixture where the mode near its mean is looked for
SHRINKS = 0.2  # a step with an earlier factor is taken if it gains so much less than the one before


@dataclasses.dataclass(frozen=True)
class Laplace(AbstractSiteRule):
    """A Gaussian at the mode with the curvature there (3.11-3.32), for any likelihood with two derivatives.

    tol: when a Newton step promises less than this gain of the log posterior density, it is the last
    positive: the evidence takes negative curvature as none (on solvers that treat it as a downdate: not
        Markov, not with basis functions). That is what `fit` maximises: taken as it is, negative curvature
        gives the evidence poles where, as hyperparameters change, a mode is about to vanish

    Likelihoods that are not log-concave may have W < 0: steps then use a positive semi-definite stand-in, and
    the evidence the true Hessian. They may also have several modes: for scale mixtures of normals the search
    starts at the prior mean and at the mean that ScaleMixture finds, and the highest mode is kept.

    >>> post = mercer.Model(mercer.GP(kernels.SE()), likelihoods.Poisson()).condition(X, counts, Laplace())
    >>> post.log_evidence, post.status
    """

    tol: float = 1e-7
    max_iterations: int = 100
    positive: bool = False

    needs: ClassVar[frozenset[str]] = frozenset({"logdet", "variance"})
    warm: ClassVar[bool] = True
    smooth: ClassVar[bool] = False  # a mode may vanish, a curvature change its sign

    def rough(self, tight: bool = False) -> Laplace:
        """One step after a gain of 1e-4 leaves the mode right to the square of that step, e say. The evidence
        moves with e, by its determinant; that is taken into account, or an optimiser would walk on its
        roughness.
        """
        return dataclasses.replace(self, tol=self.tol if tight else max(self.tol, 1e-4), positive=True)

    def coarse(self, model: Any) -> AbstractSiteRule:
        """The bound of ScaleMixture has its maxima near those of the evidence,
        and neither poles nor jumps between modes.
        """
        return ScaleMixture().rough() if _scales_help(model.likelihood) else self.rough()

    def foresee(
        self, model: Any, y: np.ndarray, mean: np.ndarray, variance: np.ndarray
    ) -> dict[str, np.ndarray]:
        return (
            ScaleMixture().foresee(model, y, mean, variance)
            if _scales_help(model.likelihood)
            else {"laplace": mean}
        )

    def run(
        self,
        model: Any,
        X: np.ndarray,
        y: np.ndarray,
        solver: AbstractSolver,
        workspace: AbstractWorkspace | None = None,
    ) -> Result:
        self.check(solver)
        likelihood = model.likelihood
        if not likelihood.smooth:
            raise SolverError(
                f"{type(likelihood).__name__} has a kink at its mode, where Laplace's method fails: use "
                "inference='ep'."
            )
        self.check_blocks(model, solver)
        workspace = begin(model, X, solver, workspace)
        enough = EXACT * self.tol * (1.0 if self.positive else UNCARRIED)
        search = _Newton(model, X, y, solver, workspace, enough)
        warm = workspace.memory.get("laplace")
        if warm is not None and warm.shape[0] != y.shape[0]:
            warm = None
        if warm is not None:
            search.start_near(warm)
        if _scales_help(likelihood) and not (self.positive and warm is not None):
            foreseen = "scale-mixture" in workspace.memory
            other = _Newton(model, X, y, solver, workspace, enough)
            other.start_at(ScaleMixture(tol=BASIN).run(model, X, y, solver, workspace).state)
            other.climb(self.tol, self.max_iterations)
            if warm is not None or not foreseen:
                search.climb(self.tol, self.max_iterations)
            search = max(search, other, key=lambda s: s.value)
        state, steps, gain, true = search.climb(self.tol, self.max_iterations)
        curved = None
        if self.positive:
            state, curved = search.flattened(state, true)
        converged = gain <= max(self.tol, 1e-12 * abs(search.value))
        notes = [*jitter_notes(state)]
        if not converged:
            notes.append(f"Laplace stopped after {steps} steps; another would gain {gain:.2g}")
        if not (true or self.positive):
            notes.append(
                "the Hessian at the mode is not positive definite: the evidence uses a positive stand-in "
                "for it"
            )
        mode = (state if curved is None else curved).mean()
        workspace.memory["laplace"] = mode
        evidence = state.log_normaliser + float(np.sum(search.at.log_p))
        drift = None
        # away from a mode the expansion means little: it is no better than the density there
        if not converged:
            evidence = min(evidence, search.value)
        elif self.positive and true:
            # carried along the last step, the evidence is right to the square of the mode's error, and smooth
            drift = self._drift(likelihood, y, state)
            evidence += float(np.sum(drift * (mode - search.at.f)))
        status = InferenceStatus(converged, steps, f"last gain {gain:.1e}")
        return _Mode(state, evidence, tuple(notes), status, curved, drift)

    def gradient(
        self,
        model: Any,
        y: np.ndarray,
        result: _Mode,
        consume: bool = False,
        log_evidence_bar: float = 1.0,
        **bars: Any,
    ) -> dict[str, np.ndarray]:
        self.check_bars(bars)
        state: Any = result.state
        f = state.sites.centre
        n = f.shape[0]
        bends = self._bends(state)
        # how the determinant moves with the mode (5.23), and the mode with everything else: one more Newton
        # step (5.24)
        drift = self._drift(model.likelihood, y, state) if result.drift is None else result.drift
        u = log_evidence_bar * drift
        # that step has W as it is: what t = (I + W K)^-1 u is for it, (I + W_+ K) t is for `state`
        if result.curved is not None:
            t = u - result.curved.apply(result.curved.times_K(u))
            u = t + state.sites.precision * state.times_K(t)
        bar = state.pullback(log_evidence_bar, mean_bar=u, consume=consume)
        by_name = pointwise.pull_slopes(
            model.likelihood, f, y, np.full(n, log_evidence_bar), bar.sites.slope, bends * bar.sites.precision
        )
        return prior_gradient(model, bar.prior) | by_name

    def _drift(self, likelihood: Any, y: np.ndarray, state: Any) -> np.ndarray:
        """How the log evidence moves with the point of expansion (n, L): near a mode, by its determinant
        alone.
        """
        f, (_, variance) = state.sites.centre, state.marginals()
        bar = -0.5 * self._bends(state) * variance
        return pointwise.pull_precision(likelihood, f, y, bar)

    def _bends(self, state: Any) -> Any:
        """1 where the curvature moves with f, 0 where it was taken as none."""
        flat = self.positive and state.sites.centre.shape[1] == 1
        return np.where(state.sites.precision != 0, 1.0, 0.0) if flat else 1.0


def _scales_help(likelihood) -> bool:
    """Whether there may be several modes, and ScaleMixture can look for them."""
    return likelihood.scale_mixture and not likelihood.log_concave


@dataclasses.dataclass(frozen=True)
class _Mode(Result):
    curved: AbstractState | None = None  # with negative curvature, where `state` goes without
    drift: np.ndarray | None = None  # of the log evidence with the point of expansion (n, L)


class _Point(NamedTuple):
    """A latent f and a = K^-1(f - m), each (n, L); log p (n,), its gradient and minus its Hessian there, and
    the log posterior density but for a constant.
    """

    f: np.ndarray
    a: np.ndarray
    log_p: np.ndarray
    g: np.ndarray
    W: np.ndarray
    P: np.ndarray | None
    value: float


class _Newton(AbstractSiteProblem):
    """The climb to the mode. enough: a gain so small that no step with an earlier factor is made for it."""

    def __init__(self, model, X, y, solver, workspace, enough: float = 0.0):
        super().__init__(model, X, y, solver, workspace)
        self.enough = enough
        self.likelihood = model.likelihood
        self.m = prior_mean(model, X)
        self.close = False
        self.at = self._point(self.m, np.zeros_like(self.m))

    @property
    def value(self) -> float:
        return self.at.value

    def start_at(self, state: AbstractState) -> None:
        """The mean of a posterior with other sites, to which its own a = K^-1(f - m) belongs."""
        self.at = self._point(state.mean(), state.alpha.reshape(self.m.shape) + 0.0)

    def start_near(self, f: np.ndarray) -> None:
        """One full step from a guess of the mode, if that is better than the prior mean."""
        try:
            self.close, state = self._state_at(self._point(f, np.zeros_like(f)), clip=False)
        except (NotPositiveDefinite, SolverError):
            return
        at = self._point(state.mean(), state.alpha.reshape(f.shape))
        if at.value > self.value:
            self.at = at
            self._go_on(state)

    def _go_on(self, state: AbstractState) -> None:
        """Steps with the factor of a State near the mode, while each gains much less than the one before:
        (I + K W)^-1 = I - K R, W as it was.
        """
        gain = np.inf
        while True:
            at, before = self.at, gain
            slope = at.g - at.a
            try:
                step = slope - state.apply(state.times_K(slope))
                forward = state.times_K(step)
            except SolverError:  # weights of a basis that are vague: K is not finite
                break
            gain = 0.5 * float(np.sum(slope * forward))
            if not self.enough < gain < SHRINKS * before:
                break
            new = self._point(at.f + forward, at.a + step)
            if not new.value >= at.value - 1e-14 * abs(at.value):
                break
            self.at = new

    def climb(self, tol: float, max_iterations: int) -> tuple[AbstractState, int, float, bool]:
        """The State at the mode, steps taken, the gain another promises, and whether W there is the true
        Hessian.

        The error of the evidence is of the order of the last step, the gain that of its square: below `tol`
        one more step is taken. On the way negative precisions are taken as zero, which costs a plain
        factorisation; the last steps have them as they are.
        """
        last, gain, near = False, 0.0 if self.close else np.inf, NEAR
        for steps in range(1, max_iterations + 1):
            clip = gain > near
            true, state = self._state_at(self.at, clip)
            full, a = state.mean(), state.alpha.reshape(self.m.shape)
            gain = 0.5 * float(np.sum((self.at.g - self.at.a) * (full - self.at.f)))
            if not (clip or true):
                near = 0.1 * min(near, gain)
            small = gain <= max(tol, 1e-15 * abs(self.value))
            if (small and (last or (true and gain <= EXACT * tol))) or steps == max_iterations:
                break
            if small:
                last = True
                self.at = self._point(full, a)
            elif not self._move(full, a, gain):
                break
            self._go_on(state)
        if not true:
            true, state = self._state_at(self.at, clip=False, step=False)
        return state, steps, gain, true

    def _state_at(self, at: _Point, clip: bool = True, step: bool = True) -> tuple[bool, Any]:
        """Sites at a point: with the true Hessian where that leaves the posterior proper and is not to be
        clipped, else with a positive stand-in: W without its negative entries for a step, the Fisher
        information for an evidence.
        """
        f, g, W, P = at.f, at.g, at.W, at.P
        negative = bool((W < 0).any())
        single = P is None and W.shape[1] == 1
        choices = []
        if not negative or ("indefinite" in self.solver.offers and not (clip and single)):
            choices.append(Sites(f, W, g, P))
        if negative and single and step:
            choices.append(Sites(f, np.maximum(W, 0.0), g))
        for sites in choices:
            try:
                return sites.precision is W, self.factor(sites)
            # or too few precisions above zero for the weights of a vague basis
            except (NotPositiveDefinite, SolverError):
                if self.likelihood.log_concave:
                    raise
        W, P = pointwise.fisher(self.likelihood, f, self.y)
        return False, self.factor(Sites(f, W, g, P))

    def flattened(self, state: AbstractState, true: bool) -> tuple[AbstractState, AbstractState | None]:
        """The State with negative curvature taken as none, and the one with it where both are at hand."""
        if not true:
            return self._state_at(self.at)[1], None
        without = state.flattened()
        return (state, None) if without is None else (without, state)

    def _point(self, f: np.ndarray, a: np.ndarray) -> _Point:
        log_p, g, W, P = pointwise.slopes(self.likelihood, f, self.y)
        value = float(np.sum(log_p) - 0.5 * np.sum(a * (f - self.m)))
        return _Point(f, a, log_p, g, W, P, value if np.isfinite(value) else -np.inf)

    def _move(self, full: np.ndarray, a: np.ndarray, gain: float) -> bool:
        step, at = 1.0, self.at
        while step > 1e-10:
            new = self._point(at.f + step * (full - at.f), at.a + step * (a - at.a))
            if new.value >= at.value + 1e-4 * step * gain - 1e-14 * abs(at.value):
                self.at = new
                return True
            step *= 0.5
        return False
