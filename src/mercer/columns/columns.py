"""The columns of a table as a model reads them: what each is was learned from the training data."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from mercer.columns.roles import AbstractColumn, Category, Date, LeftOut, Number, Raw
from mercer.columns.table import Cells, Table, as_table
from mercer.inputs import InputError, Inputs, as_inputs, is_table, named_columns
from mercer.registry import Saved, unknown

__all__ = ["ColumnWarning", "Columns", "Encoded"]

ROUNDING = 8 * float(np.finfo(float).eps)
MISSING = ("indicator", "error")


class ColumnWarning(UserWarning):
    """Something in the columns of a table that a person should know of: labels that were not seen in
    training, columns that are not used.
    """


@dataclasses.dataclass(frozen=True, eq=False)
class Encoded:
    """A table in numbers, and notes on what is new in it."""

    inputs: Inputs
    notes: tuple[str, ...] = ()


@Saved.register
@dataclasses.dataclass(frozen=True)
class Columns:
    """What each column of a table is (`Number`, `Category`, `Date` ...), in the order of training.

    columns: one value for each column of the table
    named: whether they have names; else they are counted, x0, x1, ...
    notes: what was seen in training: columns that do not vary, that are equal, that were left out

    >>> columns = Columns.learn({"age": [31, 40, None], "city": ["Ulm", "Bonn", "Ulm"]})
    >>> columns.groups
    {'age': (0, 1), 'city': (2, 3, 4)}
    >>> columns.encode({"city": ["Bonn"], "age": [35.0]}).inputs.values.shape
    (1, 5)
    """

    columns: tuple[AbstractColumn, ...]
    named: bool = True
    notes: tuple[str, ...] = ()

    def __post_init__(self):
        names = [c.name for c in self.columns if isinstance(c, AbstractColumn)]
        if len(set(names)) != len(self.columns) or not isinstance(self.named, bool):
            raise ValueError(f"columns need names of their own, got {names}.")

    # -- learning --------------------------------------------------------------------------------------------

    @classmethod
    def learn(
        cls, X: Any, missing: str = "indicator", named: bool = True, groups: Sequence[str | int] = ()
    ) -> Columns:
        """What the columns of a frame, a dict or an array are.

        groups: columns, by name or position, that say which group a row is of: categories, whatever stands in
        them, all of whose levels are told apart

        missing: "indicator": an empty cell of a number or date is put at the column's mean, and an indicator
        column says so; empty is one more level of a category. "error" refuses empty cells.
        """
        if missing not in MISSING:
            raise ValueError(f"missing must be one of {', '.join(map(repr, MISSING))}, got {missing!r}.")
        table = X if isinstance(X, Table) else as_table(X)
        named = named and table.names is not None
        names = table.names if named else tuple(f"x{j}" for j in range(len(table.columns)))
        assert names is not None
        if missing == "error":
            _refuse_empty(names, table)
        grouping = {names[position(names, group)] for group in groups}
        columns = tuple(
            _group(name, cells) if name in grouping else _role(name, cells)
            for name, cells in zip(names, table.columns, strict=True)
        )
        if not any(column.width for column in columns):
            raise InputError("X has no column to learn from: " + "; ".join(_left_out(columns)) + ".")
        return cls(columns, named, (*_left_out(columns), *_seen(names, columns, table)))

    @classmethod
    def raw(cls, names: Sequence[str] | None, d: int, objects: bool = False) -> Columns:
        """d columns that a kernel reads as they are: numbers, or also other objects."""
        called = names or [f"x{j}" for j in range(d)]
        return cls(tuple(Raw(name, objects) for name in called), names is not None)

    # -- what they are called --------------------------------------------------------------------------------

    @property
    def names(self) -> tuple[str, ...]:
        """The columns' names."""
        return tuple(column.name for column in self.columns)

    def name_of(self, column: str | int) -> str:
        """The name of a column given by its name or its position."""
        return self.names[position(self.names, column)]

    @property
    def encoded_names(self) -> tuple[str, ...] | None:
        """Names of the encoded columns; None where the columns have none and are encoded as they are."""
        if not self.named and self.plain:
            return None
        return tuple(name for c in self.columns for part in c.parts for name in part.columns)

    @property
    def groups(self) -> dict[str, tuple[int, ...]]:
        """The positions of the encoded columns that each column became."""
        ends = list(itertools.accumulate((column.width for column in self.columns), initial=0))
        return {c.name: tuple(range(*ends[j : j + 2])) for j, c in enumerate(self.columns)}

    @property
    def plain(self) -> bool:
        """Whether the columns are encoded as they are: numbers that are all there, or what a kernel reads."""
        return all(column.plain for column in self.columns)

    @property
    def objects(self) -> bool:
        """Whether a kernel reads what stands in the columns as it is: text, sequences, other objects."""
        return any(isinstance(column, Raw) and column.objects for column in self.columns)

    @property
    def lengthscales(self) -> tuple[str, ...]:
        """What the length-scales of a kernel on the encoded columns are called."""
        return tuple(part.name for column in self.columns for part in column.parts)

    @property
    def sharing(self) -> tuple[int, ...]:
        """For each encoded column the number of its length-scale."""
        widths = [len(part.columns) for column in self.columns for part in column.parts]
        return tuple(j for j, width in enumerate(widths) for _ in range(width))

    # -- numbers ---------------------------------------------------------------------------------------------

    def encode(self, X: Any) -> Encoded:
        """A table in the columns' numbers (n, d), all finite. Columns with names are taken by them, others
        are not read; a column that is missing is an error that names it.
        """
        notes = []
        by_name = self.named and not isinstance(X, Table) and is_table(X)
        if by_name:
            X = named_columns(X)
            if other := [name for name in X if name not in self.names]:
                notes.append(f"columns that the model was not fitted to are ignored: {', '.join(other)}.")
        if any(isinstance(column, Raw) for column in self.columns):
            inputs = as_inputs(X, "X", self.names if by_name else None, self.objects)
            return Encoded(Inputs(inputs.values, self.encoded_names), tuple(notes))
        if not isinstance(X, Table):
            X = as_table(X, wanted=[c.name for c in self.columns if c.width] if by_name else None)
        cells = self._arranged(X)
        if X.block is not None and self.plain and np.isfinite(X.block).all():
            return Encoded(Inputs(X.block, self.encoded_names), tuple(notes))
        parts = []
        for column, one in zip(self.columns, cells, strict=True):
            numbers, said = column.encode(one)
            parts.append(numbers)
            notes += said
        return Encoded(
            Inputs(np.ascontiguousarray(np.concatenate(parts, 1)), self.encoded_names), tuple(notes)
        )

    def _arranged(self, table: Table) -> list[Cells]:
        """The cells of each column, in order."""
        if table.names is not None and self.named:
            given = dict(zip(table.names, table.columns, strict=True))
            nothing = Cells(np.full(table.rows, np.nan))
            return [given.get(c.name, nothing) if not c.width else given[c.name] for c in self.columns]
        if len(table.columns) != len(self.columns):
            raise InputError(f"X has {len(table.columns)} columns but the model {len(self.columns)}.")
        return list(table.columns)

    # -- words -----------------------------------------------------------------------------------------------

    def texts(self, X: Any) -> dict[str, list[str]]:
        """What stands in each column of a table, as text, by the name of the column."""
        if any(isinstance(column, Raw) for column in self.columns):
            by_name = self.names if self.named and is_table(X) else None
            values = as_inputs(X, "X", by_name, self.objects).values
            return {name: [_text(v) for v in values[:, j].tolist()] for j, name in enumerate(self.names)}
        wanted = [c.name for c in self.columns if c.width] if self.named and is_table(X) else None
        cells = self._arranged(as_table(X, wanted=wanted))
        return {
            name: [_text(v) for v in one.values.astype("datetime64[s]" if one.kind == "date" else object)]
            for name, one in zip(self.names, cells, strict=True)
        }

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Header and rows: each column and what it is, as text."""
        return ["column", "read as"], [[column.name, column.words()] for column in self.columns]


def _text(value: Any) -> str:
    """A cell as text."""
    if isinstance(value, float):
        return "empty" if np.isnan(value) else f"{value:.5g}"
    if value is None or (isinstance(value, np.datetime64) and np.isnat(value)):
        return "empty"
    return str(value).removesuffix("T00:00:00")


def position(names: tuple[str, ...], column: str | int) -> int:
    """Where a column stands that is given by its name, or by its position."""
    at = names.index(column) if column in names else column
    if isinstance(at, str) or not -len(names) <= at < len(names):
        raise InputError(unknown("column", column, names))
    return at % len(names)


def _group(name: str, cells: Cells) -> AbstractColumn:
    column = Category.learn(name, cells, most=None)
    if isinstance(column, LeftOut):
        raise InputError(f"column {name!r} {column.why}: its rows form no groups.")
    return column


def _role(name: str, cells: Cells) -> AbstractColumn:
    if cells.empty.all():
        return LeftOut(name, "is empty in every row")
    if cells.categorical or cells.kind == "text":
        return Category.learn(name, cells)
    return Date.learn(name, cells) if cells.kind == "date" else Number.learn(name, cells)


def _refuse_empty(names: tuple[str, ...], table: Table) -> None:
    counts = {name: int(cells.empty.sum()) for name, cells in zip(names, table.columns, strict=True)}
    if any(counts.values()):
        said = ", ".join(f"{name!r} ({n})" for name, n in counts.items() if n)
        raise InputError(
            f"X contains NaN or empty cells: {said}. Fill them in, or allow them by missing='indicator'."
        )


def _left_out(columns: tuple[AbstractColumn, ...]) -> list[str]:
    return [f"column {c.name!r} {c.why}, and is left out" for c in columns if isinstance(c, LeftOut)]


def _seen(names: tuple[str, ...], columns: tuple[AbstractColumn, ...], table: Table) -> list[str]:
    """Notes on columns that do not vary, and on equal ones."""
    notes, first = [], dict[tuple[str, bytes], str]()
    for name, column, cells in zip(names, columns, table.columns, strict=True):
        if not column.width:
            continue
        if _constant(cells):
            notes.append(f"column {name!r} does not vary")
        key = (
            cells.kind,
            repr(cells.values.tolist()).encode() if cells.kind == "text" else cells.values.tobytes(),
        )
        if (other := first.setdefault(key, name)) != name:
            notes.append(f"column {name!r} equals column {other!r}")
    return notes


def _constant(cells: Cells) -> bool:
    if cells.empty.any():
        return False
    if cells.kind == "number":
        with np.errstate(over="ignore"):
            return bool(np.ptp(cells.values) <= ROUNDING * np.abs(cells.values).max())
    return all(value == cells.values[0] for value in cells.values)
