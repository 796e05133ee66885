"""Laplace's approximation: sites are the second-order expansion of the log likelihood at the mode of the
posterior.

Newton's iteration in the form B = I + W^1/2 K W^1/2 (Algorithm 3.1), for several latent functions by
Algorithm 3.3: a site centred at the current f has slope g = grad log p and precision W = -Hessian, so the
mean of the State is the full Newton step. Steps are taken along a = K^-1 (f - m), which is linear in f, and
shortened until the posterior density rises.

Where solving with a factor costs far less than making one, the last steps share one, by conjugate gradients
(`_newton`): near the mode W hardly moves, so that a factor nearby leaves little to do; and one with negative
curvature taken as none leaves little where there is some. The mode has a factor of its own.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
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
SHARED = 0.25  # of the gain that a step promised, what the next may promise for the two to share a factor
ITERATIONS = 6  # of conjugate gradients in such a step; more are made where a solution has to be exact
EXACT = 1e-20  # squared relative error of such a solution


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
        search = _Newton(model, X, y, solver, workspace)
        warm = workspace.memory.get("laplace")
        if warm is not None and warm.shape[0] == y.shape[0]:
            search.start_near(warm, self.tol)
        elif _scales_help(likelihood):
            foreseen = "scale-mixture" in workspace.memory
            other = _Newton(model, X, y, solver, workspace)
            other.start_at(ScaleMixture(tol=1e-2).run(model, X, y, solver, workspace).state)
            other.climb(self.tol, self.max_iterations)
            if not foreseen:
                search.climb(self.tol, self.max_iterations)
            search = max(search, other, key=lambda s: s.now.value)
        state, steps, gain, true = search.climb(self.tol, self.max_iterations)
        solve = None
        if self.positive:
            state, true, solve = search.flattened(state, true)
        elif not true:
            true, state = search.as_it_is()
        converged = gain <= max(self.tol, 1e-12 * abs(search.now.value))
        notes = [*jitter_notes(state)]
        if not converged:
            notes.append(f"Laplace stopped after {steps} steps; another would gain {gain:.2g}")
        if not (true or self.positive):
            notes.append(
                "the Hessian at the mode is not positive definite: the evidence uses a positive stand-in "
                "for it"
            )
        workspace.memory["laplace"] = np.array(state.sites.centre)
        evidence = state.log_normaliser + float(np.sum(search.now.log_p))
        drift = turned = None
        # away from a mode the expansion means little: it is no better than the density there
        if not converged:
            evidence = min(evidence, search.now.value)
        elif self.positive and true:
            # carried along the last step, the evidence is right to the square of the mode's error, and smooth
            drift = self._drift(likelihood, y, state)
            now = search.now
            if solve is None:
                evidence += float(np.sum(drift * (state.mean() - now.f)))
            else:
                try:
                    turned, K_turned = solve(drift)
                    evidence += float(np.sum(K_turned * (now.g - now.a)))
                except NotPositiveDefinite:
                    drift = None
        status = InferenceStatus(converged, steps, f"last gain {gain:.1e}")
        return _Mode(state, evidence, tuple(notes), status, drift, turned)

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
        if result.turned is not None:
            t = log_evidence_bar * result.turned
            u = t + state.sites.precision * state.times_K(t)
        bar = state.pullback(log_evidence_bar, mean_bar=u, consume=consume)
        by_name, _ = pointwise.pull_slopes(
            model.likelihood, f, y, np.full(n, log_evidence_bar), bar.sites.slope, bends * bar.sites.precision
        )
        return prior_gradient(model, bar.prior) | by_name

    def _drift(self, likelihood: Any, y: np.ndarray, state: Any) -> np.ndarray:
        """How the log evidence moves with the point of expansion (n, L): near a mode, by its determinant
        alone.
        """
        f, (_, variance) = state.sites.centre, state.marginals()
        bar = -0.5 * self._bends(state) * variance
        _, drift = pointwise.pull_slopes(likelihood, f, y, np.zeros(f.shape[0]), np.zeros(f.shape), bar)
        return drift

    def _bends(self, state: Any) -> Any:
        """1 where the curvature moves with f, 0 where it was taken as none."""
        flat = self.positive and state.sites.centre.shape[1] == 1
        return np.where(state.sites.precision != 0, 1.0, 0.0) if flat else 1.0


def _scales_help(likelihood) -> bool:
    """Whether there may be several modes, and ScaleMixture can look for them."""
    return likelihood.scale_mixture and not likelihood.log_concave


Solve = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


@dataclasses.dataclass(frozen=True)
class _Mode(Result):
    drift: np.ndarray | None = None  # of the log evidence with the point of expansion (n, L)
    turned: np.ndarray | None = None  # (I + W K)^-1 drift with negative curvature, where `state` goes without


class _Point(NamedTuple):
    """f (n, L) and a = K^-1(f - m), which belong together, and what the likelihood says there."""

    f: np.ndarray
    a: np.ndarray
    value: float  # log p(y | f) - 1/2 a'(f - m)
    log_p: np.ndarray  # (n,)
    g: np.ndarray  # (n, L), its gradient
    W: np.ndarray  # minus its Hessian, diag(W) - P P'
    P: np.ndarray | None


def _newton(
    state: Any, point: _Point, r: np.ndarray, rtol: float | None = None, iterations: int = ITERATIONS
) -> tuple[np.ndarray, np.ndarray]:
    """s = (I + W K)^-1 r and K s (n, 1) with W at a point, by conjugate gradients in the metric of K: the
    State, of other sites, is what they begin with, and are preconditioned by.

    rtol: of the gain 1/2 r'K s, what may be missing; None: so much that Newton's steps are quadratic
    """
    s, Ks, p, Kp = (np.zeros_like(r) for _ in range(4))
    gain, before = 0.0, np.inf
    for _ in range(iterations):
        z = r - state.apply(state.times_K(r))  # (I + W K)^-1 r with the State's own W
        Kz = state.times_K(z)
        now = float(np.sum(r * Kz))
        if not now > 0.0:
            break
        p, Kp = z + now / before * p, Kz + now / before * Kp
        Mp = p + point.W * Kp
        curvature = float(np.sum(Kp * Mp))
        if not curvature > 0.0:
            raise NotPositiveDefinite("the Hessian of the log posterior density is not negative definite.")
        step, before = now / curvature, now
        s, Ks, r = s + step * p, Ks + step * Kp, r - step * Mp
        gain += 0.5 * step * now
        if 0.5 * step * now <= (min(1e-2, gain) if rtol is None else rtol) * gain:
            break
    return s, Ks


def _by_state(state: Any, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """t = (I + W K)^-1 u and K t by a State with this W."""
    t = u - state.apply(state.times_K(u))
    return t, state.times_K(t)


class _Newton(AbstractSiteProblem):
    """The climb to the mode."""

    def __init__(self, model, X, y, solver, workspace):
        super().__init__(model, X, y, solver, workspace)
        self.likelihood = model.likelihood
        self.m = prior_mean(model, X)
        self.now, self.close = self._point(self.m, np.zeros_like(self.m)), False
        # steps may share a factor, which goes without negative curvature; of several latent functions the
        # products take too long
        self.shares = solver.cheap_solves and self.m.shape[1] == 1

    def start_at(self, state: AbstractState) -> None:
        """The mean of a posterior with other sites, to which its own a = K^-1(f - m) belongs."""
        self.now = self._point(state.mean(), state.alpha.reshape(self.m.shape) + 0.0)

    def start_near(self, f: np.ndarray, tol: float) -> None:
        """One full step from a guess of the mode, if that is better than the prior mean."""
        guess = self._point(f, np.zeros_like(f))  # whose a is not known, nor needed
        try:
            self.close, state = self._state_at(guess, clip=self.shares)
        except (NotPositiveDefinite, SolverError):
            return
        new = self._point(state.mean(), state.alpha.reshape(f.shape))
        if new.value > self.now.value:
            self.now = new
            self._share(state, np.inf, tol)

    def climb(self, tol: float, max_iterations: int) -> tuple[AbstractState, int, float, bool]:
        """The State at the mode, steps taken, the gain another promises, and whether W there is the true
        Hessian, not one without negative precisions.

        The error of the evidence is of the order of the last step, the gain that of its square: below `tol`
        one more step is taken. On the way negative precisions are taken as zero, which costs a plain
        factorisation; the last steps have them as they are.
        """
        last, gain, near = False, 0.0 if self.close else np.inf, NEAR
        for steps in range(1, max_iterations + 1):
            clip = self.shares or gain > near
            true, state = self._state_at(self.now, clip)
            full, a = state.mean(), state.alpha.reshape(self.m.shape)
            gain = 0.5 * float(np.sum((self.now.g - self.now.a) * (full - self.now.f)))
            if not (clip or true):
                near = 0.1 * min(near, gain)
            small = gain <= max(tol, 1e-15 * abs(self.now.value))
            done = last or ((true or self.shares) and gain <= _enough(tol))
            if (small and done) or steps == max_iterations:
                break
            if small and true:
                last = True
                self.now = self._point(full, a)
            elif not self._move(full, a, gain):
                break
            promised = gain if true else np.inf  # without its negative entries W promises too little
            shared = (true or gain <= NEAR) and self._share(state, promised, tol)
            last = last or (small and not shared)
        return state, steps, gain, true

    def _share(self, state: AbstractState, gain: float, tol: float) -> bool:
        """Further steps by a State whose own promised so much, as long as each promises far less than the one
        before: until that is so little that the next State is the last, which is what is returned.
        """
        if not self.shares:
            return False
        goal = max(0.5 * _enough(tol), 1e-15 * abs(self.now.value))
        ahead = gain  # what the next step will promise, if it is less than this one by the same factor
        while ahead > goal:
            r = self.now.g - self.now.a
            try:
                s, step = _newton(state, self.now, r)
            except NotPositiveDefinite:
                return False
            gain, before = 0.5 * float(np.sum(r * step)), gain
            if not gain <= SHARED * before:
                return False
            new = self._point(self.now.f + step, self.now.a + s)
            if new.value < self.now.value - 1e-14 * abs(self.now.value):
                return False
            self.now = new
            ahead = gain * (gain / before if np.isfinite(before) else 1.0)
        return True

    def _state_at(self, point: _Point, clip: bool = True, step: bool = True) -> tuple[bool, Any]:
        """Sites at a point: with the true Hessian where that leaves the posterior proper and is not to be
        clipped, else with a positive stand-in: W without its negative entries for a step, the Fisher
        information for an evidence.
        """
        f, g, W, P = point.f, point.g, point.W, point.P
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

    def as_it_is(self) -> tuple[bool, Any]:
        """Whether the true Hessian leaves the posterior proper, and the State with it or its stand-in."""
        return self._state_at(self.now, clip=False, step=False)

    def flattened(self, state: Any, true: bool) -> tuple[Any, bool, Solve | None]:
        """The State with negative curvature taken as none, whether it can be taken as it is, and, if that
        makes a difference, the solution of (I + W K) t = u where it is.
        """
        if self.shares:
            exact = functools.partial(_newton, state, self.now, rtol=EXACT, iterations=50 * ITERATIONS)
            return state, True, None if true else exact
        if not true:
            true, state = self.as_it_is()
        if not true:
            return self._state_at(self.now)[1], False, None
        without = state.flattened()
        return (
            (state, True, None) if without is None else (without, True, functools.partial(_by_state, state))
        )

    def _point(self, f: np.ndarray, a: np.ndarray) -> _Point:
        log_p, g, W, P = pointwise.slopes(self.likelihood, f, self.y)
        value = float(np.sum(log_p) - 0.5 * np.sum(a * (f - self.m)))
        return _Point(f, a, value if np.isfinite(value) else -np.inf, log_p, g, W, P)

    def _move(self, full: np.ndarray, a: np.ndarray, gain: float) -> bool:
        now, step = self.now, 1.0
        while step > 1e-10:
            new = self._point(now.f + step * (full - now.f), now.a + step * (a - now.a))
            if new.value >= now.value + 1e-4 * step * gain - 1e-14 * abs(now.value):
                self.now = new
                return True
            step *= 0.5
        return False


def _enough(tol: float) -> float:
    """The gain of a step that need not be taken any more."""
    return 1e-5 * tol
