"""How columns matter: the prediction along one of them, or two, averaged over the others."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.conditioned import AbstractSubject
from mercer.viz._classes import colour, paint
from mercer.viz._style import BLUE, GREY, frame, legend, percent

ACROSS = 3  # panels in a row


def effects(
    model: Any,
    columns: Any = None,
    axes: Any = None,
    most: int = 6,
    level: float = 0.95,
    ylabel: str | None = None,
) -> Any:
    """A panel for each column: the prediction where all rows have one value of it, averaged over rows of the
    training data (partial dependence), with the band of the averaged function. Returns the array of Axes.

    model: a fitted estimator of tables, or what `model.effects()` or `explain.effects` gave. columns: names,
    or pairs of names for the effect of two together; default: the `most` important ones. Categories, and
    numbers with few values, are bars from the average with intervals; classes are a curve each; pairs are
    shades with contours, of classes the likeliest one. Ticks at the bottom are the data.

    >>> viz.effects(GPRegressor().fit(df[["a", "b"]], df["y"]))
    >>> viz.effects(GPRegressor().fit(df[["a", "b"]], df["y"]), ["a", ("a", "b")])
    """
    found = model.column_effects(columns, most, level) if isinstance(model, AbstractSubject) else tuple(model)
    if found is None:
        raise TypeError("give a fitted estimator of tables, or what explain.effects says of a posterior.")
    own = axes is None
    axes = _panels(len(found)) if own else np.ravel(axes)
    if len(axes) != len(found):
        raise ValueError(f"there are {len(found)} effects, but {len(axes)} Axes were given.")
    one = [ax for ax, effect in zip(axes, found, strict=True) if len(effect.axes) == 1]
    for i, (ax, effect) in enumerate(zip(axes, found, strict=True)):
        name = ylabel or _name(effect)
        if len(effect.axes) == 2:
            _surface(ax, effect, name, named=not one)
            continue
        first = i % ACROSS == 0 or len(found[i - 1].axes) == 2
        frame(ax, effect.columns[0], name if first else "")
        (_levels if effect.axes[0].discrete else _curves)(ax, effect)
        if effect.labels:
            ax.set_ylim(-0.03, 1.03)
    if len(one) > 1 and not found[0].labels:
        low, high = min(ax.get_ylim()[0] for ax in one), max(ax.get_ylim()[1] for ax in one)
        for ax in one:
            ax.set_ylim(low, high)
    if one and own:
        what = one[0].get_legend_handles_labels()
        one[0].figure.legend(*what, loc="outside upper left", ncols=5, frameon=False, fontsize="small")
    elif one:
        legend(one[0])
    return axes


def _name(effect: Any) -> str:
    """What is predicted: of two classes, the probability of the second."""
    if len(effect.labels) == 2 and len(effect.axes) == 1:
        return f"probability of {effect.labels[1]}"
    return "probability" if effect.labels else effect.what


def _panels(count: int) -> Any:
    import matplotlib.pyplot as plt

    across = min(count, ACROSS)
    down = -(-count // across)
    size = (max(3.0 * across + 0.4, 4.6), 2.7 * down + 0.3)
    _, axes = plt.subplots(down, across, squeeze=False, figsize=size, layout="constrained")
    for ax in axes.ravel()[count:]:
        ax.set_visible(False)
    return axes.ravel()[:count]


def _series(effect: Any) -> Any:
    """Colour, label, mean, lower and upper of each curve: one of numbers and of two classes."""
    several = len(effect.labels) > 2
    for c in range(effect.mean.shape[-1]) if several else (-1,):
        ends = [None if end is None else end[:, c] for end in (effect.lower, effect.upper)]
        label = effect.labels[c] if several else f"average of {effect.rows} rows"
        yield colour(c) if several else BLUE, label, effect.mean[:, c], *ends


def _curves(ax: Any, effect: Any) -> None:
    axis = effect.axes[0]
    for tint, label, mean, lower, upper in _series(effect):
        if lower is not None:
            band = None if len(effect.labels) > 2 else f"{percent(effect.level)} of the average"
            ax.fill_between(axis.at, lower, upper, color=tint, alpha=0.22, linewidth=0, label=band)
        ax.plot(axis.at, mean, color=tint, linewidth=1.8, label=label)
    if axis.data is not None:
        seen = np.quantile(axis.data, np.linspace(0.01, 0.99, 50))
        ax.plot(
            seen, np.full(len(seen), 0.015), "|", color=GREY, markersize=5, transform=ax.get_xaxis_transform()
        )
    ax.set_xlim(axis.at.min(), axis.at.max())
    ax.locator_params(axis="x", nbins=5)


def _levels(ax: Any, effect: Any) -> None:
    """Bars from the average of all levels, with intervals; classes are points side by side."""
    axis = effect.axes[0]
    at, C = np.arange(len(axis.at)), len(effect.labels) if len(effect.labels) > 2 else 1
    for c, (tint, label, mean, lower, upper) in enumerate(_series(effect)):
        where = at + (0.16 * (c - 0.5 * (C - 1)) if C > 1 else 0.0)
        if C == 1:
            base = float(mean.mean())
            ax.bar(where, mean - base, 0.6, bottom=base, color=tint, alpha=0.35, label=label)
            ax.axhline(base, color=GREY, linewidth=0.9)
        bars = None if lower is None else np.maximum([mean - lower, upper - mean], 0.0)
        ax.errorbar(
            where, mean, yerr=bars, fmt="o", color=tint, markersize=4.5, capsize=2.5, elinewidth=1.1,
            label=label if C > 1 else f"{percent(effect.level)} of the average" if lower is not None else
            None,
        )  # fmt: skip
    _ticks(ax.xaxis, axis)


def _surface(ax: Any, effect: Any, name: str, named: bool) -> None:
    first, second = effect.axes
    frame(ax, first.name, second.name)
    a, b = (np.arange(len(axis.at)) if axis.discrete else axis.at for axis in (first, second))
    values = np.swapaxes(effect.mean, 0, 1)
    if effect.labels:
        paint(ax, a, b, values, effect.labels, smooth=not (first.discrete or second.discrete), named=named)
    elif first.discrete or second.discrete:
        shades = ax.pcolormesh(a, b, values[..., 0], cmap="viridis", shading="nearest")
        ax.figure.colorbar(shades, ax=ax, label=name)
    else:
        shades = ax.contourf(a, b, values[..., 0], levels=14, cmap="viridis")
        ax.contour(a, b, values[..., 0], levels=shades.levels, colors="white", linewidths=0.4)
        ax.figure.colorbar(shades, ax=ax, label=name)
    for where, axis in ((ax.xaxis, first), (ax.yaxis, second)):
        if axis.discrete:
            _ticks(where, axis)


def _ticks(where: Any, axis: Any) -> None:
    labels = [f"{value:g}" if isinstance(value, float) else str(value) for value in axis.at.tolist()]
    crowded = sum(map(len, labels)) > 24
    where.set_ticks(np.arange(len(labels)), labels, rotation=45 if crowded and where.axis_name == "x" else 0)
