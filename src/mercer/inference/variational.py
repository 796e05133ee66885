"""Variational Gaussian approximations: lower bounds on the log evidence that are maximised over the sites.

`KL` maximises E_q[log p(y|f)] - KL(q || prior) over all Gaussians q (Kuss 6.13). The best q has sites of
slope E[grad log p] and precision -E[Hessian] at its own mean; moving towards them is a natural-gradient step.
`LocalBound` replaces the logistic function by the largest Gaussian below it that touches at +-xi (Gibbs and
MacKay; Jaakkola and Jordan), and maximises over xi. Both are stationary in their sites, so derivatives of
hyperparameters hold them fixed.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, ClassVar

import numpy as np

from mercer.inference import pointwise
from mercer.inference.anderson import Anderson
from mercer.inference.gradient import prior_gradient
from mercer.inference.protocol import AbstractSiteRule, Result, begin, gaussian_start, jitter_notes
from mercer.likelihoods.bernoulli import Bernoulli
from mercer.linalg.cholesky import NotPositiveDefinite
from mercer.posteriors.answers import InferenceStatus
from mercer.progress import keep_time
from mercer.solvers.protocol import AbstractSolver, AbstractState, AbstractWorkspace, Sites, SolverError


@dataclasses.dataclass(frozen=True)
class KL(AbstractSiteRule):
    """The Gaussian closest to the posterior in KL(q || p); `log_evidence` is a lower bound.

    tol: largest change of a site, in units of the marginal's standard deviation, at which the search ends.
    """

    tol: float = 1e-7
    max_iterations: int = 500

    needs: ClassVar[frozenset[str]] = frozenset({"logdet", "variance"})
    lower_bound: ClassVar[bool] = True

    def run(
        self,
        model: Any,
        X: np.ndarray,
        y: np.ndarray,
        solver: AbstractSolver,
        workspace: AbstractWorkspace | None = None,
    ) -> Result:
        self.check(solver)
        self.check_single(model)
        workspace = begin(model, X, solver, workspace)
        sites = workspace.memory.get("kl")
        if sites is None or sites.centre.shape[0] != y.shape[0]:
            sites = gaussian_start(model, X, y)
        factor = functools.partial(solver.factor, model.priors, X, workspace=workspace)
        indefinite = "indefinite" in solver.offers
        state = factor(sites)
        bound, g, W = _bound(model, y, state)
        memory = Anderson()
        change, iteration = np.inf, 0
        for iteration in range(1, self.max_iterations + 1):  # noqa: B007
            mean, variance = state.marginals()
            old_W, old_g = state.sites.precision, state.alpha[:, None]
            dW, dg = W - old_W, g - old_g
            unit = np.sqrt(np.maximum(variance, 1e-300))
            change = float(max(np.max(np.abs(dW) * unit**2), np.max(np.abs(dg) * unit)))
            if change <= self.tol:
                break
            trials = [(old_W + step * dW, old_g + step * dg) for step in 0.5 ** np.arange(12)]
            faster = memory.step(old_W, old_g + old_W * mean, dW, dg + dW * mean, unit)
            if faster is not None:
                trials.insert(0, (faster[0], faster[1] - faster[0] * mean))
            for trial_W, trial_g in trials:
                if not indefinite and (trial_W < 0).any():
                    continue
                keep_time()
                try:
                    new = factor(Sites(mean, trial_W, trial_g))
                    new_bound, new_g, new_W = _bound(model, y, new)
                except NotPositiveDefinite:
                    new_bound = -np.inf
                if new_bound >= bound - 1e-12 * abs(bound):
                    break
            else:
                state = factor(Sites(mean, old_W, old_g))
                break
            state, bound, g, W = new, new_bound, new_g, new_W
        converged = change <= self.tol
        notes = (
            ()
            if converged
            else (f"the variational sites still change by {change:.1e} after {iteration} steps",)
        )
        if converged:
            workspace.memory["kl"] = state.sites
        status = InferenceStatus(converged, iteration, f"last change {change:.1e}")
        return Result(state, bound, (*jitter_notes(state), "log_evidence is a lower bound", *notes), status)

    def foresee(self, model: Any, y: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> dict[str, Any]:
        _, g, W = pointwise.expected(model.likelihood, y, mean, variance, rough=True)
        return {"kl": Sites(mean, np.maximum(W, 0.0), g)}

    def gradient(
        self,
        model: Any,
        y: np.ndarray,
        result: Result,
        consume: bool = False,
        log_evidence_bar: float = 1.0,
        **bars: Any,
    ) -> dict[str, np.ndarray]:
        self.check_bars(bars)
        mean, variance = result.state.marginals()
        bar = result.state.pullback(log_evidence_bar, consume=consume)
        by_name = pointwise.pull_expectation(model.likelihood, y, mean, variance)
        return prior_gradient(model, bar.prior) | {
            name: log_evidence_bar * value for name, value in by_name.items()
        }


def _bound(model, y, state: AbstractState) -> tuple[float, np.ndarray, np.ndarray]:
    """The bound at q = the State's posterior,
    and the slopes and precisions that the best sites would have.
    """
    mean, variance = state.marginals()
    value, g, W = pointwise.expected(model.likelihood, y, mean, np.maximum(variance, 0.0))
    _, s = state.site_marginals()
    e = mean - state.sites.centre
    site = state.sites.slope * e - 0.5 * state.sites.precision * (e**2 + s)
    bound = state.log_normaliser + float(np.sum(value - site))
    return bound if np.isfinite(bound) else -np.inf, g, W


@dataclasses.dataclass(frozen=True)
class LocalBound(AbstractSiteRule):
    """The bound on the logistic function, for Bernoulli('logit'); `log_evidence` is a lower bound,
    below that of `KL`.
    """

    tol: float = 1e-11  # gain of the bound at which the search ends
    max_iterations: int = 2000

    needs: ClassVar[frozenset[str]] = frozenset({"logdet", "variance"})
    lower_bound: ClassVar[bool] = True

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
        if not (isinstance(likelihood, Bernoulli) and likelihood.link == "logit" and likelihood.log_concave):
            raise SolverError(
                "LocalBound is a bound on the logistic function: it needs Bernoulli(link='logit') without "
                "flipped labels."
            )
        workspace = begin(model, X, solver, workspace)
        zero = np.zeros((y.shape[0], 1))
        xi = workspace.memory.get("local-bound", np.ones_like(zero))
        bound, gain, iteration = -np.inf, np.inf, 0
        for iteration in range(1, self.max_iterations + 1):  # noqa: B007
            keep_time()
            weight, constant = (np.asarray(x) for x in likelihood.local_bound(xi))
            state = solver.factor(model.priors, X, Sites(zero, 2.0 * weight, 0.5 * y[:, None]), workspace)
            new = state.log_normaliser + float(np.sum(constant))
            gain, bound = new - bound, new
            if gain <= self.tol * max(1.0, 1e-3 * abs(bound)):
                break
            mean, variance = state.marginals()
            xi = np.sqrt(mean**2 + variance)
        workspace.memory["local-bound"] = xi
        converged = gain <= self.tol * max(1.0, 1e-3 * abs(bound))
        notes = (
            ()
            if converged
            else (f"the local bound had not settled after {iteration} steps (last gain {gain:.1e})",)
        )
        status = InferenceStatus(converged, iteration, f"last gain {gain:.1e}")
        return Result(state, bound, (*jitter_notes(state), "log_evidence is a lower bound", *notes), status)

    def gradient(
        self,
        model: Any,
        y: np.ndarray,
        result: Result,
        consume: bool = False,
        log_evidence_bar: float = 1.0,
        **bars: Any,
    ) -> dict[str, np.ndarray]:
        self.check_bars(bars)
        bar = result.state.pullback(log_evidence_bar, consume=consume)
        return prior_gradient(model, bar.prior) | {"likelihood.flip": np.zeros(())}
