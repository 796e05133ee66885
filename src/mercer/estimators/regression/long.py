"""Long tables: a row for each value of an output, and a column that says of which."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from mercer.estimators import reading
from mercer.estimators.regression.outputs import AbstractOutputs, Question
from mercer.inputs import InputError, is_table, named_columns
from mercer.registry import unknown


@dataclasses.dataclass(frozen=True, eq=False)
class OfRows:
    """Models of several outputs, asked with a table whose `column` says which output each row is of: answers
    (m, c) of these; of a table without it (m, p, c), of all.
    """

    several: AbstractOutputs
    column: str | int

    def ask(self, X: Any, question: Question, units: Sequence[str], latent: bool = False) -> np.ndarray:
        """What the models answer for each row."""
        rest, labels = apart(X, self.column, self._width)
        found = self.several.ask(rest, question, units, latent)
        return found if labels is None else found[np.arange(len(labels)), self._numbers(labels)]

    def log_density(self, X: Any, y: Any) -> np.ndarray:
        """Of each target on its own, (m,); of a table without the column (m, p)."""
        rest, labels = apart(X, self.column, self._width)
        if labels is None:
            return self.several.log_density(rest, y)
        rows, numbers = np.arange(len(labels)), self._numbers(labels)
        table = np.full((len(labels), len(self.several.names)), np.nan)
        table[rows, numbers] = reading.one_output(y, "y")
        return self.several.log_density(rest, dict(zip(self.several.names, table.T, strict=True)))[
            rows, numbers
        ]

    def summary(self) -> str:
        """What was found."""
        return self.several.summary()

    @property
    def _width(self) -> int:
        """Columns of the table without the one that says which output."""
        columns = self.several.columns
        assert columns is not None
        return len(columns.columns)

    def _numbers(self, labels: list[str]) -> np.ndarray:
        known = {name: j for j, name in enumerate(self.several.names)}
        for i, label in enumerate(labels):
            if label not in known:
                raise InputError(f"row {i}: {unknown('output', label, self.several.names)}")
        return np.array([known[label] for label in labels], int)


def widened(X: Any, column: str | int, y: Any) -> tuple[Any, dict[str, np.ndarray]]:
    """The rows of X without the column, each once, and y by output, NaN where it is not known there; rows
    that repeat an output stand for themselves.
    """
    rest, labels = apart(X, column)
    if labels is None:
        raise InputError(f"X has no column {column!r}, which output_column says tells the outputs apart.")
    values = reading.one_output(y, "y")
    if values.shape != (len(labels),):
        raise InputError(f"y must have one value for each of {len(labels)} rows, got shape {values.shape}.")
    names = tuple(dict.fromkeys(labels))
    times: dict[Hashable, int] = {}
    places: dict[Hashable, int] = {}
    row, first = np.empty(len(labels), int), np.zeros(len(labels), bool)
    for i, (key, label) in enumerate(zip(_keys(rest), labels, strict=True)):
        again = times[key, label] = times.get((key, label), -1) + 1
        first[i] = (key, again) not in places
        row[i] = places.setdefault((key, again), len(places))
    table = np.full((len(places), len(names)), np.nan)
    table[row, [names.index(label) for label in labels]] = values
    outputs = {name: reading.one_output(table[:, j], name) for j, name in enumerate(names)}
    return reading.some_rows(rest, first), outputs


def apart(X: Any, column: str | int, width: int | None = None) -> tuple[Any, list[str] | None]:
    """A table without one of its columns, and that column, None where it is not there. An array that has no
    more than `width` columns does not have it.
    """
    if is_table(X):
        given = named_columns(X)
        name = column if isinstance(column, str) else list(given)[column] if len(given) != width else ""
        if name not in given:
            return X, None
        return {key: value for key, value in given.items() if key != name}, _labels(given[name])
    if isinstance(column, str):
        if width is not None:
            return X, None
        raise InputError(f"output_column={column!r} is a name, and X has none: give a position, or a frame.")
    array = np.asarray(X)
    if array.ndim != 2 or array.shape[1] == width:
        return X, None
    rest = np.delete(array, column, 1)
    return (rest.astype(float) if rest.dtype == object else rest), _labels(array[:, column])


def _labels(column: Any) -> list[str]:
    out = []
    for i, value in enumerate(_values(column)):
        if value is None or value != value:
            raise InputError(f"row {i} does not say of which output it is.")
        whole = isinstance(value, float) and value.is_integer()
        out.append(str(int(value) if whole else value))
    return out


def _keys(X: Any) -> list[Hashable]:
    """What makes rows the same."""
    columns = named_columns(X).values() if is_table(X) else np.asarray(X).T
    return list(zip(*map(_values, columns), strict=True))


def _values(column: Any) -> list[Any]:
    from narwhals.stable.v2 import from_native
    from narwhals.stable.v2.dependencies import is_into_series

    if is_into_series(column):
        return from_native(column, series_only=True).to_list()
    return np.asarray(column).tolist()
