"""The columns of a table in a report: what they are, which matter, and how."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from markupsafe import Markup

from mercer.columns import Columns
from mercer.columns.roles import Category, Date, LeftOut
from mercer.estimators.explained import AbstractExplained
from mercer.estimators.reports.shared import behind, number, percent, titled
from mercer.explain import Effect, Importance
from mercer.explain.functionals import additive, by_kernel, columns_read
from mercer.posteriors import AbstractPosterior
from mercer.report import AbstractPart, Figure, Figures, Notes, Section, Table, Text, live
from mercer.report.charts import (
    Axis,
    Plot,
    bar_chart,
    category_axis,
    date_axis,
    heat_map,
    number_axis,
    seconds,
)

MOST_COLUMNS = 60
MOST_EFFECTS = 8
SIDE = 21  # values along each side of a slice
MOST_LEVELS = 12
Z95 = live.Z95


# ------------------------------------------------------------------------------------------------- the data


def data_table(
    columns: Columns | None, X: np.ndarray, y: np.ndarray | None, target: str
) -> list[AbstractPart]:
    """Each column: what it was read as, between which ends it lies, and how it is distributed."""
    rows: list[list[Any]] = []
    if y is not None:
        rows.append([target, "target", *_numbers(y), "", spark(y)])
    try:
        found = [] if columns is None else live.cells(columns, X)
    except live.NotKnown:
        found = []
    if columns is None or not found:
        rows += [[c.name, c.words(), "", "", "", "", ""] for c in (columns.columns if columns else ())]
    else:
        read = iter(found)
        for column in columns.columns:
            if isinstance(column, LeftOut):
                rows.append([column.name, column.words(), "", "", "", "", ""])
            else:
                rows.append(_row(column, next(read)))
    more = len(rows) - MOST_COLUMNS
    header = ("column", "read as", "least", "median", "most", "empty", "distribution")
    parts: list[AbstractPart] = [Table("Columns", header, rows[:MOST_COLUMNS], (2, 3, 4, 5))]
    if more > 0:
        parts.append(Text(f"{more} further columns are not listed."))
    return parts


def _row(column: Any, values: np.ndarray) -> list[Any]:
    empty = int(np.isnan(values).sum())
    gaps = str(empty) if empty else ""
    if isinstance(column, Category):
        counts = np.bincount(values.astype(int), minlength=len(column.levels) + bool(column.rare))
        levels = [
            *("(empty)" if one is None else one for one in column.levels),
            *["(other)"] * bool(column.rare),
        ]
        most = int(counts.argmax())
        often = f"{levels[most]} ({percent(counts[most] / len(values))})"
        return [column.name, column.words(), "", often, "", gaps, spark_bars(counts)]
    if isinstance(column, Date):
        stamps = column.texts(np.quantile(values[np.isfinite(values)], [0.0, 0.5, 1.0], method="lower"))
        return [column.name, column.words(), *stamps, gaps, spark(values)]
    return [column.name, column.words(), *_numbers(values), gaps, spark(values)]


def _numbers(values: np.ndarray) -> list[str]:
    seen = values[np.isfinite(values)]
    return [number(float(v)) for v in (seen.min(), np.median(seen), seen.max())]


def spark(values: np.ndarray) -> Markup:
    """A histogram of the size of a word."""
    counts, _ = np.histogram(values[np.isfinite(values)], bins=24)
    return spark_bars(counts)


def spark_bars(counts: np.ndarray) -> Markup:
    """Bars of the size of a word."""
    wide, tall = 120.0 / max(len(counts), 1), 24.0 / max(int(counts.max(initial=1)), 1)
    bars = "".join(
        f'<rect class="bar c7" x="{i * wide:.1f}" y="{25 - c * tall:.1f}" width="{max(wide - 1, 0.8):.1f}" '
        f'height="{c * tall + 1:.1f}"/>'
        for i, c in enumerate(counts.tolist())
    )
    return Markup(f'<svg class="spark" viewBox="0 0 120 26" aria-hidden="true">{bars}</svg>')


# --------------------------------------------------------------------------------------------- which matter


def importance_parts(found: Importance, target: str) -> list[AbstractPart]:
    """Bars and their table."""
    names, total = list(found.names[:20]), found.total[:20]
    wide, picture = (
        bar_chart(
            names,
            total,
            f"share of the variance of {target}, as predicted",
            found.total_error[:20],
            "How much each column matters",
            width,
            found.first_order[:20],
        )
        for width in (620, 360)
    )
    header, rows = found.table(40)
    caption = (
        "Wide bars: the share that each column explains with its interactions, the line its standard error; "
        "narrow bars: alone."
    )
    section = found.report_section()
    parts: list[AbstractPart] = [Text(section["paragraphs"][0]), Figure(picture, caption, wide=wide)]
    parts.append(Table("Importance", header, rows, tuple(range(1, len(header)))))
    if notes := section["paragraphs"][1:]:
        parts.append(Notes(tuple(notes)))
    return parts


# ------------------------------------------------------------------------------------------- how they matter


def effect_figure(effect: Effect, target: str, columns: Columns | None) -> Figure:
    """The prediction along one column, averaged over the others."""
    axis = effect.axes[0]
    labels = effect.labels
    what = target if not labels else f"probability of {labels[1]}" if len(labels) == 2 else "probability"
    curves = [1] if len(labels) == 2 else list(range(effect.mean.shape[-1]))
    ends = [e for e in (effect.lower, effect.upper) if e is not None]
    y = number_axis(what, effect.mean[..., curves], *(e[..., curves] for e in ends))
    if labels:
        y = number_axis(what, [0.0, 1.0], room=0.02)
    x, at = _along(axis, columns)
    plot = Plot(x, y)
    for k, c in enumerate(curves):
        colour = 1 + k % 8
        mean = effect.mean[:, c]
        if effect.lower is not None and effect.upper is not None:
            low, high = effect.lower[:, c], effect.upper[:, c]
            if axis.discrete:
                plot.whiskers(at, low, high, colour)
            else:
                plot.band(at, low, high, colour)
        if axis.discrete:
            plot.dots(at, mean, colour, 4.0, "solid")
        else:
            plot.line(at, mean, colour)
    if axis.data is not None and not axis.discrete:
        seen = np.quantile(axis.data, np.linspace(0.005, 0.995, min(60, len(axis.data))))
        seen = seen[(seen >= x.low) & (seen <= x.high)]
        marks = "".join(f"M{p:.1f} {plot.bottom - 5:.1f}v5" for p in plot.px(seen))
        plot.raw(f'<path class="tick" d="{marks}"/>')
    legend = tuple((1 + k % 8, labels[c]) for k, c in enumerate(curves)) if len(curves) > 1 else ()
    numbers: dict[str, Any] = {axis.name: axis.at}
    for c in curves:
        tag = f" {labels[c]}" if len(curves) > 1 else ""
        numbers[f"mean{tag}"] = effect.mean[:, c]
        if effect.lower is not None and effect.upper is not None:
            numbers |= {f"lower{tag}": effect.lower[:, c], f"upper{tag}": effect.upper[:, c]}
    band = f", with the {100 * effect.level:g} % interval of that average" if effect.lower is not None else ""
    caption = f"{what} along {axis.name}, averaged over the other columns in {effect.rows} rows{band}."
    if effect.what and len(columns.columns if columns else ()) == 1:
        caption = f"{what} along {axis.name}{band}."
    picture = plot.svg(f"{what} along {axis.name}", caption)
    return Figure(picture, caption, behind(f"Along {axis.name}", numbers), legend=legend)


def _along(axis: Any, columns: Columns | None) -> tuple[Axis, np.ndarray]:
    """The axis of a column, and where its values are on it."""
    if axis.discrete and axis.at.dtype == object:
        return category_axis(axis.name, axis.at), np.arange(len(axis.at), dtype=float)
    values = np.asarray(axis.at, float)
    column = {} if columns is None else {c.name: c for c in columns.columns}
    if isinstance(date := column.get(axis.name), Date):
        stamps = date.stamps(values)
        return date_axis(axis.name, stamps), seconds(stamps)
    return number_axis(axis.name, values), values


def slice_figures(
    model: AbstractExplained, posterior: AbstractPosterior, pair: Sequence[str], target: str
) -> list[Figure]:
    """Two columns at once, the others where most rows are: the prediction, and how sure it is."""
    columns = model.columns_
    assert columns is not None
    X = posterior.inputs.values
    data = {c["name"]: c for c in live.column_data(columns, X)}
    values = [_side(data[name], one) for name, one in _named(columns, X, pair)]
    cells = {name: np.full(values[0].size * values[1].size, one["start"]) for name, one in data.items()}
    first, second = (grid.ravel() for grid in np.meshgrid(*values, indexing="ij"))
    cells[pair[0]], cells[pair[1]] = first.astype(float), second.astype(float)
    Z = live.encoded(columns, cells)
    latent = bool(posterior.model.likelihood.mean_is_latent)
    mean, std = posterior.mean_and_std(Z, latent=latent)
    mean, std = (m if m.ndim == 1 else m[:, 0] for m in (mean, std))
    whats = [(target, mean), (f"95 % half-width of {target}", Z95 * std)]
    if posterior.model.likelihood.categorical:  # a probability has no spread of its own
        _, std = posterior.mean_and_std(Z, latent=True)
        whats = [(target, mean), ("std of the function behind it", std)]
    shape = values[0].size, values[1].size
    axes = [_side_axis(data[name], at) for name, at in zip(pair, values, strict=True)]
    edges = [_edges(at, data[name]["type"] == "category") for name, at in zip(pair, values, strict=True)]
    others = [name for name in data if name not in pair]
    rest = (
        f" {', '.join(others[:4])}{' ...' * (len(others) > 4)} at the middle of the data." if others else ""
    )
    out = []
    for what, shown in whats:
        title = f"{what} by {pair[0]} and {pair[1]}"
        numbers = {pair[0]: first, pair[1]: second, what: shown}
        picture = heat_map(axes[0], axes[1], (edges[0], edges[1]), shown.reshape(shape), what, title)
        out.append(Figure(picture, f"{title}.{rest}", behind(title, numbers)))
    return out


def _named(columns: Columns, X: np.ndarray, pair: Sequence[str]) -> list[tuple[str, np.ndarray]]:
    kept = [c for c in columns.columns if not isinstance(c, LeftOut)]
    by_name = {c.name: values for c, values in zip(kept, live.cells(columns, X), strict=True)}
    return [(name, by_name[name]) for name in pair]


def _side(column: dict[str, Any], values: np.ndarray) -> np.ndarray:
    if column["type"] == "category":
        return np.arange(min(len(column["labels"]) - 1, MOST_LEVELS), dtype=float)
    low, high = np.quantile(values[np.isfinite(values)], [0.01, 0.99])
    if not high > low:
        low, high = column["low"], column["high"]
    return np.linspace(low, high, SIDE)


def _side_axis(column: dict[str, Any], at: np.ndarray) -> Axis:
    if column["type"] == "category":
        shown = category_axis(column["name"], column["labels"][: len(at)])
        return shown._replace(low=-0.5, high=len(at) - 0.5)
    half = 0.5 * (at[1] - at[0])
    ends = [at[0] - half, at[-1] + half]
    if column["type"] == "date":
        start = np.datetime64(column["origin"].removesuffix("Z"))
        stamps = start + (np.array(ends) * live.MS).astype("timedelta64[ms]")
        shown, (low, high) = date_axis(column["name"], stamps, 3), seconds(stamps)
        scale = (ends[1] - ends[0]) / (high - low)
        ticks = tuple((ends[0] + (t - low) * scale, text) for t, text in shown.ticks if low <= t <= high)
        return Axis(shown.label, ends[0], ends[1], ticks)
    return number_axis(column["name"], ends, room=0.0)


def _edges(at: np.ndarray, levels: bool) -> np.ndarray:
    if levels:
        return np.arange(len(at) + 1) - 0.5
    half = 0.5 * (at[1] - at[0])
    return np.append(at - half, at[-1] + half)


# ------------------------------------------------------------------------------------------ additive parts


def component_figures(model: AbstractExplained, posterior: AbstractPosterior) -> list[Figure]:
    """Of each additive term of the kernel that reads one column: what it adds along it. None where there is
    but one term.
    """
    columns, this = model.columns_, posterior
    if columns is None or not by_kernel(posterior) or posterior.inputs.values.dtype == object:
        return []
    kernel = this.model.kernels[0]
    terms = additive(kernel)
    if len(terms) < 2:
        return []
    X = posterior.inputs.values
    data = {c["name"]: c for c in live.column_data(columns, X)}
    place = {position: name for name, group in columns.groups.items() for position in group}
    figures = []
    for j, term in enumerate(terms[:MOST_EFFECTS]):
        read = {place[c] for c in columns_read(term, tuple(range(X.shape[1])))}
        if len(read) != 1:
            continue
        (name,) = read
        (at,) = (_side(data[one], values) for one, values in _named(columns, X, [name]))
        at = at if data[name]["type"] == "category" else np.linspace(at[0], at[-1], 81)
        cells = {one: np.full(len(at), spec["start"]) for one, spec in data.items()} | {name: at}
        part = posterior.components(live.encoded(columns, cells))[j]
        axis = _side_axis(data[name], at)
        low, high = part.mean - Z95 * part.std, part.mean + Z95 * part.std
        plot = Plot(axis, number_axis("added", low, high)).rule(y=0.0)
        if data[name]["type"] == "category":
            plot.whiskers(at, low, high).dots(at, part.mean, 1, 4.0, "solid")
        else:
            plot.band(at, low, high).line(at, part.mean)
        caption = f"What {part.name} adds along {name}, with its 95 % interval."
        numbers = {name: at, "mean": part.mean, "lower": low, "upper": high}
        figures.append(Figure(plot.svg(caption), caption, behind(caption, numbers)))
    return figures


def effects_section(
    model: AbstractExplained, effects: Sequence[Effect], found: Importance, target: str
) -> Section:
    """One-dimensional effects, slices of two columns, additive parts."""
    parts: list[AbstractPart] = []
    one = [effect_figure(effect, target, model.columns_) for effect in effects]
    parts.append(Figures(tuple(one)))
    posterior = model._fits[0].posterior
    plain = len(model._fits) == 1 and posterior.inputs.values.dtype != object and not posterior.averages
    if plain and len(found) > 1 and posterior.model.likelihood.latents == 1:
        strongest = found.pairs[0]
        pair = (strongest.first, strongest.second) if strongest.share > 0.005 else found.names[:2]
        said = (
            f"{pair[0]} and {pair[1]} act together more than any other two columns."
            if strongest.share > 0.005
            else "No two columns act together to speak of: these are the two that matter most."
        )
        labels = effects[0].labels
        what = f"probability of {labels[1]}" if labels else target
        parts += [Text(said), Figures(tuple(slice_figures(model, posterior, pair, what)))]
    if plain and (added := component_figures(model, posterior)):
        parts += [Text("The parts that add up to the function:"), Figures(tuple(added))]
    return titled("effects", tuple(parts))


__all__ = [
    "component_figures",
    "data_table",
    "effect_figure",
    "effects_section",
    "importance_parts",
    "slice_figures",
]
