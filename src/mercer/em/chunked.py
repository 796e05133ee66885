"""EM on data in chunks, which need not fit into memory: each chunk is summarised where it is, and summaries
are added by a tree. A chunk is some rows of a table, or one sequence; or a list of sequences.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from mercer.distributed.chunks import AbstractExecutor, Sums
from mercer.distributed.jobs import Parallel
from mercer.distributed.on_dask import executor_for, source_of
from mercer.distributed.parcel import Parcel
from mercer.inputs import AbstractSource, Chunk, as_table
from mercer.inputs.sources import agreed, cut


@dataclasses.dataclass(frozen=True, eq=False)
class ChunkedData:
    """The chunks of a source, and who goes through them.

    names, d: of the columns, the same in all of them; sizes: rows of each, which may be none
    flat: whether a sequence is (T,), of symbols, and not (T, d)

    >>> em(start, ChunkedData.of(mercer.inputs.parquet("data/*.parquet"))).model
    """

    source: AbstractSource
    executor: AbstractExecutor
    names: tuple[str, ...] | None
    d: int
    sizes: tuple[int, ...]
    flat: bool = False

    @classmethod
    def of(cls, data: Any, parallel: Parallel = None, flat: bool = False) -> ChunkedData:
        """A source, or a Dask array or frame, gone through once: by the workers of a client, or here. What is
        wrong with a chunk is found here, and named.
        """
        source = source_of(data)
        executor = executor_for(source, parallel)
        sizes, names, d = agreed(source, executor.map(_look, source))
        return cls(source, executor, names, d, sizes, flat)

    @property
    def n(self) -> int:
        """Rows, or steps, in all chunks."""
        return sum(self.sizes)

    def expect(self, model: Any) -> Any:
        """The summary of all chunks: the E-step."""
        return self.executor.sum(expected, self.source, [Parcel(model), self.names, self.flat])["summary"]

    def rows(self, most: int, rng: np.random.Generator) -> np.ndarray:
        """All rows (n, d), or `most` of them at random, in their order."""
        every = np.arange(self.n)
        wanted = every if self.n <= most else np.sort(rng.choice(self.n, most, replace=False))
        parts = cut(wanted, self.sizes)
        return np.concatenate(self.executor.map(_take, self.source, [self.names, self.d], parts))

    def sequences(self, most: int) -> list[np.ndarray]:
        """The sequences of the first chunks, up to about so many steps."""
        before = np.cumsum((0, *self.sizes[:-1]))
        parts = [bool(b < most) for b in before]
        found = self.executor.map(_first, self.source, [self.names, self.flat], parts)
        return [sequence for some in found for sequence in some]


def expected(chunk: Chunk, parcel: Parcel, names: tuple[str, ...] | None, flat: bool) -> Sums:
    """What a model expects of a chunk; nothing of an empty one."""
    (model,) = parcel.values
    sequences = _first(chunk, True, names, flat)
    if not sequences:
        return {}
    rows = getattr(model, "rows", False)
    return {"summary": chunk.checked(lambda: model.expect(np.concatenate(sequences) if rows else sequences))}


def _sequences(chunk: Chunk, names: tuple[str, ...] | None) -> list[np.ndarray]:
    """The arrays (T, d) of a chunk."""
    given = chunk.table if isinstance(chunk.table, list) else [chunk.table]
    return chunk.checked(lambda: [as_table(table, names)[0] for table in given])


def _look(chunk: Chunk) -> tuple[int, Any, int]:
    given = chunk.table if isinstance(chunk.table, list) else [chunk.table]
    read = chunk.checked(lambda: [as_table(table) for table in given])
    if not read:
        return 0, None, 0
    return sum(len(values) for values, _ in read), read[0][1], read[0][0].shape[1]


def _take(chunk: Chunk, wanted: np.ndarray, names: tuple[str, ...] | None, d: int) -> np.ndarray:
    if not len(wanted):
        return np.zeros((0, d))
    return np.concatenate(_sequences(chunk, names))[wanted]


def _first(chunk: Chunk, wanted: bool, names: tuple[str, ...] | None, flat: bool) -> list[np.ndarray]:
    if not wanted:
        return []
    found = [s for s in _sequences(chunk, names) if len(s)]
    return [s[:, 0] for s in found] if flat else found
