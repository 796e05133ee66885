"""Time series with dates: the forecast, and the parts the series is made of."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.viz._style import BLACK, BLUE, GREY, VERMILLION, legend, panels, percent, ribbon

LEAST, TIMES = 60, 6  # history="auto": so many values at least, and so many times the length of the forecast


def decomposition(
    model: Any, horizon: Any = None, level: float = 0.95, axes: Any = None, ylabel: str | None = None
) -> Any:
    """A series and below it its parts, one panel each, with their own uncertainty. Returns the array of Axes.

    model: a fitted `GPTimeSeries`. horizon: how far to go on beyond the last stamp, as in its `forecast`. The
    parts of counts, and of a series whose logarithm was modelled, are of the logarithm. Within gaps the parts
    are drawn at the stamps that `impute` fills, with the uncertainty that they have there.

    >>> viz.decomposition(ts, horizon=24)
    """
    stamps, parts = model.components_columns(horizon, gaps=True)
    names = model.component_names_
    axes = panels(1 + len(names), (6.4, 1.8 + 1.35 * len(names))) if axes is None else np.ravel(axes)
    if len(axes) != 1 + len(names):
        raise ValueError(
            f"the series has {len(names)} parts, so {1 + len(names)} Axes are needed, but {len(axes)} were "
            "given."
        )
    total = np.sum([parts[name] for name in names], 0)
    _plain(axes[0], model.value_name_ if ylabel is None else ylabel)
    axes[0].plot(
        stamps,
        np.exp(total) if model.logarithmic_ else total,
        color=BLUE,
        linewidth=1.0,
        label="without noise",
    )
    end = _data(axes[0], *model.observed())
    legend(axes[0])
    for ax, name in zip(axes[1:], names, strict=True):
        _plain(ax)
        ribbon(ax, stamps, parts[name], parts[f"{name}_std"], level, alpha=0.25)
        ax.plot(stamps, parts[name], color=BLUE, linewidth=1.2)
        ax.set_title(
            f"{name} (of the logarithm)" if model.logarithmic_ else name, loc="left", fontsize="small", pad=3
        )
    if horizon is not None:
        for ax in axes:
            _end(ax, end)
    axes[0].margins(x=0.01)
    return axes


def series_forecast(
    model: Any,
    horizon: Any,
    observed_later: Any = None,
    ax: Any = None,
    level: float = 0.95,
    xlabel: str | None = None,
    ylabel: str | None = None,
    history: Any = "auto",
) -> Any:
    """The series and its forecast, `horizon` steps or stamps; see `viz.forecast`."""
    stamps, ahead = model.forecast_columns(horizon, level)
    past, y = model.observed(None if isinstance(history, str) and history in ("auto", "all") else history)
    if isinstance(history, str) and history == "auto":
        first = shown_from(past, stamps[-1] - past[-1])
        past, y = past[first:], y[first:]
    if ax is None:
        import matplotlib.pyplot as plt

        _, ax = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
    _plain(ax, model.value_name_ if ylabel is None else ylabel)
    ax.set_xlabel(xlabel or "")
    ax.fill_between(
        stamps,
        ahead["lower"],
        ahead["upper"],
        color=BLUE,
        alpha=0.25,
        linewidth=0,
        label=f"{percent(level)} of y",
    )
    ax.plot(stamps, ahead["mean"], color=BLUE, linewidth=1.2, label="forecast")
    end = _data(ax, past, y)
    if observed_later is not None:
        at, later = observed_later if isinstance(observed_later, tuple) else (stamps, observed_later)
        if np.shape(at) != np.shape(later):
            raise ValueError(
                f"observed_later has {np.size(later)} values for {np.size(at)} stamps: give one for each, or "
                "(stamps, y)."
            )
        ax.plot(
            np.asarray(at),
            np.asarray(later, float),
            ".",
            color=VERMILLION,
            markersize=3.5,
            label="observed later",
        )
    _end(ax, end)
    ax.margins(x=0.01)
    legend(ax)
    return ax


def _plain(ax: Any, ylabel: str = "") -> None:
    ax.spines[["top", "right"]].set_visible(False)
    ax.set_ylabel(ylabel)


def shown_from(past: np.ndarray, length: Any) -> int:
    """Of stamps in order, the first to draw so that a forecast of that length is no speck."""
    return max(0, min(len(past) - LEAST, int(np.searchsorted(past, past[-1] - TIMES * length))))


def _data(ax: Any, stamps: np.ndarray, y: np.ndarray) -> Any:
    """Draw the data; the last stamp."""
    size = float(np.clip(40 / np.sqrt(len(y)), 2.0, 5.0))
    ax.plot(stamps, y, "o", color=BLACK, markersize=size, markeredgewidth=0, label="data", zorder=3)
    return stamps[-1]


def _end(ax: Any, stamp: Any) -> None:
    ax.axvline(stamp, color=GREY, linewidth=0.9, linestyle=(0, (4, 3)))
