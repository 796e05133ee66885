"""Time series as people have them (pandas, polars, columns, arrays) to stamps and values,
and tables of the same kind back.
"""

from __future__ import annotations

import dataclasses
import datetime
import re
import zoneinfo
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from narwhals.stable.v2.dependencies import (
    is_into_dataframe,
    is_into_series,
    is_pandas_dataframe,
    is_pandas_series,
    is_polars_series,
)

from mercer.estimators.series.events import Event, read_events
from mercer.inputs import InputError

WITH_OTHERS = (
    "a series is learned from its times; other columns join it by regressors=[...], with linear effects; for "
    "effects of any shape give all of them to GPRegressor, with the times as one: dates get their seasons "
    "there, too"
)


@dataclasses.dataclass(frozen=True)
class Kind:
    """What the user's table looked like: "pandas", "polars" or "" (arrays), names of its columns,
    pandas' period.
    """

    library: str = ""
    time: str = "time"
    value: str = "value"
    period: str | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class Recorded:
    """Stamps (n,), numbers or datetime64[us] (UTC where there is a zone),
    and values (n,) with NaN where there are none; regressors (n,) by name, and events.
    """

    stamps: np.ndarray
    values: np.ndarray
    kind: Kind
    zone: str | None
    notes: tuple[str, ...]
    others: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)
    events: dict[str, Event] = dataclasses.field(default_factory=dict)


def read_series(
    series: Any,
    y: Any = None,
    time: str | None = None,
    value: str | None = None,
    regressors: Any = None,
    events: Any = None,
) -> Recorded:
    """Whatever holds a series, in the order of time. regressors: names of columns of its frame, or columns by
    name, with a row for each of its rows; events: as `read_events` takes them.
    """
    inside = _names(regressors)
    if isinstance(series, tuple) and len(series) == 2 and y is None:
        series, y = series
    kind, unused = Kind(), tuple[str, ...]()
    if y is not None:
        stamps, values = series, y
    elif is_pandas_series(series):
        stamps, values = series.index, series
        kind = Kind("pandas", str(series.index.name or "time"), str(series.name or "value"))
    elif isinstance(series, dict) or is_into_dataframe(series):
        stamps, values, kind, unused = _columns(series, time, value, inside)
    else:
        values = series
        stamps = np.arange(len(series))
        kind = Kind("polars") if is_polars_series(series) else kind
    found = numbers(values)
    others = _others(series, regressors, inside, found.size)
    at, zone, notes = _stamps(stamps)
    if unused:
        notes = (*notes, f"columns that are not used: {', '.join(unused)} ({WITH_OTHERS})")
    if at.shape != found.shape:
        raise InputError(f"there are {at.size} times but {found.size} values: give one value for each time.")
    if at.size == 0:
        raise InputError("the series is empty.")
    period = getattr(stamps, "freqstr", None) if type(stamps).__name__ == "PeriodIndex" else None
    kind = dataclasses.replace(kind, library=kind.library or _library(stamps), period=period)
    if (np.diff(at) < np.zeros(1, np.diff(at).dtype)).any():
        order = np.argsort(at, kind="stable")
        at, found = at[order], found[order]
        others = {name: column[order] for name, column in others.items()}
        notes = (*notes, "the rows were not in the order of time: they were sorted")
    return Recorded(at, found, kind, zone, notes, others, read_events(events))


def times(stamps: Any) -> tuple[np.ndarray, str | None]:
    """Stamps alone: numbers or datetime64[us], and their zone."""
    at, zone, _ = _stamps(stamps)
    return at, zone


def table(kind: Kind, stamps: np.ndarray, zone: str | None, columns: dict[str, np.ndarray]) -> Any:
    """Columns beside their stamps: a polars frame where the series was polars, a dict where pandas is not
    installed, else pandas with the stamps as index.
    """
    if kind.library == "polars":
        import polars as pl

        out = pl.DataFrame({kind.time: stamps, **columns})
        return (
            out
            if zone is None
            else out.with_columns(pl.col(kind.time).dt.replace_time_zone("UTC").dt.convert_time_zone(zone))
        )
    try:
        import pandas as pd
    except ImportError:
        return {kind.time: stamps, **columns}
    index: Any = pd.Index(stamps, name=kind.time)
    if zone is not None:
        index = index.tz_localize("UTC").tz_convert(zone)
    if kind.period is not None:
        index = pd.PeriodIndex(index, freq=kind.period)
    return pd.DataFrame(columns, index=index)


# ------------------------------------------------------------------------------------------------- columns


def _names(regressors: Any) -> tuple[str, ...]:
    """Names of columns, where regressors are given by name."""
    if isinstance(regressors, str):
        return (regressors,)
    return tuple(regressors) if isinstance(regressors, list | tuple) else ()


def _others(series: Any, regressors: Any, inside: tuple[str, ...], rows: int) -> dict[str, np.ndarray]:
    """Regressors (n,) by name."""
    if regressors is None:
        return {}
    holder = series if inside else regressors
    if not (isinstance(holder, dict) or is_into_dataframe(holder)):
        raise InputError(
            "regressors must be names of columns of the frame that holds the series, or a frame or dict of "
            f"columns with as many rows as the series, got {type(regressors).__name__} beside a "
            f"{type(series).__name__}."
        )
    if isinstance(holder, dict):
        columns: dict[str, Any] = holder
    else:
        frame = nw.from_native(holder, eager_only=True)
        columns = {name: frame[name].to_native() for name in frame.columns}
    if missing := [name for name in inside if name not in columns]:
        raise InputError(f"there is no column {missing[0]!r}; there are {', '.join(columns)}.")
    others = {str(name): numbers(columns[name], f"the regressor {name!r}") for name in inside or columns}
    for name, column in others.items():
        if column.size != rows:
            raise InputError(f"the regressor {name!r} has {column.size} rows, but the series has {rows}.")
    return others


def _columns(
    frame: Any, time: str | None, value: str | None, regressors: tuple[str, ...]
) -> tuple[Any, Any, Kind, tuple[str, ...]]:
    """The columns of times and of values, what they are called, and the names of those that are not used."""
    index = (
        frame.index
        if is_pandas_dataframe(frame) and type(frame.index).__name__ in ("DatetimeIndex", "PeriodIndex")
        else None
    )
    if isinstance(frame, dict):
        columns: dict[str, Any] = dict(frame)
        dated = [name for name, c in columns.items() if np.asarray(c).dtype.kind == "M"]
        numeric = [name for name, c in columns.items() if np.asarray(c).dtype.kind in "fiub"]
        library = ""
    else:
        table = nw.from_native(frame, eager_only=True)
        columns = {name: table[name].to_native() for name in table.columns}
        dated = [name for name, kind in table.schema.items() if kind in (nw.Datetime, nw.Date)]
        numeric = [name for name, kind in table.schema.items() if kind.is_numeric()]
        library = table.implementation.value if table.implementation.value in ("pandas", "polars") else ""
    for name in (time, value):
        if name is not None and name not in columns:
            raise InputError(f"there is no column {name!r}; there are {', '.join(columns)}.")
    if time is None and index is None and len(dated) != 1:
        raise InputError(f"which column holds the times? Give time=, one of {', '.join(columns)}.")
    chosen = time if time is not None or index is not None else dated[0]
    left = [name for name in numeric if name != chosen and name not in regressors]
    if value is None and len(left) != 1:
        raise InputError(
            f"which column holds the values? Give value=, one of {', '.join(left or columns)}. The others "
            f"are not used: {WITH_OTHERS}."
        )
    value = left[0] if value is None else value
    unused = tuple(name for name in columns if name not in (chosen, value, *regressors))
    if chosen is None:
        assert index is not None
        return index, columns[value], Kind(library, str(index.name or "time"), value), unused
    return columns[chosen], columns[value], Kind(library, chosen, value), unused


def _library(stamps: Any) -> str:
    return "polars" if is_polars_series(stamps) else ""


def numbers(values: Any, what: str = "the value") -> np.ndarray:
    """float64 with NaN where there is nothing; the first entry that is no number is named."""
    if is_into_series(values):
        values = nw.from_native(values, series_only=True).to_numpy()
    values = np.asarray(values)
    if values.ndim != 1:
        raise InputError(
            f"a series has one value for each time, but the values have shape {values.shape}: {WITH_OTHERS}."
        )
    if values.dtype.kind not in "fiub":
        values = np.array([_number(v, i, what) for i, v in enumerate(values)], float)
    values = values.astype(float)
    if np.isinf(values).any():
        raise InputError(
            f"{what} in row {int(np.argmax(np.isinf(values)))} is infinite: leave it empty or correct it."
        )
    return values


def _number(value: Any, row: int, what: str) -> float:
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return np.nan
    try:
        return float(value)
    except (TypeError, ValueError):
        raise InputError(
            f"{what} in row {row} is {str(value)!r}, not a number: correct it, or leave it empty."
        ) from None


# ------------------------------------------------------------------------------------------------- stamps


def _stamps(given: Any) -> tuple[np.ndarray, str | None, tuple[str, ...]]:
    """Numbers, or datetime64[us] in UTC or without a zone; the zone; notes."""
    if type(given).__name__ == "PeriodIndex":
        given = given.to_timestamp()
    elif is_into_series(given):
        if (
            hasattr(given, "to_frame")
            and is_polars_series(given)
            and (zone := getattr(given.dtype, "time_zone", None))
        ):
            return _checked(given.dt.replace_time_zone(None).to_numpy(), given), *_known(zone)
        given = given.array if is_pandas_series(given) else nw.from_native(given, series_only=True).to_numpy()
    if getattr(given, "tz", None) is not None and hasattr(given, "tz_convert"):
        zone, notes = _known(str(given.tz))
        return _checked(given.tz_convert("UTC").tz_localize(None), given), zone, notes
    array = np.asarray(given)
    if array.ndim != 1:
        raise InputError(f"times must be one column, but they have shape {array.shape}: {WITH_OTHERS}.")
    if array.dtype.kind in "fiu":
        wrong = ~np.isfinite(array.astype(float))
        if wrong.any():
            raise InputError(
                f"the time in row {int(np.argmax(wrong))} is missing or infinite: correct it or leave the "
                "row out."
            )
        _check_whole(array)
        return array.astype(float), None, ()
    if array.dtype.kind == "M":
        return _checked(array, given), None, ()
    return _parsed([_moment(entry, row) for row, entry in enumerate(array)])


def _check_whole(times: np.ndarray) -> None:
    """Whole numbers that float64 tells apart: nanoseconds since 1970 are none."""
    if times.dtype.kind in "iu" and times.size and max(int(times.max()), -int(times.min())) > EXACT:
        raise InputError(
            f"whole times up to {int(times.max())} cannot be told apart in float64 (beyond 2^53): subtract "
            "the first, or give dates (nanoseconds since 1970 are dates by times.astype('datetime64[ns]'))."
        )


def _checked(stamps: Any, given: Any) -> np.ndarray:
    array = np.asarray(stamps).astype("datetime64[us]")
    if np.isnat(array).any():
        raise InputError(
            f"the time in row {int(np.argmax(np.isnat(array)))} is missing (NaT): fill it in or leave the "
            "row out."
        )
    return array


def _known(zone: str) -> tuple[str, tuple[str, ...]]:
    """A zone by a name that is known everywhere."""
    try:
        zoneinfo.ZoneInfo(zone)
        return zone, ()
    except (zoneinfo.ZoneInfoNotFoundError, ValueError):
        return "UTC", (f"times of the zone {zone} were put on UTC",)


EXACT = 2**53  # the largest whole number below which float64 has them all
YEAR_MONTH = re.compile(r"(\d{4})-(\d{2})")


def _moment(entry: Any, row: int) -> datetime.datetime:
    """One stamp of a column of objects or text."""
    if isinstance(entry, datetime.datetime) and entry == entry:  # NaT differs from itself
        return entry
    if isinstance(entry, datetime.date) and entry == entry:
        return datetime.datetime(entry.year, entry.month, entry.day)
    text = str(entry).strip()
    try:
        if found := YEAR_MONTH.fullmatch(text):
            return datetime.datetime(int(found[1]), int(found[2]), 1)
        return datetime.datetime.fromisoformat(text)
    except ValueError:
        if entry is None or text.lower() in ("", "nat", "nan", "none"):
            raise InputError(f"the time in row {row} is missing: fill it in or leave the row out.") from None
        raise InputError(
            f"the time in row {row}, {text!r}, is not a date: write dates as 2024-01-31 or "
            "2024-01-31T12:30, or give numbers."
        ) from None


def _parsed(moments: list[datetime.datetime]) -> tuple[np.ndarray, str | None, tuple[str, ...]]:
    zoned = np.array([m.utcoffset() is not None for m in moments])
    if zoned.any() and not zoned.all():
        row, other = int(np.argmax(zoned)), int(np.argmin(zoned))
        raise InputError(
            f"the time in row {row} has a time zone ({moments[row]}) but that in row {other} has none "
            f"({moments[other]}): "
            "give all of them one, or none."
        )
    if not zoned.any():
        return np.array(moments, "datetime64[us]"), None, ()
    utc = np.array([m.astimezone(datetime.UTC).replace(tzinfo=None) for m in moments], "datetime64[us]")
    zones = {str(m.tzinfo) for m in moments}
    if len(zones) == 1:
        return utc, *_known(zones.pop())
    return utc, "UTC", (f"times of {len(zones)} time zones were put on UTC",)
