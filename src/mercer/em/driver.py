"""Expectation-Maximisation for anything that can summarise data and be fitted to a summary (Bilmes, section
2).

A model is an immutable object with two methods, and its summaries add up:

    summary = model.expect(data)       # E-step: expected sufficient statistics, with `summary.log_likelihood`
    model = model.maximise(summary)    # M-step: the parameters with the largest Q; a partial step will do
    (generalised EM) summary = summary + other          # of two parts of the data

so that data may come in parts, be held by several processes, and never be in memory at once.
"""

from __future__ import annotations

import functools
import operator
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from mercer.distributed import Parallel, Team, team
from mercer.em.chunked import ChunkedData
from mercer.inputs import is_chunked
from mercer.progress import STOPPED, Progress, shown, tell


class Summary(Protocol):
    """Expected sufficient statistics of some data."""

    @property
    def log_likelihood(self) -> float:
        """Of the data under the model that made the summary."""

    def __add__(self, other: Any) -> Any: ...


class Model(Protocol):
    """What `em` needs. `log_prior()`, where a model has it, is added to the likelihood:
    EM then climbs to the posterior mode.
    """

    def expect(self, data: Any) -> Any: ...

    def maximise(self, summary: Any) -> Any: ...


M = TypeVar("M")


class EMError(ArithmeticError):
    """EM cannot go on: the likelihood fell, or is not a number, or is zero."""


@dataclass(frozen=True)
class Iteration:
    """One E-step: the objective is the log-likelihood, plus the log prior where there is one."""

    start: int
    iteration: int
    objective: float
    log_likelihood: float
    seconds: float


@dataclass(frozen=True)
class Outcome(Generic[M]):
    """The best model that was found, and how: every iteration of every start in order."""

    model: M
    objective: float
    log_likelihood: float
    converged: bool
    reason: str
    start: int
    iterations: int
    history: list[Iteration] = field(repr=False)

    def path(self, start: int | None = None) -> np.ndarray:
        """Objectives along one start, the best one unless told."""
        start = self.start if start is None else start
        return np.array([step.objective for step in self.history if step.start == start])


def em(
    starts: Any,
    parts: Any,
    *,
    max_evaluations: int = 200,
    tol: float = 1e-6,
    slack: float = 1e-9,
    map: Callable[..., Iterable[Any]] = map,
    progress: Progress = None,
    parallel: Parallel = None,
) -> Outcome:
    """Climb from each start and keep the best.

    starts: a model, a list of models, or of functions without arguments that make one.
    parts: the data in parts, each of which the model can `expect`; `[X]` for data in one piece; or a source
        of chunks, `mercer.inputs.parquet("data/*.parquet")`, which need not fit into memory.
    max_evaluations: M-steps from each start; 0 learns nothing, and keeps the best start.
    tol: stop when the objective gains less than tol times its size (at least 1) in an iteration; 0 runs
        max_evaluations iterations.
    slack: a fall of the objective by more than slack times its size is an error of the model's steps, and
        raised as EMError.
    map: how the parts are gone through; the `map` of an executor spreads them over processes or machines.
    progress: None shows a line in terminals after a second, True always, False never; or a function (done,
        total, text).
    parallel: who climbs from the starts: None (this process, one after the other), so many processes, or a
        `dask.distributed.Client`; models and data must then be of kinds that files can hold. The chunks of a
        source are gone through by the workers of a client, or in this process.

    Ctrl-C, or a deadline, ends the climb and keeps the best so far. EM never decreases the objective; its
    limit is a stationary point, so use several starts.

    >>> em(GaussianMixture.around(X, 3, rng), [X]).model.means
    """
    starts = list(starts) if isinstance(starts, list | tuple) else [starts]
    if not starts:
        raise ValueError("em needs at least one start.")
    if max_evaluations < 0 or not tol >= 0:
        raise ValueError(f"em needs max_evaluations >= 0 and tol >= 0, got {max_evaluations!r} and {tol!r}.")
    how = {"max_evaluations": max_evaluations, "tol": tol, "slack": slack}
    with shown("EM", progress, "Ctrl-C keeps the best"), team(parallel) as workers:
        if is_chunked(parts):
            parts = ChunkedData.of(parts, parallel)
        apart = not workers.here and len(starts) > 1 and not isinstance(parts, ChunkedData)
        each = _apart(workers, starts, parts, how) if apart else _in_turn(starts, parts, map, how)
        climbs: dict[int, Outcome] = {}
        failures: dict[int, Exception] = {}
        history: list[Iteration] = []
        try:
            for number, outcome, steps in each:
                if isinstance(outcome, Exception):
                    failures[number] = outcome
                else:
                    climbs[number] = outcome
                history += steps
        except STOPPED:
            if not climbs:
                raise
    if not climbs:
        raise failures[min(failures)]
    best = max((climbs[number] for number in sorted(climbs)), key=lambda climb: climb.objective)
    return replace(best, history=sorted(history, key=lambda step: (step.start, step.iteration)))


FAILURES = (EMError, np.linalg.LinAlgError)  # of one start, after which others may do better
Tried = Iterator[tuple[int, "Outcome[Any] | Exception", list[Iteration]]]


def _in_turn(starts: list[Any], parts: Sequence[Any], map: Any, how: dict[str, Any]) -> Tried:
    """The outcome from each start, one after the other."""
    for number, start in enumerate(starts):
        history: list[Iteration] = []
        where = f"start {number + 1} of {len(starts)}"
        try:
            outcome = _climb(start, number, parts, map=map, where=where, history=history, **how)
        except FAILURES as error:
            yield number, error, history
            continue
        yield number, outcome, history
        if outcome.reason == "interrupted":
            return


def _apart(workers: Team, starts: list[Any], parts: Sequence[Any], how: dict[str, Any]) -> Tried:
    """The same, each by another process."""
    jobs = [{"number": i, "start": start() if callable(start) else start} for i, start in enumerate(starts)]
    names = [f"EM from start {i + 1}" for i in range(len(starts))]
    for number, said in workers.each(climb, jobs, {"parts": list(parts), "how": how}, names, "starts"):
        history = [Iteration(number, *row) for row in said.pop("history")]
        if "failed" in said:
            kinds = {kind.__name__: kind for kind in FAILURES}
            yield number, kinds[said["failed"]](said["message"]), history
        else:
            yield number, Outcome(**said, start=number, history=history), history


def climb(parts: list[Any], how: dict[str, Any], number: int, start: Any) -> dict[str, Any]:
    """A job: EM from one start."""
    history: list[Iteration] = []
    said: dict[str, Any]
    try:
        found = _climb(start, number, parts, map=map, where="", history=history, **how)
        kept = ("model", "objective", "log_likelihood", "converged", "reason", "iterations")
        said = {name: getattr(found, name) for name in kept}
    except FAILURES as error:
        said = {"failed": type(error).__name__, "message": str(error)}
    rows = [[step.iteration, step.objective, step.log_likelihood, step.seconds] for step in history]
    return said | {"history": rows}


def _climb(start, number, parts, max_evaluations, tol, slack, map, where, history) -> Outcome:
    best: tuple[float, float, Any] | None = None
    before, converged, reason = -np.inf, False, f"max_evaluations={max_evaluations} reached"
    i = 0
    try:
        model = start() if callable(start) else start
        for i in range(max_evaluations + 1):
            began = time.perf_counter()
            if isinstance(parts, ChunkedData):
                summary = parts.expect(model)
            else:
                summary = functools.reduce(operator.add, map(model.expect, parts))
            log_likelihood = float(summary.log_likelihood)
            objective = log_likelihood + float(getattr(model, "log_prior", float)())
            _check(before, objective, slack, number, i)
            history.append(Iteration(number, i, objective, log_likelihood, time.perf_counter() - began))
            best = (objective, log_likelihood, model)
            tell(i, None, f"{where}, iteration {i}: {objective:.4f}")
            if tol > 0 and objective - before <= tol * max(1.0, abs(objective)):
                converged, reason = True, "the gain fell below the tolerance"
                break
            if i < max_evaluations:
                before, model = objective, model.maximise(summary)
    except STOPPED:
        if best is None:
            raise
        reason = "interrupted"
    assert best is not None
    return Outcome(best[2], best[0], best[1], converged, reason, number, i, history)


def _check(before: float, objective: float, slack: float, start: int, iteration: int) -> None:
    where = f"start {start + 1}, iteration {iteration}"
    if np.isnan(objective) or objective == np.inf:
        raise EMError(
            f"the log-likelihood is {objective} at {where}: give the covariances a floor or a prior."
        )
    if objective == -np.inf:
        raise EMError(
            f"the data have probability zero at {where}: no state or component of the model can have made "
            "some of them."
        )
    if objective < before - slack * max(1.0, abs(before)):
        raise EMError(
            f"the objective fell from {before:.10g} to {objective:.10g} at {where}: an M-step must not "
            "decrease it."
        )
