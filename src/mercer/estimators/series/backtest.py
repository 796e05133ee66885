"""How good forecasts would have been: made at earlier times, and judged by what came."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy.special import ndtri
from sklearn.base import clone

from mercer import metrics
from mercer.distributed import Parallel, team
from mercer.estimators.series.ahead import read
from mercer.estimators.series.clock import Clock
from mercer.estimators.series.recorded import Kind, table
from mercer.estimators.series.rivals import exponential_smoothing, seasonal_naive
from mercer.estimators.series.words import stamp_text
from mercer.inputs import InputError
from mercer.metrics.points import naive_error
from mercer.persist.models import described, rebuilt
from mercer.progress import Progress, shown, tell
from mercer.tables import text_table

FEWEST = 8  # values that the first forecast of a backtest is made from, at least
LONGEST = 20_000  # steps before an origin that plain forecasts look at
SCORES = ("MASE", "RMSE", "coverage", "interval_score")
OWN, NAIVE, SMOOTHING = "GPTimeSeries", "seasonal naive", "exponential smoothing"


@dataclasses.dataclass(frozen=True, eq=False)
class Forecasts:
    """What one method said, from every origin: mean, median, and the ends of its intervals, each (folds,
    horizon); seconds: what all of it took.
    """

    mean: np.ndarray
    median: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    seconds: float


@dataclasses.dataclass(frozen=True, eq=False)
class Backtest:
    """Forecasts made at earlier times, beside plain ones, and what came; printing it shows the table of
    scores.

    origins: stamps (folds,) of the last values that each forecast knew
    stamps, values: of what came, (folds, horizon); NaN where a value is missing
    forecasts: by method, "GPTimeSeries" first
    scales: (folds,) mean absolute difference between values a season apart before each origin: errors are
        divided by it in MASE
    season: how many steps the season of the seasonal naive forecast, of exponential smoothing and of MASE has
        (1: there is none, and the naive forecast is the last value)
    level: of the intervals
    refit: whether hyperparameters were learned again at every origin

    >>> found = ts.backtest(12, folds=5)
    >>> print(found); found.to_frame(); found.by_step()
    """

    origins: np.ndarray
    stamps: np.ndarray
    values: np.ndarray
    forecasts: dict[str, Forecasts]
    scales: np.ndarray
    season: int
    level: float
    refit: bool
    kind: Kind
    zone: str | None

    def scores(self) -> dict[str, dict[str, float]]:
        """By method: MASE (of the medians), RMSE (of the means), coverage of the intervals, mean interval
        score and seconds. MASE below 1 is better than the season before was, one step ahead, in the past.
        """
        told = ~np.isnan(self.values)
        scale = np.broadcast_to(self.scales[:, None], told.shape)[told]
        y = self.values[told]
        out = {}
        for name, said in self.forecasts.items():
            mean, median, lower, upper = (a[told] for a in (said.mean, said.median, said.lower, said.upper))
            with np.errstate(divide="ignore", invalid="ignore"):  # of values that never changed
                scaled = float(np.mean(np.abs(y - median) / scale))
            numbers = (
                scaled,
                metrics.rmse(y, mean),
                metrics.coverage(y, lower, upper),
                metrics.interval_score(y, lower, upper, self.level),
            )
            out[name] = dict(zip(SCORES, numbers, strict=True)) | {"seconds": said.seconds}
        return out

    def to_frame(self) -> Any:
        """The table of scores, a row for each method: in the library of the series; a dict of columns where
        pandas is not installed.
        """
        scores = self.scores()
        columns = {name: np.array([row[name] for row in scores.values()]) for name in (*SCORES, "seconds")}
        return table(Kind(self.kind.library, "method"), np.array(list(scores), object), None, columns)

    def by_step(self) -> Any:
        """The same kind of table, with the mean absolute scaled error of every method, step by step ahead."""
        steps = 1 + np.arange(self.values.shape[1])
        columns = {}
        for name, said in self.forecasts.items():
            with np.errstate(divide="ignore", invalid="ignore"):
                off = np.abs(self.values - said.median) / self.scales[:, None]
            told = ~np.isnan(off)
            columns[name] = np.where(told, off, 0.0).sum(0) / np.maximum(told.sum(0), 1)
        return table(Kind(self.kind.library, "steps ahead"), steps, None, columns)

    def columns(self) -> dict[str, np.ndarray]:
        """Every forecast beside what came, as columns: origin, stamp, value, and for each method its mean,
        lower and upper ("GPTimeSeries mean").
        """
        out = {
            "origin": np.repeat(self.origins, self.stamps.shape[1]),
            "stamp": self.stamps.ravel(),
            "value": self.values.ravel(),
        }
        for name, said in self.forecasts.items():
            ends = {"mean": said.mean, "lower": said.lower, "upper": said.upper}
            out |= {f"{name} {what}": array.ravel() for what, array in ends.items()}
        return out

    def __str__(self) -> str:
        folds, horizon = self.values.shape
        first, last = (stamp_text(self.origins[i]) for i in (0, -1))
        season = f"a season of {self.season} steps" if self.season > 1 else "no season"
        learned = "at every origin" if self.refit else f"at the first, {first}, and kept"
        rows = [
            [name, f"{s['MASE']:.3f}", f"{s['RMSE']:.4g}", f"{s['coverage']:.1%}",
             f"{s['interval_score']:.4g}", f"{s['seconds']:.1f}"]
            for name, s in self.scores().items()
        ]  # fmt: skip
        header = ["method", "MASE", "RMSE", f"in {self.level:.0%} intervals", "interval score", "seconds"]
        return "\n".join(
            [
                f"{folds} forecast{'s' if folds > 1 else ''} of {horizon} steps, made at {first}"
                + (f" to {last}" if folds > 1 else "")
                + f"; {season}; hyperparameters learned {learned}",
                "",
                *text_table(header, rows),
            ]
        )

    __repr__ = __str__


def backtest(
    ts: Any,
    horizon: int,
    folds: int,
    every: int,
    refit: bool,
    level: float,
    progress: Progress,
    parallel: Parallel = None,
) -> Backtest:
    """Forecasts of a fitted series from `folds` origins, the last `horizon` steps before its end, `every`
    steps apart. With `refit`, what others do is to learn and forecast at each origin.
    """
    n = ts._t.size
    ends = n - horizon - every * np.arange(folds)[::-1]
    _check_room(ts, ends, horizon)
    season = _season(ts, float(ts._t[ends[0] - 1]))
    plain = {NAIVE if season > 1 else "last value": seasonal_naive, SMOOTHING: exponential_smoothing}
    said: dict[str, list[np.ndarray]] = {name: [] for name in (OWN, *plain)}
    seconds = dict.fromkeys(said, 0.0)
    scales = []
    with shown("backtest", progress), team(parallel) as workers:
        if refit and not workers.here:
            jobs = [{"end": int(end), "horizon": horizon, "level": level} for end in ends]
            names = [f"the forecast from origin {fold + 1}" for fold in range(folds)]
            own = iter(workers.map(refitted, jobs, {"ts": described(ts)}, names, "forecasts"))
        else:
            own = _in_turn(ts, ends, horizon, refit, level)
        for end, (forecast, transform, took) in zip(ends, own, strict=True):
            rows = slice(end, end + horizon)
            said[OWN].append(forecast)
            seconds[OWN] += took
            past = _even(ts.clock_, ts._t[:end], ts._y[:end])
            ahead = np.maximum(np.round((ts._t[rows] - ts._t[end - 1]) / ts.clock_.grid_step), 1).astype(int)
            scales.append(naive_error(past, season))
            for name, method in plain.items():
                began = time.perf_counter()
                said[name].append(_plain(method, past, season, ahead, level, transform))
                seconds[name] += time.perf_counter() - began
    found = {}
    for name, by_fold in said.items():
        mean, median, lower, upper = np.stack(by_fold, 1)
        found[name] = Forecasts(mean, median, lower, upper, seconds[name])
    stamps, values = (np.stack([a[e : e + horizon] for e in ends]) for a in (ts.clock_.stamps(ts._t), ts._y))
    origins = ts.clock_.stamps(ts._t[ends - 1])
    return Backtest(
        origins, stamps, values, found, np.array(scales), season, level, refit, ts._kind, ts.clock_.zone
    )


Own = tuple[np.ndarray, str | None, float]
"""The forecast from one origin (4, horizon), of what it is (`transform_`), and the seconds it took."""


def refitted(ts: dict[str, Any], end: int, horizon: int, level: float) -> Own:
    """A job: the series learned from its first `end` values, and its forecast."""
    found, *_ = _in_turn(rebuilt(ts), np.array([end]), horizon, True, level)
    return found


def _in_turn(ts: Any, ends: np.ndarray, horizon: int, refit: bool, level: float) -> Iterator[Own]:
    """Forecasts from one origin after the other; without `refit`, what the first has learned is kept."""
    model = None
    for fold, end in enumerate(ends):
        rows, began = slice(end, end + horizon), time.perf_counter()
        if model is None or refit:
            model = clone(ts).set_params(progress=False)._learn_from(ts._part(slice(0, end)))
        else:
            model._add(ts._part(slice(ends[fold - 1], end)))
        own = _own(model, ts.clock_.stamps(ts._t[rows]), ts.clock_.zone, level)
        yield own, model.transform_, time.perf_counter() - began
        tell(fold + 1, len(ends), "forecasts")


def _check_room(ts: Any, ends: np.ndarray, horizon: int) -> None:
    """Enough values before the first origin, and some to judge by after each."""
    told = ~np.isnan(ts._y)
    n, held = told.size, told.size - ends[0]
    known = int(told[: max(ends[0], 0)].sum())
    if known < FEWEST:
        raise InputError(
            f"{ends.size} forecast{'s' if ends.size > 1 else ''} of {horizon} steps hold out the last {held} "
            f"of {n} values and leave {known} to learn from, but the first needs {FEWEST}: ask for fewer "
            "folds or a shorter horizon."
        )
    empty = [end for end in ends if not told[end : end + horizon].any()]
    if empty:
        origin = stamp_text(ts.clock_.stamps(ts._t[empty[:1] - np.ones(1, int)])[0])
        raise InputError(
            f"all {horizon} values after {origin} are missing, so a forecast made there cannot be judged: "
            "choose another horizon or number of folds."
        )


def _season(ts: Any, span: float) -> int:
    """Steps of the shortest season that a series of this span shows twice; 1 where there is none."""
    step = ts.clock_.grid_step
    steps = sorted(round(period / step) for period in ts.seasons_.values())
    return next((m for m in steps if m > 1 and span / step + 1 >= 2 * m), 1)


def _own(ts: Any, stamps: np.ndarray, zone: str | None, level: float) -> np.ndarray:
    """Mean, median, lower and upper (4, horizon) of a series that has learned."""
    found = ts._predictive(read(ts.clock_, stamps, zone))
    columns = found.columns(level)
    return np.stack([columns["mean"], found.quantile(0.5), columns["lower"], columns["upper"]])


def _even(clock: Clock, t: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The last values at equal steps, up to the last time; those that are missing are interpolated."""
    told, step = ~np.isnan(y), clock.grid_step
    count = min(round((t[-1] - t[0]) / step), LONGEST)
    return np.interp(t[-1] - step * np.arange(count, -1, -1), t[told], y[told])


def _plain(
    method: Callable[[np.ndarray, int, int], tuple[np.ndarray, np.ndarray]],
    past: np.ndarray,
    season: int,
    ahead: np.ndarray,
    level: float,
    transform: str | None,
) -> np.ndarray:
    """Mean, median, lower and upper (4, horizon) by a plain method, so many steps ahead; of the logarithm
    where the series models that.
    """
    mean, std = method(np.log(past) if transform else past, season, int(ahead.max()))
    half = ndtri(0.5 + 0.5 * level) * std
    found = np.stack([mean, mean, mean - half, mean + half])[:, ahead - 1]
    return np.exp(found) if transform else found
