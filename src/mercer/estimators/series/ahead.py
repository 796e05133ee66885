"""How far to look ahead, as people say it: steps, a length of time ("2y"), the last date, or stamps."""

from __future__ import annotations

import datetime
import numbers
import re
from typing import Any

import numpy as np

from mercer.estimators.series.clock import CALENDAR, DAY, MICROSECONDS, ROUNDING, YEAR_MONTHS, Clock, shifted
from mercer.estimators.series.recorded import times
from mercer.estimators.series.words import stamp_text
from mercer.inputs import InputError

# what people write for a unit, and how many of which it is
UNITS: dict[str, tuple[float, str]] = {
    "s": (1, "second"), "sec": (1, "second"), "second": (1, "second"),
    "min": (1, "minute"), "minute": (1, "minute"),
    "h": (1, "hour"), "hour": (1, "hour"),
    "d": (1, "day"), "day": (1, "day"),
    "w": (7, "day"), "week": (7, "day"),
    "mo": (1, "month"), "month": (1, "month"),
    "q": (3, "month"), "quarter": (3, "month"),
    "y": (YEAR_MONTHS, "month"), "year": (YEAR_MONTHS, "month"),
}  # fmt: skip
LENGTH = re.compile(r"(\d+(?:\.\d+)?)\s*([a-zA-Z]+)")
DATE = re.compile(r"(\d{4})(?:-(\d{2}))?(?:-(\d{2}))?")
FORMS = "steps (24), a length of time (2y, 6mo, 6w, 90d, 36h, 15min) or the last date (2030-06-30)"


def ahead(clock: Clock, last: float, horizon: Any) -> np.ndarray:
    """Times that a horizon means after time `last`: so many steps, all up to a length of time or to a date,
    or those of given stamps.
    """
    if isinstance(horizon, numbers.Integral):
        if horizon < 1:
            raise ValueError(f"horizon must be a number of steps of at least 1, or stamps, got {horizon!r}.")
        return clock.next(last, int(horizon))
    if isinstance(horizon, str):
        end = after(clock, last, horizon) if LENGTH.fullmatch(horizon.strip()) else _up_to(clock, horizon)
    elif np.ndim(horizon) == 0 and isinstance(horizon, datetime.date | np.datetime64):
        end = float(read(clock, *times([horizon]))[0])
    else:
        return read(clock, *times(horizon))
    found = clock.until(last, end)
    if not found.size:
        first = stamp_text(clock.stamps(clock.next(last, 1))[0])
        raise ValueError(
            f"there is nothing to forecast up to {horizon}: forecasts are made {clock.grid_words()}, and the "
            f"next is for {first}; give stamps for other ones."
        )
    return found


def since(clock: Clock, last: float, history: Any) -> float:
    """The time from which on there are so many steps, so long a time, or all from a date on, up to `last`."""
    if isinstance(history, numbers.Integral):
        return last - int(history) * clock.grid_step
    if isinstance(history, str) and LENGTH.fullmatch(history.strip()):
        return after(clock, last, f"-{history.strip()}")
    if isinstance(history, str) and not clock.unit:
        return _up_to(clock, history)
    return float(read(clock, *times([history]))[0])


def after(clock: Clock, t: float, length: str) -> float:
    """The time so long after time t, or, where the length begins with a minus, before it: "2y", "-90d"."""
    sign, count, unit = _length(length)
    if not clock.unit:
        raise ValueError(
            f"{length!r} is a length of time, but the series counts plain numbers, {clock.words()}: give a "
            "number of steps, or the number up to which."
        )
    if unit == "month" and clock.unit in CALENDAR:
        return t + sign * count / (YEAR_MONTHS if clock.unit == "year" else 1)
    start = clock.stamps(np.array([t]))
    if unit == "month":
        return float(clock.read(shifted(start, months=int(sign * count), zone=clock.zone))[0])
    by_day = count * MICROSECONDS[unit] >= DAY
    return float(
        clock.read(
            shifted(start, micro=sign * count * MICROSECONDS[unit], zone=clock.zone if by_day else None)
        )[0]
    )


def read(clock: Clock, stamps: np.ndarray, zone: str | None) -> np.ndarray:
    """Times of stamps, which must have a time zone just where the series has one."""
    if (zone is None) != (clock.zone is None):
        raise InputError(
            f"the series has {'no' if clock.zone is None else 'a'} time zone: give stamps alike."
        )
    return clock.read(stamps)


def _length(text: str) -> tuple[int, float, str]:
    """Sign, count and unit: "-2y" is (-1, 24.0, "month")."""
    found = LENGTH.fullmatch(text.strip().removeprefix("-"))
    name = found[2].lower() if found else ""
    if name == "m":
        raise ValueError(f"{text!r} may mean months or minutes: write mo or min.")
    size, unit = UNITS.get(name) or UNITS.get(name.removesuffix("s")) or (0, "")
    if not found or not unit or float(found[1]) == 0:
        raise ValueError(f"cannot tell how long {text!r} is: give {FORMS}.")
    count = size * float(found[1])
    if unit == "month" and count != int(count):
        raise ValueError(f"{text!r} is no whole number of months: give months (18mo) or days (45d).")
    return -1 if text.strip().startswith("-") else 1, count, unit


def _up_to(clock: Clock, text: str) -> float:
    """The time of the end of a year, month or day, of a moment, or of a plain number."""
    if not clock.unit:
        try:
            return float(text) - clock.origin
        except ValueError:
            raise ValueError(
                f"cannot tell how far {text!r} is: the series counts plain numbers, so give a number of "
                "steps, or the number up to which."
            ) from None
    whole = DATE.fullmatch(text.strip())
    if whole is None:
        return float(read(clock, *times([text]))[0])
    try:
        start = np.datetime64(text.strip())  # a year, a month or a day long, as it is written
    except ValueError:
        raise ValueError(f"cannot tell how far {text!r} is: give {FORMS}.") from None
    end = np.array([start + 1]).astype("datetime64[us]")
    before = clock.read(shifted(end, zone=clock.zone, wall=True))[0]
    return float(before) - 2 * ROUNDING * clock.grid_step
