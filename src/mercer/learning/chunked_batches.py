"""Learning from batches of data in chunks (`inference.SVGP`): the state of learning goes from chunk to chunk,
in an order that is shuffled anew in every epoch, and through the batches of each where it is.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from mercer.distributed.parcel import Parcel
from mercer.inference.chunked import read
from mercer.inference.protocol import site_rule
from mercer.inference.svgp import SVGP
from mercer.inputs import Chunk
from mercer.learning.checkpoint import Checkpoint, fingerprint
from mercer.learning.chunked import ChunkedProblem, Surveyed
from mercer.learning.climb import Recorder
from mercer.learning.from_batches import begin
from mercer.learning.objectives import by_name as objective_by_name
from mercer.learning.problem import LearningProblem
from mercer.learning.result import Fit, Status
from mercer.learning.stochastic import Batches, Training, column_units, equal_parts
from mercer.learning.task import KEEPS, Task
from mercer.params import flatten
from mercer.progress import STOPPED, shown

__all__ = ["learn"]


def learn(task: Task, seen: Surveyed) -> Fit:
    """The model after so many epochs, and the posterior of all rows there. `task` is of the sample."""
    rule: SVGP = task.rule
    if task.solver is not None:
        raise ValueError("SVGP brings its own solver (VFE): set m on inference.SVGP(...) instead of solver=.")
    with shown("fitting", task.progress, KEEPS):
        recorder = Recorder(len(seen.y))
        checkpoint = None if task.checkpoint is None else Checkpoint(task.checkpoint, _mark(task, seen))
        ends: dict[str, float] = {}
        interrupted = False
        if checkpoint is not None and checkpoint.found is not None:
            training = Training.read(checkpoint.found)
        else:
            training, ends, interrupted = begin(task, rule, recorder)
        recorder.size, recorder.foresight, recorder.highest = seen.n, None, -np.inf
        if not interrupted:
            training, interrupted = _trained(training, task, seen, rule, recorder, checkpoint)
    fitted = flatten(task.model).unflatten(training.theta)
    solver = rule.solver().with_inducing(training.inducing, learn=False)
    last = site_rule(rule.rule(fitted.likelihood))
    part = LearningProblem(task.model, task.data, last, solver, objective_by_name("evidence"))
    with shown("conditioning", task.progress):
        posterior = ChunkedProblem(task.model, seen, last, solver, part).posterior(fitted, last)
    seconds = recorder.history[-1].seconds if recorder.history else 0.0
    message = "interrupted: the last model" if interrupted else f"{rule.epochs} epochs"
    count = len(recorder.history)
    status = Status(not interrupted, message, interrupted, float("nan"), float("nan"), count, seconds, ends)
    log_prior = flatten(fitted).log_prior(training.theta)[0]
    value = posterior.log_evidence
    return Fit(fitted, posterior, recorder.history, status, "evidence", value, log_prior, {})


def _trained(
    training: Training,
    task: Task,
    seen: Surveyed,
    rule: SVGP,
    recorder: Recorder,
    checkpoint: Checkpoint | None,
) -> tuple[Training, bool]:
    """Where learning stands after all epochs, and whether Ctrl-C ended it before."""
    parcel, unit = Parcel(seen.reader, task.model, rule), column_units(seen.inputs.values)
    full = np.flatnonzero(seen.sizes)
    try:
        while training.epoch < rule.epochs:
            order, training = training.shuffled(len(full))
            total, batches = 0.0, 0
            for i in full[order]:
                shared = [parcel, training.arrays(), seen.n, unit, batches]
                said = seen.executor.at(int(i), through, seen, shared)
                training = Training.read({k: np.asarray(v) for k, v in said["training"].items()})
                total, batches = total + said["bound"], batches + said["batches"]
            training = dataclasses.replace(training, epoch=training.epoch + 1)
            if checkpoint is not None:
                checkpoint.write(**training.arrays())
            recorder.note(f"epoch {training.epoch} of {rule.epochs}", seen.n, total / batches)
    except STOPPED:
        return training, True
    return training, False


def through(
    chunk: Chunk, parcel: Parcel, arrays: dict[str, Any], n: int, unit: np.ndarray, before: int
) -> dict[str, Any]:
    """The state of learning after the batches of a chunk, in an order of their own; `before`: batches of this
    epoch that came before.
    """
    reader, model, rule = parcel.values
    X, y = read(chunk, reader, model.likelihood)
    training = Training.read({name: np.asarray(value) for name, value in arrays.items()})
    order, training = training.shuffled(len(y))
    batches, total = Batches(model, X, y, rule, n, unit), 0.0
    parts = equal_parts(order, rule.batch)
    for i, rows in enumerate(parts):
        bound, training = batches.step(training, rows, before + i)
        total += bound
    arrays = {name: np.asarray(value) for name, value in training.arrays().items()}
    return {"training": arrays, "bound": total, "batches": len(parts)}


def _mark(task: Task, seen: Surveyed) -> str:
    """What must be the same for learning to go on: everything but the number of epochs."""
    setting = dataclasses.replace(task.rule, epochs=1)
    return fingerprint(
        task.model, seen.source.mark, seen.sizes, seen.inputs.values, setting, "batches in chunks"
    )
