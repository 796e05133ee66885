"""Tables of inputs as files hold them: arrays of numbers as they are, tables of objects by their entries."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["from_table", "to_table"]


def to_table(X: np.ndarray) -> Any:
    """A table (n, d) of numbers or objects as `to_json` takes it."""
    return X.tolist() if X.dtype == object else X


def from_table(said: Any) -> Any:
    """What `to_table` was given."""
    return _objects(said) if isinstance(said, list) else said


def _objects(rows: list[Any]) -> np.ndarray:
    if not all(isinstance(row, list) and len(row) == len(rows[0]) for row in rows):
        raise ValueError("the training data are not a table.")
    table = np.empty((len(rows), len(rows[0]) if rows else 0), dtype=object)
    for i, row in enumerate(rows):
        for j, entry in enumerate(row):
            table[i, j] = entry
    return table
