"""Annealed importance sampling: an estimate of the evidence whose error can be seen (Kuss 4.41-4.47,
Algorithm 12 corrected).

A run starts at a draw of the prior and passes through p(y | f)^tau p(f) as tau grows from 0 to 1. Its weight
is the sum of (tau_t - tau_(t-1)) log p(y | f_(t-1)), with f at the temperature before: only then is the
average weight unbiased. Reverse runs start at draws of the posterior and go down; their estimate errs upwards
where that of forward runs errs downwards.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import numpy as np
from scipy.special import logsumexp

from mercer.distributed.jobs import at_hand
from mercer.inference.estimate import Estimate
from mercer.inference.mcmc import MCMC, approximate_sites
from mercer.inference.protocol import AbstractEvidence
from mercer.inputs import Inputs
from mercer.likelihoods.gaussian import Gaussian
from mercer.linalg.cholesky import NotPositiveDefinite
from mercer.progress import STOPPED, Progress, keep_time
from mercer.sampling.anneal import Ladder, anneal, annealed
from mercer.sampling.elsewhere import Elsewhere, data_of, told
from mercer.sampling.hyper import Hyperparameters
from mercer.sampling.paths import densities, fixed_path, integrated_path
from mercer.sampling.target import whiten
from mercer.solvers.protocol import AbstractSolver, SolverError

COMPILING = 4.0  # seconds that chains, which reverse runs begin with, may take before their first step


@dataclasses.dataclass(frozen=True)
class AIS(AbstractEvidence):
    """Annealed importance sampling for `mercer.log_evidence(model, X, y, inference=AIS())`.

    steps, power: temperatures tau(t) = (t / steps)^power
    runs: independent runs, whose spread gives the error
    transitions: moves at each temperature
    hyperparameters: "fixed", or "integrate" for the evidence with the free ones integrated over their priors
    reverse: whether there are reverse runs too

    Step sizes are tuned to each temperature in a short pilot, then held. Ctrl-C keeps the runs that are
    finished (up to eight go side by side), and the estimate says so. With `parallel=` of `log_evidence`
    others make the runs, or eight of them at a time where these go side by side; the estimate is the same.

    >>> value = mercer.log_evidence(model, X, y, inference=AIS(steps=2000))
    >>> value, value.standard_error, value.reverse
    """

    steps: int = 8000
    runs: int = 4
    power: float = 4.0
    seed: int = 0
    transitions: int = 1
    hyperparameters: str = "fixed"
    reverse: bool = True
    leapfrogs: int = 4
    progress: Progress = None

    needs: ClassVar[frozenset[str]] = frozenset({"exact"})

    def __post_init__(self):
        if (
            self.steps < 2
            or self.runs < 1
            or self.transitions < 1
            or self.leapfrogs < 1
            or not self.power > 0
        ):
            raise ValueError(
                "AIS needs steps >= 2, runs, transitions and leapfrogs >= 1 and power > 0, got "
                f"{self.steps}, {self.runs}, "
                f"{self.transitions}, {self.leapfrogs} and {self.power}."
            )
        if self.hyperparameters not in ("fixed", "integrate"):
            raise ValueError(
                f"AIS.hyperparameters must be 'fixed' or 'integrate', got {self.hyperparameters!r}."
            )

    def evidence(self, model: Any, inputs: Inputs, y: np.ndarray, solver: AbstractSolver) -> Estimate:
        """The log of the mean weight of the forward runs, and all that tells of its error."""
        self.check(solver)
        X, notes = inputs.values, []
        rng = np.random.default_rng(self.seed)
        temperatures = np.linspace(0.0, 1.0, self.steps + 1) ** self.power
        hyper = Hyperparameters(model) if self.hyperparameters == "integrate" else None
        if hyper is not None and hyper.size:
            self._check_priors(hyper)
            path = integrated_path(model, X, y, hyper)
        else:
            hyper = None
            path = fixed_path(model.likelihood, y, *self._white(model, X, y, solver))
        ladder = Ladder(temperatures, self.transitions, self.leapfrogs, self.progress)
        pilot = ladder.pilot(path, path.prior_draws(rng, min(self.runs, path.group(self.runs))), rng)
        workers, others = at_hand(), None
        if not workers.here:
            others = Elsewhere(workers, run, told(model, X, path.data) | {"integrated": hyper is not None})
        forward = anneal(path, ladder, path.prior_draws(rng, self.runs), pilot, rng, others)
        logs = forward.log_weights
        made, interrupted = len(logs), forward.interrupted
        value = float(logsumexp(logs) - np.log(made))
        error = float(np.std(logs, ddof=1) / np.sqrt(made)) if made > 1 else float("nan")
        if interrupted:
            notes.append(
                f"interrupted: {made} of {self.runs} forward runs were finished, and no reverse runs"
            )
        if made == 1:
            notes.append("one run says nothing of its error: use several")
        elif np.std(logs, ddof=1) > 0.5:
            notes.append(
                f"the log weights of the runs spread by {np.std(logs, ddof=1):.1f}: more steps are needed"
            )
        back, back_logs = float("nan"), np.zeros(0)
        if self.reverse and not interrupted:
            try:
                keep_time(ahead=COMPILING)
                start, note = self._posterior_draws(model, inputs, y, solver, path, hyper)
                passed = anneal(path, ladder.reversed(), start, pilot, rng, others)
                notes += note
                interrupted, back_logs = passed.interrupted, -passed.log_weights
                back = float(np.log(len(back_logs)) - logsumexp(-back_logs))
            except STOPPED:
                interrupted = True
            if interrupted:
                notes.append(
                    f"interrupted: all forward runs were finished, and {len(back_logs)} of {self.runs} "
                    "reverse ones"
                )
            gap = abs(back - value)
            if gap > max(0.5, 4 * error if np.isfinite(error) else 0.0):
                notes.append(f"forward and reverse estimates differ by {gap:.2f}: more steps are needed")
        return Estimate(
            value,
            standard_error=error,
            forward=value,
            reverse=back,
            runs=logs,
            reverse_runs=back_logs,
            temperatures=temperatures,
            log_likelihood=forward.log_likelihood,
            acceptance=forward.acceptance,
            interrupted=interrupted,
            notes=tuple(notes),
        )

    def _white(self, model, X, y, solver):
        """The prior's factor, and Gaussian sites (None where there are none),
        whose precision scales the steps.
        """
        try:
            sites = approximate_sites(model, X, y, solver)
        except (NotPositiveDefinite, SolverError):
            sites = None
        return whiten(model, X), sites

    def _check_priors(self, hyper: Hyperparameters) -> None:
        without = hyper.without_prior()
        if without:
            raise ValueError(
                f"integrating over hyperparameters needs a proper prior on each; {without} have none "
                "(mercer.param(prior=))."
            )
        bounded = [p.name for p in hyper.bounded()]
        if bounded:
            raise ValueError(
                f"bounds on {bounded} cut their priors short: remove the bounds, or fix these "
                "hyperparameters."
            )

    def _posterior_draws(self, model, inputs, y, solver, path, hyper):
        """Draws of the posterior to start reverse runs from: the ends of chains that a quick,
        checked MCMC has run.
        """
        sampler = "hmc" if hyper is None else "nuts"
        rule = MCMC(
            draws=200, tune=500, chains=max(self.runs, 2), seed=self.seed + 1, sampler=sampler, progress=False
        )
        if hyper is None:
            post = rule.posterior(model, inputs, y, solver)
            start = path.from_latents(post.draws["f"][: self.runs, -1])
        else:
            post = rule.learn(model, inputs, y, solver)
            start = path.from_chains(post, hyper, self.runs, isinstance(model.likelihood, Gaussian))
        trusted = post.diagnostics.worst_r_hat < 1.1
        return start, [] if trusted else [
            "the chains that reverse runs start from had not converged: the reverse estimate may be off"
        ]


def run(model: Any, X: Any, data: dict[str, Any], integrated: bool, **given: Any) -> dict[str, Any]:
    """A job: a group of annealing runs."""
    return annealed(*densities(model, integrated), data_of(model, X, data), **given)
