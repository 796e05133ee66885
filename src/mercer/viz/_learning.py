"""Errors as data grow: learning curves, and how many data a model needs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from mercer.viz._style import BLACK, BLUE, CYCLE, GREY, ORANGE, VERMILLION, frame, legend


def learning_curves(
    curves: Mapping[str, Any], ax: Any = None, xlabel: str = "number of data", ylabel: str = "expected error"
) -> Any:
    """Errors against numbers of data, both on logarithmic axes.

    curves: by name, a `theory.LearningCurve`, drawn as points with two standard errors; or a pair of numbers
    of data and errors, such as a bound, drawn as a line

    >>> n = np.array([1, 10, 100])
    >>> viz.learning_curves({"exact": (n, theory.ou_learning_curve(n, 1.0))})
    >>> viz.learning_curves(theory.consistency(methods, f, draw, sizes, rule).curves)
    """
    ax = frame(ax, xlabel, ylabel)
    for i, (name, curve) in enumerate(curves.items()):
        colour = CYCLE[i % len(CYCLE)]
        if isinstance(curve, tuple):
            ax.plot(*curve, color=colour, linewidth=1.4, label=name)
        else:
            bars = 2 * np.asarray(curve.standard_error)
            line = dict(fmt="o-", color=colour, markersize=3.5, linewidth=1.0, capsize=2, label=name)
            ax.errorbar(curve.sizes, curve.error, bars, **line)
    _logarithmic(ax)
    legend(ax, 3)
    return ax


def data_needed(found: Any, ax: Any = None, xlabel: str = "number of data", ylabel: str = "std of f") -> Any:
    """How sure a model will be of f as data grow (`theory.data_needed`), from the data it has, with two
    standard errors; where it is extrapolated, dashed; what was asked for, and the noise of y.

    >>> viz.data_needed(theory.data_needed(model, target_std=0.05))
    """
    ax = frame(ax, xlabel, ylabel)
    n, std, half = found.sizes, found.std, 2 * found.standard_error
    ax.fill_between(n, std - half, std + half, color=BLUE, alpha=0.25, linewidth=0)
    ax.plot(n, std, color=BLUE, linewidth=1.6, label="expected")
    ax.plot(n[0], std[0], "o", color=BLACK, markersize=4.5, label="now", zorder=3)
    if found.extrapolated:
        ends = np.array([n[-1], found.n])
        ax.plot(
            ends,
            [std[-1], found.target_std],
            color=BLUE,
            linewidth=1.2,
            linestyle=(0, (4, 3)),
            label="extrapolated",
        )
    ax.axhline(found.noise_std, color=ORANGE, linewidth=1.2, label="noise of y")
    if found.target_std is not None:
        ax.axhline(found.target_std, color=GREY, linewidth=0.9, linestyle=(0, (4, 3)))
        if found.n is not None:
            ax.plot(
                found.n,
                found.target_std,
                "s",
                color=VERMILLION,
                markersize=5,
                label=f"{found.n} data",
                zorder=4,
            )
    _logarithmic(ax)
    legend(ax)
    return ax


def _logarithmic(ax: Any) -> None:
    """Both axes, with plain numbers at 1, 2 and 5 of each power of ten; at the powers alone where there are
    many.
    """
    from matplotlib.ticker import LogLocator, NullLocator

    ax.set_xscale("log")
    ax.set_yscale("log")
    for axis, (low, high) in ((ax.xaxis, ax.get_xlim()), (ax.yaxis, ax.get_ylim())):
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high < 200 * low else (1.0,)))
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(lambda value, _: f"{value:g}")
