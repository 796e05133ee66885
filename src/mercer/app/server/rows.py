"""Rows of JSON as columns that a model reads; what is wrong with a cell is said with its column and row."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from mercer.app.web import WebError
from mercer.columns import Category, Columns, Date, LeftOut, Number, Raw
from mercer.columns.table import EMPTY_WORDS, STAMP, as_date, as_number, label

__all__ = ["Field", "Rows", "fields_of", "read_rows"]

MOST_SHOWN = 60  # characters of a cell that an error repeats
SCHEMAS: dict[str, dict[str, Any]] = {
    "number": {"type": "number"},
    "date": {"type": "string", "description": "a date or time such as 2024-01-31 or 2024-01-31T12:00"},
    "category": {"type": ["string", "number", "boolean"]},
    "object": {},
}


@dataclasses.dataclass(frozen=True)
class Field:
    """A column that is asked for.

    kind: "number", "date", "category", or "object", which the kernel reads as it is
    empty: whether a cell may be null
    needed: whether a row may do without it
    example: a cell as it might be
    """

    name: str
    kind: str = "number"
    empty: bool = False
    needed: bool = True
    example: Any = 0.0

    def schema(self) -> dict[str, Any]:
        """What OpenAPI says of it."""
        said = dict(SCHEMAS[self.kind])
        if self.empty and isinstance(said.get("type"), str):
            said["type"] = [said["type"], "null"]
        return said

    def read(self, cells: list[Any]) -> np.ndarray:
        """The cells of a column; a `WebError` names the first that is not what it should be."""
        read = {"number": self._number, "date": self._date, "category": self._label}.get(self.kind)
        if read is None:
            out = np.empty(len(cells), dtype=object)
            out[:] = cells
            return out
        dtype: Any = {"number": np.float64, "date": STAMP, "category": object}[self.kind]
        return np.array([read(i, cell) for i, cell in enumerate(cells)], dtype=dtype)

    def _number(self, row: int, cell: Any) -> float:
        if isinstance(cell, str):
            number = as_number(cell)
            cell = None if cell.strip().lower() in EMPTY_WORDS else cell if number is None else number
        if cell is None:
            return self._nothing(row, math.nan)
        if not isinstance(cell, int | float):
            raise self._wrong(row, cell, "a number")
        try:
            value = float(cell)
        except OverflowError:
            value = math.inf
        if not math.isfinite(value):
            raise self._wrong(row, cell, "a finite number")
        return value

    def _date(self, row: int, cell: Any) -> np.datetime64:
        if cell is None or (isinstance(cell, str) and cell.strip().lower() in EMPTY_WORDS):
            return self._nothing(row, np.datetime64("NaT"))
        stamp = as_date(cell) if isinstance(cell, str) else None
        if stamp is None:
            raise self._wrong(row, cell, "a date such as 2024-01-31")
        return stamp

    def _label(self, row: int, cell: Any) -> str | None:
        if cell is None or isinstance(cell, str):
            return cell
        if not isinstance(cell, int | float):
            raise self._wrong(row, cell, "a label")
        return str(label(cell))

    def _nothing(self, row: int, value: Any) -> Any:
        if not self.empty:
            raise WebError(
                422,
                "empty_cell",
                f"row {row} has nothing in column {self.name!r}, and no empty cells were seen in training.",
                self.name,
                row,
                "fill it in",
            )
        return value

    def _wrong(self, row: int, cell: Any, wanted: str) -> WebError:
        message = f"row {row} has {_shown(cell)} in column {self.name!r}, where {wanted} should be."
        return WebError(422, "wrong_type", message, self.name, row)


@dataclasses.dataclass(frozen=True, eq=False)
class Rows:
    """Columns by name, in the order in which the model has them, and what was not asked for."""

    columns: dict[str, np.ndarray]
    ignored: tuple[str, ...]

    @property
    def count(self) -> int:
        """How many rows there are."""
        return len(next(iter(self.columns.values())))

    @staticmethod
    def joined(parts: Sequence[Rows]) -> Rows:
        """One after the other; they have the same columns."""
        if len(parts) == 1:
            return parts[0]
        names = parts[0].columns
        return Rows({name: np.concatenate([part.columns[name] for part in parts]) for name in names}, ())


def read_rows(rows: Any, fields: Sequence[Field], most: int) -> Rows:
    """Rows as JSON says them: objects by name, or lists in the order of the columns."""
    if not isinstance(rows, list) or not rows:
        hint = 'send {"rows": [{...}, ...]}'
        raise WebError(422, "no_rows", "rows must be a list of at least one row.", hint=hint)
    if len(rows) > most:
        raise WebError(
            413, "too_many_rows", f"{len(rows)} rows, and {most} are answered at a time.", hint="send fewer"
        )
    wanted = [_by_name(row, i, fields) for i, row in enumerate(rows)]
    given = {key for row in wanted for key in row}
    columns = {}
    for field in fields:
        if field.needed or field.name in given:
            columns[field.name] = field.read([_cell(row, i, field) for i, row in enumerate(wanted)])
    names = {field.name for field in fields}
    return Rows(columns, tuple(sorted(given - names)))


def _by_name(row: Any, i: int, fields: Sequence[Field]) -> dict[str, Any]:
    if isinstance(row, dict):
        return row
    if not isinstance(row, list):
        raise WebError(422, "wrong_type", f"row {i} is {_shown(row)}: a row is an object or a list.", None, i)
    needed = [field for field in fields if field.needed]
    each = needed if len(row) == len(needed) else fields
    if len(row) != len(each):
        names = ", ".join(field.name for field in needed)
        message = f"row {i} has {len(row)} cells, and the model {len(needed)} columns: {names}."
        raise WebError(422, "wrong_length", message, None, i)
    return {field.name: cell for field, cell in zip(each, row, strict=True)}


def _cell(row: dict[str, Any], i: int, field: Field) -> Any:
    if field.name not in row:
        has = ", ".join(map(repr, list(row)[:20])) or "none"
        raise WebError(
            422, "missing_column", f"row {i} has no column {field.name!r}; it has {has}.", field.name, i
        )
    return row[field.name]


def _shown(cell: Any) -> str:
    if isinstance(cell, int) and not isinstance(cell, bool) and cell.bit_length() > 4096:
        return "a number of thousands of digits"
    text = repr(cell)
    return text if len(text) <= MOST_SHOWN else text[:MOST_SHOWN] + "…"


def fields_of(columns: Columns, training: np.ndarray) -> tuple[Field, ...]:
    """The columns of a fitted table. training: (n, d), its encoded rows, whose middles are the examples."""
    fields = []
    for column in columns.columns:
        first = columns.groups[column.name][:1]
        middle = float(np.median(training[:, first[0]])) if first and training.dtype != object else 0.0
        number = float(f"{middle:.4g}")
        match column:
            case LeftOut():
                fields.append(Field(column.name, "object", True, False, None))
            case Category():
                levels = [level for level in column.levels if level is not None]
                fields.append(Field(column.name, "category", True, True, levels[0] if levels else None))
            case Date():
                day = np.datetime64(column.origin, "D") + np.timedelta64(int(middle), "D")
                fields.append(Field(column.name, "date", column.fill is not None, True, str(day)))
            case Number():
                fields.append(Field(column.name, "number", column.fill is not None, True, number))
            case Raw(objects=True):
                cell = training[0, first[0]] if training.dtype == object else number
                fields.append(Field(column.name, "object", True, True, cell))
            case _:
                fields.append(Field(column.name, "number", False, True, number))
    return tuple(fields)
