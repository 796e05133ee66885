"""Learning from batches (`inference.SVGP`): first hyperparameters from a part of the data or from small
batches, then from batches of all; the posterior from all at once.
"""

from __future__ import annotations

import dataclasses
import warnings
from typing import TYPE_CHECKING

import numpy as np

from mercer.gp import Model, settle
from mercer.inference import by_name as inference_by_name
from mercer.inference.protocol import site_rule
from mercer.inputs import Inputs
from mercer.learning import bounds, starts
from mercer.learning.checkpoint import Checkpoint, fingerprint
from mercer.learning.climb import Recorder
from mercer.learning.result import Fit, Status
from mercer.learning.search import part_of, search, usual_starts
from mercer.learning.stochastic import Batches, Training, first_steps, train
from mercer.learning.task import KEEPS, Task
from mercer.likelihoods import Gaussian
from mercer.params import flatten
from mercer.progress import STOPPED, shown
from mercer.solvers.protocol import AbstractSolver

if TYPE_CHECKING:
    from mercer.inference.svgp import SVGP

PART = 1600  # data whose exact evidence gives the first hyperparameters
FEW, SMALL = 64, 200  # inducing inputs, and data in a batch, of the steps that give them elsewhere


def learn(task: Task) -> Fit:
    """The model after so many epochs, and the posterior of all data there."""
    rule: SVGP = task.rule
    inputs, y = task.one_data_set("learning from batches")
    if task.solver is not None:
        raise ValueError(
            "SVGP brings its own solver (VFE): set m and select on inference.SVGP(...) instead of solver=."
        )
    with shown("fitting", task.progress, KEEPS):
        recorder = Recorder(y.shape[0])
        checkpoint = None if task.checkpoint is None else Checkpoint(task.checkpoint, _mark(task, rule))
        ends: dict[str, float] = {}
        if checkpoint is not None and checkpoint.found is not None:
            training, interrupted = Training.read(checkpoint.found), False
        else:
            training, ends, interrupted = begin(task, rule, recorder)
        batches = Batches(task.model, inputs.values, y, rule)
        if not interrupted:
            training, interrupted = train(batches, training, recorder, checkpoint)
    fitted = flatten(task.model).unflatten(training.theta)
    solver = rule.solver().with_inducing(training.inducing, learn=False)
    memory = {}
    if not isinstance(fitted.likelihood, Gaussian):  # whose posterior is found at once
        memory = rule.foresee(fitted, y, *batches.marginals(training))
    post = rule.posterior(fitted, inputs, y, solver, memory)
    status = Status(
        converged=not interrupted,
        message="interrupted: the last model" if interrupted else f"{rule.epochs} epochs",
        interrupted=interrupted,
        gradient_norm=0.0,
        expected_gain=0.0,
        evaluations=len(recorder.history),
        seconds=recorder.history[-1].seconds if recorder.history else 0.0,
        starts=ends,
    )
    if interrupted:
        text = "the fit was interrupted; returning the last model."
        from mercer.learning.unconverged import UnconvergedWarning

        warnings.warn(text, UnconvergedWarning, stacklevel=3)
    log_prior = flatten(fitted).log_prior(training.theta)[0]
    return Fit(fitted, post, recorder.history, status, "evidence", post.log_evidence, log_prior, {})


def begin(task: Task, rule: SVGP, recorder: Recorder) -> tuple[Training, dict[str, float], bool]:
    """Where learning starts: hyperparameters from a part of the data where noise is Gaussian, else from small
    batches; with the value at the end of each search, and whether that was interrupted. Inducing inputs are
    chosen among all data.
    """
    inputs, y = task.data[0]
    by = _by_gradient if isinstance(task.model.likelihood, Gaussian) else _by_small_batches
    vector, ends, interrupted = by(task, rule, recorder)
    model = flatten(task.model).unflatten(vector)
    solver = _settled(model, inputs, y, rule)
    model = starts.with_rest(model, inputs.values, solver)
    return Training.begin(flatten(model).vector, _inducing(solver), rule), ends, interrupted


def _by_gradient(task: Task, rule: SVGP, recorder: Recorder) -> tuple[np.ndarray, dict[str, float], bool]:
    """The exact evidence of a part of the data, climbed."""
    exact = site_rule(inference_by_name(None, task.model.likelihood))
    part = part_of(task.model, task.data, exact, PART, task.seed)
    candidates = usual_starts(task.model, part.data, task.restarts, task.seed, task.max_evaluations)
    found = search(part, candidates, recorder, task.seed, task.max_evaluations)
    part.release()
    return found.best.vector, found.ends, found.interrupted


def _by_small_batches(
    task: Task, rule: SVGP, recorder: Recorder
) -> tuple[np.ndarray, dict[str, float], bool]:
    """The same steps from every start, with few inducing inputs: they take the same time whatever the data,
    where sites of a dense fit may take hundreds of factorisations.
    """
    inputs, y = task.data[0]
    usual = usual_starts(task.model, task.data, task.restarts, task.seed, task.max_evaluations)
    flat = flatten(task.model)
    vectors = {label: bounds.clip(flat, vector) for label, vector in usual.vectors.items()}
    best, ends = vectors["given"], dict[str, float]()
    if best.size == 0 or task.max_evaluations == 0:
        return best, ends, False
    small = dataclasses.replace(rule, m=min(rule.m, FEW), batch=min(rule.batch, SMALL))
    guess = flat.unflatten(vectors["data-driven"])
    Z = _inducing(_settled(guess, inputs, y, small))
    batches = Batches(task.model, inputs.values, y, small)
    try:
        for label, vector in vectors.items():
            found, ends[label] = first_steps(batches, Training.begin(vector, Z, small), recorder, label)
            if ends[label] == max(ends.values()):
                best = found
    except STOPPED:
        return best, ends, True
    return best, ends, False


def _settled(model: Model, inputs: Inputs, y: np.ndarray, rule: SVGP) -> AbstractSolver:
    """The rule's solver with inducing inputs chosen among the data."""
    return settle(model, inputs, y, rule, rule.solver())[3]


def _inducing(solver: AbstractSolver) -> np.ndarray:
    Z = solver.inducing_inputs()
    assert Z is not None  # VFE has chosen them in `settle`
    return Z


def _mark(task: Task, rule: SVGP) -> str:
    """What must be the same for learning to go on: everything but the number of epochs."""
    setting = dataclasses.replace(rule, epochs=1)
    return fingerprint(task.model, task.data, setting, "batches")
