"""EP as a rule: which schedule runs, from where, and what is done where it does not converge."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from mercer.inference import pointwise
from mercer.inference.ep.contests import Contests
from mercer.inference.ep.parallel import Parallel
from mercer.inference.ep.point import AbstractProblem, End, OneLatent
from mercer.inference.ep.sequential import Sequential
from mercer.inference.gradient import prior_gradient
from mercer.inference.laplace import Laplace
from mercer.inference.protocol import (
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
from mercer.posteriors.cavity import cavity
from mercer.solvers.protocol import AbstractSolver, AbstractWorkspace, Sites, SolverError

SMALLEST = 1e-4  # power: below it rounding shows in the evidence
NEAR = 1e-3  # sites that change by less are better than those of another rule
Start = Callable[[OneLatent], Sites]


@dataclasses.dataclass(frozen=True)
class EP(AbstractSiteRule):
    """Expectation propagation (GPML 3.6, Kuss 4.2) for likelihoods of one latent function, and for
    `MultinomialProbit`, whose latent functions meet in contests of two.

    schedule: "parallel" (all sites at once, one factorisation each sweep, damped where it must be) or
        "sequential" (one site after the other with rank-one updates, Algorithm 3.5). Both have the same fixed
        points. A parallel run that does not settle goes on sequentially, and the notes say so
    tol: largest change of a site, in units of the marginal's standard deviation
    power: power EP (Minka 2004): the part of a site, at most 1, that is taken out and matched at a time. 1 is
        EP; towards 0 sites and evidence become those of `KL`. For likelihoods of one latent function

    Noise that is not log-concave may leave EP without a fixed point, mostly where its scale is far too small
    for the data. Runs then start from the sites of ScaleMixture, from none, and with short steps; if none
    converges the status says so, and what ScaleMixture finds is returned.

    >>> model = mercer.Model(mercer.GP(kernels.SE(1.0, variance=4.0)), likelihoods.Bernoulli())
    >>> post = model.condition(X, y > 0, EP())
    >>> post.log_evidence, post.probability(Xs), post.loo().log_density.sum()
    """

    schedule: str = "parallel"
    tol: float = 1e-8
    max_iterations: int = 200
    damping: float = 1.0
    power: float = 1.0

    needs: ClassVar[frozenset[str]] = frozenset({"logdet", "variance"})

    def __post_init__(self) -> None:
        if self.schedule not in ("parallel", "sequential"):
            raise ValueError(f"EP.schedule must be 'parallel' or 'sequential', got {self.schedule!r}.")
        if not 0 < self.damping <= 1:
            raise ValueError(
                f"EP.damping is the step towards the new sites and lies in (0, 1], got {self.damping}."
            )
        if not SMALLEST <= self.power <= 1:
            raise ValueError(
                f"EP.power lies between {SMALLEST} and 1, got {self.power}; its limit at 0 is inference.KL()."
            )

    def rough(self, tight: bool = False) -> EP:
        """The evidence is stationary in the sites: it is right to the square of their error."""
        return self if tight else dataclasses.replace(self, tol=max(self.tol, 1e-5))

    def sweeps(self, model: Any) -> bool:
        """Where a parallel run needs no other start than none."""
        likelihood = model.likelihood
        return self.schedule == "parallel" and likelihood.latents == 1 and likelihood.log_concave

    def run(
        self,
        model: Any,
        X: np.ndarray,
        y: np.ndarray,
        solver: AbstractSolver,
        workspace: AbstractWorkspace | None = None,
    ) -> Result:
        """The posterior at EP's sites, from the last ones found in this workspace where there are any."""
        self.check(solver)
        if model.likelihood.contest is not None:
            return self._contests(model, X, y, solver, workspace)
        self.check_single(model)
        if self.schedule == "sequential" and "full" not in solver.offers:
            raise SolverError(
                "EP(schedule='sequential') needs the joint posterior at the data, which "
                f"{type(solver).__name__} does not offer: "
                "use schedule='parallel'."
            )
        problem = OneLatent(model, X, y, solver, begin(model, X, solver, workspace), self.power)
        warm = _found_before(problem)
        notes: list[str] = []
        if self.schedule == "sequential":
            schedule = "sequential"
            end = self._sequential(self.max_iterations).run(problem, warm or _cold(problem))
        else:
            schedule, end = "parallel", self._parallel(problem, warm)
            if not end.converged and not _several_modes(model) and "full" in solver.offers:
                schedule, end = "parallel, then sequential", self._afterwards(problem, end, notes)
        status = InferenceStatus(end.converged, end.sweeps, f"{schedule}, last change {end.change:.1e}")
        if end.converged:
            problem.workspace.memory["ep"] = end.sites
        else:
            notes.append(_not_converged(end))
            if not end.change <= NEAR or not np.isfinite(end.log_evidence):
                return self._instead(problem, end, notes, status)
        return _result(end, notes, status)

    def _contests(
        self,
        model: Any,
        X: np.ndarray,
        y: np.ndarray,
        solver: AbstractSolver,
        workspace: AbstractWorkspace | None,
    ) -> Result:
        """The same for several latent functions one of which wins, always in parallel."""
        self.check_blocks(model, solver)
        if self.power != 1:
            raise SolverError(
                f"EP.power is for likelihoods of one latent function; {type(model.likelihood).__name__} has "
                "several: use power=1."
            )
        if self.schedule != "parallel":
            raise SolverError(
                f"EP visits the contests of {type(model.likelihood).__name__} all at once: use "
                "schedule='parallel'."
            )
        problem = Contests(model, X, y, solver, begin(model, X, solver, workspace))
        first = _found_before(problem) or problem.start()
        most, notes = max(1, self.max_iterations // 2), []
        end = Parallel(self.damping, self.tol, most).run(problem, first)
        if not end.converged:
            end = Parallel(0.5 * self.damping, self.tol, most).run(problem, problem.start(), end.sweeps)
        if end.converged:
            problem.workspace.memory["ep"] = end.sites
        else:
            notes.append(_not_converged(end))
        status = InferenceStatus(end.converged, end.sweeps, f"parallel, last change {end.change:.1e}")
        return _result(end, notes, status)

    def gradient(
        self,
        model: Any,
        y: np.ndarray,
        result: Result,
        consume: bool = False,
        log_evidence_bar: float = 1.0,
        **bars: Any,
    ) -> dict[str, np.ndarray]:
        """Derivatives of the evidence, which is stationary in the sites (5.23 with them held)."""
        self.check_bars(bars)
        if result.state.sites.slope is None:  # those of ScaleMixture
            return ScaleMixture().gradient(model, y, result, consume, log_evidence_bar)
        if model.likelihood.contest is not None:
            return prior_gradient(model, result.state.pullback(log_evidence_bar, consume=consume).prior)
        c = cavity(result.state, self.power)
        bar = result.state.pullback(log_evidence_bar, consume=consume)
        gradient = prior_gradient(model, bar.prior)
        by_name = pointwise.pull_partition(model.likelihood, y, c.mean, c.variance, self.power)
        return gradient | {name: log_evidence_bar * value / self.power for name, value in by_name.items()}

    # -- one run after the other, until one converges --------------------------------------------------------

    def _parallel(self, problem: OneLatent, warm: Sites | None) -> End:
        """From each start in turn; where none converges, the end that was nearest."""
        ends: list[End] = []
        sweeps, most = 0, max(1, self.max_iterations // 2)
        attempts = self._attempts(problem.model, warm)
        for start, damping in attempts:
            try:
                end = Parallel(damping, self.tol, most).run(problem, start(problem), sweeps)
            except NotPositiveDefinite:  # earlier sites of negative precision need not suit this prior
                if warm is None or ends or (start, damping) == attempts[-1]:
                    raise
                continue
            if end.converged:
                return end
            sweeps = end.sweeps
            ends.append(end)
        nearest = min(ends, key=lambda end: end.change)
        return problem.point(nearest.sites).end(self.tol, sweeps)

    def _attempts(self, model: Any, warm: Sites | None) -> list[tuple[Start, float]]:
        """Where parallel runs start, and their damping."""
        first = _cold if warm is None else lambda _: warm
        if _several_modes(model):
            return [(first, self.damping), (_flat, self.damping), (_cold, 0.2 * self.damping)]
        return [(first, self.damping), (_cold, 0.5 * self.damping)]

    def _afterwards(self, problem: OneLatent, before: End, notes: list[str]) -> End:
        """One site after the other, from where parallel runs have come."""
        more = self._sequential(max(20, self.max_iterations // 5))
        end = more.run(problem, before.sites, before.sweeps)
        notes.append(
            f"parallel EP had not settled after {before.sweeps} sweeps (last change {before.change:.1e}), so "
            "sites were visited "
            f"one after the other: {'converged' if end.converged else 'not converged'} after "
            f"{end.sweeps - before.sweeps} more"
        )
        return end

    def _sequential(self, max_iterations: int) -> Sequential:
        return Sequential(self.damping, self.tol, max_iterations)

    def _instead(self, problem: OneLatent, end: End, notes: list[str], status: InferenceStatus) -> Result:
        """What is returned where EP is lost: ScaleMixture's posterior, or the one that EP started from."""
        model = problem.model
        if _several_modes(model) and model.likelihood.scale_mixture:
            found = ScaleMixture().run(model, problem.X, problem.y, problem.solver, problem.workspace)
            notes.append("the sites and the lower bound of ScaleMixture are given instead")
            return dataclasses.replace(found, notes=(*notes, *found.notes), status=status)
        if _several_modes(model) or not np.isfinite(end.log_evidence):
            end = problem.point(_cold(problem)).end(self.tol, end.sweeps)
            notes.append("the sites that EP started from are given instead")
        return _result(end, notes, status)


def _result(end: End, notes: list[str], status: InferenceStatus) -> Result:
    return Result(end.state, end.log_evidence, (*jitter_notes(end.state), *notes), status)


def _not_converged(end: End) -> str:
    return f"EP did not converge: sites still change by {end.change:.1e} after {end.sweeps} sweeps"


def _several_modes(model: Any) -> bool:
    return isinstance(model.likelihood, AbstractNoise) and not model.likelihood.log_concave


# ------------------------------------------------------------------------------------------------- starts


def _found_before(problem: AbstractProblem) -> Sites | None:
    """The last sites that were found in this workspace."""
    old = problem.workspace.memory.get("ep")
    return old if old is not None and old.centre.shape[0] == problem.y.shape[0] else None


def _flat(problem: OneLatent) -> Sites:
    """No sites; Gaussian ones where the prior needs data to be proper."""
    if problem.model.gp.basis is not None:
        return gaussian_start(problem.model, problem.X, problem.y)
    m = prior_mean(problem.model, problem.X)
    return Sites(m, np.zeros_like(m), np.zeros_like(m))


def _cold(problem: OneLatent) -> Sites:
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
