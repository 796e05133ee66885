"""Chunks on a Dask cluster: `Workers` calls a function where each chunk is, `Partitions` are those of a Dask
array or data frame.

One pass is one graph: what all tasks share, a task for each chunk, and a tree of sums. The graph is all that
the scheduler needs to compute anything again that a lost worker had.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from mercer.distributed.chunks import AbstractExecutor, Here, Pass, Sums, Work, add
from mercer.distributed.cluster import connected, is_client
from mercer.distributed.jobs import Parallel
from mercer.distributed.parcel import Parcel
from mercer.inputs import AbstractSource, Chunk, InputError, is_chunked

__all__ = ["ClusterError", "Partitions", "Workers", "executor_for", "source_of"]

NEEDS_DASK = "this needs dask: pip install 'mercer[cluster]'"
LARGE = "1GiB"  # what all tasks share is m x m: a graph below this is no reason for a warning


class ClusterError(RuntimeError):
    """The cluster is gone, or cannot do the work; says what to do."""


def source_of(X: Any, y: Any = None) -> AbstractSource:
    """A source, which has its own y, or Dask collections X and y as one."""
    if not isinstance(X, AbstractSource):
        return Partitions(X, y)
    if y is not None:
        raise InputError("a source of chunks has its own y: name it there, as in parquet(..., target='y').")
    return X


def executor_for(source: AbstractSource, parallel: Parallel = None) -> AbstractExecutor:
    """Who works on a source: the workers of a client; for a Dask collection those of this process's default
    client; else this process.
    """
    client = parallel if is_client(parallel) else None
    if client is None and isinstance(source, Partitions):
        try:
            from dask.distributed import default_client

            client = default_client()
        except (ImportError, ValueError):
            client = None  # Dask in this process, without a cluster
    return Here() if client is None else Workers(connected(client))


@dataclasses.dataclass(frozen=True, eq=False)
class Workers(AbstractExecutor):
    """The workers of a `dask.distributed.Client`."""

    client: Any

    def __post_init__(self) -> None:
        try:
            import dask.distributed  # noqa: F401
        except ImportError:
            raise ImportError(NEEDS_DASK) from None

    def each(self, asked: Pass) -> list[Any]:
        return self._computed(_tasks(asked, range(len(asked.source))))

    def total(self, asked: Pass) -> Sums:
        (total,) = self._computed([_tree(_tasks(asked, range(len(asked.source))))])
        return total

    def carried(self, asked: Pass) -> tuple[Sequence[Any], Sums]:
        from dask import delayed

        both = _tasks(asked, range(len(asked.source)))
        kept = [delayed(_first, pure=False)(pair, dask_key_name=_key("kept")) for pair in both]
        sums = [delayed(_second, pure=False)(pair, dask_key_name=_key("said")) for pair in both]
        futures = self._submitted([*kept, _tree(sums)])
        with self._errors(futures):
            return Kept(futures[:-1]), self.client.gather(futures[-1])

    def at(self, i: int, work: Work, source: AbstractSource, shared: Sequence[Any] = ()) -> Any:
        (answer,) = self._computed(_tasks(Pass(work, source, shared), [i]))
        return answer

    def _computed(self, tasks: list[Any]) -> list[Any]:
        futures = self._submitted(tasks)
        with self._errors(futures):
            return self.client.gather(futures)

    def _submitted(self, tasks: list[Any]) -> list[Any]:
        import dask

        with dask.config.set({"distributed.admin.large-graph-warning-threshold": LARGE}), self._errors([]):
            return self.client.compute(tasks)

    @contextlib.contextmanager
    def _errors(self, futures: list[Any]) -> Iterator[None]:
        """What goes wrong with the cluster, for people."""
        from dask.distributed import CancelledError, KilledWorker

        try:
            yield
        except (CancelledError, OSError) as error:
            why = f"{type(error).__name__}: {error}".splitlines()[0]
            raise ClusterError(
                f"the Dask scheduler was lost ({why}). Start it again and connect a new Client; with "
                "checkpoint= the same call goes on where this one stopped."
            ) from error
        except KilledWorker as error:
            raise ClusterError(
                f"workers died one after the other at the same chunk ({error}): most likely a chunk takes "
                "more memory than a worker has. Use smaller chunks or larger workers."
            ) from error
        except BaseException:  # Ctrl-C too: nothing is to go on computing
            self.client.cancel(futures)
            raise


_first, _second = operator.itemgetter(0), operator.itemgetter(1)


class Kept(list[Any]):
    """Futures: what stays on the workers, one for each chunk."""


def _tree(level: list[Any]) -> Any:
    """The task of the sum of tasks, as `tree_sum` adds."""
    from dask import delayed

    while len(level) > 1:
        pairs = [level[i : i + 2] for i in range(0, len(level), 2)]
        level = [
            pair[0] if len(pair) == 1 else delayed(add, pure=False)(*pair, dask_key_name=_key("sum"))
            for pair in pairs
        ]
    return level[0]


def _tasks(asked: Pass, which: Iterable[int]) -> list[Any]:
    """A task for each of these chunks."""
    from dask import delayed

    for one in asked.shared:
        if isinstance(one, Parcel):
            one.packed  # noqa: B018  (what cannot be sent is an error here, not on a worker)
    common = delayed(tuple(asked.shared), name=_key("shared"), traverse=False, pure=False)
    tasks, run = [], delayed(_run, pure=False)
    for i in which:
        load, arguments = asked.source.remote(i)
        own = asked.own(i)
        if not isinstance(asked.parts, Kept):
            own = tuple(delayed(part, name=_key("part"), traverse=False) for part in own)
        key = _key(asked.work.__name__)
        tasks.append(run(asked.work, load, len(own), common, *own, *arguments, dask_key_name=key))
    return tasks


def _run(work: Work, load: Callable[..., Chunk], own: int, common: tuple[Any, ...], *arguments: Any) -> Any:
    """On a worker: load a chunk, and call the function with it, what is its own and what all share."""
    return work(load(*arguments[own:]), *arguments[:own], *common)


def _key(name: str) -> str:
    import uuid

    return f"mercer-{name.strip('_')}-{uuid.uuid4().hex}"


@dataclasses.dataclass(frozen=True, eq=False)
class Partitions(AbstractSource):
    """A Dask array or data frame of inputs, and a Dask array or series of targets cut at the same rows.

    >>> mercer.fit(model, Partitions(ddf[["a", "b"]], ddf["y"]), solver=VFE(m=512))
    """

    X: Any
    y: Any = None

    def __post_init__(self) -> None:
        if self.y is not None and not is_chunked(self.y):
            raise InputError(
                f"X is in the partitions of Dask, but y is a {type(self.y).__name__} in memory: take both "
                "from one Dask frame."
            )
        here, there = len(self), len(self._targets)
        if self.y is not None and here != there:
            raise InputError(
                f"X has {here} partitions and y has {there}: take both from one Dask frame, or give them the "
                "same chunks."
            )

    def __len__(self) -> int:
        return len(self._inputs)

    @functools.cached_property
    def _inputs(self) -> list[Any]:
        X = self.X
        if hasattr(X, "chunks") and not hasattr(X, "columns"):
            if X.ndim != 2:
                raise InputError(
                    f"X must be a table with rows and columns, got a Dask array of {X.ndim} axes."
                )
            X = X.rechunk({1: -1})
        return list(_delayed(X))

    @functools.cached_property
    def _targets(self) -> list[Any]:
        return [] if self.y is None else list(_delayed(self.y))

    def remote(self, i: int) -> tuple[Callable[..., Chunk], tuple[Any, ...]]:
        target = None if self.y is None else self._targets[i]
        return Chunk, (self._inputs[i], target, i, self.called(i))

    def load(self, i: int) -> Chunk:
        import dask

        make, arguments = self.remote(i)
        return make(*dask.compute(*arguments))

    @property
    def mark(self) -> str:
        from dask.base import tokenize

        return str(tokenize(self.X, self.y))


def _delayed(collection: Any) -> Any:
    """The partitions of a collection of rows."""
    parts = collection.to_delayed()
    return parts.ravel() if hasattr(parts, "ravel") else parts
