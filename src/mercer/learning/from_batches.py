"""Learning from batches (`inference.SVGP`): hyperparameters from a part of the data, then from small batches
of all; the posterior from all at once.
"""

from __future__ import annotations

import dataclasses
import warnings
from typing import TYPE_CHECKING

from mercer.gp import posterior, settle
from mercer.inference import by_name as inference_by_name
from mercer.inference.protocol import site_rule
from mercer.learning import starts
from mercer.learning.checkpoint import Checkpoint, fingerprint
from mercer.learning.climb import Recorder
from mercer.learning.result import Fit, Status
from mercer.learning.search import part_of, search, usual_starts
from mercer.learning.stochastic import Training, train
from mercer.learning.task import KEEPS, Task
from mercer.params import flatten
from mercer.progress import shown

if TYPE_CHECKING:
    from mercer.inference.svgp import SVGP

PART = 1600  # data that give the hyperparameters from which learning from batches starts


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
        if not interrupted:
            training, interrupted = train(training, task.model, inputs.values, y, rule, recorder, checkpoint)
    fitted = flatten(task.model).unflatten(training.theta)
    solver = rule.solver().with_inducing(training.inducing, learn=False)
    post = posterior(fitted, inputs, y, rule, solver)
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
    """Hyperparameters by gradient on a part of the data, with the value at the end of each climb, and whether
    that was interrupted; inducing inputs from all data.
    """
    inputs, y = task.data[0]
    first = site_rule(inference_by_name(None, task.model.likelihood))
    part = part_of(task.model, task.data, first, PART, task.seed)
    candidates = usual_starts(task.model, part.data, task.restarts, task.seed, task.max_evaluations)
    found = search(part, candidates, recorder, task.seed, task.max_evaluations)
    part.release()
    model = part.flat.unflatten(found.best.vector)
    _, _, _, solver = settle(model, inputs, y, rule, rule.solver())
    model = starts.with_rest(model, inputs.values, solver)
    Z = solver.inducing_inputs()
    assert Z is not None  # VFE has chosen them in `settle`
    training = Training.begin(flatten(model).vector, Z, rule)
    return training, found.ends, found.interrupted


def _mark(task: Task, rule: SVGP) -> str:
    """What must be the same for learning to go on: everything but the number of epochs."""
    setting = dataclasses.replace(rule, epochs=1)
    return fingerprint(task.model, task.data, setting, "batches")
