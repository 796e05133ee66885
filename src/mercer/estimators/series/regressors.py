"""What is known of regressors at other times than those of the series."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from narwhals.stable.v2.dependencies import is_into_dataframe, is_pandas_dataframe

from mercer.estimators.series.ahead import read
from mercer.estimators.series.clock import ROUNDING, Clock
from mercer.estimators.series.recorded import numbers, times
from mercer.inputs import InputError

DATED = ("DatetimeIndex", "PeriodIndex")


def given_columns(given: Any, names: Sequence[str], clock: Clock, time: str, t: np.ndarray) -> np.ndarray:
    """Regressors (m, k) at times t (m,) as far as `given` knows them, NaN elsewhere.

    given: a frame or a dict of columns. With times (a column called as in the series, or an index of dates)
    its rows are those of equal stamps; without, it has a row for each of t.
    """
    if not (isinstance(given, Mapping) or is_into_dataframe(given)):
        raise InputError(
            f"regressors must be a frame or a dict of columns, got {type(given).__name__}: "
            f"{{{', '.join(f'{name!r}: values' for name in names)}}}."
        )
    columns, index = _columns(given)
    if not set(columns) & set(names):
        raise InputError(
            f"none of the regressors {', '.join(names)} is among the columns {', '.join(columns)}."
        )
    stamps = columns.get(time, index)
    if stamps is None:
        place, found = np.arange(t.size), np.full(t.size, True)
    else:
        at = read(clock, *times(stamps))
        place, found = match(at, t, ROUNDING * clock.step)
    out = np.full((t.size, len(names)), np.nan)
    for j, name in enumerate(names):
        if name in columns:
            values = numbers(columns[name], f"the regressor {name!r}")
            if stamps is None and values.size != t.size:
                raise InputError(
                    f"the regressor {name!r} has {values.size} values for {t.size} times: give one for each, "
                    f"or the times beside them, in a column {time!r}."
                )
            out[found, j] = values[place[found]]
    return out


def match(known: np.ndarray, t: np.ndarray, tolerance: float) -> tuple[np.ndarray, np.ndarray]:
    """For each of times t (m,) the place of an equal one among `known`, and whether there is one."""
    if not known.size:
        return np.zeros(t.size, int), np.full(t.size, False)
    order = np.argsort(known, kind="stable")
    place = order[np.minimum(np.searchsorted(known[order], t - tolerance), known.size - 1)]
    return place, np.abs(known[place] - t) <= tolerance


def _columns(given: Any) -> tuple[dict[str, Any], Any]:
    """Columns by name, and the index where it holds dates."""
    if isinstance(given, Mapping):
        return dict(given), None
    frame = nw.from_native(given, eager_only=True)
    columns = {name: frame[name].to_native() for name in frame.columns}
    dated = is_pandas_dataframe(given) and type(given.index).__name__ in DATED
    return columns, given.index if dated else None


__all__ = ["given_columns", "match"]
