"""Pictures of classifiers: probabilities along a line, decision regions in a plane,
and surfaces over two hyperparameters.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.viz._style import CLASSES, CYCLE, frame, half_width, legend
from mercer.viz._subject import classes_of, grid, input_name, line_through, posterior_of

MARKS = "oX^sDvP*"
MOST = 2000  # data drawn as symbols


def colour(c: int) -> str:
    """Of the class with this number; eight of them can be told apart."""
    return CLASSES[c % len(CLASSES)]


def probability(model: Any, x: Any = None, ax: Any = None, label: str | None = None, **style: Any) -> Any:
    """Probability of the second of two classes along a one-dimensional input, with the data as ticks at 0 and
    1; of more classes a curve each, with the data as ticks below. Draw several models of two into one `ax`.

    >>> viz.probability(GPClassifier().fit(df[["a"]], df["species"]))
    """
    found = classes_of(model)
    x = line_through(found.inputs, 400)[:, 0] if x is None else np.ravel(np.asarray(x, float))
    p, data = found.probability(x[:, None]), found.inputs.values[:, 0].astype(float)
    name = found.inputs.names[0] if found.inputs.names else "x"
    if len(found.labels) == 2:
        ax = frame(ax, name, f"probability of {found.labels[1]}")
        ax.plot(x, p[:, 1], label=label, **style)
        for c, at, mark in ((1, 1.0, "+"), (0, 0.0, "x")):
            own = data[found.codes == c]
            ax.plot(own, np.full(len(own), at), mark, color=colour(1 - c), markersize=6, clip_on=False)
        ax.set_ylim(-0.04, 1.04)
    else:
        ax = frame(ax, name, "probability")
        for c, known in enumerate(found.labels):
            ax.plot(x, p[:, c], color=colour(c), linewidth=1.6, label=known, **style)
            own = data[found.codes == c]
            ax.plot(own, np.full(len(own), -0.03 - 0.025 * c), "|", color=colour(c), markersize=6)
        ax.set_ylim(-0.03 - 0.025 * (len(found.labels) + 0.5), 1.04)
    if label or len(found.labels) > 2:
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
    """Classes over two inputs, and the data as symbols of their class (at most 2,000, every so many-th).

    Two classes: the probability of the second as shades, with contours at `levels`. More: the colour of the
    likeliest class, the paler the less likely it is, with lines between the classes.

    >>> viz.regions(GPClassifier().fit(df[["a", "b"]], df["species"]))
    """
    found = classes_of(model)
    X = np.asarray(found.inputs.values, float)
    if X.shape[1] != 2:
        raise ValueError(
            f"decision regions need two inputs, this model has {X.shape[1]}: viz.effects(model, [(a, b)]) "
            "draws two of its columns, averaged over the others."
        )
    names = found.inputs.names or ("x0", "x1")
    ax = frame(ax, names[0], names[1], (5.0, 4.4))
    lo, hi = X.min(0), X.max(0)
    pad = 0.06 * np.where(hi > lo, hi - lo, 1.0)
    a, b = (np.linspace(lo[i] - pad[i], hi[i] + pad[i], count) for i in range(2))
    A, B = np.meshgrid(a, b)
    p = found.probability(np.column_stack([A.ravel(), B.ravel()])).reshape(*A.shape, -1)
    if len(found.labels) == 2:
        _two(ax, A, B, p[..., 1], levels)
    else:
        paint(ax, a, b, p, found.labels, smooth=True, named=False)
    kept = np.arange(0, len(X), -(-len(X) // MOST))
    for c, label in enumerate(found.labels):
        own = kept[found.codes[kept] == c]
        tint = colour(1 - c) if len(found.labels) == 2 else colour(c)
        ax.scatter(
            *X[own].T, c=tint, marker=MARKS[c % len(MARKS)], s=34, edgecolors="white", linewidths=0.6,
            zorder=3, label=label,
        )  # fmt: skip
    legend(ax)
    return ax


def _two(ax: Any, A: np.ndarray, B: np.ndarray, p: np.ndarray, levels: Any) -> None:
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


def paint(ax: Any, a: Any, b: Any, p: Any, labels: Any, smooth: bool, named: bool = True) -> None:
    """The colour of the likeliest class at each of p (len(b), len(a), C), the paler the less likely it is."""
    from matplotlib.colors import to_rgb

    C = p.shape[-1]
    best, top = p.argmax(-1), p.max(-1)
    strength = 0.12 + 0.68 * np.clip((top - 1.0 / C) / (1.0 - 1.0 / C), 0.0, 1.0)
    tints = np.array([to_rgb(colour(c)) for c in range(C)])[best]
    shades = 1.0 - strength[..., None] * (1.0 - tints)
    even = [np.allclose(np.diff(at), at[1] - at[0]) for at in (a, b) if len(at) > 1]
    if smooth and all(even):
        half = [0.5 * (at[1] - at[0]) for at in (a, b)]
        ends = (a[0] - half[0], a[-1] + half[0], b[0] - half[1], b[-1] + half[1])
        ax.imshow(shades, origin="lower", extent=ends, aspect="auto", interpolation="bilinear")
        ax.set(xlim=(a[0], a[-1]), ylim=(b[0], b[-1]))
    else:
        ax.pcolormesh(a, b, shades, shading="nearest", rasterized=True)
    if smooth:
        for c in np.unique(best):
            others = np.delete(p, c, -1).max(-1)
            ax.contour(a, b, p[..., c] - others, levels=[0.0], colors="k", linewidths=0.9)
    if named:
        for c, label in enumerate(labels):
            ax.plot([], [], "s", color=colour(c), label=label)
        legend(ax)


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
