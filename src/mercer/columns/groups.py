"""Rows of a table that belong together, by what stands in one of its columns: measurements by one instrument,
patients of one clinic.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from mercer.columns.columns import Columns, position
from mercer.columns.roles import MOST, Category, LeftOut
from mercer.inputs import InputError
from mercer.registry import Saved

__all__ = ["Groups"]


@Saved.register
@dataclasses.dataclass(frozen=True)
class Groups:
    """Groups of rows by one column of a table.

    name: what the column is called
    columns: the positions of the encoded columns that it became
    levels: what stands in these columns in the rows of each group, as many entries as `columns`
    labels: what the groups are called

    >>> columns = Columns.learn(frame)
    >>> groups = Groups.learn(columns, "instrument", columns.encode(frame).inputs.values)
    >>> groups.labels, groups.of(X)                           # (G,) names, (n,) numbers
    """

    name: str
    columns: tuple[int, ...]
    levels: tuple[tuple[Any, ...], ...]
    labels: tuple[str, ...]

    def __post_init__(self):
        many = len(self.levels)
        fits = all(isinstance(level, tuple) and len(level) == len(self.columns) for level in self.levels)
        if not (0 < many <= MOST + 1 and fits and len(set(self.levels)) == many == len(self.labels)):
            raise ValueError(f"groups by {self.name!r} are different levels, each with a label.")

    @classmethod
    def learn(cls, columns: Columns, by: str | int, X: np.ndarray) -> Groups:
        """The groups of encoded rows X (n, d) by a column: its name, or its position."""
        column = columns.columns[position(columns.names, by)]
        if isinstance(column, LeftOut):
            raise InputError(f"column {column.name!r} {column.why}: its rows form no groups.")
        where = columns.groups[column.name]
        rows = list(dict.fromkeys(_rows(X, where)))
        if len(rows) > MOST + 1 or 2 * len(rows) > len(X):
            raise InputError(
                f"column {column.name!r} has {len(rows)} different values in {len(X)} rows: name one that "
                f"puts rows into few groups, at most {MOST} and of two rows or more on average; numbers can "
                "be put into ranges first (pandas.cut)."
            )
        try:
            rows.sort()
        except TypeError:  # text beside numbers
            rows.sort(key=repr)
        if isinstance(column, Category):  # in the order of its levels
            rows.reverse()
            shown = [part.partition("=")[2] for part in column.parts[0].columns]
            return cls(column.name, where, tuple(rows), tuple(shown[np.argmax(row)] for row in rows))
        return cls(column.name, where, tuple(rows), tuple(map(_label, rows)))

    def of(self, X: np.ndarray) -> np.ndarray:
        """The number of each row's group (m,); -1 where it is none of those seen in training."""
        if not all(0 <= column < X.shape[1] for column in self.columns):
            raise ValueError(f"groups by {self.name!r} stand in columns {self.columns} of {X.shape[1]}.")
        number = {level: g for g, level in enumerate(self.levels)}
        return np.array([number.get(row, -1) for row in _rows(X, self.columns)], int)


def _rows(X: np.ndarray, columns: tuple[int, ...]) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in X[:, list(columns)].tolist()]


def _label(row: tuple[Any, ...]) -> str:
    """Of a number or an object as it is; the last of several encoded columns says that a cell is empty."""
    if len(row) > 1 and row[-1]:
        return "(empty)"
    return f"{row[0]:g}" if isinstance(row[0], float) else str(row[0])
