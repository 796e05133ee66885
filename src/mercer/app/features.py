"""Which columns of a file a model is fitted to and predicts from; errors name the rows of the file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mercer.app.tables import Table, TableError, check_column, numeric
from mercer.columns import Columns, Date, Number, Raw
from mercer.columns.table import cells_of
from mercer.kernels import parse

CHOSEN = ("auto", "search")  # kernels that are chosen by the evidence


def training_columns(
    table: Table, names: Sequence[str], source: str, rows: np.ndarray, kernel: str | None, named: bool
) -> tuple[Table, list[str]]:
    """Columns to learn from, each as numbers, dates or text, and notes on what was left out.

    Without a kernel all are taken; a kernel that reads numbers takes numbers and dates, and others are an
    error where they were `named`.
    """
    typed = {name: _typed(table, name, source) for name in names}
    if kernel in (None, *CHOSEN):
        for name, column in typed.items():
            if column.dtype.kind == "f":
                numeric({name: column}, [name], source, rows, empty=True)
        return typed, []
    if parse(str(kernel)).reads_objects():
        return typed, []
    text = [name for name, column in typed.items() if column.dtype.kind == "O" and not named]
    kept = [name for name in typed if name not in text]
    if not kept:
        raise TableError(
            f"{source} has no column of numbers to predict from: leave --kernel out to use text."
        )
    notes = [f"left out columns of text, which the kernel cannot read: {', '.join(text)}"] if text else []
    return _numbers(typed, kept, source, rows), notes


MOST_CLASSES = 10  # different whole numbers that may be classes


def perhaps_classes(y: np.ndarray, target: str) -> list[str]:
    """A note on a target of numbers that look like labels: 0, 1, 2 or 1, 2, 3, each in several rows."""
    if y.dtype.kind not in "fiu" or not y.size:
        return []
    values, counts = np.unique(y, return_counts=True)
    several = 2 <= len(values) <= MOST_CLASSES and counts.min() > 1
    if not several or values[0] not in (0, 1) or (np.diff(values) != 1).any():
        return []
    said = f"{values[0]:g} and {values[1]:g}" if len(values) == 2 else f"{values[0]:g} to {values[-1]:g}"
    return [
        f"{target!r} holds nothing but the whole numbers {said}, which are taken as amounts: if they are "
        "classes, add --classify"
    ]


def new_columns(columns: Columns, table: Table, source: str) -> Any:
    """What a model predicts from: the columns it needs by name, and with them those it will say it ignores;
    in their order where it was fitted without names.
    """
    if not columns.named:
        found = [name for name, column in table.items() if column.dtype.kind == "f"]
        if len(found) != len(columns.columns):
            raise TableError(
                f"the model was fitted to {len(columns.columns)} columns without names, so {source} must "
                f"have just as many numeric columns; it has {len(found)}: {', '.join(found)}."
            )
        return np.column_stack(list(numeric(table, found, source).values()))
    needed = {c.name: _typed(table, c.name, source) for c in columns.columns if c.width}
    for column in columns.columns:
        if isinstance(column, Number) or (isinstance(column, Raw) and not column.objects):
            empty = isinstance(column, Number) and column.fill is not None
            needed |= _numbers(needed, [column.name], source, None, empty)
        elif isinstance(column, Date) and column.fill is None:
            _check_dates(needed, column.name, source, None)
    return table | needed


def _typed(table: Table, name: str, source: str) -> np.ndarray:
    check_column(table, name, source)
    return cells_of(table[name], f"column {name!r}").values


def _numbers(
    typed: Table, names: Sequence[str], source: str, rows: np.ndarray | None, empty: bool = False
) -> Table:
    """Numbers and dates, checked."""
    out = {}
    for name in names:
        if typed[name].dtype.kind == "M":
            _check_dates(typed, name, source, rows)
            out[name] = typed[name]
        else:
            out |= numeric(typed, [name], source, rows, empty)
    return out


def _check_dates(typed: Table, name: str, source: str, rows: np.ndarray | None) -> None:
    if typed[name].dtype.kind == "M":
        gaps = np.where(np.isnat(typed[name]), np.nan, 0.0)
        numeric({name: gaps}, [name], source, rows)
