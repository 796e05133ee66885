"""Pictures of mixtures and hidden Markov models: ellipses, paths of states, transitions."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.viz._style import CYCLE, GREY, frame


def ellipses(
    model: Any, X: Any = None, ax: Any = None, columns: tuple[int, int] = (0, 1), names: Any = None
) -> Any:
    """Components of a Gaussian mixture in two columns: ellipses of one and two standard deviations, numbers
    at the means.

    model: a fitted `mercer.GaussianMixture`, or `mercer.HMM` with Gaussians; of one by variational Bayes, the
    components that explain half a row at least. X: data to show, in the colour of their component.
    """
    gaussians = _gaussians(model)
    if gaussians.dimension < 2:
        raise ValueError("ellipses need two columns; this model has one.")
    from matplotlib.patches import Ellipse

    pick, used = list(columns), _used(model, gaussians.count)
    names = (
        getattr(model, "feature_names_in_", [f"x{i}" for i in range(gaussians.dimension)])
        if names is None
        else names
    )
    ax = frame(ax, str(names[pick[0]]), str(names[pick[1]]), (5.0, 4.2))
    if X is not None:
        X = np.asarray(X, np.float64)
        which = (
            gaussians.log_prob(X).argmax(0) if not hasattr(model, "predict") else np.asarray(model.predict(X))
        )
        for k in range(gaussians.count):
            ax.plot(*X[which == k][:, pick].T, "o", color=_colour(k), ms=3, alpha=0.45, markeredgewidth=0)
    for k, (mean, matrix) in enumerate(
        zip(gaussians.means[:, pick], gaussians.matrices()[:, pick][:, :, pick], strict=True)
    ):
        if not used[k]:
            continue
        values, vectors = np.linalg.eigh(matrix)
        angle = float(np.degrees(np.arctan2(vectors[1, 1], vectors[0, 1])))
        for radius in (1, 2):
            width, height = 2 * radius * np.sqrt(values[::-1])
            ax.add_patch(
                Ellipse(mean, width, height, angle=angle, fill=False, color=_colour(k), lw=1.6 / radius)
            )
        box = {"boxstyle": "circle,pad=0.2", "facecolor": "white", "edgecolor": _colour(k), "linewidth": 1.0}
        ax.text(*mean, str(k), ha="center", va="center", fontsize=9, bbox=box)
    ax.autoscale_view()
    return ax


def state_path(
    model: Any,
    X: Any,
    t: Any = None,
    ax: Any = None,
    column: int = 0,
    xlabel: str = "step",
    ylabel: str = "observed",
) -> Any:
    """A sequence, coloured by its most probable path of states; along the bottom the probability of each
    state.

    model: a fitted `mercer.HMM`
    X: one sequence
    t: (T,) where the steps are, else 0, 1, …

    Returns the Axes of the sequence.
    """
    values = np.asarray(X, np.float64)
    values = values if values.ndim == 1 else values[:, column]
    t = np.arange(len(values)) if t is None else np.asarray(t)
    path, probability = np.asarray(model.predict(X)), np.asarray(model.predict_proba(X))
    ax = frame(ax, xlabel, ylabel, (7.2, 3.6))
    ax.plot(t, values, color=GREY, lw=0.7, zorder=1)
    for i in range(probability.shape[1]):
        here = path == i
        ax.plot(t[here], values[here], "o", color=_colour(i), ms=3.2, label=f"state {i}", zorder=2)
    low, high = np.nanmin(values), np.nanmax(values)
    ax.set_ylim(low - 0.3 * (high - low or 1.0), high + 0.05 * (high - low or 1.0))
    below = ax.inset_axes([0, 0, 1, 0.16], sharex=ax)
    below.stackplot(
        t, probability.T, colors=[_colour(i) for i in range(probability.shape[1])], linewidth=0, alpha=0.7
    )
    below.set_ylim(0, 1)
    below.axis("off")
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=6, frameon=False, fontsize="small")
    return ax


def transition_graph(model: Any, ax: Any = None, least: float = 0.005, names: Any = None) -> Any:
    """States on a circle, with an arrow for every transition of a probability of at least `least`;
    thicker is more probable. States that variational Bayes leaves without data are not drawn.
    """
    A = np.asarray(getattr(model, "transition_", getattr(model, "transition", None)), np.float64)
    if A.ndim != 2:
        raise TypeError(f"cannot draw the transitions of a {type(model).__name__}: give a fitted HMM.")
    ax = frame(ax, size=(4.4, 4.4))
    N, used = len(A), _used(model, len(A))
    angle = np.pi / 2 - 2 * np.pi * np.arange(N) / N
    place = np.column_stack([np.cos(angle), np.sin(angle)])
    for i in range(N):
        for j in range(N):
            if A[i, j] < least or not used[i] or not used[j]:
                continue
            if i == j:
                ax.text(
                    *(1.42 * place[i]),
                    f"{A[i, i]:.2g}",
                    ha="center",
                    va="center",
                    fontsize=9,
                    color=_colour(i),
                )
                continue
            style = {
                "arrowstyle": "-|>",
                "connectionstyle": "arc3,rad=0.18",
                "lw": 0.6 + 3 * A[i, j],
                "color": _colour(i),
            }
            ax.annotate("", place[j], place[i], arrowprops=style | {"shrinkA": 16, "shrinkB": 16})
            step = place[j] - place[i]
            middle = 0.5 * (place[i] + place[j]) + 0.16 * np.array([step[1], -step[0]])
            ax.text(*middle, f"{A[i, j]:.2g}", ha="center", va="center", fontsize=8, color=_colour(i))
    for i, at in enumerate(place):
        if not used[i]:
            continue
        ax.plot(*at, "o", ms=26, color="white", markeredgecolor=_colour(i), markeredgewidth=2, zorder=3)
        ax.text(*at, str(i if names is None else names[i]), ha="center", va="center", zorder=4)
    ax.set(xlim=(-1.7, 1.7), ylim=(-1.7, 1.7), aspect="equal")
    ax.axis("off")
    return ax


def _gaussians(model: Any) -> Any:
    inner = getattr(model, "model_", model)
    found = getattr(inner, "gaussians", getattr(getattr(inner, "emission", None), "gaussians", None))
    if found is None:
        raise TypeError(
            f"cannot draw the ellipses of a {type(model).__name__}: give a fitted GaussianMixture or a "
            "Gaussian HMM."
        )
    return found


def _used(model: Any, n: int) -> np.ndarray:
    """Which of n components or states have data: by variational Bayes some may be left without."""
    return np.asarray(getattr(model, "counts_", np.ones(n))) >= 0.5


def _colour(k: int) -> str:
    return CYCLE[k % len(CYCLE)]
