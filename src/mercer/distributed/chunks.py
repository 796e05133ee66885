"""Work on chunks of rows where they are: a function is called with each, and what it says comes back in
order, or summed by a tree of fixed order, so that a sum does not depend on who computed what, or when.

A function of a chunk is one of Mercer's own modules, `work(chunk, *shared)` or `work(chunk, part, *shared)`;
it says a dict of numbers, arrays and dicts of these. `Here` calls it in this process, one chunk in memory at
a time; `mercer.distributed.on_dask.Workers` on the workers of a Dask client.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from mercer.inputs import AbstractSource

__all__ = ["AbstractExecutor", "Here", "Pass", "add", "tree_sum"]

Sums = dict[str, Any]
Work = Callable[..., Any]


class Pass(NamedTuple):
    """A function, and the chunks that it is called with: see `AbstractExecutor.map`."""

    work: Work
    source: AbstractSource
    shared: Sequence[Any] = ()
    parts: Sequence[Any] | None = None

    def own(self, i: int) -> tuple[Any, ...]:
        """What is for chunk i alone."""
        return () if self.parts is None else (self.parts[i],)


class AbstractExecutor(abc.ABC):
    """Who calls a function with each chunk of a source."""

    def map(
        self,
        work: Work,
        source: AbstractSource,
        shared: Sequence[Any] = (),
        parts: Sequence[Any] | None = None,
    ) -> list[Any]:
        """What `work(chunk, *shared)` says of every chunk, in their order; with `parts`, one for each chunk,
        `work(chunk, part, *shared)`.
        """
        return self.each(Pass(work, source, shared, parts))

    def sum(
        self,
        work: Work,
        source: AbstractSource,
        shared: Sequence[Any] = (),
        parts: Sequence[Any] | None = None,
    ) -> Sums:
        """The sum of what it says, dicts of numbers and arrays, by `tree_sum`."""
        return self.total(Pass(work, source, shared, parts))

    def carry(
        self,
        work: Work,
        source: AbstractSource,
        shared: Sequence[Any] = (),
        held: Sequence[Any] | None = None,
    ) -> tuple[Sequence[Any], Sums]:
        """What stays with the chunks, and what crosses: `work(chunk, own, *shared)` says a pair, of which the
        first is kept where the chunk is and the second summed by `tree_sum`. What was kept may be `held` of
        the next such pass, or the `parts` of any other; at first `own` is None.
        """
        return self.carried(Pass(work, source, shared, [None] * len(source) if held is None else held))

    @abc.abstractmethod
    def each(self, asked: Pass) -> list[Any]:
        """What `map` gives."""

    @abc.abstractmethod
    def total(self, asked: Pass) -> Sums:
        """What `sum` gives."""

    @abc.abstractmethod
    def carried(self, asked: Pass) -> tuple[Sequence[Any], Sums]:
        """What `carry` gives."""

    @abc.abstractmethod
    def at(self, i: int, work: Work, source: AbstractSource, shared: Sequence[Any] = ()) -> Any:
        """What `work(chunk, *shared)` says of chunk i alone."""


class Here(AbstractExecutor):
    """This process, one chunk after the other."""

    def each(self, asked: Pass) -> list[Any]:
        return list(_called(asked))

    def total(self, asked: Pass) -> Sums:
        return tree_sum(_called(asked))

    def carried(self, asked: Pass) -> tuple[Sequence[Any], Sums]:
        kept: list[Any] = []

        def said() -> Iterator[Sums]:
            for own, sums in _called(asked):
                kept.append(own)
                yield sums

        return kept, tree_sum(said())

    def at(self, i: int, work: Work, source: AbstractSource, shared: Sequence[Any] = ()) -> Any:
        return work(source.load(i), *shared)


def _called(asked: Pass) -> Iterator[Any]:
    for i in range(len(asked.source)):
        yield asked.work(asked.source.load(i), *asked.own(i), *asked.shared)


def add(a: Any, b: Any) -> Any:
    """Numbers and arrays; dicts entry by entry, where what only one of the two has stays as it is."""
    if not isinstance(a, dict):
        return a + b
    return {name: add(a[name], b[name]) if name in a and name in b else (a | b)[name] for name in a | b}


def tree_sum(items: Iterable[Sums]) -> Sums:
    """The sum of neighbours, then of neighbouring sums, and so on: ((0 1)(2 3))((4 5) 6). Of n items about
    log2 n are held at a time.
    """
    stack: list[tuple[int, Sums]] = []  # sums of 2^k items, the largest first
    for item in items:
        size, total = 1, item
        while stack and stack[-1][0] == size:
            total = add(stack.pop()[1], total)
            size *= 2
        stack.append((size, total))
    if not stack:
        return {}
    _, total = stack.pop()
    while stack:
        total = add(stack.pop()[1], total)
    return total
