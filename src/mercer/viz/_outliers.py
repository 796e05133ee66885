"""Outliers in pictures, and scores of several models fold by fold."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.conditioned import AbstractSubject
from mercer.viz._style import BLUE, CYCLE, GREY, VERMILLION, frame, legend
from mercer.viz._subject import posterior_of


def outliers(model: Any, ax: Any = None, top: int = 10) -> Any:
    """How far each training row is taken for an outlier: probability, or one minus its weight, against the
    row: its number in the table or file, or its position where rows have other names.

    Outliers are rings with the names of the `top` furthest; others may score high by chance, but lie near
    their prediction.

    >>> viz.outliers(GPRegressor(likelihood="student-t").fit(X, y))
    """
    found = find_outliers(model)
    if found is None:
        raise TypeError(
            f"viz.outliers needs a fitted GPRegressor or its outliers_, got {type(model).__name__}."
        )
    what = "probability of an outlier" if found.kind == "probability" else "1 - weight"
    rows, axis = _places(found)
    ax = frame(ax, axis, what)
    ax.vlines(rows, 0.0, found.score, color=GREY, linewidth=0.7)
    ax.plot(rows, found.score, "o", color=BLUE, markersize=3.0, markeredgewidth=0, label="regular")
    if len(found):
        _ring(ax, rows[found.rows], found.score[found.rows])
    for i in found.rows[:top]:
        ax.annotate(
            found.name(i),
            (rows[i], found.score[i]),
            (0, 6),
            textcoords="offset points",
            ha="center",
            fontsize="small",
        )
    ax.axhline(found.limit, color=GREY, linewidth=0.9, linestyle=(0, (4, 3)))
    ax.set_ylim(0.0, 1.15)
    ax.set_yticks(np.linspace(0, 1, 6))
    legend(ax)
    return ax


def _places(found: Any) -> tuple[np.ndarray, str]:
    """Where each row stands along the axis, and what that is called: at its name where names are whole
    numbers (rows of a file), else at its position.
    """
    names = [found.name(i) for i in range(len(found.y))]
    if all(name.isdecimal() for name in names):
        return np.array(names, float), "row"
    return np.arange(len(names)), "position of the row"


def scores(values: Any, ax: Any = None, kind: str = "box", ylabel: str = "score", best: str = "low") -> Any:
    """Scores of several models over folds or repeats, from a dict of names to one number for each fold (Kuss,
    figures 5.14-5.19).

    kind: "box" (quartiles, with every fold as a dot), "bar" (the folds side by side) or "snowflake" (a
    direction for each fold, the score as the distance from the centre, a closed line for each model; `ax` is
    polar). The dashed line is the best median; `best` says whether "low" or "high" scores are good.

    >>> viz.scores({"Gaussian": rmse_gaussian, "Student-t": rmse_student}, ylabel="RMSE")
    """
    names, columns = list(values), [np.ravel(np.asarray(v, float)) for v in values.values()]
    if not names or any(c.size == 0 or not np.isfinite(c).all() for c in columns):
        raise ValueError("scores needs a dict of names to finite numbers, at least one for each model.")
    if kind not in ("box", "bar", "snowflake") or best not in ("low", "high"):
        raise ValueError(
            f"kind must be 'box', 'bar' or 'snowflake' and best 'low' or 'high', got {kind!r} and {best!r}."
        )
    if kind == "snowflake":
        return _snowflake(ax, names, columns, ylabel)
    ax = frame(ax, "" if kind == "box" else "fold", ylabel)
    if kind == "box":
        _boxes(ax, columns)
        ax.set_xticks(np.arange(len(names)), names)
    else:
        width = 0.8 / len(names)
        for j, (name, column) in enumerate(zip(names, columns, strict=True)):
            color = CYCLE[j % len(CYCLE)]
            ax.bar(
                np.arange(1, column.size + 1) + (j - 0.5 * (len(names) - 1)) * width,
                column,
                width,
                color=color,
                label=name,
            )
        ax.set_xticks(np.arange(1, max(c.size for c in columns) + 1))
    medians = np.array([np.median(c) for c in columns])
    j = int(medians.argmin() if best == "low" else medians.argmax())
    ax.axhline(
        medians[j], color=GREY, linewidth=0.9, linestyle=(0, (4, 3)), label=f"best median, of {names[j]}"
    )
    legend(ax)
    return ax


def _snowflake(ax: Any, names: list[str], columns: list[np.ndarray], ylabel: str) -> Any:
    folds = columns[0].size
    if folds < 3 or any(c.size != folds for c in columns):
        raise ValueError("a snowflake needs at least three folds, the same for every model.")
    if ax is None:
        import matplotlib.pyplot as plt

        _, ax = plt.subplots(figsize=(4.8, 4.8), layout="constrained", subplot_kw={"projection": "polar"})
    directions = 2.0 * np.pi * np.arange(folds + 1) / folds
    for j, (name, column) in enumerate(zip(names, columns, strict=True)):
        ax.plot(directions, np.append(column, column[0]), color=CYCLE[j % len(CYCLE)], label=name)
    ax.set_xticks(directions[:-1], [f"{i}" for i in range(1, folds + 1)])
    low, high = min(c.min() for c in columns), max(c.max() for c in columns)
    ax.set_rlim(low - 0.4 * (high - low), high)
    ax.set_title(f"{ylabel} of each fold", loc="left", fontsize="small", pad=24)
    legend(ax)
    return ax


def raster(posterior: Any, ax: Any = None, most: int = 400) -> Any:
    """Which rows each draw took for outliers, as a raster of draws (up) against rows (Kuss, figure 5.15):
    chains one above the other.

    posterior: what `inference.Gibbs` gave for mixture noise. most: draws that are shown, every so many-th.

    >>> noise = likelihoods.GaussianMixtureNoise()
    >>> viz.raster(Model(GP(kernels.SE()), noise).condition(X, y, inference.Gibbs()))
    """
    drawn = posterior_of(posterior).given.indicators  # (chains, draws, n)
    flat = drawn.reshape(-1, drawn.shape[-1])
    flat = flat[:: -(-len(flat) // most)]
    ax = frame(ax, "training row", "draw")
    ax.imshow(
        flat, origin="lower", aspect="auto", cmap="Greys", interpolation="nearest", vmin=0, vmax=1,
        extent=(-0.5, drawn.shape[-1] - 0.5, 0, drawn.shape[0] * drawn.shape[1]),
    )  # fmt: skip
    for chain in range(1, drawn.shape[0]):
        ax.axhline(chain * drawn.shape[1], color=VERMILLION, linewidth=0.9)
    return ax


def _boxes(ax: Any, columns: list[np.ndarray]) -> None:
    rng = np.random.default_rng(0)
    at = np.arange(len(columns))
    ax.boxplot(
        columns,
        positions=at,
        widths=0.5,
        showfliers=False,
        medianprops=dict(color=VERMILLION, linewidth=1.8),
        boxprops=dict(color=BLUE),
        whiskerprops=dict(color=BLUE),
        capprops=dict(color=BLUE),
    )
    for i, column in zip(at, columns, strict=True):
        ax.plot(
            i + rng.uniform(-0.1, 0.1, column.size),
            column,
            "o",
            color=BLUE,
            alpha=0.5,
            markersize=3,
            markeredgewidth=0,
        )


# ------------------------------------------------------------------------------------------------- in the
# picture of a fit


def find_outliers(model: Any) -> Any:
    """The report of an estimator, or a report itself; None where there is none."""
    return model.outlier_report() if isinstance(model, AbstractSubject) else None


def mark_outliers(ax: Any, x: np.ndarray, found: Any, low: float, high: float) -> None:
    """Rings around outliers; those far beyond [low,
    high] become triangles at the edge of a view that the rest can fill.
    """
    rows, y = found.rows, found.y
    span = high - low
    below, above = y[rows] < low - span, y[rows] > high + span
    near = rows[~(below | above)]
    shown = np.concatenate([[low, high], y[near]])
    margin = 0.06 * np.ptp(shown)
    bottom, top = shown.min() - margin, shown.max() + margin
    if near.size:
        _ring(ax, x[near], y[near])
    for side, where, edge in (("v", below, bottom), ("^", above, top)):
        if where.any():
            label = "outliers out of view" if side == "^" or not above.any() else None
            ax.plot(
                x[rows[where]],
                np.full(where.sum(), edge),
                side,
                color=VERMILLION,
                markersize=8,
                clip_on=False,
                zorder=5,
                label=label,
            )
    if below.any() or above.any():
        ax.set_ylim(bottom, top)


def _ring(ax: Any, x: np.ndarray, y: np.ndarray) -> None:
    ax.plot(
        x,
        y,
        "o",
        markersize=9,
        markerfacecolor="none",
        markeredgecolor=VERMILLION,
        markeredgewidth=1.5,
        zorder=4,
        label="outliers",
    )
