"""Holidays and other events by date: what people write, and the columns of a design that they are."""

from __future__ import annotations

import dataclasses
import datetime
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from narwhals.stable.v2.dependencies import is_into_dataframe, is_into_series

from mercer.estimators.series.clock import Clock
from mercer.inputs import InputError

EVERY_YEAR = re.compile(r"(\d{1,2})-(\d{1,2})")
FORMS = "write 2024-12-25, or 12-25 for every year"
YEAR = 365.2425
LEAP = 2024  # a year that has every day
WIDEST = 366  # days of a window, on either side
COLUMNS = ("name", "date", "before", "after", "lasting", "scale")


@dataclasses.dataclass(frozen=True)
class Event:
    """Days on which a series is moved: by how much is learned, the same each time.

    dates: one or several: text ("2024-12-25"; "12-25" is every year), dates, or (month, day) for every year;
        numbers where the series has plain numbers for times
    before, after: further days on either side, each with an effect of its own (steps of a series in plain
        numbers). A stamp that stands for more than a day (a week, a month) counts the days in its period
    lasting: the effect stays from that day on: a change of level that is known
    scale: prior standard deviation of the effect, in units of the series (of its logarithm where that is
        modelled); by default three standard deviations of the series

    >>> Event((12, 24), after=2), Event(["2024-03-31", "2025-04-20"], before=1)
    >>> Event("2020-03-16", lasting=True)
    """

    dates: tuple[str | float, ...]
    before: int = 0
    after: int = 0
    lasting: bool = False
    scale: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "dates", tuple(_date(d) for d in _each(self.dates)))
        for name in ("before", "after"):
            days = getattr(self, name)
            if isinstance(days, bool) or int(days) != days or not 0 <= days <= WIDEST:
                raise ValueError(f"Event.{name} must be a whole number of days, 0 to {WIDEST}, got {days!r}.")
            object.__setattr__(self, name, int(days))
        if not self.dates:
            raise ValueError("an event needs at least one date.")
        if self.scale is not None and not (math.isfinite(self.scale) and self.scale > 0):
            raise ValueError(f"Event.scale must be positive, got {self.scale!r}.")
        if self.lasting and (self.before or self.after):
            raise ValueError("an event that lasts has no days before or after.")

    def offsets(self, clock: Clock) -> tuple[int, ...]:
        """The days of the window that have an effect of their own."""
        return tuple(range(-self.before, self.after + 1)) if clock.days_of_a_stamp == 1 else (0,)

    def at(self, clock: Clock, t: np.ndarray, offset: int = 0) -> np.ndarray:
        """Of times t (m,): how many days that are `offset` days after the event each stands for; whether one
        that lasts has begun.
        """
        if not clock.unit:
            start, end, at = t / clock.step - 0.5, t / clock.step + 0.5, self._numbers(clock) + offset
        else:
            (start, end), at = clock.days(t), self._days(clock, t) + offset
        if clock.days_of_a_stamp > 1:
            at = np.unique(at[:, None] + np.arange(-self.before, self.after + 1))
        if self.lasting:
            return (np.min(at, initial=np.inf) < end).astype(float)
        return (np.searchsorted(at, end) - np.searchsorted(at, start)).astype(float)

    def _numbers(self, clock: Clock) -> np.ndarray:
        """In steps from the origin of the clock."""
        if any(isinstance(d, str) for d in self.dates):
            raise InputError(
                f"the series has plain numbers for times, so an event has, too, not {self.dates}."
            )
        return np.sort((np.array(self.dates, float) - clock.origin) / clock.step)

    def _days(self, clock: Clock, t: np.ndarray) -> np.ndarray:
        """In days since 1970, in order; those of every year for the years around times t."""
        near = clock.days(t)[0] / YEAR if t.size else np.zeros(1)
        years = range(1969 + int(near.min()), 1973 + int(near.max()))
        out = set()
        for date in self.dates:
            if not isinstance(date, str):
                raise InputError(f"the series has dates, so an event has, too, not {date:g}.")
            if found := EVERY_YEAR.fullmatch(date):
                each = (_day(year, int(found[1]), int(found[2])) for year in years)
                out |= {day for day in each if day is not None}
            else:
                out.add(datetime.date.fromisoformat(date).toordinal() - EPOCH)
        return np.array(sorted(out), float)


EPOCH = datetime.date(1970, 1, 1).toordinal()


def _day(year: int, month: int, day: int) -> int | None:
    try:
        return datetime.date(year, month, day).toordinal() - EPOCH
    except ValueError:  # the 29th of February
        return None


def read_events(given: Any) -> dict[str, Event]:
    """Events by name from a mapping of names to dates or events, or from a table with the columns name and
    date, and perhaps before, after, lasting and scale: a row for each date.
    """
    if given is None:
        return {}
    if isinstance(given, Mapping) and not set(given) >= {"name", "date"}:
        return {str(name): e if isinstance(e, Event) else Event(e) for name, e in given.items()}
    if not (isinstance(given, Mapping) or is_into_dataframe(given)):
        raise InputError(
            "events must be a mapping of names to dates, or a table with the columns name and date, not "
            f"{type(given).__name__}."
        )
    columns = _columns(given)
    if unknown := [name for name in columns if name not in COLUMNS]:
        raise InputError(f"a table of events has the columns {', '.join(COLUMNS)}, not {', '.join(unknown)}.")
    if missing := [name for name in COLUMNS[:2] if name not in columns]:
        raise InputError(f"a table of events needs the column {missing[0]!r}: name and date.")
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    out: dict[str, Event] = {}
    for row in rows:
        name, date = str(row.pop("name")), row.pop("date")
        settings = {key: value for key, value in row.items() if not _empty(value)}
        settings |= {key: int(value) for key, value in settings.items() if key in ("before", "after")}
        if "lasting" in settings:
            settings["lasting"] = str(settings["lasting"]).strip().lower() in ("1", "true", "yes")
        if "scale" in settings:
            settings["scale"] = float(settings["scale"])
        dates = (*out[name].dates, date) if name in out else (date,)
        event = Event(dates, **settings)
        if name in out and dataclasses.replace(out[name], dates=event.dates) != event:
            raise InputError(f"the rows of the event {name!r} differ in more than their dates.")
        out[name] = event
    return out


def _columns(given: Any) -> dict[str, list[Any]]:
    if isinstance(given, Mapping):
        return {name: list(column) for name, column in given.items()}
    frame = nw.from_native(given, eager_only=True)
    return {name: frame[name].to_list() for name in frame.columns}


def _empty(value: Any) -> bool:
    return value is None or value == "" or (isinstance(value, float) and math.isnan(value))


def _each(dates: Any) -> Iterable[Any]:
    """One date or several; a pair of whole numbers that can be a month and a day is one."""
    if is_into_series(dates):
        return nw.from_native(dates, series_only=True).to_list()
    if _monthly(dates) or isinstance(dates, str | datetime.date | np.datetime64) or np.ndim(dates) == 0:
        return [dates]
    return list(dates)


def _monthly(date: Any) -> bool:
    whole = isinstance(date, tuple) and len(date) == 2 and all(type(part) is int for part in date)
    return whole and _day(LEAP, *date) is not None


def _date(date: Any) -> str | float:
    """ISO text, MM-DD for every year, or a number."""
    if _monthly(date):
        return f"{date[0]:02}-{date[1]:02}"
    if isinstance(date, np.datetime64):
        return str(date.astype("datetime64[D]"))
    if isinstance(date, datetime.date):
        return date.isoformat()[:10]
    if isinstance(date, str):
        text = date.strip()
        found = EVERY_YEAR.fullmatch(text)
        if found and _day(LEAP, int(found[1]), int(found[2])) is not None:
            return f"{int(found[1]):02}-{int(found[2]):02}"
        try:
            return datetime.date.fromisoformat(text[:10]).isoformat()
        except ValueError:
            pass
    elif np.ndim(date) == 0 and isinstance(date, int | float | np.number) and math.isfinite(date):
        return float(date)
    raise InputError(f"cannot tell the date of an event, {date!r}: {FORMS}.")
