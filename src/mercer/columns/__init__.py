"""The columns of people's tables: numbers, booleans, categories, dates and empty cells, and how a model reads
them.

>>> columns = Columns.learn(frame)
>>> columns.encode(new).inputs.values                         # (m, d) numbers
"""

from __future__ import annotations

from mercer.columns.chunked import Reader
from mercer.columns.columns import Columns, ColumnWarning, Encoded
from mercer.columns.groups import Groups
from mercer.columns.roles import AbstractColumn, Category, Date, LeftOut, Number, Part, Raw
from mercer.columns.table import Cells, Table, as_table

__all__ = [
    "AbstractColumn",
    "Category",
    "Cells",
    "ColumnWarning",
    "Columns",
    "Date",
    "Encoded",
    "Groups",
    "LeftOut",
    "Number",
    "Part",
    "Raw",
    "Reader",
    "Table",
    "as_table",
]


def __dir__() -> list[str]:
    return sorted(__all__)
