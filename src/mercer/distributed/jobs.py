"""Independent long jobs: in this process, in several, or on a Dask cluster, with the same answers.

Every `parallel=` argument has one meaning: None does one job after the other here, a whole number does so
many at a time in processes of their own (1 is this process), and a `dask.distributed.Client` does them on its
workers.

>>> with team(parallel) as workers:
...     found = workers.map(climb, [{"start": x} for x in starts], {"model": model, "X": X, "y": y})
"""

from __future__ import annotations

import contextlib
import contextvars
import numbers
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from mercer.progress import tell

__all__ = ["JobError", "Parallel", "Team", "at_hand", "check", "team"]

Parallel: TypeAlias = Any
"""What a `parallel=` argument may be: None, a whole number, or a `dask.distributed.Client`."""


class JobError(RuntimeError):
    """A job that others could not do."""


class _Others(Protocol):
    """Others who work, so many at a time: processes, or the workers of a cluster."""

    @property
    def count(self) -> int: ...

    def each(
        self, function: str, shared: bytes, jobs: Sequence[bytes], names: Sequence[str]
    ) -> Iterator[tuple[int, bytes, str]]: ...

    def close(self) -> None: ...


@contextlib.contextmanager
def team(parallel: Parallel) -> Iterator[Team]:
    """Who works, until the end of the block. Processes are started when they are first needed, and once:
    within the block, another one for the same `parallel` is the same.
    """
    check(parallel)
    outside = _open.get()
    if outside is not None and type(outside[0]) is type(parallel) and outside[0] == parallel:
        yield outside[1]
        return
    others: _Others | None = None
    if parallel is not None and not isinstance(parallel, numbers.Integral):
        from mercer.distributed.cluster import Cluster

        others = Cluster(parallel)
    elif parallel is not None and int(parallel) > 1:
        from mercer.distributed.local import Processes

        others = Processes(int(parallel))
    found = Team(others)
    token = _open.set((parallel, found))
    try:
        yield found
    finally:
        _open.reset(token)
        if others is not None:
            others.close()


_open: contextvars.ContextVar[tuple[Parallel, Team] | None] = contextvars.ContextVar("team", default=None)


def at_hand() -> Team:
    """The team of the block that this is called in; this process alone where there is none."""
    found = _open.get()
    return Team() if found is None else found[1]


def check(parallel: Parallel) -> None:
    """Refuse what `parallel=` cannot be."""
    if parallel is None or (isinstance(parallel, numbers.Integral) and not isinstance(parallel, bool)):
        if parallel is not None and parallel < 1:
            raise ValueError(f"parallel must be None or at least 1, got {parallel}.")
        return
    from mercer.distributed.cluster import is_client

    if not is_client(parallel):
        raise TypeError(
            "parallel must be None (this process), a whole number (so many processes) or a "
            f"dask.distributed.Client (pip install 'mercer[cluster]'), got {type(parallel).__name__}."
        )


class Team:
    """Who works: this process alone, or others."""

    def __init__(self, others: _Others | None = None):
        self._others = others

    @property
    def here(self) -> bool:
        """Whether this process works alone."""
        return self._others is None

    @property
    def size(self) -> int:
        """How many jobs are done at a time."""
        return 1 if self._others is None else max(1, self._others.count)

    def each(
        self,
        function: Callable[..., Any],
        jobs: Sequence[Mapping[str, Any]],
        shared: Mapping[str, Any] | None = None,
        names: Sequence[str] | None = None,
        what: str = "jobs",
    ) -> Iterator[tuple[int, Any]]:
        """`function(**shared, **job)` of every job, as they are done: (number, answer).

        function: of one of Mercer's own modules; its arguments and answers are values of Mercer's, numbers,
            text, arrays, and lists, tuples and dicts of these. What is random takes a seed from its job.
        names: of the jobs, for errors; what: of all of them, for the line of progress

        An error is raised as it was, with a note that names the job. Ctrl-C, or leaving the loop, cancels
        what is not done. A job whose process or worker is lost is done again.
        """
        shared = dict(shared or {})
        names = [f"job {i + 1} of {len(jobs)}" for i in range(len(jobs))] if names is None else list(names)
        for done, (i, found) in enumerate(self._done(function, jobs, shared, names), 1):
            tell(done, len(jobs), what)
            yield i, found

    def map(
        self, function: Callable[..., Any], jobs: Sequence[Mapping[str, Any]], *how: Any, **named: Any
    ) -> list[Any]:
        """All of them, in their order; arguments as of `each`."""
        found = dict(self.each(function, jobs, *how, **named))
        return [found[i] for i in range(len(jobs))]

    def _done(
        self,
        function: Callable[..., Any],
        jobs: Sequence[Mapping[str, Any]],
        shared: dict[str, Any],
        names: Sequence[str],
    ) -> Iterator[tuple[int, Any]]:
        if self._others is None:
            for i, job in enumerate(jobs):
                try:
                    found = function(**shared, **job)
                except Exception as error:
                    error.add_note(f"in {names[i]}")
                    raise
                yield i, found
            return
        if not jobs:
            return
        from mercer.distributed.wire import pack
        from mercer.distributed.work import address, answer

        packed = [pack(dict(job), name) for job, name in zip(jobs, names, strict=True)]
        common = pack(shared, "what the jobs share")
        done: Any = self._others.each(address(function), common, packed, names)
        with contextlib.closing(done) as answers:
            for i, said, who in answers:
                yield i, answer(said, names[i], who)


def __dir__() -> list[str]:
    return sorted(__all__)
