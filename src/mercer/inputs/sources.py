"""Data in chunks of rows: Parquet and CSV files, or pairs of arrays. A source knows how many chunks there are
and how to load one; nobody holds all of them.

>>> source = mercer.inputs.parquet("data/*.parquet", target="y")
>>> len(source), source.load(0).numbers()                     # chunks, and (X, y) of the first one

A chunk may be empty, and chunks may be of any sizes: what is computed from them does not depend on where
they are cut.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
import glob
import itertools
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from mercer.inputs.arrays import InputError, Inputs, as_inputs, as_targets, named_columns

__all__ = ["AbstractSource", "Chunk", "Some", "agreed", "chunks", "files", "is_chunked", "parquet"]

ROWS = 2**18  # neighbouring row groups of a Parquet file are read together up to so many rows
NEEDS_ARROW = "reading {what} needs pyarrow: pip install 'mercer[parquet]'"


@dataclasses.dataclass(frozen=True, eq=False)
class Chunk:
    """Some rows of a data set, as they are.

    table: inputs: an array (n, d), a frame, or a dict of columns
    target: (n,), or None where no target was named
    number, where: which chunk it is, from 0, and what people call it
    """

    table: Any
    target: Any
    number: int
    where: str

    def numbers(
        self, names: tuple[str, ...] | None = None, objects: bool = False, columns: int | None = None
    ) -> tuple[Inputs, np.ndarray]:
        """Checked inputs (n, d) and targets (n,). An error says in which chunk and in which of its rows.

        names: the columns expected, in this order, where they have names; columns: how many, where not
        objects: as in `as_inputs`
        """

        def read() -> tuple[Inputs, np.ndarray]:
            inputs = as_inputs(self.table, "X", names, objects)
            d = inputs.values.shape[1]
            if columns is not None and d != columns:
                raise InputError(f"X has {d} columns, where the first chunk has {columns}.")
            return inputs, as_targets(self.y(), inputs.values.shape[0])

        return self.checked(read)

    def y(self) -> Any:
        """The target as it was given; an error where there is none."""
        if self.target is None:
            raise InputError("y is missing: give it after X, or name it, as in parquet(..., target='y').")
        return self.target

    def checked(self, read: Callable[[], Any]) -> Any:
        """What `read` makes of the chunk; its errors are given the name of the chunk."""
        try:
            return read()
        except (InputError, TypeError) as error:
            raise InputError(f"{self.where}: {error}") from None


class AbstractSource(abc.ABC):
    """Rows in chunks. `len` says how many chunks there are."""

    @abc.abstractmethod
    def __len__(self) -> int: ...

    @abc.abstractmethod
    def load(self, i: int) -> Chunk:
        """Chunk i, in this process."""

    def remote(self, i: int) -> tuple[Callable[..., Chunk], tuple[Any, ...]]:
        """A function of Mercer's own and its arguments that load chunk i wherever they are called."""
        return _load, (self, i)

    @property
    @abc.abstractmethod
    def mark(self) -> str:
        """What tells these data from others, for checkpoints: names, sizes, times of files."""

    def called(self, i: int, what: str = "") -> str:
        """How errors name chunk i."""
        return f"partition {i} of {len(self)}" + (f" ({what})" if what else "")


def is_chunked(X: Any) -> bool:
    """Whether these are data in chunks: a source, or a Dask array, frame or series."""
    package = type(X).__module__.split(".")[0]
    return isinstance(X, AbstractSource) or (package in ("dask", "dask_expr") and hasattr(X, "dask"))


def agreed(
    source: AbstractSource, looked: Sequence[tuple[int, Any, int]]
) -> tuple[tuple[int, ...], tuple[str, ...] | None, int]:
    """From the rows, names (None: none) and number of columns of each chunk: the rows of each, and what names
    and how many columns all have. A chunk with others is named; one without rows has none.
    """
    sizes = tuple(n for n, _, _ in looked)
    if not sum(sizes):
        raise InputError("there are no rows: all chunks are empty.")
    first = next(i for i, n in enumerate(sizes) if n)
    _, names, d = looked[first]
    for i, (n, others, width) in enumerate(looked):
        if n and (width != d or (names is None) != (others is None) or set(names or ()) != set(others or ())):
            raise InputError(
                f"{source.called(i)} has {_columns(others, width)}, where partition {first} has "
                f"{_columns(names, d)}."
            )
    return sizes, None if names is None else tuple(names), d


def cut(rows: np.ndarray, sizes: tuple[int, ...]) -> list[np.ndarray]:
    """Numbers of rows among all, in rising order, as those of the rows of each chunk."""
    return [rows[(rows >= a) & (rows < b)] - a for a, b in itertools.pairwise(np.cumsum((0, *sizes)))]


def _columns(names: Any, d: int) -> str:
    return f"{d} columns" if names is None else f"the columns {', '.join(names)}"


def _load(source: AbstractSource, i: int) -> Chunk:
    return source.load(i)


def parquet(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    target: str | None = None,
    features: Sequence[str] | None = None,
) -> AbstractSource:
    """Parquet files, one chunk for each row group or several small ones.

    paths: a file, a folder, a pattern such as "data/*.parquet", or a list of these
    target: the column that is predicted
    features: the columns it is predicted from; None: all others

    >>> mercer.fit(model, parquet("data/*.parquet", target="y"), solver=VFE(m=512))
    """
    return _Parquet(_found(paths, "parquet"), target, None if features is None else tuple(features))


def files(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    target: str | None = None,
    features: Sequence[str] | None = None,
) -> AbstractSource:
    """CSV and Parquet files, one chunk each. Arguments as in `parquet`.

    >>> mercer.fit(model, files(["may.csv", "june.csv"], target="y"), solver=VFE(m=512))
    """
    return _Files(_found(paths, "csv"), target, None if features is None else tuple(features))


def chunks(pairs: Sequence[tuple[Any, Any]] | Iterable[tuple[Any, Any]]) -> AbstractSource:
    """Pairs (X, y), one chunk each. A sequence is asked for its items whenever they are needed, so that one
    of your own may load them then; what can only be gone through once is kept.

    >>> mercer.fit(model, chunks([(X1, y1), (X2, y2)]), solver=VFE(m=512))
    """
    return _Pairs(pairs if isinstance(pairs, Sequence) else tuple(pairs))


@dataclasses.dataclass(frozen=True, eq=False)
class Some(AbstractSource):
    """Some chunks of a source, by their numbers, under the names they have there."""

    source: AbstractSource
    numbers: Sequence[int]

    def __len__(self) -> int:
        return len(self.numbers)

    def load(self, i: int) -> Chunk:
        """Chunk i of these."""
        return self.source.load(self.numbers[i])

    def remote(self, i: int) -> tuple[Callable[..., Chunk], tuple[Any, ...]]:
        """As of the source."""
        return self.source.remote(self.numbers[i])

    @property
    def mark(self) -> str:
        """That of the source, and which they are."""
        return f"{list(self.numbers)} of {self.source.mark}"

    def called(self, i: int, what: str = "") -> str:
        """As in the source."""
        return self.source.called(self.numbers[i], what)


@dataclasses.dataclass(frozen=True, eq=False)
class _Pairs(AbstractSource):
    pairs: Sequence[tuple[Any, Any]]

    def __post_init__(self) -> None:
        if len(self.pairs) == 0:
            raise InputError("there are no chunks: give at least one pair (X, y).")

    def __len__(self) -> int:
        return len(self.pairs)

    def load(self, i: int) -> Chunk:
        X, y = self.pairs[i]
        return Chunk(X, y, i, self.called(i))

    @property
    def mark(self) -> str:
        return f"{len(self)} pairs"


@dataclasses.dataclass(frozen=True, eq=False)
class _AbstractFiles(AbstractSource):
    """Files with columns by name, some of which are read."""

    paths: tuple[str, ...]
    target: str | None
    features: tuple[str, ...] | None

    @property
    def mark(self) -> str:
        stats = [(path, os.stat(path)) for path in self.paths]
        return str([(path, s.st_size, s.st_mtime_ns) for path, s in stats])

    def _wanted(self, there: Sequence[str], where: str) -> list[str]:
        """The columns to read of those that are there."""
        wanted = [*(self.features or ()), *([] if self.target is None else [self.target])]
        missing = [name for name in wanted if name not in there]
        if missing:
            raise InputError(f"{where}: there is no column {missing[0]!r}; it has {', '.join(there)}.")
        return wanted if self.features is not None else list(there)

    def _chunk(self, table: Any, i: int, where: str) -> Chunk:
        columns = named_columns(table)
        target = None if self.target is None else columns.pop(self.target)
        if self.features is not None:
            columns = {name: columns[name] for name in self.features}
        return Chunk(columns, target, i, where)


@dataclasses.dataclass(frozen=True, eq=False)
class _Parquet(_AbstractFiles):
    def __len__(self) -> int:
        return len(self._groups)

    @functools.cached_property
    def _groups(self) -> list[tuple[str, list[int]]]:
        """Files, and the row groups of each that are read together."""
        pq, out = _arrow("parquet", "Parquet"), []
        for path in self.paths:
            metadata = pq.read_metadata(path)
            together: list[int] = []
            rows = 0
            for group in range(metadata.num_row_groups):
                more = metadata.row_group(group).num_rows
                if together and rows + more > ROWS:
                    out.append((path, together))
                    together, rows = [], 0
                together, rows = [*together, group], rows + more
            out.append((path, together))
        return out

    def load(self, i: int) -> Chunk:
        path, groups = self._groups[i]
        where = self.called(i, path)
        file = _arrow("parquet", "Parquet").ParquetFile(path)
        columns = self._wanted(file.schema_arrow.names, where)
        return self._chunk(file.read_row_groups(groups, columns=columns, use_threads=False), i, where)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_groups": self._groups}  # found once, also for workers


@dataclasses.dataclass(frozen=True, eq=False)
class _Files(_AbstractFiles):
    def __len__(self) -> int:
        return len(self.paths)

    def load(self, i: int) -> Chunk:
        path = self.paths[i]
        where = self.called(i, path)
        if path.lower().endswith((".parquet", ".pq")):
            table = _arrow("parquet", "Parquet").read_table(path)
        else:
            table = _arrow("csv", "CSV files in chunks").read_csv(path)
        self._wanted(table.column_names, where)
        return self._chunk(table, i, where)


def _found(paths: Any, kind: str) -> tuple[str, ...]:
    """The files that paths, folders and patterns stand for, in order of their names within each."""
    given = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    out: list[str] = []
    for one in given:
        path = os.fspath(one)
        pattern = os.path.join(path, f"*.{kind}") if os.path.isdir(path) else path
        there = [pattern] if os.path.exists(pattern) else sorted(glob.glob(pattern, recursive=True))
        if not there:
            raise InputError(f"there is no file {pattern!r}.")
        out += there
    if not out:
        raise InputError("no files were given.")
    return tuple(out)


def _arrow(module: str, what: str) -> Any:
    import importlib

    try:
        return importlib.import_module(f"pyarrow.{module}")
    except ImportError:
        raise ImportError(NEEDS_ARROW.format(what=what)) from None
