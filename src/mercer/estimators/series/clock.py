"""Dates as numbers and back: the unit in which a series is counted, its usual step, the stamps that come
next.

Microseconds since 1970 throughout (numpy's datetime64[us]), so that neither pandas nor the years 1678 to 2262
are needed.
"""

from __future__ import annotations

import dataclasses
import datetime
import math
import zoneinfo

import numpy as np

MICROSECONDS = {"second": 1e6, "minute": 6e7, "hour": 3.6e9, "day": 8.64e10}
DAY, YEAR_MONTHS = MICROSECONDS["day"], 12
MONDAY = 4 * DAY  # the first: 1970 began on a Thursday
CALENDAR = ("month", "year")
OFF_GRID, JITTER = 0.01, 0.25  # of a step: distances are whole steps; they are so roughly
ROUNDING = 1e-6  # of a step
MOSTLY = 0.9  # of the distances are whole steps roughly: the step is real, the stamps are not exact
MARKS = 100  # stamps of a grid at most, for each one that was given
# steps of a grid that people would choose themselves, in seconds, minutes, hours, days and calendar months
NATURAL: dict[str, tuple[int, ...]] = {
    "second": (1, 5, 10, 15, 30), "minute": (1, 5, 10, 15, 30), "hour": (1, 3, 6, 12), "day": (1, 7),
    "month": (1, 3, 12, 120),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Clock:
    """Times t = 0 at `origin`, in `unit`: "" for plain numbers, else second, minute, hour, day, month or
    year.

    step: the usual distance between stamps, in that unit
    offset, from_end: months and years are counted by the calendar, so that all are equally long; there the
        stamps stand `offset` microseconds from the start (from_end: before the end) of their month
    zone, wall: the time zone of the stamps, which are counted in wall time if `wall`, else in UTC
    weekdays: there are no stamps on Saturdays and Sundays
    every, every_unit: of a series at irregular distances, the natural step nearest to the usual distance
        (a day, a week, 5 minutes, 0.2): forecasts and gaps have stamps at its multiples (midnights, Mondays).
        0 where distances are whole steps, and stamps go on by `step`
    """

    unit: str = ""
    origin: float = 0.0
    step: float = 1.0
    offset: float = 0.0
    from_end: bool = False
    zone: str | None = None
    wall: bool = False
    weekdays: bool = False
    every: float = 0.0
    every_unit: str = ""

    def __post_init__(self) -> None:
        units = ("", *MICROSECONDS, *CALENDAR)
        if self.unit not in units or self.every_unit not in units:
            raise ValueError(f"a clock counts in one of {units}, not {self.unit!r} or {self.every_unit!r}.")
        if not all(map(math.isfinite, (self.origin, self.offset, self.step, self.every))):
            raise ValueError(f"the numbers of a clock must be finite, got {self}.")
        if self.zone is not None:
            zoneinfo.ZoneInfo(self.zone)  # refuses what is none

    @classmethod
    def of(cls, stamps: np.ndarray, zone: str | None = None) -> Clock:
        """The clock that suits stamps (n,): numbers, or datetime64[us] (in UTC where they have a zone)."""
        clock = cls._counting(stamps, zone)
        return clock._on_a_grid(np.unique(clock.read(stamps)))

    @classmethod
    def _counting(cls, stamps: np.ndarray, zone: str | None) -> Clock:
        """Origin, unit and usual step."""
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
        weekdays = step == DAY and micro.size >= 10 and bool(_on_weekday(micro).all())
        return cls(
            unit, float(micro.min()), step / MICROSECONDS[unit], zone=zone, wall=wall, weekdays=weekdays
        )

    def _on_a_grid(self, t: np.ndarray) -> Clock:
        """With a natural grid where the distances between times t, in order, are not whole steps. A step of
        plain numbers becomes the mean one: rounded stamps (1958.042) would drift off its median.
        """
        distances = np.diff(t)
        whole = np.maximum(np.round(distances / self.step), 1.0)
        off = np.abs(distances / self.step - whole)
        if not t.size or (off <= OFF_GRID).all() or (not self.unit and np.mean(off <= JITTER) >= MOSTLY):
            mean = float(np.sum(distances) / np.sum(whole)) if distances.size else self.step
            return self if self.unit else dataclasses.replace(self, step=mean)
        every, unit = _natural(self.step, float(np.ptp(t)) / (MARKS * t.size), self.unit)
        return dataclasses.replace(self, every=every, every_unit=unit)

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

    @property
    def days_of_a_stamp(self) -> int:
        """How many days a stamp stands for, about: 1 for shorter steps, irregular ones and plain numbers."""
        if not self.unit or self.every:
            return 1
        return max(1, round(_in_unit(self.step, self.unit, "day")))

    def days(self, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Local days since 1970 that times t (m,) stand for: the first, and the one after the last. A stamp
        stands for its day, and where steps are longer for all up to the next stamp: by the calendar where it
        is counted in months.
        """
        micro = self.stamps(t).astype(np.int64)
        if self.zone is not None:
            micro = _to_wall(micro, self.zone)
        if self.unit not in CALENDAR:
            first = micro // int(DAY)
            return first.astype(float), (first + self.days_of_a_stamp).astype(float)
        month = _months(micro)[0]
        length = round(self.step * (YEAR_MONTHS if self.unit == "year" else 1))
        first, last = (_month_start(month + i) // int(DAY) for i in (0, max(length, 1)))
        return first.astype(float), last.astype(float)

    def next(self, last: float, count: int) -> np.ndarray:
        """The `count` times that follow time `last` on the grid."""
        if self.every:
            return self._marks(last, last + 1.05 * (count + 1) * self.grid_step)[:count]
        if not self.weekdays:
            return last + self.step * np.arange(1, count + 1)
        days = last + np.arange(1, 2 * count + 5)
        return days[_on_weekday(self.origin + days * DAY)][:count]

    def until(self, last: float, end: float) -> np.ndarray:
        """The times of the grid that follow `last`, up to `end`."""
        most = int((end - last) / (0.9 * self.grid_step)) + 1
        t = self.next(last, max(most, 1))
        return t[t <= end + ROUNDING * self.grid_step]

    def gaps(self, t: np.ndarray) -> np.ndarray:
        """Times of the grid between times t (in order) that have none of them within 3/4 of a step: what a
        regular series skips, and holes in one that is not. None where that would be more than 100 times as
        many as there are.
        """
        step = self.grid_step
        holes = np.flatnonzero(np.diff(t) >= 2 * (1 - JITTER) * step)
        if np.sum(np.diff(t)[holes]) > MARKS * step * t.size * (1 + OFF_GRID):
            return np.zeros(0)
        between = [self.until(t[i], t[i + 1]) for i in holes]
        for i, times in zip(holes, between, strict=True):
            near = np.minimum(times - t[i], t[i + 1] - times) < (1 - JITTER) * step
            times[near] = np.nan
        found = np.concatenate([np.zeros(0), *between])
        return found[~np.isnan(found)]

    @property
    def grid_step(self) -> float:
        """The distance between the stamps that forecasts have, in the unit of the clock."""
        return _in_unit(self.every, self.every_unit, self.unit) if self.every else self.step

    def words(self) -> str:
        """every day, every 3 months, every 0.5; irregular, about every 4.7 days."""
        return ("irregular, about " if self.every else "") + _every(self.step, self.unit)

    def grid_words(self) -> str:
        """Of the stamps that forecasts have: every day, every week."""
        return _every(self.every, self.every_unit) if self.every else _every(self.step, self.unit)

    def _marks(self, start: float, end: float) -> np.ndarray:
        """The times within (start, end] at multiples of the natural step."""
        if self.every_unit in CALENDAR and self.unit not in CALENDAR:
            micro = self.origin + np.array([start, end]) * MICROSECONDS[self.unit]
            first, last = _months(micro.astype(np.int64))[0] // self.every
            months = self.every * np.arange(first, last + 1)
            t = (_month_start(months.astype(np.int64)) - self.origin) / MICROSECONDS[self.unit]
            return t[(t > start) & (t <= end)]
        step = self.grid_step
        from_zero = self.origin / MICROSECONDS.get(self.unit, YEAR_MONTHS if self.unit == "year" else 1.0)
        if (self.every, self.every_unit) == (7.0, "day"):
            from_zero -= MONDAY / MICROSECONDS[self.unit]
        first, last = np.floor((from_zero + np.array([start, end])) / step + 1e-9)
        return step * np.arange(first + 1, last + 1) - from_zero


def _natural(step: float, least: float, unit: str) -> tuple[float, str]:
    """The step of a grid, and its unit, that is natural and nearest (in ratio) to `step` of the unit, and not
    below `least`: 1, 2 or 5 times a power of ten for plain numbers and parts of a second.
    """
    decades = math.floor(math.log10(step)) + np.arange(-1, 30)
    plain = [(float(f"{digit}e{power}"), unit) for power in decades for digit in (1, 2, 5)]
    seconds = step * MICROSECONDS.get(unit, DAY) / MICROSECONDS["second"]
    known = [(float(size), name) for name, sizes in NATURAL.items() for size in sizes]
    if unit in CALENDAR:  # stamps stand at months already
        known = [(size, name) for size, name in known if name in CALENDAR and size != 3]
    choices = plain if not unit or (unit == "second" and seconds < 1) else known
    enough = [(size, name) for size, name in choices if _in_unit(size, name, unit) >= least] or choices[-1:]
    return min(enough, key=lambda c: abs(math.log(_in_unit(c[0], c[1], unit) / step)))


def _in_unit(size: float, unit: str, other: str) -> float:
    """So many of a unit in another one; months are as long as they are on average."""
    lengths = {**MICROSECONDS, "month": 30.436875 * DAY, "year": 365.2425 * DAY, "": 1.0}
    return size if unit == other else size * lengths[unit] / lengths[other]


def _every(size: float, unit: str) -> str:
    for other, length in (("year", ("month", 12.0)), ("week", ("day", 7.0))):
        if (unit, size) == length:
            size, unit = 1.0, other
    number = f"{size:.4g}"
    return f"every {number}" if not unit else f"every {unit}" if number == "1" else f"every {number} {unit}s"


def _on_weekday(micro: np.ndarray) -> np.ndarray:
    return (micro // DAY + 3) % 7 < 5


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


def shifted(
    stamps: np.ndarray, months: int = 0, micro: float = 0.0, zone: str | None = None, wall: bool = False
) -> np.ndarray:
    """Stamps datetime64[us], in UTC where there is a zone, so many months and microseconds later, as a clock
    in that zone shows them: the same day of the month, or its last one. wall: they are what the clock shows.
    """
    at = stamps.astype(np.int64)
    if zone is not None and not wall:
        at = _to_wall(at, zone)
    if months:
        month, into, _ = _months(at)
        start, end = (_month_start(month + months + i) for i in (0, 1))
        day = np.minimum(into // int(DAY), (end - start) // int(DAY) - 1)
        at = start + day * int(DAY) + into % int(DAY)
    at = at + int(micro)
    return (at if zone is None else _from_wall(at, zone)).astype("datetime64[us]")


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
