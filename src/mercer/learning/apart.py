"""Climbs from several starts, one after the other or each by another process: the same, wherever they are
made. Each begins as if it were the only one, with nothing remembered of those before it.

The last digit of a sum depends on how many threads BLAS has, and a climb makes much of it. So with restarts,
climbs on few data have one thread each, wherever they are made; on many the ends agree as far as an optimum
is found at all.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from mercer.distributed import Team
from mercer.inputs import Inputs
from mercer.learning.checkpoint import Journal
from mercer.learning.climb import COARSE_FROM, Evaluation, Optimum, Recorder, maximise
from mercer.learning.objectives import by_name
from mercer.learning.problem import LearningProblem
from mercer.linalg.lapack import one_thread
from mercer.persist.tables import from_table, to_table

USUAL = 2  # starts of every fit: the values given, and those that data suggest


def alike(size: int) -> contextlib.AbstractContextManager[None]:
    """Around a climb that may be made here or elsewhere."""
    return one_thread() if size < COARSE_FROM else contextlib.nullcontext()


def climbs(
    problem: LearningProblem, vectors: dict[str, np.ndarray], recorder: Recorder, workers: Team, **how: Any
) -> Iterator[tuple[str, Optimum]]:
    """The end of the climb from each start, by its name, as they are done. how: of `maximise`."""
    first = next(iter(vectors.values()))
    many = len(vectors) > USUAL
    if workers.here or not many:
        for label, vector in vectors.items():
            if len(vectors) > 1:
                problem.fresh(first)
            with alike(problem.size) if many else contextlib.nullcontext():
                top = maximise(problem, vector, label, recorder, **how)
            yield label, top
        return
    labels = list(vectors)
    jobs = [{"label": label, "vector": vector} for label, vector in vectors.items()]
    shared = _problem(problem) | {"first": first, "how": how, "known": None}
    if recorder.journal is not None:
        shared["known"] = recorder.journal.said()
    recorder.best = None
    names = [f"the climb from the start {label!r}" for label in labels]
    for i, found in workers.each(climb, jobs, shared, names, "climbs"):
        top = taken(found, labels[i], problem.size, recorder)
        if recorder.best is None or top.value > recorder.best.value:
            recorder.best = top
        yield labels[i], top


def climb(
    model: Any,
    data: Sequence[dict[str, Any]],
    rule: Any,
    solver: Any,
    objective: tuple[str, int, int],
    jacobian: bool,
    first: np.ndarray,
    how: dict[str, Any],
    known: dict[str, Any] | None,
    label: str,
    vector: np.ndarray,
) -> dict[str, Any]:
    """A job: the climb from one start."""
    pairs = [(Inputs(from_table(part["X"]), part["names"]), part["y"]) for part in data]
    problem = LearningProblem(model, pairs, rule, solver, by_name(*objective), jacobian)
    problem.fresh(first)
    recorder = Recorder(problem.size)
    if known is not None:
        recorder.journal = Journal(None)
        recorder.journal.take(known)
    with alike(problem.size):
        top = maximise(problem, vector, label, recorder, **how)
    return said(top, recorder)


def said(top: Optimum, recorder: Recorder) -> dict[str, Any]:
    """The end of a climb and how it came there, for `taken`."""
    return {
        "top": [top.vector, top.value, top.gradient, top.objective, top.expected_gain, top.message],
        "values": np.array([e.value for e in recorder.history]),
        "seconds": np.array([e.seconds for e in recorder.history]),
        "known": None if recorder.journal is None else recorder.journal.said(),
    }


def _problem(problem: LearningProblem) -> dict[str, Any]:
    """A problem as another process takes it."""
    if problem.objective.recipe is None:
        raise ValueError(
            f"objective {problem.objective.name!r} is a function of yours and cannot be sent to other "
            "processes: give the name of an objective, or leave out parallel=."
        )
    return {
        "model": problem.model,
        "data": [{"X": to_table(x.values), "names": x.names, "y": y} for x, y in problem.data],
        "rule": problem.rule,
        "solver": problem.solver,
        "objective": problem.objective.recipe,
        "jacobian": problem.jacobian,
    }


def taken(found: dict[str, Any], label: str, size: int, recorder: Recorder) -> Optimum:
    """The end of a climb that was made elsewhere; its evaluations are recorded, at their times."""
    now = time.perf_counter() - recorder.began
    last = found["seconds"][-1] if len(found["seconds"]) else 0.0
    recorder.history += [
        Evaluation(label, size, float(value), float(now - last + seconds))
        for value, seconds in zip(found["values"], found["seconds"], strict=True)
    ]
    recorder.highest = (
        max([recorder.highest, *found["values"]]) if size == recorder.size else recorder.highest
    )
    if recorder.journal is not None:
        recorder.journal.take(found["known"])
        recorder.journal.write()
    vector, value, gradient, objective, expected_gain, message = found["top"]
    return Optimum(vector, value, gradient, objective, expected_gain, message, size)
