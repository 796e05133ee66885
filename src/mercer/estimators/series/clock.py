"""Dates as numbers and back: the unit in which a series is counted, its usual step, the stamps that come
next.

Microseconds since 1970 throughout (numpy's datetime64[us]), so that neither pandas nor the years 1678 to 2262
are needed.
"""

from __future__ import annotations

import dataclasses
import datetime
import zoneinfo

import numpy as np

MICROSECONDS = {"second": 1e6, "minute": 6e7, "hour": 3.6e9, "day": 8.64e10}
DAY, YEAR_MONTHS = MICROSECONDS["day"], 12
OFF_GRID = 0.01  # of a step


@dataclasses.dataclass(frozen=True)
class Clock:
    """Times t = 0 at `origin`, in `unit`: "" for plain numbers, else second, minute, hour, day, month or
    year.

    step: the usual distance between stamps, in that unit
    offset, from_end: months and years are counted by the calendar, so that all are equally long; there the
        stamps stand `offset` microseconds from the start (from_end: before the end) of their month
    zone, wall: the time zone of the stamps, which are counted in wall time if `wall`, else in UTC
    weekdays: there are no stamps on Saturdays and Sundays
    """

    unit: str = ""
    origin: float = 0.0
    step: float = 1.0
    offset: float = 0.0
    from_end: bool = False
    zone: str | None = None
    wall: bool = False
    weekdays: bool = False

    @classmethod
    def of(cls, stamps: np.ndarray, zone: str | None = None) -> Clock:
        """The clock that suits stamps (n,): numbers, or datetime64[us] (in UTC where they have a zone)."""
        if stamps.dtype.kind != "M":
            return cls(origin=float(stamps.min()), step=_usual(stamps))
        micro = stamps.astype(np.int64)
        wall = zone not in (None, "UTC") and _usual(micro) >= 0.9 * DAY
        if wall:
            micro = _to_wall(micro, zone)
        month, into, left = _months(micro)
        for offset, from_end in ((into, False), (left, True)):
            if np.unique(month).size > 1 and np.ptp(offset) == 0:
                step = _usual(month)
                unit, length = ("year", YEAR_MONTHS) if step % YEAR_MONTHS == 0 else ("month", 1)
                return cls(unit, float(month.min()), step / length, float(offset[0]), from_end, zone, wall)
        step = _usual(micro)
        unit = next((u for u, size in reversed(MICROSECONDS.items()) if step >= 0.999 * size), "second")
        weekday = (micro // int(DAY) + 3) % 7  # 1970 began on a Thursday
        weekdays = step == DAY and micro.size >= 10 and bool((weekday < 5).all())
        return cls(
            unit, float(micro.min()), step / MICROSECONDS[unit], zone=zone, wall=wall, weekdays=weekdays
        )

    def read(self, stamps: np.ndarray) -> np.ndarray:
        """Times (n,) of stamps."""
        if (stamps.dtype.kind == "M") != bool(self.unit):
            raise ValueError(
                "the series has dates"
                + (", but numbers were given." if self.unit else " only if it was fitted to dates.")
            )
        if not self.unit:
            return stamps.astype(float) - self.origin
        micro = stamps.astype(np.int64)
        if self.wall:
            micro = _to_wall(micro, self.zone)
        if self.unit not in ("month", "year"):
            return (micro - self.origin) / MICROSECONDS[self.unit]
        month, into, left = _months(micro)
        t = month + ((left if self.from_end else into) - self.offset) / (into - left) - self.origin
        return t / YEAR_MONTHS if self.unit == "year" else t

    def stamps(self, t: np.ndarray) -> np.ndarray:
        """The stamps of times (n,): numbers or datetime64[us]; the inverse of `read`."""
        t = np.asarray(t, float)
        if not self.unit:
            return t + self.origin
        if self.unit in ("month", "year"):
            months = t * (YEAR_MONTHS if self.unit == "year" else 1) + self.origin
            whole = np.floor(months + 1e-9).astype(np.int64)
            start, end = (_month_start(whole + i) for i in (0, 1))
            micro = (
                (end if self.from_end else start)
                + self.offset
                + np.maximum(months - whole, 0.0) * (end - start)
            )
        else:
            micro = self.origin + t * MICROSECONDS[self.unit]
        whole_micro = np.round(micro).astype(np.int64)
        return (_from_wall(whole_micro, self.zone) if self.wall else whole_micro).astype("datetime64[us]")

    def next(self, last: float, count: int) -> np.ndarray:
        """The `count` times that follow time `last` at the usual step."""
        if not self.weekdays:
            return last + self.step * np.arange(1, count + 1)
        days = last + np.arange(1, 2 * count + 5)
        return days[self._on_weekday(days)][:count]

    def gaps(self, t: np.ndarray) -> np.ndarray:
        """Times at which a regular series (in order) has no stamp; none where it is not regular."""
        steps = np.diff(t) / self.step
        whole = np.round(steps)
        if not steps.size or np.abs(steps - whole).max() > OFF_GRID or whole.sum() > 100 * t.size:
            return np.zeros(0)
        missing = [
            start + self.step * np.arange(1, int(k)) for start, k in zip(t, whole, strict=False) if k > 1
        ]
        found = np.concatenate([np.zeros(0), *missing])
        return found[self._on_weekday(found)] if self.weekdays else found

    def words(self) -> str:
        """every day, every 3 months, every 0.5."""
        size = f"{self.step:.4g}"
        return (
            f"every {size}"
            if not self.unit
            else f"every {self.unit}"
            if size == "1"
            else f"every {size} {self.unit}s"
        )

    def _on_weekday(self, t: np.ndarray) -> np.ndarray:
        return ((self.origin + t * DAY) // DAY + 3) % 7 < 5


def _usual(stamps: np.ndarray) -> float:
    """The median distance between distinct stamps; 1 where there is only one."""
    gaps = np.diff(np.unique(stamps))
    return float(np.median(gaps)) if gaps.size else 1.0


def _months(micro: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Months since 1970, and microseconds from the start and (negative) from the end of the month."""
    month = micro.astype("datetime64[us]").astype("datetime64[M]").astype(np.int64)
    return month, micro - _month_start(month), micro - _month_start(month + 1)


def _month_start(month: np.ndarray) -> np.ndarray:
    return month.astype("datetime64[M]").astype("datetime64[us]").astype(np.int64)


EPOCH = datetime.datetime(1970, 1, 1)
TICK = datetime.timedelta(microseconds=1)


def _to_wall(micro: np.ndarray, zone: str | None) -> np.ndarray:
    """UTC to what clocks there show."""
    place = zoneinfo.ZoneInfo(zone or "UTC")
    utc = datetime.UTC
    walls = [
        (EPOCH + int(m) * TICK).replace(tzinfo=utc).astimezone(place).replace(tzinfo=None) for m in micro
    ]
    return np.array([(w - EPOCH) // TICK for w in walls], np.int64)


def _from_wall(micro: np.ndarray, zone: str | None) -> np.ndarray:
    place, utc = zoneinfo.ZoneInfo(zone or "UTC"), datetime.UTC
    times = [
        (EPOCH + int(m) * TICK).replace(tzinfo=place).astimezone(utc).replace(tzinfo=None) for m in micro
    ]
    return np.array([(w - EPOCH) // TICK for w in times], np.int64)
