"""Pictures of classifiers: probabilities along a line, decision regions in a plane,
and surfaces over two hyperparameters.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.viz._style import BLUE, CYCLE, VERMILLION, frame, half_width, legend
from mercer.viz._subject import grid, input_name, posterior_of


def probability(model: Any, x: Any = None, ax: Any = None, label: str | None = None, **style: Any) -> Any:
    """P(y = 1) along a one-dimensional input, with the data as ticks at 0 and 1.
    Draw several models into one `ax`.
    """
    post = posterior_of(model)
    ax = frame(ax, input_name(post), "probability of class 1")
    x = grid(post, 400)[:, 0] if x is None else np.ravel(np.asarray(x, float))
    ax.plot(x, post.probability(x[:, None]), label=label, **style)
    _ticks(ax, post)
    ax.set_ylim(-0.04, 1.04)
    if label:
        legend(ax)
    return ax


def latent(
    model: Any, x: Any = None, ax: Any = None, level: float = 0.95, label: str | None = None, **style: Any
) -> Any:
    """The latent function along a one-dimensional input, with its central band."""
    post = posterior_of(model)
    ax = frame(ax, input_name(post), "latent f")
    x = grid(post, 400)[:, 0] if x is None else np.ravel(np.asarray(x, float))
    mean, std = post.mean_and_std(x[:, None], latent=True)
    line = ax.plot(x, mean, label=label, **style)[0]
    half = half_width(level) * std
    ax.fill_between(x, mean - half, mean + half, color=line.get_color(), alpha=0.2, linewidth=0)
    if label:
        legend(ax)
    return ax


def regions(model: Any, ax: Any = None, count: int = 90, levels: Any = (0.25, 0.5, 0.75)) -> Any:
    """P(y = 1) over two inputs as shades with contours at `levels`,
    and the data as symbols of their class.
    """
    post = posterior_of(model)
    X, y = post.inputs.values, post.y
    if X.shape[1] != 2:
        raise ValueError(f"decision regions need two inputs, this model has {X.shape[1]}.")
    names = post.inputs.names or ("x0", "x1")
    ax = frame(ax, names[0], names[1], (4.6, 4.2))
    lo, hi = X.min(0), X.max(0)
    pad = 0.06 * (hi - lo)
    a, b = (np.linspace(lo[i] - pad[i], hi[i] + pad[i], count) for i in range(2))
    A, B = np.meshgrid(a, b)
    p = post.probability(np.column_stack([A.ravel(), B.ravel()])).reshape(A.shape)
    ax.contourf(A, B, p, levels=np.linspace(0, 1, 21), cmap="RdBu", alpha=0.55, vmin=0, vmax=1)
    lines = ax.contour(
        A,
        B,
        p,
        levels=sorted(levels),
        colors="k",
        linewidths=[1.8 if q == 0.5 else 0.9 for q in sorted(levels)],
    )
    ax.clabel(lines, fmt="%.2g", fontsize=8)
    for sign, colour, mark in ((1, BLUE, "o"), (-1, VERMILLION, "X")):
        ax.scatter(*X[y == sign].T, c=colour, marker=mark, s=34, edgecolors="white", linewidths=0.6, zorder=3)
    return ax


def verdict(found: Any, ax: Any = None) -> Any:
    """What `mercer.assess` found: each rule's predictions against those of the sampled reference (Kuss figure
    6.10).
    """
    if found.predictions is None:
        raise ValueError("there is no trusted reference to draw against; give assess a larger budget.")
    what = "probability" if found.classes else "mean prediction"
    ax = frame(ax, f"{what}, sampled reference", f"{what}, approximation", (4.6, 4.4))
    truth = np.ravel(found.predictions)
    low, high = (0.0, 1.0) if found.classes else (truth.min(), truth.max())
    ax.plot([low, high], [low, high], color="0.6", lw=1, zorder=0)
    for method, colour, mark in zip(found.methods, CYCLE, "oX^sDv", strict=False):
        if method.predictions is not None:
            label = f"{method.name} ({'trusted' if method.trusted else 'not trusted'})"
            ax.plot(truth, np.ravel(method.predictions), mark, color=colour, ms=3.5, alpha=0.7, label=label)
    legend(ax, 3)
    return ax


def surface(
    x: Any,
    y: Any,
    values: Any,
    ax: Any = None,
    xlabel: str = "",
    ylabel: str = "",
    levels: Any = 12,
    mark: Any = None,
) -> Any:
    """Contours of `values` (len(y), len(x)), labelled; `mark` = (x, y) is a point to show, as a cross."""
    ax = frame(ax, xlabel, ylabel, (4.4, 3.8))
    filled = ax.contourf(x, y, values, levels=levels, cmap="viridis", extend="both")
    lines = ax.contour(x, y, values, levels=filled.levels, colors="white", linewidths=0.6)
    ax.clabel(lines, fmt="%.4g", fontsize=7)
    if mark is not None:
        ax.plot(*mark, marker="+", color="black", markersize=13, markeredgewidth=2.2)
    return ax


def _ticks(ax: Any, post: Any) -> None:
    x, y = post.inputs.values[:, 0], post.y
    for sign, colour, at, mark in ((1, BLUE, 1.0, "+"), (-1, VERMILLION, 0.0, "x")):
        ax.plot(x[y == sign], np.full(np.sum(y == sign), at), mark, color=colour, markersize=6, clip_on=False)
