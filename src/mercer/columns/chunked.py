"""Chunks of a table as numbers: what its columns are is learned from all chunks, of which each says a few
numbers and the labels it has; then all are read alike.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from mercer.columns.columns import MISSING, Columns, position
from mercer.columns.roles import AbstractColumn, Category, Date, LeftOut, Number, labels_of
from mercer.columns.table import DAY, STAMP, Cells, as_table
from mercer.inputs import Chunk, InputError, as_targets, is_table
from mercer.registry import Saved, unknown

__all__ = ["Reader", "learn", "look"]

STAMPS = 1000  # dates of a chunk that tell the seasons of a column
LABELS = 100_000  # of a column; more are no categories


@Saved.register
@dataclasses.dataclass(frozen=True)
class Reader:
    """How each chunk becomes inputs (n, d) and targets (n,). Errors name the chunk, its row and column.

    names, d: of the columns that a kernel reads as they are; names is None where they have none
    objects: whether they may be other things than numbers
    columns: what they are instead, where that was learned
    """

    names: tuple[str, ...] | None
    d: int
    objects: bool = False
    columns: Columns | None = None

    def read(self, chunk: Chunk) -> tuple[np.ndarray, np.ndarray]:
        """Inputs and targets of a chunk."""
        if self.columns is None:
            inputs, y = chunk.numbers(self.names, self.objects, self.d)
            return inputs.values, y
        return chunk.checked(lambda: self._encoded(chunk))

    def _encoded(self, chunk: Chunk) -> tuple[np.ndarray, np.ndarray]:
        assert self.columns is not None
        X = self.columns.encode(chunk.table).inputs.values
        return X, as_targets(chunk.y(), X.shape[0])


# ------------------------------------------------------------------------------------- what the columns are


def look(chunk: Chunk, groups: Sequence[str | int] = ()) -> dict[str, Any]:
    """What a chunk says of its columns: rows, names, and for each column what `learn` needs."""
    return chunk.checked(lambda: _look(chunk, groups))


def _look(chunk: Chunk, groups: Sequence[str | int]) -> dict[str, Any]:
    table = as_table(chunk.table)
    names = table.names if is_table(chunk.table) else None
    called = names or tuple(f"x{j}" for j in range(len(table.columns)))
    grouping = {position(called, group) for group in groups}
    said = [_said(cells, j in grouping) for j, cells in enumerate(table.columns)]
    y = as_targets(chunk.y(), table.rows)
    return {"rows": len(y), "names": names, "columns": said, "where": chunk.where}


def _said(cells: Cells, group: bool) -> dict[str, Any]:
    """What some cells of a column say of it."""
    empty = cells.empty
    full = cells.values[~empty]
    kind = "empty" if not len(full) else "text" if cells.categorical or group else cells.kind
    said: dict[str, Any] = {"kind": kind, "empty": int(empty.sum()), "full": len(full)}
    if kind == "number":
        said |= {"sum": float(np.sum(full)), "least": float(full.min()), "most": float(full.max())}
    elif kind == "date":
        stamps = np.unique(full)
        some = stamps[np.unique(np.linspace(0, len(stamps) - 1, STAMPS).astype(int))]
        said |= {"stamps": some, "sum": float(np.sum((full - stamps[0]) / DAY)), "first": stamps[0]}
    elif kind == "text":
        said["labels"] = labels_of(cells)
        said["labels"].pop(None, None)
    return said


def learn(
    looked: Sequence[dict[str, Any]], missing: str = "indicator", groups: Sequence[str | int] = ()
) -> Columns:
    """What the columns of all chunks are, from what each `look` said: as `Columns.learn` of one table. A
    chunk whose columns are others, or hold another kind of cells, is named.
    """
    if missing not in MISSING:
        raise ValueError(unknown("missing", missing, MISSING))
    full = [one for one in looked if one["rows"]]
    first = full[0]
    names = first["names"]
    for one in full[1:]:
        if set(one["names"] or ()) != set(names or ()) or len(one["columns"]) != len(first["columns"]):
            raise InputError(
                f"{one['where']} has {len(one['columns'])} columns, {_listed(one['names'])}, where the first "
                f"chunk has {len(first['columns'])}, {_listed(names)}."
            )
    called = names or tuple(f"x{j}" for j in range(len(first["columns"])))
    grouping = {position(called, group) for group in groups}
    columns = []
    for j, name in enumerate(called):
        at = [one["columns"][j if names is None else one["names"].index(name)] for one in full]
        _check_kinds(name, at, [one["where"] for one in full])
        if missing == "error" and any(said["empty"] for said in at):
            where = next(one["where"] for one, said in zip(full, at, strict=True) if said["empty"])
            raise InputError(
                f"{where}: column {name!r} has empty cells. Fill them in, or allow them by "
                "missing='indicator'."
            )
        columns.append(_learned(name, at, j in grouping))
    if not any(column.width for column in columns):
        raise InputError("X has no column to learn from.")
    notes = [f"column {c.name!r} {c.why}, and is left out" for c in columns if isinstance(c, LeftOut)]
    return Columns(tuple(columns), names is not None, tuple(notes))


def _listed(names: Sequence[str] | None) -> str:
    return "without names" if names is None else ", ".join(names)


def _check_kinds(name: str, said: list[dict[str, Any]], where: list[str]) -> None:
    kinds = {one["kind"]: there for one, there in zip(said, where, strict=True) if one["kind"] != "empty"}
    if len(kinds) > 1:
        held = " and ".join(f"{kind}s in {there}" for kind, there in kinds.items())
        raise InputError(f"column {name!r} holds {held}: convert it in one of them.".replace("texts", "text"))


def _learned(name: str, said: list[dict[str, Any]], group: bool) -> AbstractColumn:
    """One column, from what all chunks say of it."""
    told = [one for one in said if one["full"]]
    empty, full = sum(one["empty"] for one in said), sum(one["full"] for one in said)
    if not told:
        return LeftOut(name, "is empty in every row")
    if told[0]["kind"] == "number":
        return Number(name, sum(one["sum"] for one in told) / full if empty else None)
    if told[0]["kind"] == "date":
        stamps = np.concatenate([one["stamps"] for one in told]).astype(STAMP)
        date = Date.learn(name, Cells(stamps))
        origin = np.datetime64(date.origin).astype(STAMP)
        days = sum(one["sum"] + one["full"] * float((one["first"] - origin) / DAY) for one in told)
        return dataclasses.replace(date, fill=days / full if empty else None)
    counts: collections.Counter[str | None] = collections.Counter()
    for one in told:
        counts.update(one["labels"])
        if len(counts) > LABELS:
            return LeftOut(name, f"has more than {LABELS:,} different labels")
    if empty:
        counts[None] = empty
    column = Category.counted(name, counts, None) if group else Category.counted(name, counts)
    if group and isinstance(column, LeftOut):
        raise InputError(f"column {name!r} {column.why}: its rows form no groups.")
    return column
