"""`optimise`: a function, a space, and so many evaluations."""

from __future__ import annotations

import contextlib
import os
import queue
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mercer.decide.callers import Tasks, Threads, called
from mercer.decide.evaluations import Front, Optimum
from mercer.decide.optimiser import Optimiser
from mercer.distributed.jobs import Parallel, check
from mercer.progress import Progress, announce, shown, tell

__all__ = ["optimise", "resumed"]

LATER = 60.0  # seconds between two looks at whether anything came


def optimise(
    function: Callable[..., Any],
    space: Mapping[str, Any],
    evaluations: int = 50,
    maximise: Any = False,
    parallel: Parallel = None,
    timeout: float | None = None,
    path: str | os.PathLike[str] | None = None,
    seed: int = 0,
    progress: Progress = None,
    **settings: Any,
) -> Any:
    """The smallest value of an expensive function, in few evaluations: an `Optimum`; of several objectives a
    `Front`.

    function: called with the columns of the space by keyword; gives a number, or a dict of outcomes by name
        (and of the "cost"). An error, a value that is not finite and a time-out are recorded as failures,
        and kept away from
    evaluations: how many, those in the file included
    parallel: how many evaluations at once: None is one; a number, so many, in threads (the function is yours,
        and no code is sent to other processes); a `dask.distributed.Client`, one for each thread of its
        workers, to which Dask sends the function. The rows then depend on which is done first
    timeout: seconds after which an evaluation has failed; its thread is left to itself, its task cancelled
    path: a file that keeps the state after every evaluation; the same call goes on from it, and ends as it
        would have without the interruption
    space, maximise, seed, settings: as in `Optimiser`

    Ctrl-C ends it with what there is.

    >>> best = optimise(lambda x, y: f(x, y), {"x": (-5.0, 10.0), "y": (0.0, 15.0)}, evaluations=40)
    >>> best.value, best.point, best.history
    """
    if evaluations < 1:
        raise ValueError(f"evaluations must be at least 1, got {evaluations}.")
    check(parallel)
    if timeout is not None and not timeout > 0:
        raise ValueError(f"timeout must be a positive number of seconds, got {timeout!r}.")
    opt = resumed(Optimiser(space, maximise=maximise, seed=seed, **settings), path)
    opt.forget_pending()
    with shown("optimising", progress):
        try:
            if parallel in (None, 1) and timeout is None:
                for _ in range(len(opt.history), evaluations):
                    row = opt.ask()
                    _record(opt, row, *called(function, row), path, evaluations)
            else:
                callers = Threads(parallel or 1) if isinstance(parallel, int | None) else Tasks(parallel)
                with contextlib.closing(callers):
                    _together(opt, function, evaluations, callers, timeout, path)
        except KeyboardInterrupt:
            announce(f"stopped after {len(opt.history)} of {evaluations} evaluations")
    return _outcome(opt)


def resumed(opt: Optimiser, path: str | os.PathLike[str] | None) -> Optimiser:
    """The optimiser in a file, if there is one, which must be of the same settings; else the given one."""
    if path is None or not Path(path).exists():
        return opt
    from mercer.persist import load

    kept = load(path)
    mine, its = opt.get_params(), kept.get_params() if isinstance(kept, Optimiser) else {}
    other = [name for name in mine if mine[name] != its.get(name)]
    if other:
        raise ValueError(
            f"{path} is of another search: {other} differ. Give what it was begun with, or another path."
        )
    return kept


def _outcome(opt: Optimiser) -> Optimum | Front:
    """What was found."""
    if all(e.failed for e in opt.history):
        notes = [e.note for e in opt.history if e.note]
        said = f" The last: {notes[-1]}" if notes else ""
        raise ValueError(f"none of {len(opt.history)} evaluations gave a value.{said}")
    return opt.best() if len(opt.objectives) == 1 else opt.front()


def _record(opt: Optimiser, row: dict[str, Any], value: Any, note: str, path: Any, evaluations: int) -> None:
    opt.tell(row, value, failed=value is None, note=note)
    if path is not None:
        opt.save(path)
    tell(len(opt.history), evaluations, f"evaluations, {_so_far(opt)}")


def _so_far(opt: Optimiser) -> str:
    """The best so far, cheaply."""
    told, fine = opt._usable()
    if not fine.any():
        return "none feasible"
    rows = [opt.history[i] for i, use in zip(told, fine, strict=True) if use]
    if len(opt.objectives) > 1:
        return f"{len(opt.front().rows)} in the front"
    best = min(rows, key=lambda e: opt._signs[0] * e.value)
    return f"best {best.value:.6g}"


def _together(
    opt: Optimiser,
    function: Callable[..., Any],
    evaluations: int,
    callers: Threads | Tasks,
    timeout: float | None,
    path: Any,
) -> None:
    """As many evaluations at once as there are callers."""
    under_way: dict[int, tuple[dict[str, Any], float]] = {}
    number = 0
    while len(opt.history) < evaluations:
        while len(under_way) < callers.count and len(opt.history) + len(under_way) < evaluations:
            row, number = opt.ask(), number + 1
            under_way[number] = (row, time.monotonic())
            callers.call(number, function, row)
        first = min(begun for _, begun in under_way.values())
        wait = LATER if timeout is None else max(first + timeout - time.monotonic(), 0.0)
        try:
            which, value, note = callers.done.get(timeout=min(wait, LATER))
        except queue.Empty:
            late = time.monotonic()
            over = [
                n for n, (_, begun) in under_way.items() if timeout is not None and late - begun >= timeout
            ]
            for n in over:
                callers.forget(n)
                _record(opt, under_way.pop(n)[0], None, f"no value within {timeout:g} s", path, evaluations)
            continue
        if which in under_way:
            _record(opt, under_way.pop(which)[0], value, note, path, evaluations)
