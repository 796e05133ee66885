"""Explanations: what each column adds to one prediction, or explains of all of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.conditioned import AbstractSubject
from mercer.viz._style import BLACK, BLUE, GREY, VERMILLION, frame, half_width, percent


def explain(
    model: Any, rows: Any = None, row: int = 0, ax: Any = None, level: float = 0.95, most: int = 12
) -> Any:
    """What each column adds to one prediction: from the average prediction on, bars to the right raise it and
    bars to the left lower it, each with the interval of its value, down to the prediction. Without rows, what
    share of the variance each column (of a series, each part) explains. Returns the Axes.

    model: a fitted estimator, or what its `explain` (or `explain.attributions`) gave. rows: those to explain,
    as in `explain`; row: which of them is drawn, counted from 0. level: of the intervals. most: bars, the
    largest first; what other columns add is one more.

    >>> viz.explain(GPRegressor().fit(df[["a", "b"]], df["y"]), df[["a", "b"]].head(1))
    """
    found = model.explanation(rows) if isinstance(model, AbstractSubject) else model
    if found is None:
        raise TypeError("give a fitted estimator of tables or a series, or what its explain() gave.")
    bars = found.bars(row, most)
    count = len(bars.names)
    ends = np.cumsum(bars.lengths) + bars.start if bars.start is not None else bars.lengths
    starts = ends - bars.lengths
    ax = frame(ax, bars.what, size=(6.4, 1.3 + 0.36 * count))
    at = np.arange(count)[::-1]
    colours = [BLUE if length >= 0 else VERMILLION for length in bars.lengths]
    ax.barh(at, bars.lengths, left=starts, color=colours, height=0.6)
    known = np.isfinite(bars.std)
    half = half_width(level) * np.where(known, bars.std, 0.0)
    ax.errorbar(
        ends[known], at[known], xerr=half[known], fmt="none", ecolor=BLACK, elinewidth=1.0, capsize=2.5
    )
    if bars.start is not None:
        _from_average(ax, bars.start, ends, at)
        low, high = (
            float(np.min(np.minimum(starts, ends - half))),
            float(np.max(np.maximum(starts, ends + half))),
        )
        margin = 0.08 * (high - low) or 1.0
        ax.set_xlim(low - margin, high + margin)
    else:
        ax.set_xlim(left=0.0)
    ax.set_yticks(at, bars.names)
    ax.spines["left"].set_visible(False)
    ax.tick_params(axis="y", length=0)
    ax.set_title(f"{bars.title}  (bars: {percent(level)} intervals)", fontsize="medium", loc="left")
    return ax


def _from_average(ax: Any, start: float, ends: np.ndarray, at: np.ndarray) -> None:
    """Lines at the average and at the prediction, and links between the bars."""
    ax.axvline(start, color=GREY, linewidth=0.9, linestyle=":")
    ax.axvline(ends[-1], color=GREY, linewidth=0.9)
    for end, upper, lower in zip(ends[:-1], at[:-1], at[1:], strict=True):
        ax.plot([end, end], [upper - 0.3, lower + 0.3], color=GREY, linewidth=0.7)
    rises = bool(ends[-1] >= start)
    for where, text, left in ((start, "average", rises), (ends[-1], "prediction", not rises)):
        place = dict(ha="right" if left else "left", va="center", color=GREY, fontsize="small")
        ax.text(where, at[0] + 0.62, f"{text} " if left else f" {text}", **place)
    ax.set_ylim(at[-1] - 0.6, at[0] + 0.85)
