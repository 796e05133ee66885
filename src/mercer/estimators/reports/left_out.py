"""Rows predicted from the others, in the report of a regressor: against what was observed, residuals,
calibration, outliers.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from mercer import metrics
from mercer.estimators.regression.left_out import AbstractLeftOut
from mercer.estimators.regression.predictions import ONE_SIGMA
from mercer.estimators.reports.shared import behind, number, percent, shown_rows, titled
from mercer.likelihoods import AbstractNoise
from mercer.report import AbstractPart, Figure, Figures, Section, Table, Text
from mercer.report.charts import Plot, number_axis

LEVELS = (0.5, 0.8, 0.9, 0.95, 0.99)
MOST_WHISKERS = 150
FAR = 3.0  # standard deviations


class LeftOut(NamedTuple):
    """Of each row that was seen itself: its target, the prediction by the others (mean, the ends of the 95 %
    interval), how many standard deviations it lies off (of heavy-tailed noise: halves of the interval that
    holds 68 %), its log density, and what it is called.
    """

    y: np.ndarray
    mean: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    z: np.ndarray
    log_density: np.ndarray
    names: list[str]


def left_out(model: AbstractLeftOut) -> LeftOut | None:
    """None where leaving rows out is not at hand."""
    if not model._left_out_at_hand:
        return None
    y, loo, (lower, upper) = model._each_row(model.posterior_.y), model.loo(), model.loo_interval(0.95)
    names = list(model._index or map(str, range(len(y))))
    seen = model.seen_rows()
    kept = np.arange(len(y)) if seen is None else np.flatnonzero(seen)
    if not kept.size:
        return None
    spread = np.sqrt(loo.variance)
    if isinstance(model.model_.likelihood, AbstractNoise):  # whose outliers say nothing of most rows
        ends = model.loo_interval(ONE_SIGMA[1] - ONE_SIGMA[0])
        spread = 0.5 * (ends[1] - ends[0])
    spread = np.where(spread > 0, spread, np.inf)
    z = (y - loo.mean) / spread
    kept_names = [names[i] for i in kept]
    return LeftOut(
        y[kept], loo.mean[kept], lower[kept], upper[kept], z[kept], loo.log_density[kept], kept_names
    )


def quality(rows: LeftOut, target: str) -> Table:
    """How good predictions are, each measure beside what ignoring the inputs would score."""
    y, n, spread = rows.y, len(rows.y), float(np.std(rows.y))
    inside = int(np.sum((rows.lower <= y) & (y <= rows.upper)))
    away = metrics.mae(y, np.median(y))
    blind = (
        f"; guessing mean and spread: {0.5 * np.log(2 * np.pi * math.e * spread**2):.4g}"
        if spread > 0
        else ""
    )
    measures = [
        [
            "RMSE",
            number(metrics.rmse(y, rows.mean)),
            f"in units of {target}; always guessing the mean: {number(spread)}",
        ],
        [
            "MAE",
            number(metrics.mae(y, rows.mean)),
            f"in units of {target}; always guessing the median: {number(away)}",
        ],
        ["NLPD", number(-float(np.mean(rows.log_density))), f"nats, lower is better{blind}"],
        ["coverage", percent(inside / n), f"{inside:,} of {n:,} rows lie in their 95 % interval"],
    ]
    return Table("Each row predicted from the others", ("measure", "value", "meaning"), measures, (1,))


def facts(rows: LeftOut, target: str) -> list[tuple[str, str, str]]:
    """The figures that open a report."""
    spread, error = float(np.std(rows.y)), metrics.rmse(rows.y, rows.mean)
    explained = 1.0 - (error / spread) ** 2 if spread > 0 else 0.0
    inside = float(np.mean((rows.lower <= rows.y) & (rows.y <= rows.upper)))
    return [
        ("variance explained", percent(max(explained, 0.0)), "of rows left out"),
        ("typical error", number(error, 3), f"RMSE, in units of {target}"),
        ("coverage", percent(inside), "of 95 % intervals"),
    ]


def section(model: AbstractLeftOut, rows: LeftOut, target: str) -> Section:
    """Predicted against observed, residuals, calibration."""
    parts: list[AbstractPart] = [
        quality(rows, target),
        Figures((observed(rows, target), residuals(rows, target))),
    ]
    n, shares = model.coverage(np.linspace(0.05, 0.95, 19))
    parts.append(Figures((calibration(np.linspace(0.05, 0.95, 19), shares, n), standardised(rows))))
    return titled("left-out", tuple(parts))


def observed(rows: LeftOut, target: str) -> Figure:
    """Predicted against observed."""
    kept, said = shown_rows(rows.z)
    y, mean, low, high = rows.y[kept], rows.mean[kept], rows.lower[kept], rows.upper[kept]
    whiskers = len(kept) <= MOST_WHISKERS and np.isfinite(low + high).all()
    axis = number_axis(f"{target} observed", y, mean, *((low, high) if whiskers else ()))
    plot = Plot(axis, axis._replace(label=f"{target} predicted")).diagonal()
    if whiskers:
        plot.whiskers(y, low, high, 1)
    plot.dots(y, mean, 1)
    caption = "Each row predicted from the others, against what was observed; on the dashed line both agree."
    caption += " Upright lines are 95 % intervals." if whiskers else ""
    names = np.array(rows.names, dtype=object)[kept]
    numbers = {"row": names, "observed": y, "predicted": mean, "lower": low, "upper": high}
    return Figure(
        plot.svg(f"{target}: predicted against observed"), caption + said, behind("Left out", numbers)
    )


def residuals(rows: LeftOut, target: str) -> Figure:
    """Residuals in standard deviations, along the prediction."""
    kept, said = shown_rows(rows.z)
    mean, z = rows.mean[kept], np.clip(rows.z[kept], -12, 12)
    plot = Plot(number_axis(f"{target} predicted", mean), number_axis("residual / its std", z, [-FAR, FAR]))
    plot.rule(y=0.0).rule(y=1.96).rule(y=-1.96)
    far = np.abs(z) > FAR
    plot.dots(mean[~far], z[~far], 1).dots(mean[far], z[far], 2, 3.4)
    caption = (
        "Residuals in units of their own standard deviation: between the outer lines in 95 % of rows, "
        f"without a pattern, where the model is right; beyond {FAR:g} in another colour."
    )
    numbers = {
        "row": np.array(rows.names, dtype=object)[kept],
        "predicted": mean,
        "residual / std": rows.z[kept],
    }
    return Figure(plot.svg("Residuals along the prediction"), caption + said, behind("Residuals", numbers))


def calibration(levels: np.ndarray, shares: np.ndarray, n: int) -> Figure:
    """Promised against observed coverage."""
    ends = np.concatenate([[0.0], levels, [1.0]])
    plot = Plot(
        number_axis("level of the interval", [0.0, 1.0]), number_axis("share of rows inside", [0.0, 1.0])
    )
    noise = 1.96 * np.sqrt(ends * (1 - ends) / n)
    plot.band(ends, np.maximum(ends - noise, 0), np.minimum(ends + noise, 1), 7)
    plot.diagonal().line(np.concatenate([[0.0], levels, [1.0]]), np.concatenate([[0.0], shares, [1.0]]))
    caption = (
        "How many rows lie in their intervals, for intervals of any level. Within the grey band differences "
        f"are chance, for {n:,} rows."
    )
    table = behind("Coverage", {"level": levels, "share inside": shares})
    return Figure(plot.svg("Coverage of intervals against their level"), caption, table)


def standardised(rows: LeftOut) -> Figure:
    """How residuals are distributed, beside the normal distribution."""
    z = np.clip(rows.z[np.isfinite(rows.z)], -5, 5)
    edges = np.linspace(-5, 5, 41)
    heights, _ = np.histogram(z, edges)
    density = heights / max(len(z), 1) / (edges[1] - edges[0])
    at = np.linspace(-5, 5, 121)
    normal = np.exp(-0.5 * at**2) / math.sqrt(2 * math.pi)
    plot = Plot(
        number_axis("residual / its std", [-5, 5], room=0.0),
        number_axis("density", density, normal, zero=True),
    )
    plot.bars(edges[:-1], edges[1:], density, 1).line(at, normal, 2)
    caption = "Residuals in units of their standard deviation; the line is the normal distribution."
    numbers = {"from": edges[:-1], "to": edges[1:], "rows": heights}
    return Figure(plot.svg("Distribution of residuals"), caption, behind("Residuals", numbers))


def outliers_section(model: Any, rows: LeftOut | None, target: str) -> Section:
    """Rows that the model takes for outliers; of Gaussian noise those that lie far off."""
    if isinstance(model.model_.likelihood, AbstractNoise):
        said = model.outliers_.report_section()
        parts: list[AbstractPart] = [Text(one) for one in said["paragraphs"]]
        if said["rows"]:
            parts.append(Table("The furthest first", said["header"], said["rows"], (1, 2, 3, 4)))
        if model.robust_comparison_ is not None:
            compared = model.robust_comparison_.report_section()
            parts += [Text(one) for one in compared["paragraphs"]]
            parts.append(Table(compared["title"], compared["header"], compared["rows"]))
        return titled("outliers", tuple(parts))
    if rows is None:
        return titled("outliers", (Text("Not looked for: rows were not left out."),))
    far = np.flatnonzero(np.abs(rows.z) > FAR)
    far = far[np.argsort(-np.abs(rows.z[far]), kind="stable")]
    expected = 0.0027 * len(rows.y)
    text = (
        f"{len(far)} of {len(rows.y):,} rows lie more than {FAR:g} standard deviations from what the others "
        f"predict; of Gaussian residuals about {expected:.1f} would. Gaussian noise gives every row the same "
        "weight: if these are errors of measurement, likelihood='student-t' (or --robust auto) keeps them "
        "from spoiling the fit."
    )
    shown = [
        [rows.names[i], number(rows.y[i], 6), number(rows.mean[i], 6), f"{rows.z[i]:+.1f}"] for i in far[:20]
    ]
    header = ("row", f"{target} observed", "predicted", "residual / std")
    table = [Table("The furthest first", header, shown, (1, 2, 3))] if shown else []
    return titled("outliers", (Text(text), *table))


def conformal(rows: LeftOut) -> Table:
    """By how many standard deviations intervals should reach, by rows left out."""
    scores = np.sort(np.abs(rows.z))
    n, out = len(scores), []
    for level in LEVELS:
        rank = math.ceil((n + 1) * level - 1e-9)
        factor = "more rows are needed" if rank > n else f"{scores[rank - 1]:.2f}"
        inside = float(np.mean(np.abs(rows.z) <= ndtri(0.5 + 0.5 * level)))
        out.append([f"{100 * level:g} %", percent(inside), f"{ndtri(0.5 + 0.5 * level):.2f}", factor])
    header = ("level", "observed coverage", "std, by the model", "std, by rows left out")
    return Table("How far intervals reach, and how far they should", header, out, (1, 2, 3))
