"""Is the model any good? Importance of columns, calibration, the course of a fit,
the evidence along one hyperparameter.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.conditioned import AbstractSubject
from mercer.metrics import calibration_curve
from mercer.params import parameters, replace_leaves
from mercer.viz._reliability import classified, reliability
from mercer.viz._style import (
    BLACK,
    BLUE,
    CYCLE,
    GREEN,
    GREY,
    SKY,
    VERMILLION,
    frame,
    half_width,
    legend,
    percent,
)

GAP = 1e-4  # a start closer than this to the best has arrived


def calibration(of: Any, first: Any = None, second: Any = None, ax: Any = None, levels: Any = None) -> Any:
    """How often predictions came true, against how often they claim to.

    `calibration(y, mean, std)`: the share of y in central intervals of N(mean, std²). `calibration(model, X,
    y)`: the same for the intervals of a fitted regressor, whatever its noise; for a classifier the predicted
    probabilities against the shares that came true. `calibration(model)`: of the training rows, each
    predicted from the others.

    A curve below the diagonal claims too much certainty. The grey band is where a calibrated model's curve
    lies, at each level, for 95 % of samples of this size.

    >>> loo = post.loo()
    >>> viz.calibration(y, loo.mean, np.sqrt(loo.variance))
    >>> viz.calibration(model, X, y)
    """
    if not isinstance(of, AbstractSubject):
        nominal, empirical = calibration_curve(of, first, second, levels)
        return _coverage(ax, nominal, empirical, np.size(of), "predictions")
    if of.classified() is not None:
        return reliability(classified(of, first, second), ax)
    nominal = np.linspace(0.05, 0.95, 19) if levels is None else np.asarray(levels, float)
    found = of.coverage(nominal, first, second)
    if found is None:
        raise TypeError(f"viz.calibration draws GPRegressor and GPClassifier, not {type(of).__name__}.")
    return _coverage(ax, nominal, found[1], found[0], "predictions" if first is not None else "left out")


def _coverage(ax: Any, nominal: np.ndarray, empirical: np.ndarray, n: int, what: str) -> Any:
    from scipy.stats import binom

    ax = frame(ax, "nominal coverage", "observed coverage", size=(4.2, 4.0))
    fine = np.linspace(0.005, 0.995, 199)
    low, high = (binom.ppf(q, n, fine) / n for q in (0.025, 0.975))
    ax.fill_between(fine, low, high, color=GREY, alpha=0.25, linewidth=0, label="chance (95 %)")
    ax.plot([0, 1], [0, 1], color=GREY, linewidth=0.9)
    ax.plot(nominal, empirical, "o-", color=BLUE, markersize=3.5, linewidth=1.3, label=f"{what}, n = {n}")
    ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    legend(ax)
    return ax


def observed_vs_predicted(
    y: Any, mean: Any, std: Any = None, ax: Any = None, level: float = 0.95, label: str = "y"
) -> Any:
    """Observations against predictions, with central intervals where `std` is given; good predictions lie on
    the line.

    >>> loo = post.loo()
    >>> viz.observed_vs_predicted(y, loo.mean, np.sqrt(loo.variance))
    """
    y, mean = np.ravel(y), np.ravel(mean)
    ax = frame(ax, f"predicted {label}", f"observed {label}", size=(4.2, 4.0))
    ends = [min(y.min(), mean.min()), max(y.max(), mean.max())]
    ax.plot(ends, ends, color=GREY, linewidth=0.9)
    if std is not None:
        bars = half_width(level) * np.ravel(std)
        ax.errorbar(
            mean, y, xerr=bars, fmt="none", ecolor=BLUE, alpha=0.35, elinewidth=0.8, label=percent(level)
        )
    size = float(np.clip(40 / np.sqrt(len(y)), 2.0, 5.0))
    ax.plot(mean, y, "o", color=BLUE, markersize=size, markeredgewidth=0, label="data")
    legend(ax)
    return ax


def importance(model: Any, ax: Any = None, top: int = 20) -> Any:
    """Bars of how much each column matters to what a model predicts, the `top` ones, largest first: the share
    of the variance that it explains alone, and with its interactions, which has the standard error.

    model: a fitted estimator, or the `Importance` that its method (or `explain.importance`) gave.

    >>> viz.importance(GPRegressor().fit(df[["a", "b", "c"]], df["y"]))
    """
    found = model.input_importance() if isinstance(model, AbstractSubject) else model
    if found is None:
        raise TypeError("give a fitted estimator of tables, or what explain.importance says of a posterior.")
    names = list(reversed(found.names[:top]))
    at = np.arange(len(names))
    alone, total, error = (
        np.asarray(share, float)[:top][::-1] for share in (found.first_order, found.total, found.total_error)
    )
    ax = frame(ax, f"share of the variance of the {found.what}", size=(5.6, 1.1 + 0.34 * len(names)))
    ax.barh(at, np.maximum(total, alone), color=SKY, height=0.65, label="with interactions")
    ax.barh(at, np.minimum(alone, np.maximum(total, alone)), color=BLUE, height=0.65, label="alone")
    ax.errorbar(total, at, xerr=error, fmt="none", ecolor=BLACK, elinewidth=1.0, capsize=2.5)
    ax.set_yticks(at, names)
    ax.set_xlim(left=0.0)
    ax.spines["left"].set_visible(False)
    ax.tick_params(axis="y", length=0)
    legend(ax)
    return ax


def fit_history(fit: Any, ax: Any = None) -> Any:
    """How far each start of a fit was from the best it found, evaluation by evaluation (in nats for the
    evidence).

    Evaluations on fewer data (the coarse stages of large fits) are compared among themselves.

    >>> viz.fit_history(mercer.fit(model, X, y, restarts=3))
    """
    if not isinstance(fit, AbstractSubject) or (found := fit.course()) is None:
        raise TypeError(
            f"cannot draw the history of a {type(fit).__name__}: give a Fit (what mercer.fit returns) or a "
            "fitted estimator."
        )
    fit = found
    name = (
        "log evidence below the best / nats"
        if fit.objective == "evidence"
        else f"{fit.objective} below the best"
    )
    ax = frame(ax, "evaluation", name)
    ax.set_yscale("log")
    sizes = {e.size for e in fit.history}
    best = {size: max(e.value for e in fit.history if e.size == size) for size in sizes}
    runs: dict[tuple[str, int], list[tuple[int, float]]] = {}
    for i, e in enumerate(fit.history, 1):
        if np.isfinite(e.value):
            runs.setdefault((e.start, e.size), []).append((i, max(best[e.size] - e.value, GAP)))
    for i, ((start, size), points) in enumerate(runs.items()):
        label = f"{start} ({size} data)" if len(sizes) > 1 else start
        ax.plot(
            *zip(*points, strict=True),
            ".-",
            color=CYCLE[i % len(CYCLE)],
            linewidth=1,
            markersize=4,
            label=label,
        )
    ax.set_ylim(bottom=GAP / 2)
    legend(ax, columns=4)
    return ax


def evidence_profile(
    model: Any, X: Any, y: Any, name: str, values: Any, ax: Any = None, xlabel: str | None = None
) -> Any:
    """Log evidence along one hyperparameter, and the two terms that it balances: data fit and complexity
    (GPML Fig. 5.3).

    `model` is a mercer.Model, `name` is dotted as in `summary()`; the other hyperparameters stay as they are.
    Data fit is -½ (y - m)' K_y⁻¹ (y - m); complexity, -½ log|K_y| - n/2 log 2π, is the rest.

    >>> viz.evidence_profile(model, X, y, "kernel.lengthscale", np.geomspace(0.1, 10, 60))
    """
    shapes = {p.name: np.shape(p.value) for p in parameters(model)}
    if name not in shapes:
        raise ValueError(f"no hyperparameter named {name!r}; there are {list(shapes)}.")
    values = np.ravel(np.asarray(values, float))
    posteriors = [
        replace_leaves(model, {name: np.full(shapes[name], value)}).condition(X, y) for value in values
    ]
    fit = np.array([post.evidence_terms().data_fit for post in posteriors])
    total = np.array([post.log_evidence for post in posteriors])
    ax = frame(ax, name if xlabel is None else xlabel, "log probability / nats")
    if values.min() > 0 and values.max() > 10 * values.min():
        ax.set_xscale("log")
    ax.plot(values, fit, color=GREEN, linewidth=1.5, linestyle="--", label="data fit")
    ax.plot(values, total - fit, color=VERMILLION, linewidth=1.5, linestyle="-.", label="complexity")
    ax.plot(values, total, color=BLUE, linewidth=2.0, label="log evidence")
    best = int(np.argmax(total))
    ax.plot(
        values[best], total[best], "o", color=BLACK, markersize=5, label=f"best, {values[best]:.3g}", zorder=3
    )
    span = max(total.max() - float(np.median(total)), 1.0)
    # a hopeless end of the range does not flatten the rest
    ax.set_ylim(bottom=max(ax.get_ylim()[0], total.max() - 6 * span))
    legend(ax)
    return ax
