"""Learning by gradient: the objective is climbed from several starts, and the best point kept."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from mercer.gp import HeldOut, Model, choose_solver, chosen, settle
from mercer.inference.protocol import AbstractSiteRule, site_rule
from mercer.kernels import AbstractKernel
from mercer.learning import bounds, starts
from mercer.learning.checkpoint import Checkpoint, Journal, fingerprint
from mercer.learning.climb import GAIN, Optimum, Recorder, maximise
from mercer.learning.inducing import move_inducing
from mercer.learning.objectives import by_name as objective_by_name
from mercer.learning.problem import LearningProblem
from mercer.learning.result import Fit, FitWarning, Status
from mercer.learning.search import Found, Starts, part_of, search, usual_starts
from mercer.learning.task import KEEPS, Task
from mercer.linalg import tiles
from mercer.params import flatten, strip
from mercer.progress import shown
from mercer.solvers.protocol import AbstractSolver

MATTERS = 1.0  # nats: a gain that may show in predictions
ROUNDED = 1e7  # condition number, or a lower bound of it, beyond which rounding shows in gradients
SURE = 1e4  # a variance of latent functions beyond which probabilities are all or nothing
PILOT = 2000  # data; beyond, solvers that choose by hyperparameters see rough ones first


def learn(task: Task) -> Fit:
    """The hyperparameters of the highest objective, and the posterior there."""
    rule = site_rule(task.rule)
    flat = flatten(task.model)
    if moved := bounds.moved_starts(flat):
        warnings.warn(f"{moved}: give a value within them.", FitWarning, stacklevel=3)
    with shown("fitting", task.progress, KEEPS):
        recorder = Recorder(sum(y.shape[0] for _, y in task.data))
        if task.checkpoint is not None:
            recorder.journal = Journal(Checkpoint(task.checkpoint, _mark(task)))
        problem, candidates, interrupted = settled(task, rule, recorder)
        if problem.objective.scale_free:
            _warn_scale_free(problem)
        recorder.size = problem.size
        if interrupted:
            found = _stopped(problem, candidates, recorder)
        else:
            found = search(problem, candidates, recorder, task.seed, task.max_evaluations, task.workers)
        found = refined(problem, found, rule, recorder, task.max_evaluations)
        if recorder.journal is not None:
            recorder.journal.write()
        best = found.best
        moves = problem.solver.inducing_to_learn() is not None and not task.pooled
        if moves and task.max_evaluations and not found.interrupted and np.isfinite(best.value):
            best, Z = move_inducing(problem, best, recorder, task.max_evaluations)
            problem.solver = problem.solver.with_inducing(Z, learn=False)
    if not np.isfinite(best.value):
        raise nowhere_finite(problem, best)
    # from starts known to be good a fit is one of several: its last conditioning begins where learning ended
    memories = problem.memories() if task.starts == "given" else [{} for _ in problem.data]
    problem.release()
    status = status_of(problem, found._replace(best=best), recorder)
    fitted = problem.flat.unflatten(best.vector)
    with shown("conditioning", task.progress):
        posteriors = [
            rule.posterior(fitted, inputs, y, problem.solver, memory)
            for (inputs, y), memory in zip(problem.data, memories, strict=True)
        ]
    warn_of_end(problem, best, status, task.max_evaluations, posteriors)
    return Fit(
        fitted,
        posteriors if task.pooled else posteriors[0],
        recorder.history,
        status,
        problem.objective.name,
        best.objective,
        best.value - best.objective,
        dict(zip(problem.flat.names, gradient_of(best), strict=True)),
        best.curvature,
    )


def settled(task: Task, rule: AbstractSiteRule, recorder: Recorder) -> tuple[LearningProblem, Starts, bool]:
    """The problem with the solver's choices made, at rough hyperparameters; where to start; and whether that
    was interrupted.
    """
    model, solver = task.model, choose_solver(task.model, task.solver)
    inputs, y = task.data[0]
    solver.check_room(y.shape[0])
    piloted = solver.pilot and not task.pooled and y.shape[0] > PILOT
    judge = None
    if piloted:
        pilot, seen = _pilot(task, rule, recorder)
        guess = flatten(model).unflatten(pilot.best.vector)
        from mercer.learning.tournament import Tournament

        held = HeldOut.of(model, inputs, y, rule)
        if held is not None:
            judge = Tournament(task, rule, held, pilot.best.vector, recorder)
            judge.interrupted = pilot.interrupted
    else:
        guess = starts.data_driven(model, inputs.values, y)
    if task.pooled:
        solver = _one_for_all(task, guess, rule, solver)
    settled = [settle(guess, inputs, y, rule, solver, judge) for inputs, y in task.data]
    data = [(inputs, y) for inputs, y, _, _ in settled]
    if not task.pooled:  # several data sets have inducing inputs of their own
        solver = settled[0][3]
        solver.check_room(data[0][1].shape[0])
    goal = objective_by_name(task.objective, task.n_folds, task.seed)
    problem = LearningProblem(model, data, rule.rough(), solver, goal, task.jacobian)
    if judge is not None and judge.own:
        return problem, Starts(judge.start(solver), problem.size, near=True), judge.interrupted
    if piloted:
        raised = starts.with_rest(guess, data[0][0].values, solver)
        interrupted = pilot.interrupted if judge is None else judge.interrupted
        return problem, Starts({"pilot": flatten(raised).vector}, seen), interrupted
    if task.starts == "given":
        given = Starts({"given": flatten(model).vector}, good=True)
        if task.curvature is None:
            return problem, given, False
        from mercer.learning.newton import checked_curvature

        known = checked_curvature(task.curvature, problem.flat.names)
        return problem, given._replace(curvature=known, tolerance=task.tolerance), False
    usual = usual_starts(model, data, task.restarts, task.seed, task.max_evaluations, guess)
    return problem, usual, False


def _one_for_all(task: Task, model: Model, rule: AbstractSiteRule, solver: AbstractSolver) -> AbstractSolver:
    """The solver for several data sets: what suits the largest, of those that can work on the smallest."""
    ordered = sorted(task.data, key=lambda data: data[1].shape[0])
    smallest, largest = ordered[0], ordered[-1]
    held = HeldOut.of(model, *largest, rule)

    def judge(candidate: AbstractSolver) -> float:
        assert held is not None
        settle(model, *smallest, rule, candidate)  # refuses more inducing inputs than data
        return held.score(model, candidate)

    return chosen(model, *largest, rule, solver, None if held is None else judge)


def _pilot(task: Task, rule: AbstractSiteRule, recorder: Recorder) -> tuple[Found, int]:
    """Hyperparameters from a part of the data, by dense algebra, and how many data that were."""
    most = PILOT // 2 if task.model.likelihood.mean_is_latent else PILOT // 4
    part = part_of(task.model, task.data, rule.rough(), most, task.seed)
    candidates = usual_starts(part.model, part.data, 0, task.seed, task.max_evaluations)
    found = search(part, candidates, recorder, task.seed, task.max_evaluations, task.workers)
    return found, part.size


def _stopped(problem: LearningProblem, candidates: Starts, recorder: Recorder) -> Found:
    """The start, judged on all data, where Ctrl-C came before the search."""
    vector = bounds.clip(problem.flat, next(iter(candidates.vectors.values())))
    best = Optimum(vector, *problem.value_and_gradient(vector), size=problem.size)
    recorder.note("interrupted", problem.size, best.value)
    return Found(best, {}, True)


def _mark(task: Task) -> str:
    """What must be the same for a fit to go on: everything but how many starts and evaluations there are."""
    goal, solver = (task.objective, task.n_folds, task.seed), choose_solver(task.model, task.solver)
    return fingerprint(task.model, task.data, task.rule, solver, goal, task.jacobian)


def refined(
    problem: LearningProblem, found: Found, rule: AbstractSiteRule, recorder: Recorder, max_evaluations: int
) -> Found:
    """The same by a tighter rule, where the climb may have been stopped by the roughness of its values."""
    best = found.best
    settled = found.interrupted or not np.isfinite(best.value) or best.expected_gain <= GAIN
    if problem.rule == rule or settled:
        return found
    problem.rule = rule.rough(tight=True)
    return found._replace(
        best=maximise(problem, best.vector, "refined", recorder, max_evaluations=max_evaluations)
    )


def status_of(problem: LearningProblem, found: Found, recorder: Recorder) -> Status:
    """How the climb ended."""
    best, interrupted = found.best, found.interrupted
    gradient = gradient_of(best)
    free = bounds.pressed(problem.flat.bounds(), best.vector, gradient) == 0
    norm = float(np.max(np.abs(gradient[free]), initial=0.0))
    converged = not interrupted and (norm <= bounds.STEEP or best.expected_gain <= GAIN)
    return Status(
        converged=converged,
        message="interrupted: the best model so far" if interrupted else best.message,
        interrupted=interrupted,
        gradient_norm=norm,
        expected_gain=best.expected_gain,
        evaluations=len(recorder.history),
        seconds=recorder.history[-1].seconds if recorder.history else 0.0,
        starts=found.ends,
    )


def warn_of_end(
    problem: LearningProblem, best: Optimum, status: Status, max_evaluations: int, posteriors: list[Any]
) -> None:
    """Say what a person should know of the end."""
    if status.interrupted:
        _say("the fit was interrupted; returning the best model found so far.")
        return
    limited = "LIMIT" in status.message  # L-BFGS-B's word for max_evaluations
    if not status.converged and status.expected_gain > MATTERS and (limited or not _rounded(posteriors)):
        _say(
            f"the fit stopped with a gradient of {status.gradient_norm:.3g} per unit of log parameter "
            f"({best.message}): the result may be improved by restarts=, priors or bounds."
        )
    stopped = bounds.ends(problem.flat, best.vector, gradient_of(best))
    if max_evaluations and stopped:
        _say(
            f"{stopped}, and the objective still rises beyond: widen the bounds, give a prior, or fix it "
            "there with mercer.fixed(...)."
        )
    if max_evaluations and (sure := _all_or_nothing(problem, best)):
        _say(sure)


def _rounded(posteriors: list[Any]) -> bool:
    """Whether noise is so small that the function goes through all data: then the search has come to the end
    of its reach, or rounding alone gives the objective slopes. None gets further, and predictions are as sure
    as numbers allow.
    """
    return any((p.state.diagnostics().condition or 1.0) > ROUNDED for p in posteriors)


def _all_or_nothing(problem: LearningProblem, best: Optimum) -> str:
    """What to say where the latent function behind classes has grown without limit."""
    model, (inputs, _) = problem.flat.unflatten(best.vector), problem.data[0]
    if not model.likelihood.categorical:
        return ""
    size = max(_typical_variance(kernel, inputs.values) for kernel in model.kernels)
    if size < SURE:
        return ""
    return (
        "the classes can be separated, and then nothing in the evidence limits the variance of the latent "
        f"function, learned as {size:.2g}: probabilities are too close to 0 and 1. Give it a prior, "
        "as in mercer.param(1.0, prior=mercer.hyperpriors.LogNormal(3.6, 1.5)), or fix it, "
        "mercer.fixed(1.0); kernel=None has such a prior."
    )


def _typical_variance(kernel: AbstractKernel, X: np.ndarray) -> float:
    """The median of k(x, x) at the data, by the program that predictions use."""
    panels = tiles.Panels(kernel.encode(X), tiles.tile_size(X.shape[0]))
    return float(np.median(tiles.diagonal(strip(kernel), panels)))


def _say(text: str) -> None:
    """A warning that points to the call of `fit`."""
    from mercer.learning.unconverged import UnconvergedWarning

    warnings.warn(text, UnconvergedWarning, stacklevel=5)


def gradient_of(best: Optimum) -> np.ndarray:
    return np.zeros_like(best.vector) if best.gradient is None else best.gradient


def nowhere_finite(problem: LearningProblem, best: Optimum) -> FloatingPointError:
    """The error, where the rule does not raise one of its own with the cause."""
    model, (inputs, y) = problem.flat.unflatten(best.vector), problem.data[0]
    value = problem.rule.run(model, inputs.values, y, problem.solver).log_evidence
    return FloatingPointError(f"the objective is not finite at any start (evidence {value}).")


def _warn_scale_free(problem: LearningProblem) -> None:
    amplitudes = [p.name for p, _ in problem.flat.slots if p.name.endswith("variance")]
    if len(amplitudes) > 1:
        text = (
            f"objective '{problem.objective.name}' uses predictive means only and does not determine the "
            f"overall scale of {amplitudes}: fix one of them, or rescale by the evidence afterwards."
        )
        warnings.warn(text, FitWarning, stacklevel=4)
