"""Pictures of latent spaces: rows of a table as points."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.conditioned import AbstractSubject, LatentSpace
from mercer.viz._classes import MARKS, colour
from mercer.viz._style import GREY, frame, legend

MOST = 500  # crosses of uncertainty that are drawn


def latent_space(
    model: Any, labels: Any = None, ax: Any = None, dimensions: tuple[int, int] = (0, 1), count: int = 60
) -> Any:
    """Rows of a table as points in two latent dimensions of a fitted `GPLVM` or `GTM`, with crosses one
    standard deviation long to each side (of at most 500 points). The shade behind says how sure the model
    is of the data that a place stands for (of a `GTM`, how far it is stretched there); it is drawn for the
    first two dimensions.

    labels: (n,), a class for each row: points have its colour and symbol
    dimensions: which two
    count: places along each side for the shade

    >>> viz.latent_space(GPLVM(10).fit(X), labels=species)
    """
    found = model.latent_space() if isinstance(model, AbstractSubject) else None
    if found is None:
        raise TypeError(
            f"{type(model).__name__} has no latent space: this picture is of a fitted GPLVM or GTM."
        )
    q = found.points.shape[1]
    i, j = (int(d) for d in dimensions)
    if q < 2:
        return _along(found, labels, ax)
    if i == j or not (0 <= i < q and 0 <= j < q):
        raise ValueError(f"dimensions must be two of 0 to {q - 1}, got {dimensions!r}.")
    ax = frame(ax, f"latent dimension {i}", f"latent dimension {j}", (5.6, 4.8))
    points, std = found.points[:, [i, j]], found.std[:, [i, j]]
    lo, hi = points.min(0), points.max(0)
    pad = 0.08 * np.where(hi > lo, hi - lo, 1.0)
    sides = [np.linspace(lo[k] - pad[k], hi[k] + pad[k], count) for k in range(2)]
    if {i, j} == {0, 1}:
        A, B = np.meshgrid(*sides)
        places = np.column_stack([A.ravel(), B.ravel()])[:, [i, j]]
        ends = (sides[0][0], sides[0][-1], sides[1][0], sides[1][-1])
        image = ax.imshow(
            found.shade(places).reshape(A.shape), extent=ends, origin="lower", aspect="auto", cmap=_greys(),
            interpolation="bilinear",
        )  # fmt: skip
        ax.figure.colorbar(image, ax=ax, label=found.shade_name)
    for c, name, own in _groups(labels, len(points)):
        some = own[:: -(-len(points) // MOST)]
        ax.errorbar(
            *points[some].T, xerr=std[some, 0], yerr=std[some, 1], fmt="none", ecolor=colour(c), alpha=0.35,
            elinewidth=0.7,
        )  # fmt: skip
        ax.scatter(
            *points[own].T, color=colour(c), marker=MARKS[c % len(MARKS)], s=16, linewidths=0.3,
            edgecolors="white", label=name, zorder=3,
        )  # fmt: skip
    ax.set(xlim=(sides[0][0], sides[0][-1]), ylim=(sides[1][0], sides[1][-1]))
    if labels is not None:
        legend(ax)
    return ax


def _along(found: LatentSpace, labels: Any, ax: Any) -> Any:
    """One dimension: the rows in their order against their points."""
    ax = frame(ax, "latent dimension 0", "row")
    for c, name, own in _groups(labels, len(found.points)):
        x, std = found.points[own, 0], found.std[own, 0]
        ax.errorbar(x, own, xerr=std, fmt="none", ecolor=GREY, alpha=0.5, elinewidth=0.7)
        ax.scatter(x, own, color=colour(c), marker=MARKS[c % len(MARKS)], s=16, label=name, zorder=3)
    if labels is not None:
        legend(ax)
    return ax


def _greys() -> Any:
    """From a middle grey to white: points of any colour stand out."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("greys", ["0.45", "1.0"])


def _groups(labels: Any, n: int) -> list[tuple[int, str | None, np.ndarray]]:
    """Number, name and rows of each class; one group of all rows without labels."""
    if labels is None:
        return [(0, None, np.arange(n))]
    labels = np.asarray(labels)
    if labels.shape != (n,):
        raise ValueError(f"labels must be one for each of the {n} rows, got shape {labels.shape}.")
    return [(c, str(name), np.flatnonzero(labels == name)) for c, name in enumerate(np.unique(labels))]
