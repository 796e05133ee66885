"""The report of a time series: its forecast, its parts, what does not fit, how good forecasts were."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer import metrics
from mercer.estimators.reports.hyper import hyperparameters
from mercer.estimators.reports.shared import again, behind, constructor, number, percent, titled
from mercer.estimators.reports.trust import algebra
from mercer.estimators.saving import data_hash
from mercer.estimators.series.forecaster import GPTimeSeries
from mercer.progress import Deadline, DeadlineReached, shown, tell, within
from mercer.report import AbstractPart, Facts, Figure, Figures, Heading, Notes, Report, Section, Table, Text
from mercer.report.charts import Axis, Plot, date_axis, number_axis, seconds

MOST_POINTS = 900  # of a line, and of dots
MOST_FORECAST = 60  # rows of the table
MOST_BACKTEST = 5000  # values
SIZES = ((380, 260), (960, 340))


def told(ts: GPTimeSeries, budget: float | str) -> Report:
    """The report."""
    check_is_fitted(ts)
    with shown("report", ts.progress):
        return _told(ts, budget)


def _told(ts: GPTimeSeries, budget: float | str) -> Report:
    what = ts.value_name_ or "value"
    stamps, y = ts.observed()
    known = ~np.isnan(y)
    horizon = ts._some()
    tell(1, 6, "explaining")
    explanation = ts.explain()
    seen, predicted, inside = ts._left_out()
    spread, error = float(np.std(seen)), float(metrics.rmse(seen, predicted))
    facts = [
        (
            "values",
            f"{int(known.sum()):,}",
            f"{int((~known).sum())} missing" if (~known).any() else "none missing",
        ),
        (
            "variance explained",
            percent(max(0.0, 1 - (error / spread) ** 2 if spread else 0.0)),
            "of values left out",
        ),
        ("typical error", number(error, 3), f"RMSE, in units of {what}, of values left out"),
        ("coverage", percent(float(inside.mean())), "of 95 % intervals"),
    ]
    words: list[AbstractPart] = [Facts(tuple(facts)), *(Text(line) for line in explanation.opening)]
    words.append(Notes(tuple(finding.sentence for finding in explanation.findings)))
    if explanation.notes:
        words.append(Notes(tuple(explanation.notes)))
    tell(2, 6, "forecast")
    sections = [titled("words", tuple(words)), _next(ts, stamps, y, what, horizon)]
    sections.append(_parts(ts, what, horizon))
    tell(3, 6, "hyperparameters")
    learned = hyperparameters([ts.fit_], [""], None, what, ts.component_names_)
    sections.append(_data(ts, stamps, y, what))
    unit = f"Times are in units of {ts.unit_}." if ts.unit_ else "Times are plain numbers."
    log = " Values are logarithms." if ts.logarithmic_ else ""
    sections.append(titled("hyperparameters", (Text(unit + log), *learned)))
    tell(4, 6, "leaving values out")
    sections.append(_left_out(ts, stamps[known], seen, predicted, inside, what))
    sections.append(_odd(ts, what))
    tell(5, 6, "backtest")
    sections.append(_backtest(ts, horizon, int(known.sum()), what, budget))
    sections.append(titled("trust", _trust(ts)))
    sections.append(_again(ts))
    lasts = f"{stamp_text(stamps[0])} to {stamp_text(stamps[-1])}"
    return Report(f"{what} over time", f"{len(y):,} values, {lasts}: a time series", tuple(sections))


def _axis(name: str, stamps: np.ndarray, count: int) -> tuple[Axis, np.ndarray]:
    if stamps.dtype.kind == "M":
        return date_axis(name, stamps, count), seconds(stamps)
    return number_axis(name, stamps, room=0.02, count=count), stamps.astype(float)


def stamp_text(stamp: Any) -> str:
    return (
        str(stamp.astype("datetime64[m]")).removesuffix("T00:00")
        if stamp.dtype.kind == "M"
        else number(float(stamp), 6)
    )


def _thin(n: int, most: int = MOST_POINTS) -> np.ndarray:
    return np.arange(n) if n <= most else np.unique(np.linspace(0, n - 1, most).astype(int))


def _next(ts: GPTimeSeries, stamps: np.ndarray, y: np.ndarray, what: str, horizon: int) -> Section:
    return titled("forecast", (forecast_figure(ts, stamps, y, what, horizon),))


def forecast_figure(ts: GPTimeSeries, stamps: np.ndarray, y: np.ndarray, what: str, horizon: int) -> Figure:
    """The last of the series, and what comes next."""
    ahead, found = ts.forecast_columns(horizon)
    first = max(0, len(y) - max(5 * len(ahead), 60))
    kept = first + _thin(len(y) - first)
    said = (
        ""
        if len(kept) == len(y) - first
        else f" {len(kept)} of {len(y) - first:,} values are shown, evenly spaced."
    )
    charts = []
    for width, height in SIZES:
        x, _ = _axis(ts.time_name_ or "time", np.append(stamps[kept], ahead), 4 if width < 500 else 8)
        put = seconds if stamps.dtype.kind == "M" else (lambda s: np.asarray(s, float))
        plot = Plot(x, number_axis(what, y[kept], found["lower"], found["upper"]), width, height)
        plot.band(put(ahead), found["lower"], found["upper"]).line(put(ahead), found["mean"])
        plot.dots(put(stamps[kept]), y[kept], 2, 2.2)
        charts.append(plot.svg(f"{what} and its forecast"))
    caption = f"{what}, and its forecast for {len(ahead)} steps with the 95 % interval.{said}"
    rows = [
        [stamp_text(s), *(number(float(found[k][i]), 5) for k in found)]
        for i, s in enumerate(ahead[:MOST_FORECAST])
    ]
    table = Table("Forecast", (ts.time_name_ or "time", *found), rows, tuple(range(1, 1 + len(found))))
    return Figure(charts[0], caption, table, charts[1], ((2, "observed"), (1, "forecast")))


def _parts(ts: GPTimeSeries, what: str, horizon: int) -> Section:
    """Every part over time, and a little beyond."""
    try:
        stamps, columns = ts.components_columns(horizon)
    except ValueError:  # regressors that are not known
        stamps, columns = ts.components_columns()
    order = np.argsort(stamps, kind="stable")
    kept = order[_thin(len(order), 400)]
    put = seconds(stamps[kept]) if stamps.dtype.kind == "M" else stamps[kept].astype(float)
    figures = []
    for name in ts.component_names_[:12]:
        mean, std = columns[name][kept], columns[f"{name}_std"][kept]
        low, high = mean - 1.96 * std, mean + 1.96 * std
        x, _ = _axis(ts.time_name_ or "time", stamps[kept], 4)
        plot = Plot(x, number_axis(name, low, high)).band(put, low, high).line(put, mean)
        caption = f"{name}, with its 95 % interval."
        numbers = {"time": [stamp_text(s) for s in stamps[kept]], "mean": mean, "std": std}
        figures.append(Figure(plot.svg(f"{name} over time"), caption, behind(name, numbers)))
    scale = (
        f" They add up to the logarithm of {what}."
        if ts.logarithmic_
        else f" They add up to {what}, but for noise."
    )
    return Section(
        "parts", "What it is made of", (Text("The parts of the series." + scale), Figures(tuple(figures)))
    )


def _data(ts: GPTimeSeries, stamps: np.ndarray, y: np.ndarray, what: str) -> Section:
    told = y[~np.isnan(y)]
    rows = [
        ["first", stamp_text(stamps[0])],
        ["last", stamp_text(stamps[-1])],
        ["usual step", f"{number(ts.step_)} {ts.unit_}".strip()],
        [
            "least, median, most",
            ", ".join(number(float(v)) for v in (told.min(), np.median(told), told.max())),
        ],
        ["seasons", ", ".join(f"{n} ({number(p)} {ts.unit_})" for n, p in ts.seasons_.items()) or "none"],
        ["trend", ts.trend_],
        ["transform", ts.transform_ or "none"],
    ]
    if ts.regressors_:
        rows.append(["regressors", ", ".join(ts.regressors_)])
    if ts.events_:
        rows.append(["events", ", ".join(ts.events_)])
    parts: list[AbstractPart] = [Table(what, ("what", "value"), rows)]
    notes = dict.fromkeys([*ts.notes_, *ts.posterior_.notes])
    if notes:
        parts.insert(0, Notes(tuple(notes), warning=True))
    return titled("data", tuple(parts))


def _left_out(ts, stamps, y, predicted, inside, what: str) -> Section:
    kept = _thin(len(y), 600)
    axis = number_axis(f"{what} observed", y[kept], predicted[kept])
    one = Plot(axis, axis._replace(label=f"{what} predicted")).diagonal().dots(y[kept], predicted[kept], 1)
    x, at = _axis(ts.time_name_ or "time", stamps[kept], 4)
    off = (y - predicted)[kept]
    two = Plot(x, number_axis("observed − predicted", off)).rule(y=0.0)
    good = inside[kept]
    two.dots(at[good], off[good], 1).dots(at[~good], off[~good], 2, 3.2)
    numbers = {
        "time": [stamp_text(s) for s in stamps[kept]],
        "observed": y[kept],
        "predicted": predicted[kept],
    }
    said = "" if len(kept) == len(y) else f" {len(kept)} of {len(y):,} values are shown, evenly spaced."
    figures = (
        Figure(
            one.svg("Predicted against observed"),
            f"Each value predicted from all others.{said}",
            behind("Left out", numbers),
        ),
        Figure(
            two.svg("Errors over time"),
            f"Errors over time; in another colour those outside their 95 % interval.{said}",
        ),
    )
    levels = [0.5, 0.8, 0.9, 0.95, 0.99]
    shares = [float(ts._left_out(level)[2].mean()) for level in levels]
    rows = [[f"{100 * level:g} %", percent(share)] for level, share in zip(levels, shares, strict=True)]
    table = Table("Coverage of intervals, of values left out", ("level", "inside"), rows, (1,))
    return Section("left-out", "How well values are predicted", (Figures(figures), table))


def _odd(ts: GPTimeSeries, what: str) -> Section:
    """Values that do not fit, and changes of level."""
    parts: list[AbstractPart] = []
    stamps, columns = ts.anomalies_columns()
    rows = [
        [stamp_text(s), *(number(float(columns[name][i]), 5) for name in ("value", "expected", "tail"))]
        for i, s in enumerate(stamps[:30])
    ]
    many = "1 value is" if len(stamps) == 1 else f"{len(stamps)} values are"
    text = f"{many} less probable than {ts.anomaly_level:g}, given all others."
    parts.append(Text(text))
    if rows:
        parts.append(
            Table(
                "Values that do not fit", (ts.time_name_ or "time", what, "expected", "tail"), rows, (1, 2, 3)
            )
        )
    stamps, columns = ts.changes_columns()
    rows = [[stamp_text(s), *(number(float(c[i])) for c in columns.values())] for i, s in enumerate(stamps)]
    parts.append(Heading("Changes of level"))
    parts.append(
        Table("From when on", ("time", "size", "std", "log odds"), rows, (1, 2, 3))
        if rows
        else Text("None was found.")
    )
    return Section("outliers", "What does not fit", tuple(parts))


def _backtest(ts: GPTimeSeries, horizon: int, n: int, what: str, budget: float | str) -> Section:
    title = "How good forecasts would have been"
    steps = max(1, min(horizon, n // 8))
    if n > MOST_BACKTEST:
        return Section("backtest", title, (Text("Not looked at for so many values: ts.backtest(...) does."),))
    late = f"Not looked at: it takes longer than the budget, {budget}. ts.backtest({steps}) does it."
    try:
        with within(Deadline.after(budget)) as watch, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of models of a part of the series, which nobody keeps
            found = ts.backtest(steps, folds=3, refit=False)
        if watch.reached:  # learning was cut short, and says less than it could
            return Section("backtest", title, (Text(late),))
    except DeadlineReached:
        return Section("backtest", title, (Text(late),))
    except ValueError as error:
        return Section("backtest", title, (Text(f"Not looked at: {error}"),))
    scores = found.scores()
    rows = [[name, *(number(row[k], 3) for k in row if k != "seconds")] for name, row in scores.items()]
    header = ("method", *(k for k in next(iter(scores.values())) if k != "seconds"))
    text = (
        f"Forecasts of {steps} steps made at 3 earlier times, beside plain ones and what came. "
        "Hyperparameters are learned from what came before the first of them; ts.backtest(...) learns them "
        "again each time."
    )
    return Section(
        "backtest",
        title,
        (Text(text), Table(f"Forecasts of {what}", header, rows, tuple(range(1, len(header))))),
    )


def _trust(ts: GPTimeSeries) -> tuple[AbstractPart, ...]:
    averaged = (
        f"Forecasts average over {len(ts._around)} settings of the hyperparameters around the best."
        if ts._around
        else "Forecasts are those of the best hyperparameters alone."
    )
    text = (
        "Kernels in time have a state that a Kalman filter carries along: the posterior is computed in O(n), "
        "and for Gaussian noise it is exact but for seasons of finitely many harmonics."
    )
    return Text(text), Text(averaged), algebra(ts.posterior_)


def _again(ts: GPTimeSeries) -> Section:
    inputs, y = ts._training
    code = [
        "import mercer",
        "import pandas as pd",
        "",
        'df = pd.read_csv("data.csv")  # your table',
        f"ts = {constructor(ts)}",
        f"ts.fit(df, time={ts.time_name_ or 'time'!r}, value={ts.value_name_ or 'value'!r})",
        'ts.save("series.mercer")',
    ]
    return again("\n".join(code), None, data_hash(inputs.values, y), ts.random_state)
