"""The report of an optimisation: what was found, how it went, and what the surrogate says around the best."""

from __future__ import annotations

import platform
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.decide.evaluations import Evaluation, evaluations, row_in_words
from mercer.decide.surrogate import predict_jit
from mercer.report import AbstractPart, Code, Facts, Figure, Figures, Report, Section, Table, Text
from mercer.report.charts import Axis, Plot, category_axis, number_axis, short

if TYPE_CHECKING:
    from mercer.decide.optimiser import Optimiser

__all__ = ["told"]

POINTS = 61  # along a column
MOST_ROWS = 200  # of the history
SIZES = ((380, 250), (960, 320))


def told(opt: Optimiser) -> Report:
    """The report."""
    history = opt.history
    if not any(not e.failed for e in history):
        raise ValueError("nothing was told yet that did not fail: there is nothing to report.")
    single = len(opt.objectives) == 1
    sections = [_words(opt, single), _course(opt)]
    if single:
        sections.append(_around(opt))
    else:
        sections.append(_front(opt))
    sections += [_history(opt), _space(opt), _again(opt)]
    what = ", ".join(opt.objectives)
    return Report(
        f"{what} over {', '.join(opt.space.names[:6])}",
        f"{evaluations(len(history))}, of an expensive function",
        tuple(sections),
    )


def _number(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}".replace("-", "−") if np.isfinite(value) else "none"
    return str(value)


def _words(opt: Optimiser, single: bool) -> Section:
    history = opt.history
    failed = sum(e.failed for e in history)
    facts = [("evaluations", f"{len(history):,}", f"{failed} failed" if failed else "none failed")]
    parts: list[AbstractPart] = []
    if single:
        found = opt.best()
        at = next(i for i, e in enumerate(history) if e.point == found.point and not e.failed)
        facts.insert(0, (f"best {opt.objectives[0]}", _number(found.value), f"evaluation {at + 1}"))
        parts.append(Text(f"The best row is {row_in_words(found.point)}."))
        rows = [[name, _number(value)] for name, value in found.point.items()]
        rows += [[name, _number(float(value))] for name, value in found.outcomes.items()]
        parts.append(Table("The best row, and what was measured of it", ("what", "value"), rows))
    else:
        parts += [Text(line) for line in str(opt.front()).splitlines()]
    wanted = "large" if opt.maximise is True else "small"
    said = f"{wanted} values were wanted" if single else "several objectives were weighed against each other"
    parts.append(Text(f"{said[:1].upper()}{said[1:]}."))
    return Section("words", "What was found", (Facts(tuple(facts)), *parts))


def _values(opt: Optimiser, name: str) -> np.ndarray:
    return np.array([np.nan if e.failed else e.outcomes[name] for e in opt.history])


def _course(opt: Optimiser) -> Section:
    """Values in the order told, and the best so far."""
    figures = []
    steps = np.arange(1, len(opt.history) + 1)
    for k, name in enumerate(opt.objectives):
        values, sign = _values(opt, name), opt._signs[k]
        best = sign * np.fmin.accumulate(np.where(np.isnan(values), np.inf, sign * values))
        best = np.where(np.isfinite(best), best, np.nan)
        charts = []
        for width, height in SIZES:
            plot = Plot(number_axis("evaluation", steps), number_axis(name, values), width, height)
            plot.line(steps, best).dots(steps, values, 2, 3.0)
            charts.append(plot.svg(f"{name} by evaluation"))
        rows = [
            [str(i), _number(float(v)), _number(float(b))]
            for i, v, b in zip(steps, values, best, strict=True)
        ]
        table = Table(name, ("evaluation", name, "best so far"), rows[:MOST_ROWS], (1, 2))
        caption = (
            f"{name} in the order told, and the best so far; the first {opt.initial} rows fill the space."
        )
        legend = ((2, "told"), (1, "best so far"))
        figures.append(Figure(charts[0], caption, table, charts[1], legend))
    return Section("course", "How it went", tuple(figures))


def _around(opt: Optimiser) -> Section:
    """What the surrogate says along each column, through the best row."""
    name, sign = opt.objectives[0], opt._signs[0]
    values = _values(opt, name)
    seen = ~np.isnan(values)
    if seen.sum() < 3 or np.ptp(values[seen]) == 0:
        return Section("around", "Around the best", (Text("Too little was told for a model of it."),))
    gp, u = opt._gp(name), opt.space.encode(opt.best().point)
    figures = []
    for column, kind, place in opt.space.parts():
        cells = kind.spread(np.linspace(0.0005, 0.9995, POINTS))
        at = [kind.decode(cell) for cell in cells]
        if kind.count is not None:
            kept = {str(value): i for i, value in reversed(list(enumerate(at)))}
            rows = sorted(kept.values())
            cells, at = cells[rows], [at[i] for i in rows]
        U = np.repeat(u[None], len(cells), 0)
        U[:, place] = cells
        mean, variance = (np.asarray(part, float) for part in predict_jit(gp, U))
        middle, one, other = (
            sign * np.asarray(gp.warp.back(mean + s * np.sqrt(variance)), float) for s in (0.0, -1.96, 1.96)
        )
        low, high = np.minimum(one, other), np.maximum(one, other)
        told = [e.point[column] for e in opt.history]
        x, where, dots = _along(column, kind, at, told)
        plot = Plot(x, number_axis(name, values, low, high))
        if kind.count is None:
            plot.band(where, low, high).line(where, middle)
        else:
            plot.whiskers(where, low, high).dots(where, middle, 1, 4.0, "solid")
        plot.dots(dots, values, 2)
        (best,) = _along(column, kind, at, [opt.best().point[column]])[2]
        plot.rule(x=best)
        caption = f"{name} along {column}, the other columns as in the best row (dashed): mean and 95 % "
        caption += "interval of the surrogate, and all rows told."
        numbers = [
            [_number(v), *(_number(float(c[i])) for c in (middle, low, high))] for i, v in enumerate(at)
        ]
        table = Table(caption, (column, "mean", "lower", "upper"), numbers, (1, 2, 3))
        figures.append(Figure(plot.svg(f"{name} along {column}"), caption, table))
    return Section("around", "Around the best", (Figures(tuple(figures)),))


def _along(column: str, kind: Any, at: list[Any], told: list[Any]) -> tuple[Axis, np.ndarray, np.ndarray]:
    """The axis of a column, where its values are on it, and where rows told are."""
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in at):
        numbers, dots = np.array(at, float), np.array(told, float)
        if getattr(kind, "log", False):
            numbers, dots = np.log10(numbers), np.log10(dots)
            axis = number_axis(f"log10 of {column}", numbers, dots)
            return axis, numbers, dots
        return number_axis(column, numbers, dots), numbers, dots
    names = [str(value) for value in at]
    place = {value: float(i) for i, value in enumerate(names)}
    return (
        category_axis(column, names),
        np.arange(len(at), dtype=float),
        np.array([place[str(v)] for v in told]),
    )


def _front(opt: Optimiser) -> Section:
    """Two objectives against each other."""
    one, two = opt.objectives[:2]
    a, b = _values(opt, one), _values(opt, two)
    rows = opt.front().rows
    x, y = (np.array([e.outcomes[name] for e in rows]) for name in (one, two))
    plot = Plot(number_axis(one, a), number_axis(two, b), 480, 340).dots(a, b, 7, 2.6)
    plot.line(x, y, 1, dashed=True).dots(x, y, 1, 4.0, "solid")
    caption = f"{two} against {one}: all rows told, and those that none beats."
    table = _table("Rows that none beats", opt, rows)
    figure = Figure(
        plot.svg(f"{two} against {one}"), caption, table, legend=((1, "none beats it"), (7, "others"))
    )
    return Section("around", "Rows that none beats", (figure,))


def _table(caption: str, opt: Optimiser, rows: tuple[Evaluation, ...]) -> Table:
    outcomes = list(dict.fromkeys(name for e in opt.history for name in e.outcomes))
    header = ("evaluation", *opt.space.names, *outcomes, "note")
    number = {id(e): i + 1 for i, e in enumerate(opt.history)}
    found = [
        [
            str(number.get(id(e), "")),
            *(short(_number(e.point[name]), 24) for name in opt.space.names),
            *("failed" if e.failed else _number(float(e.outcomes[name])) for name in outcomes),
            e.note,
        ]
        for e in rows
    ]
    return Table(caption, header, found)


def _history(opt: Optimiser) -> Section:
    rows = opt.history[-MOST_ROWS:]
    said = "" if len(rows) == len(opt.history) else f", the last {len(rows)} of {len(opt.history):,}"
    return Section("history", "Every row told", (_table(f"In the order told{said}", opt, rows),))


def _space(opt: Optimiser) -> Section:
    rows = [[name, repr(column)] for name, column in opt.space.columns.items()]
    parts: list[AbstractPart] = [Table("Columns", ("column", "what"), rows)]
    if opt.limits:
        parts.append(
            Table("Limits", ("outcome", "between"), [[n, repr(ends)] for n, ends in opt.limits.items()])
        )
    if opt.space.constraints:
        parts.append(Text("Constraints: " + "; ".join(map(str, opt.space.constraints)) + "."))
    return Section("space", "Where was looked", tuple(parts))


def _again(opt: Optimiser) -> Section:
    settings = {k: v for k, v in opt.get_params().items() if v not in (None, [], {}, False) and k != "space"}
    space = ", ".join(f"{name!r}: {column!r}" for name, column in opt.space.columns.items())
    said = "".join(f", {name}={value!r}" for name, value in settings.items())
    code = (
        "import mercer\nfrom mercer.decide import Categorical, Integer, Real\n\n"
        f"opt = mercer.Optimiser({{{space}}}{said})\nrow = opt.ask()\nopt.tell(row, value)"
    )
    versions = [["Python", platform.python_version()], *([n, version(n)] for n in ("mercer", "jax", "numpy"))]
    return Section(
        "again", "How to reproduce it", (Code(code), Table("Versions", ("what", "version"), versions))
    )
