"""Plain reports, of panels of series, mixtures of experts, latent spaces and points: what was fitted, the
data, what was learned, a picture, how to reproduce it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer.conditioned import LatentSpace, PointFunction
from mercer.estimators.hidden.shared import names_of
from mercer.estimators.reports.hyper import hyperparameters
from mercer.estimators.reports.series import forecast_figure, stamp_text
from mercer.estimators.reports.shared import again, behind, constructor, number, percent, shown_rows, titled
from mercer.estimators.series.words import part_rows
from mercer.params import parameters
from mercer.report import AbstractPart, Code, Facts, Figure, Figures, Heading, Report, Section, Table, Text
from mercer.report.charts import Plot, bar_chart, heat_map, number_axis

MOST_SERIES = 24  # of a panel, whose forecasts are drawn
SIDE = 40  # cells along each side of a shaded picture


def panel_told(model: Any) -> Report:
    """The report of several time series."""
    check_is_fitted(model, "series_")
    series = model.series_
    counts = {name: int((~np.isnan(one.observed()[1])).sum()) for name, one in series.items()}
    facts = [
        ("series", str(len(series)), "one set of hyperparameters"),
        ("values", f"{sum(counts.values()):,}", f"{min(counts.values())} to {max(counts.values())} in each"),
        ("log evidence", number(model.log_marginal_likelihood_, 6), "nats, of all series"),
    ]
    rows: list[Any] = []
    ahead: list[Any] = []
    for name, one in series.items():
        stamps, y = one.observed()
        ends = [stamp_text(stamps[0]), stamp_text(stamps[-1])]
        spread = [number(float(v)) for v in (np.nanmin(y), np.nanmean(y), np.nanmax(y))]
        rows.append([name, f"{counts[name]:,}", f"{len(y) - counts[name]:,}", *ends, *spread])
        if len(ahead) < 2 * MOST_SERIES:
            ahead += [Heading(name), forecast_figure(one, stamps, y, name, one._some())]
    if len(series) > MOST_SERIES:
        ahead.append(Text(f"Drawn are the first {MOST_SERIES} of {len(series)} series."))
    header = ("series", "values", "missing", "from", "to", "least", "mean", "most")
    first = model.names_[0]
    shared = "in standard deviations of each" if model.scaled else "in their units"
    learned = Table(f"The parts of {first}", ("part", "what was learned"), part_rows(series[first]))
    sections = (
        _fitted(model, facts),
        titled("data", (Table("The series", header, rows, (1, 2, 5, 6, 7)),)),
        titled("hyperparameters", (Text(f"Hyperparameters are shared, {shared}."), learned)),
        titled("forecast", tuple(ahead)),
        _again(model, "frame"),
    )
    return Report(f"{len(series)} series over time", "GPPanel: series that learn from each other", sections)


def experts_told(model: Any) -> Report:
    """The report of a mixture of Gaussian-process experts."""
    check_is_fitted(model)
    X, y = model._data
    names = names_of(model) or [f"x{j}" for j in range(X.shape[1])]
    R = np.asarray(model.model_.responsibilities)
    own, many = R.argmax(1), R.shape[1]
    facts = [
        ("experts", str(many), f"gate: {model.gating}"),
        ("rows", f"{len(y):,}", f"of {X.shape[1]} column{'s' * (X.shape[1] > 1)}"),
        ("lower bound", number(model.lower_bound_, 6), "of the log evidence, nats"),
        ("EM", "converged" if model.converged_ else "not converged", f"after {model.n_iter_} steps"),
    ]
    share = [
        [f"expert {j}", percent(R[:, j].mean()), f"{(own == j).sum():,}", _sure(R[own == j, j])]
        for j in range(many)
    ]
    learned: list[AbstractPart] = [
        Table("Rows by expert", ("expert", "share", "rows", "how sure, on average"), share, (1, 2, 3))
    ]
    for j, expert in enumerate(model.model_.experts):
        learned += [Heading(f"Expert {j}"), Text(f"Kernel {expert.gp.kernel.formula()}."), _values(expert)]
    sections = (
        _fitted(model, facts),
        _columns(np.column_stack([X, y]), [*names, "y"]),
        titled("hyperparameters", tuple(learned)),
        Section("where", "What each expert explains", (_by_expert(model, X, y, own, names),)),
        _again(model, "X, y"),
    )
    return Report(
        f"y from {', '.join(names[:5])} by {many} experts", "GPMixture: experts and a gate", sections
    )


def latent_told(model: Any, facts: list[tuple[str, str, str]], relevance: np.ndarray | None) -> Report:
    """The report of a latent space. relevance: of each latent dimension, where it is learned."""
    space, kind = model.latent_space(), type(model).__name__
    n, q = space.points.shape
    parts: list[AbstractPart] = []
    if relevance is not None:
        wide, narrow = (
            bar_chart([f"dimension {j}" for j in range(q)], relevance, "relevance", None, "Relevance", width)
            for width in (620, 360)
        )
        parts.append(Figure(narrow, "How much each latent dimension is used.", wide=wide))
    parts.append(Text(f"The kernel over the latent space is {model.kernel_.formula()}."))
    rows = [
        [f"dimension {j}", *(number(float(v)) for v in (p.min(), p.max(), p.std(), s.mean()))]
        for j, (p, s) in enumerate(zip(space.points.T, space.std.T, strict=True))
    ]
    header = ("dimension", "from", "to", "spread", "mean standard deviation of a point")
    parts.append(Table("The points", header, rows, (1, 2, 3, 4)))
    names = names_of(model) or [f"x{j}" for j in range(len(model.mean_))]
    data = [
        [name, number(float(m) if abs(m) > 1e-12 * s else 0.0), number(float(s))]  # not rounding about 0
        for name, m, s in zip(names, model.mean_, model.scale_, strict=True)
    ]
    told = Table(f"The columns of the {n:,} rows", ("column", "centre", "scale"), data, (1, 2))
    sections = (
        _fitted(model, [("rows", f"{n:,}", f"{len(names)} columns"), *facts]),
        titled("data", (told,)),
        titled("hyperparameters", tuple(parts)),
        Section("where", "Where the rows are", (Figures(_map(space)),)),
        _again(model, "X"),
    )
    return Report(f"{n:,} rows in {q} latent dimensions", f"{kind}: a latent space", sections)


def points_told(model: Any) -> Report:
    """The report of an intensity or a density of points."""
    shown, cells, points = model.point_function(), model.cells_, model.points_
    n, d = points.shape
    names = list(shown.names or [f"x{j}" for j in range(d)])
    facts = [
        ("points", f"{n:,}", f"in {cells.words()}"),
        ("cells", " x ".join(map(str, cells.shape)), "in which they are counted"),
        ("log evidence", number(model.log_marginal_likelihood_, 6), "nats"),
    ]
    learned = hyperparameters([model.fit_], [""], model.inference, f"log {model.word}")
    sections = (
        _fitted(model, facts),
        _columns(points, names),
        titled("hyperparameters", learned),
        Section("where", f"The {model.word}", (_surface(shown, names),)),
        _again(model, "points"),
    )
    title = f"The {model.word} of {n:,} points"
    return Report(title, f"{type(model).__name__} of {', '.join(names[:5])}", sections)


# ------------------------------------------------------------------------------------------------ pictures


def _by_expert(model: Any, X: np.ndarray, y: np.ndarray, own: np.ndarray, names: list[str]) -> Figure:
    """Of one column the curve with its band, of several predicted against observed; dots by expert."""
    fitted, _ = model.experts_.mean_and_std(X)
    rows, said = shown_rows(y - fitted)
    if X.shape[1] == 1:
        at = np.linspace(X.min(), X.max(), 161)[:, None]
        mean, _ = model.experts_.mean_and_std(at)
        low, high = model.experts_.quantile(at, [0.025, 0.975]).T
        plot = Plot(number_axis(names[0], at), number_axis("y", y, low, high))
        plot.band(at[:, 0], low, high, 7).line(at[:, 0], mean, 7)
        across, caption = X[:, 0], "The mean of the mixture, its 95 % interval, and the rows by their expert."
        numbers = behind("Curve", {names[0]: at[:, 0], "mean": mean, "lower": low, "upper": high})
    else:
        across = fitted
        plot = Plot(number_axis("predicted y", across), number_axis("y", y)).diagonal()
        caption = "Each row as it was observed and as it is fitted, by its expert."
        numbers = behind("Rows", {"predicted y": across[rows], "y": y[rows], "expert": own[rows]})
    many = int(own.max()) + 1
    for j in range(many):
        mine = rows[own[rows] == j]
        plot.dots(across[mine], y[mine], 1 + j % 6)
    legend = tuple((1 + j % 6, f"expert {j}") for j in range(min(many, 6)))
    return Figure(plot.svg("Rows by expert"), caption + said, numbers, legend=legend)


def _map(space: LatentSpace) -> tuple[Figure, ...]:
    """The points in the first two dimensions, and the shade that lies behind them."""
    points, q = space.points, space.points.shape[1]
    rows, said = shown_rows(np.linalg.norm(points - points.mean(0), axis=1))
    second = points[:, 1] if q > 1 else np.zeros(len(points))
    x, y = number_axis("dimension 0", points[:, 0]), number_axis("dimension 1" if q > 1 else "", second)
    plot = Plot(x, y).dots(points[rows, 0], second[rows], 1)
    numbers = {f"dimension {j}": points[rows, j] for j in range(q)}
    figures = [Figure(plot.svg("The rows"), f"Each row by its point.{said}", behind("Points", numbers))]
    if q > 1:
        grid, edges = _grid(points.min(0)[:2], points.max(0)[:2])
        shade, what = space.shade(grid).reshape(SIDE, SIDE), space.shade_name
        axes = [number_axis(f"dimension {j}", edges[j], room=0.0) for j in range(2)]
        figures.append(Figure(heat_map(axes[0], axes[1], edges, shade, what, what), f"The {what}."))
    return tuple(figures)


def _surface(shown: PointFunction, names: list[str]) -> AbstractPart:
    """Of one column the curve with its band, of two a shaded map; of more there is no picture."""
    what, points, d = shown.word, shown.points, len(names)
    low, high = np.transpose(shown.region)
    if d == 1:
        edges = np.linspace(low, high, 202)
        at = 0.5 * (edges[1:] + edges[:-1])
        mean, (below, above) = shown.mean(at), shown.interval(at, 0.95)
        plot = Plot(number_axis(names[0], edges), number_axis(what, below, above, zero=True))
        plot.band(at[:, 0], below, above).line(at[:, 0], mean)
        rows, said = shown_rows(points[:, 0] - points.mean())
        plot.dots(points[rows, 0], np.zeros(len(rows)), 2, 2.0)
        caption = f"The {what} with its 95 % interval; the points lie along the axis.{said}"
        numbers = behind(what, {names[0]: at[:, 0], "mean": mean, "lower": below, "upper": above})
        return Figure(plot.svg(f"The {what}"), caption, numbers)
    if d != 2:
        return Text(f"There is no picture in {d} dimensions: predict(X) gives the {what} at any place.")
    grid, borders = _grid(low, high)
    mean = shown.mean(grid)
    axes = [number_axis(name, edge, room=0.0) for name, edge in zip(names, borders, strict=True)]
    picture = heat_map(axes[0], axes[1], borders, mean.reshape(SIDE, SIDE), what, f"The {what}")
    numbers = behind(what, {names[0]: grid[:, 0], names[1]: grid[:, 1], what: mean})
    return Figure(picture, f"The {what} by {names[0]} and {names[1]}.", numbers)


def _grid(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray]]:
    """Centres (SIDE^2, 2) of the cells of a rectangle, and their edges."""
    first, second = (np.linspace(a, b, SIDE + 1) for a, b in zip(low, high, strict=True))
    middles = [0.5 * (edge[1:] + edge[:-1]) for edge in (first, second)]
    return np.stack(np.meshgrid(*middles, indexing="ij"), -1).reshape(-1, 2), (first, second)


# ------------------------------------------------------------------------------------------------ sections


def _fitted(model: Any, facts: list[tuple[str, str, str]]) -> Section:
    return titled("words", (Facts(tuple(facts)), Code(model.summary(), "In words:")))


def _columns(values: np.ndarray, names: list[str]) -> Section:
    rows = [
        [name, *(number(float(v)) for v in (x.min(), x.mean(), x.max(), x.std()))]
        for name, x in zip(names, values.T, strict=True)
    ]
    header = ("column", "least", "mean", "most", "standard deviation")
    return titled("data", (Table(f"{len(values):,} rows", header, rows, (1, 2, 3, 4)),))


def _values(expert: Any) -> Table:
    rows = [
        [p.name, ", ".join(number(float(v)) for v in np.ravel(p.value)[:8]), p.status]
        for p in parameters(expert)
    ]
    return Table("Hyperparameters", ("hyperparameter", "value", "status"), rows)


def _sure(shares: np.ndarray) -> str:
    return percent(float(shares.mean())) if shares.size else ""


def _again(model: Any, given: str) -> Section:
    code = f'import mercer\n\nmodel = {constructor(model)}\nmodel.fit({given})\nmodel.save("model.mercer")'
    return again(code, None, None, model.random_state)
