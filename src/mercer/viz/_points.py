"""Intensities and densities of points, along one column or over two."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.conditioned import AbstractSubject, PointFunction
from mercer.viz._style import BLACK, BLUE, frame, legend, percent

GRID = 400  # places of a curve
SIDE = 100  # places along each side of a map


def points(
    model: Any, ax: Any = None, level: float = 0.95, xlabel: str | None = None, ylabel: str | None = None
) -> Any:
    """The intensity or density of a fitted `GPIntensity` or `GPDensity`, with the points.

    Of one column: its mean and its interval, and a stroke for each point at the foot. Of two: a map of its
    mean, with the points on it and a scale beside it.

    >>> viz.points(GPIntensity(region=(1851, 1963)).fit(dates), xlabel="year")
    """
    found = model.point_function() if isinstance(model, AbstractSubject) else None
    if found is None:
        raise TypeError(f"viz.points draws a fitted GPIntensity or GPDensity, not a {type(model).__name__}.")
    d = len(found.region)
    if d > 2:
        raise ValueError(f"viz.points draws points of one column or two, and these have {d}.")
    names = found.names or tuple(f"x{j}" for j in range(d))
    x = names[0] if xlabel is None else xlabel
    if d == 1:
        return _curve(found, frame(ax, x, found.word if ylabel is None else ylabel), level)
    return _map(found, frame(ax, x, names[1] if ylabel is None else ylabel, (5.4, 4.4)))


def _curve(found: PointFunction, ax: Any, level: float) -> Any:
    (ends,) = found.region
    x = np.linspace(*ends, GRID)
    lower, upper = found.interval(x[:, None], level)
    ax.fill_between(x, lower, upper, color=BLUE, alpha=0.25, linewidth=0, label=f"{percent(level)} band")
    ax.plot(x, found.mean(x[:, None]), color=BLUE, linewidth=1.6, label=found.word)
    at = found.points[:, 0]
    ax.plot(
        at, np.zeros_like(at), "|", color=BLACK, markersize=9, markeredgewidth=0.7, alpha=0.7, label="points",
        transform=ax.get_xaxis_transform(), clip_on=False,
    )  # fmt: skip
    ax.set_xlim(*ends)
    ax.set_ylim(0.0, None)
    legend(ax)
    return ax


def _map(found: PointFunction, ax: Any) -> Any:
    sides = [np.linspace(*ends, SIDE) for ends in found.region]
    places = np.stack(np.meshgrid(*sides, indexing="ij"), -1)
    values = found.mean(places.reshape(-1, 2)).reshape(SIDE, SIDE)
    drawn = ax.pcolormesh(*sides, values.T, cmap="cividis", shading="gouraud", vmin=0.0)
    ax.figure.colorbar(drawn, ax=ax, label=found.word)
    size = float(np.clip(40 / np.sqrt(len(found.points)), 1.5, 4.0))
    ax.plot(*found.points.T, "o", color="white", markeredgecolor=BLACK, markeredgewidth=0.4, markersize=size)
    ax.set_xlim(*found.region[0])
    ax.set_ylim(*found.region[1])
    return ax
