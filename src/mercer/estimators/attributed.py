"""Predictions of an estimator explained: rows as people hand them in, and the words of their tables."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from narwhals.stable.v2.dependencies import is_pandas_series

from mercer.columns import Columns
from mercer.estimators.base import frame_index
from mercer.explain import Attributions
from mercer.inputs import InputError, is_table

if TYPE_CHECKING:
    from mercer.estimators.explained import AbstractExplained


def attributed(estimator: AbstractExplained, rows: Any, background: Any) -> Attributions:
    """What each column of the table adds to the predictions of rows, in the words of the table."""
    columns = estimator.columns_
    assert columns is not None
    called = (str(rows.name),) if is_pandas_series(rows) and rows.name is not None else None
    rows = as_rows(rows, columns)
    Z = estimator._inputs(rows)
    beside = None if background is None else estimator._inputs(as_rows(background, columns))
    found = estimator._attributed(Z, beside, estimator._groups(), estimator._seed())
    labels = called or frame_index(rows) or tuple(map(str, range(len(Z))))
    texts = columns.texts(rows)
    return dataclasses.replace(
        found,
        labels=tuple(f"row {label}" for label in labels),
        given=tuple(tuple(texts[name][i] for name in found.names) for i in range(len(Z))),
    )


def as_rows(rows: Any, columns: Columns) -> Any:
    """A table, from what people give: itself, or one row as a dict, a pandas series, or a plain sequence."""
    if is_pandas_series(rows):
        rows = dict(zip(map(str, rows.index), rows.tolist(), strict=True))
    if isinstance(rows, Mapping):
        one = all(isinstance(value, str) or np.ndim(value) == 0 for value in rows.values())
        rows = {name: [value] for name, value in rows.items()} if one else dict(rows)
    if is_table(rows) or columns.objects:
        return rows
    if np.ndim(np.asarray(rows, dtype=object)) == 1:
        given, wanted = len(rows), len(columns.columns)
        if given != wanted:
            raise InputError(
                f"one row of {given} value{'s' if given != 1 else ''} was given, but the model has {wanted} "
                f"column{'s' if wanted != 1 else ''}, {', '.join(columns.names)}: give a value for each, or "
                "several rows as a table."
            )
        return [list(rows)]
    return rows
