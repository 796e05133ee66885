"""Learning by draws: the free hyperparameters are sampled, and predictions average over them."""

from __future__ import annotations

import time
import warnings

import numpy as np

from mercer.gp import Model, choose_solver, settle
from mercer.inference import by_name as inference_by_name
from mercer.inference.protocol import AbstractSampler, site_rule
from mercer.inputs import Inputs
from mercer.learning import starts
from mercer.learning.climb import Recorder, maximise
from mercer.learning.objectives import by_name as objective_by_name
from mercer.learning.problem import LearningProblem
from mercer.learning.result import Fit, Status
from mercer.learning.task import Task
from mercer.params import flatten
from mercer.progress import shown
from mercer.solvers.protocol import AbstractSolver

MODE = 60  # evaluations of the quick search that chains start from


def learn(task: Task) -> Fit:
    """Draws of the hyperparameters, from chains that start near their mode."""
    rule: AbstractSampler = task.rule
    if task.checkpoint is not None:
        raise ValueError(
            f"{type(rule).__name__} cannot go on from a file: checkpoint= is for fits by gradient and from "
            "batches (SVGP). Leave it out (Ctrl-C keeps the draws made so far), or fit by gradient with "
            "checkpoint= and start the chains from that model: mercer.fit(found.model, X, y, inference=...)."
        )
    inputs, y = task.one_data_set("sampling")
    guess = starts.data_driven(task.model, inputs.values, y)
    inputs, y, _, solver = settle(guess, inputs, y, rule, choose_solver(task.model, task.solver))
    rule.check(solver)
    began = time.perf_counter()
    with shown("sampling", task.progress):
        post = rule.learn(guess, inputs, y, solver, _mode(guess, inputs, y, solver))
    diagnostics = post.diagnostics
    status = Status(
        converged=post.status.converged,
        message=post.status.message,
        interrupted=post.chains.interrupted,
        gradient_norm=0.0,
        expected_gain=0.0,
        evaluations=int(diagnostics.evaluations * diagnostics.draws * diagnostics.chains),
        seconds=time.perf_counter() - began,
        starts={},
    )
    if not status.converged:
        text = f"the draws should not be trusted yet ({status.message}): see posterior.notes."
        from mercer.learning.unconverged import UnconvergedWarning

        warnings.warn(text, UnconvergedWarning, stacklevel=3)
    medians = flatten(post.model)
    value, log_prior = float(np.mean(post.chains.log_density)), medians.log_prior(medians.vector)[0]
    return Fit(post.model, post, [], status, "draws (mean log density)", value, log_prior, {})


def _mode(model: Model, inputs: Inputs, y: np.ndarray, solver: AbstractSolver) -> Model:
    """Hyperparameters that a quick search with a deterministic rule finds; the given ones where it fails."""
    rule, evidence = inference_by_name(None, model.likelihood), objective_by_name("evidence")
    problem = LearningProblem(model, [(inputs, y)], site_rule(rule), solver, evidence, jacobian=True)
    if not problem.flat.vector.size:
        return model
    with shown("fitting", False):
        start, recorder = problem.flat.vector, Recorder(problem.size)
        best = maximise(problem, start, "mode", recorder, max_evaluations=MODE)
    return problem.flat.unflatten(best.vector) if np.isfinite(best.value) else model
