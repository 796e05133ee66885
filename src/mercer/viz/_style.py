"""What all pictures share: colours, the frame, the ribbon, the legend."""

from __future__ import annotations

from statistics import NormalDist
from typing import Any

import numpy as np

BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
YELLOW, BLUE, VERMILLION, PURPLE = "#F0E442", "#0072B2", "#D55E00", "#CC79A7"
CYCLE = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY)
CLASSES = (BLUE, VERMILLION, GREEN, ORANGE, PURPLE, SKY, BLACK, YELLOW)
GREY = "#7F7F7F"


def frame(ax: Any = None, xlabel: str = "", ylabel: str = "", size: tuple[float, float] = (6.4, 3.6)) -> Any:
    """`ax`, or the Axes of a new figure, with labels and without the box around it."""
    if ax is None:
        import matplotlib.pyplot as plt

        _, ax = plt.subplots(figsize=size, layout="constrained")
    ax.spines[["top", "right"]].set_visible(False)
    ax.set_xlabel(xlabel)
    ax.set_ylabel(ylabel)
    ax.ticklabel_format(useOffset=False)
    return ax


def panels(count: int, size: tuple[float, float]) -> Any:
    """An array of `count` Axes in a column of a new figure, with one x axis."""
    import matplotlib.pyplot as plt

    _, axes = plt.subplots(count, 1, sharex=True, squeeze=False, figsize=size, layout="constrained")
    return axes[:, 0]


def ribbon(
    ax: Any,
    x: np.ndarray,
    mean: np.ndarray,
    std: np.ndarray,
    level: float,
    alpha: float = 0.2,
    **options: Any,
) -> None:
    """The central interval of the given level around a Gaussian mean."""
    half = half_width(level) * np.asarray(std)
    ax.fill_between(x, mean - half, mean + half, color=BLUE, alpha=alpha, linewidth=0, **options)


def half_width(level: float) -> float:
    """Half the width of a central interval, in standard deviations: 1.96 for 0.95."""
    if not 0 < level < 1:
        raise ValueError(f"level must lie strictly between 0 and 1, got {level!r}.")
    return NormalDist().inv_cdf((1 + level) / 2)


def percent(level: float) -> str:
    """0.95 -> '95 %'."""
    return f"{100 * level:g} %"


def legend(ax: Any, columns: int = 5) -> None:
    """A legend above the axes, where it hides nothing."""
    ax.legend(
        loc="lower left",
        bbox_to_anchor=(0, 1),
        ncols=columns,
        frameon=False,
        borderaxespad=0.2,
        fontsize="small",
        markerscale=1.3,
    )
