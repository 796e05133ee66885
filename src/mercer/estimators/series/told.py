"""A time series in plain sentences: how its trend, seasons and other parts go."""

from __future__ import annotations

import calendar
from itertools import pairwise
from typing import Any

import numpy as np

from mercer.estimators.findings import numbers_left_out
from mercer.estimators.series.words import change_lines, part_rows, stamp_text
from mercer.estimators.told import (
    WIGGLE,
    Explanation,
    Finding,
    percent,
    sentence,
    turning_points,
    variance_share,
)

TURNS = 3  # of a trend that are told one after the other
MONTHS = tuple(calendar.month_name)[1:]
DAYS = tuple(calendar.day_name)


def told(ts: Any) -> Explanation:
    """What a fitted series has learned: its parts at its stamps, those of the largest share first."""
    stamps, columns = ts.components_columns()
    names = ts.component_names_
    values = np.stack([columns[name] for name in names], 1)
    std = np.stack([columns[f"{name}_std"] for name in names], 1)
    learned = dict(part_rows(ts))
    values_there, predicted, inside = ts._left_out()
    opening = [
        f"{len(ts._y) - int(np.isnan(ts._y).sum())} values from {stamp_text(stamps[0])} to "
        f"{stamp_text(stamps[-1])} are the sum of {_parts(names)} and noise",
        numbers_left_out(values_there, predicted, inside, "value"),
        f"the noise is {learned['noise']}",
    ]
    if ts.logarithmic_:
        opening.append("it is the logarithm that is modelled: parts are factors, and multiply")
    findings = [_finding(ts, name, stamps, values, std, j, learned) for j, name in enumerate(names)]
    notes = change_lines(ts)
    if odd := len(ts.anomalies_columns()[0]):
        notes.append(f"{odd} value{'s do' if odd > 1 else ' does'} not fit: see anomalies_")
    findings.sort(key=lambda finding: -finding.share)
    return Explanation(
        tuple(map(sentence, opening)),
        tuple(findings),
        notes=(*map(sentence, notes), *(f"note: {note}" for note in ts.notes_)),
    )


def _finding(
    ts: Any,
    name: str,
    stamps: np.ndarray,
    values: np.ndarray,
    std: np.ndarray,
    j: int,
    learned: dict[str, str],
) -> Finding:
    mine, share = values[:, j], variance_share(values, j)
    sure = float(np.sqrt(np.mean(std[:, j] ** 2)))
    low, high = int(mine.argmin()), int(mine.argmax())
    if name == "trend":
        said = _course(ts, stamps, mine)
    elif name in ts.seasons_:
        said = (
            f"the season {name} swings between {_size(ts, mine[low])}{_phase(ts, name, stamps[low])} and "
            f"{_size(ts, mine[high])}{_phase(ts, name, stamps[high])} ({learned[name]})"
        )
    else:
        said = f"{name} lies between {_size(ts, mine[low])} and {_size(ts, mine[high])} ({learned[name]})"
    known = f"known to ± {sure:.2g}" if not ts.logarithmic_ else f"known to ± {100 * sure:.2g} %"
    words = f"{said}, {known}; {percent(share)} of the variance"
    return Finding("part", name, share, float(mine[low]), float(mine[high]), sure, sentence(words))


def _course(ts: Any, stamps: np.ndarray, trend: np.ndarray) -> str:
    """Where a trend rises and falls."""
    level = np.exp(trend) if ts.logarithmic_ else trend
    turns = turning_points(level, WIGGLE * float(np.ptp(level)))
    if len(turns) - 2 > TURNS:
        low, high = int(level.argmin()), int(level.argmax())
        return (
            f"the trend turns {len(turns) - 2} times, between {level[low]:.4g} ({stamp_text(stamps[low])}) "
            f"and {level[high]:.4g} ({stamp_text(stamps[high])})"
        )
    said = f"the trend starts at {level[0]:.4g} ({stamp_text(stamps[0])})"
    for a, b in pairwise(turns):
        verb = "rises" if level[b] > level[a] else "falls"
        said += f", {verb} to {level[b]:.4g} ({stamp_text(stamps[b])})"
    return said


def _size(ts: Any, value: float) -> str:
    """What a part adds; of logarithms the factor."""
    return f"x {np.exp(value):.3g}" if ts.logarithmic_ else f"{value:+.3g}"


def _phase(ts: Any, season: str, stamp: Any) -> str:
    """When in a season a stamp is, where that has a name."""
    if season == "year" and not ts.unit_ and ts.seasons_[season] == 1.0:  # years with decimals
        return f" in {MONTHS[int(12 * (float(stamp) % 1.0))]}"
    if not isinstance(stamp, np.datetime64) or season not in ("year", "week", "day"):
        return ""
    day = stamp.astype("datetime64[D]")
    if season == "year":
        return f" in {MONTHS[int(day.astype('datetime64[M]').astype(int)) % 12]}"
    if season == "week":
        return f" on {DAYS[(int(day.astype(int)) + 3) % 7]}s"
    return f" at {str(stamp.astype('datetime64[m]'))[11:]}"


def _parts(names: tuple[str, ...]) -> str:
    called = [f"the season {name}" if name in ("year", "week", "day") else name for name in names]
    return ", ".join(called)
