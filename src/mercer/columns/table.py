"""What people hand in as named columns of cells: data frames (pandas, polars, pyarrow ...), dicts of columns,
arrays of numbers or of objects.
"""

from __future__ import annotations

import dataclasses
import datetime
import numbers
import re
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from narwhals.stable.v2.dependencies import is_into_series

from mercer.inputs import InputError, chosen, is_table, named_columns

__all__ = ["Cells", "Table", "as_date", "as_number", "as_table", "cells_of", "label"]

DAY = np.timedelta64(1, "D")
STAMP = "datetime64[us]"
# what stands for an empty cell where the others are numbers or dates
EMPTY_WORDS = frozenset({"", "na", "n/a", "nan", "nat", "null", "none"})
ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}([.,]\d+)?)?)?(Z|[+-]\d{2}(:?\d{2})?)?")


@dataclasses.dataclass(frozen=True, eq=False)
class Cells:
    """One column: float64 with NaN, datetime64 with NaT, or text (an object array) with None where a cell is
    empty.

    `categorical`: its own table calls it categories, whatever the cells look like.
    """

    values: np.ndarray
    categorical: bool = False

    @property
    def kind(self) -> str:
        """What the cells are: "number", "date" or "text"."""
        return {"f": "number", "M": "date", "O": "text"}[self.values.dtype.kind]

    @property
    def empty(self) -> np.ndarray:
        """True for each empty cell (n,)."""
        if self.kind == "text":
            return np.array([cell is None for cell in self.values], bool)
        return np.isnan(self.values) if self.kind == "number" else np.isnat(self.values)


@dataclasses.dataclass(frozen=True, eq=False)
class Table:
    """Columns of one length n, and their names where they came with names.

    `block` (n, d) holds the same where every column is a number.
    """

    columns: tuple[Cells, ...]
    names: tuple[str, ...] | None = None
    block: np.ndarray | None = None

    @property
    def rows(self) -> int:
        """Their number."""
        return len(self.columns[0].values)

    def name(self, j: int) -> str:
        """What column j is called in words."""
        return f"column {j}" if self.names is None else f"column {self.names[j]!r}"


def as_table(X: Any, name: str = "X", wanted: Sequence[str] | None = None) -> Table:
    """The columns of a frame, a dict or an array (n, d), each read as numbers, dates or text.

    Text of which every cell is a number, or a date such as 2024-01-31, is read as such. wanted: the names of
    the columns to read, in this order (default: all).
    """
    if is_table(X):
        given = named_columns(X, name)
        given = given if wanted is None else chosen(given, tuple(wanted), name)
        columns = [cells_of(column, f"column {key!r} of {name}") for key, column in given.items()]
        return _table(columns, tuple(given), name)
    array = _array(X)
    if array.ndim != 2:
        raise InputError(
            f"{name} must be a table with rows and columns, got an array of shape {array.shape}."
        )
    if array.dtype.kind in "biuf":
        block = np.asarray(array, dtype=np.float64, order="C")
        return Table(tuple(map(Cells, block.T)), None, block)
    return _table([_cells(array[:, j], f"column {j} of {name}") for j in range(array.shape[1])], None, name)


def _table(columns: list[Cells], names: tuple[str, ...] | None, name: str) -> Table:
    if not columns:
        raise InputError(f"{name} has no columns.")
    first = len(columns[0].values)
    for j, column in enumerate(columns):
        if len(column.values) != first:
            assert names is not None
            raise InputError(
                f"column {names[j]!r} of {name} has {len(column.values)} entries but column {names[0]!r} has "
                f"{first}."
            )
    if any(column.kind != "number" or column.categorical for column in columns):
        return Table(tuple(columns), names)
    block = np.empty((first, len(columns)))
    for j, column in enumerate(columns):
        block[:, j] = column.values
    return Table(tuple(map(Cells, block.T)), names, block)


# ------------------------------------------------------------------------------------------------- columns


def cells_of(column: Any, where: str) -> Cells:
    """One column as people hand it in: a series of pandas, polars or pyarrow, a list or an array."""
    if not isinstance(column, list | np.ndarray) and is_into_series(column):
        return _of_series(nw.from_native(column, series_only=True), where)
    array = _array(column)
    if array.ndim != 1:
        raise InputError(f"{where} must be one column of numbers, got shape {array.shape}.")
    return _cells(array, where)


def _array(values: Any) -> np.ndarray:
    """An array; text as objects, so that numbers between it stay numbers."""
    array = np.asarray(values)
    return np.array(values, dtype=object) if array.dtype.kind in "US" else array


def _of_series(column: Any, where: str) -> Cells:
    kind = column.dtype
    if kind == nw.Datetime and kind.time_zone is not None:
        column = column.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
    if kind.is_numeric() or kind in (nw.Boolean, nw.Datetime, nw.Date, nw.Duration):
        array = column.to_numpy()
        if array.dtype.kind != "O":
            return _cells(array, where)
    cells = np.empty(len(column), dtype=object)
    cells[:] = column.to_list()
    categorical = kind in (nw.Categorical, nw.Enum)
    return Cells(_text(cells, where), True) if categorical else _cells(cells, where)


def _cells(array: np.ndarray, where: str) -> Cells:
    if np.iscomplexobj(array):
        raise InputError(
            f"{where} is complex: Complex data not supported. Give real and imaginary part, or modulus and "
            "angle, as columns of their own."
        )
    if array.dtype.kind in "biuf":
        return Cells(np.asarray(array, np.float64))
    if array.dtype.kind == "M":
        return Cells(array.astype(STAMP))
    if array.dtype.kind == "m":
        return Cells(array / DAY)
    if array.dtype.kind != "O":
        raise InputError(f"{where} holds {array.dtype}, not numbers, text or dates.")
    full = [cell for cell in array if not _is_empty(cell)]
    if all(isinstance(cell, numbers.Real | np.bool_ | Decimal) for cell in full):
        return Cells(np.array([np.nan if _is_empty(cell) else float(cell) for cell in array]))
    if all(isinstance(cell, datetime.date | np.datetime64) for cell in full):
        return Cells(_stamps([None if _is_empty(cell) else cell for cell in array]))
    if all(isinstance(cell, datetime.timedelta | np.timedelta64) for cell in full):
        return Cells(np.array([np.nan if _is_empty(c) else np.timedelta64(c) / DAY for c in array]))
    if all(isinstance(cell, datetime.time) for cell in full):
        return Cells(np.array([np.nan if _is_empty(cell) else _hours(cell) / 24.0 for cell in array]))
    return _read(_text(array, where))


def _is_empty(cell: Any) -> bool:
    """None, NaN, NaT and what libraries have for a missing value, which has no truth."""
    try:
        return cell is None or bool(cell != cell)
    except (TypeError, ValueError):
        return not isinstance(cell, np.ndarray)


def _text(array: np.ndarray, where: str) -> np.ndarray:
    """Labels, None where there is none."""
    out = np.empty(len(array), dtype=object)
    for row, cell in enumerate(array):
        if isinstance(cell, complex | np.complexfloating):
            raise InputError(
                f"{where} is complex (row {row} holds {cell}): Complex data not supported. Give real and "
                "imaginary part, or modulus and angle, as columns of their own."
            )
        if isinstance(cell, dict | list | set | tuple | np.ndarray):
            raise TypeError(
                f"{where}: the argument must be a string, a number or a date in each cell, but row {row} "
                f"holds a {type(cell).__name__}."
            )
        out[row] = None if _is_empty(cell) or cell == "" else label(cell)
    return out


def label(cell: Any) -> str:
    """A cell as the name of a level: whole numbers without decimals, so that 1, 1.0 and "1" are the same."""
    if isinstance(cell, str):
        return str(cell)
    whole = isinstance(cell, numbers.Real) and not isinstance(cell, bool) and float(cell).is_integer()
    return str(int(cell)) if whole else str(cell)


def _read(text: np.ndarray) -> Cells:
    """Text as numbers, or as dates, where every cell is one."""
    full = [cell for cell in text if cell is not None and cell.strip().lower() not in EMPTY_WORDS]
    for read, dtype in ((as_number, np.float64), (as_date, STAMP)):
        if full and read(full[0]) is not None and all(read(cell) is not None for cell in full):
            return Cells(as_cells(text, read, dtype))
    return Cells(text)


def as_cells(text: Iterable[Any], read: Any, dtype: Any) -> np.ndarray:
    """Text by one of the two readers below; what neither is empty nor can be read is NaN or NaT too."""
    missing = np.nan if dtype == np.float64 else np.datetime64("NaT")
    values = [None if cell is None else read(cell) for cell in text]
    return np.array([missing if v is None else v for v in values], dtype)


def as_number(text: str) -> float | None:
    """The number that a text is, 1 and 0 for true and false; None where it is none."""
    if (word := text.strip().lower()) in ("true", "false"):
        return float(word == "true")
    try:
        return None if "_" in text else float(text)
    except ValueError:
        return None


def as_date(text: str) -> np.datetime64 | None:
    """The date or time that a text is, in UTC where it has a zone; None where it is none."""
    text = text.strip()
    if not ISO_DATE.fullmatch(text):
        return None
    try:
        return _stamps([datetime.datetime.fromisoformat(text)])[0]
    except ValueError:
        return None


def _stamps(cells: list[Any]) -> np.ndarray:
    moments = [
        cell.astimezone(datetime.UTC).replace(tzinfo=None)
        if isinstance(cell, datetime.datetime) and cell.tzinfo is not None
        else cell
        for cell in cells
    ]
    return np.array([np.datetime64("NaT") if m is None else np.datetime64(m, "us") for m in moments], STAMP)


def _hours(time: datetime.time) -> float:
    return time.hour + time.minute / 60 + (time.second + time.microsecond / 1e6) / 3600
