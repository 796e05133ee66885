"""What the commands do, apart from talking: read a table, fit, judge, draw, predict,
describe a saved model.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np

import mercer as mc
from mercer.app.features import new_columns, perhaps_classes, training_columns
from mercer.app.paths import named, save_figure
from mercer.app.tables import Table, TableError, check_column, drop_missing, numeric, read_table
from mercer.estimators import GPClassifier, GPRegressor
from mercer.likelihoods import AbstractNoise

Rows = list[tuple[str, ...]]
Estimator = GPRegressor | GPClassifier


def training_data(
    path: Path,
    target: str,
    features: str | Sequence[str] | None,
    classify: bool = False,
    kernel: str | None = None,
    of_rows: dict[str, str] | None = None,
) -> tuple[Table, np.ndarray, np.ndarray, list[str], dict[str, np.ndarray]]:
    """Columns to learn from (all others, or `features`; a kernel that reads numbers leaves out text), the
    target (text or whole numbers where it holds classes), the numbers of the
    rows in the file, notes on what was left out, and what `fit` takes of each row from the columns that
    `of_rows` names by keyword.

    A target holds classes if `classify` says so, or if it is text with at most half as many different values
    as rows.
    """
    source, aside = named(path), of_rows or {}
    everything = read_table(path)
    for limit in (aside[side] for side in ("lower", "upper") if side in aside):
        everything = _or_limit(everything, target, limit, source)
    table, rows = drop_missing(everything, target, source)
    text = table[target].dtype.kind not in "fiub"
    if text and (classify or 2 * len(set(table[target])) <= len(rows)):
        y = np.array([str(label) for label in table[target]], dtype=object)
    else:
        y = numeric(table, [target], source, rows)[target]
        y = y.astype(int) if classify and np.all(y == np.round(y)) else y
    dropped = len(everything[target]) - len(y)
    notes = (
        [f"left out {dropped} row{'s' if dropped > 1 else ''} without a value of {target!r}"]
        if dropped
        else []
    )
    if target in aside.values() or len(set(aside.values())) < len(aside):
        raise TableError(
            f"the target, and what is known of rows, are columns of their own: {target}, {_listed(aside)}."
        )
    if features is None:
        names = [name for name in table if name != target and name not in aside.values()]
        if not names:
            raise TableError(f"{source} has no column besides {target!r} to predict from.")
    else:
        names = list(features) if not isinstance(features, str) else [n.strip() for n in features.split(",")]
        if target in names:
            raise TableError(f"--features names the target {target!r} itself.")
        if both := [name for name in names if name in aside.values()]:
            (said,) = (keyword for keyword, name in aside.items() if name == both[0])
            raise TableError(
                f"--features names {both[0]!r}, which is the {_CALLED.get(said, said)} of a row."
            )
        if len(set(names)) != len(names):
            raise TableError(f"--features names a column twice: {', '.join(names)}.")
    X, left = training_columns(table, names, source, rows, kernel, named=features is not None)
    known = {
        keyword: numeric(table, [name], source, rows, empty=keyword in ("lower", "upper"))[name]
        for keyword, name in aside.items()
    }
    return X, y, rows, [*notes, *left, *([] if classify else perhaps_classes(y, target))], known


_CALLED = {"y_error": "error", "sample_weight": "weight"}


def _or_limit(table: Table, target: str, limit: str, source: str) -> Table:
    """The table with a limit in the place of each empty target that has one: there the target is not read."""
    y, known = (numeric(table, [name], source, empty=True)[name] for name in (target, limit))
    return dict(table) | {target: np.where(np.isnan(y), known, y)}


def _listed(columns: dict[str, str]) -> str:
    return ", ".join(columns.values())


def fit_model(
    X: Table,
    y: np.ndarray,
    kernel: str | None,
    restarts: int,
    noise: float | None,
    seed: int,
    classify: bool = False,
    robust: str = "none",
    rows: np.ndarray | None = None,
    how: dict[str, Any] | None = None,
    noise_by: str | None = None,
    known: dict[str, np.ndarray] | None = None,
    what: dict[str, str | None] | None = None,
) -> Estimator:
    """A fitted estimator: a classifier if `classify`, or if y is text. `robust` names the noise,
    `rows` the rows for its report; `how` holds solver, memory and checkpoint; `noise_by` names a column, and
    `known` holds weights, errors and the like of the rows; `what` likelihood, warp and groups.
    """
    common: dict[str, Any] = dict(kernel=kernel, restarts=restarts, random_state=seed) | (how or {})
    if not classify and y.dtype != object:
        if robust == "none":
            settings = common | (what or {})
            return GPRegressor(noise_variance=noise, noise_by=noise_by, **settings).fit(X, y, **(known or {}))
        if known or noise_by is not None:
            raise ValueError(
                "--error, --weight, --noise-by and what else is known of rows go with other noise: leave out "
                "--robust."
            )
        if said := [name for name, value in (what or {}).items() if value is not None]:
            raise ValueError(f"--{said[0]} and --robust both say what the noise is: leave out one of them.")
        if noise is not None:
            raise ValueError("--noise is the variance of Gaussian noise: leave it out with --robust.")
        model = GPRegressor(likelihood=robust, **common).fit(X, y)
        return model if rows is None else model.name_rows(rows)
    if robust != "none":
        raise ValueError("--robust is for numeric targets; classes have no outliers in this sense.")
    if known or noise_by is not None or any((what or {}).values()):
        raise ValueError(
            "--likelihood, --warp, --groups, --noise-by and columns such as --error and --trials are for "
            "numeric targets; classes have no noise."
        )
    if noise is not None:
        raise ValueError("--noise is for numeric targets; classes have no noise variance.")
    if kernel == "search":
        raise ValueError("--kernel search is for numeric targets: --kernel auto chooses among a few.")
    return GPClassifier(**common).fit(X, y)


def quality(model: Estimator, y: np.ndarray, target: str) -> tuple[tuple[str, ...], Rows, dict[str, float]]:
    """Columns and rows of the table of leave-one-out measures, each beside what ignoring the inputs would
    score; and the measures as numbers.
    """
    columns = ("measure", "value", "meaning")
    if isinstance(model, GPClassifier):
        return columns, *_class_quality(model, y, target)
    loo, (lower, upper) = model.loo(), model.loo_interval(0.95)
    if (seen := model.seen_rows()) is not None and seen.any():
        y, lower, upper = y[seen], lower[seen], upper[seen]
        loo = mc.posteriors.LeaveOneOut(loo.mean[seen], loo.variance[seen], loo.log_density[seen])
    inside, n, spread = int(np.sum((lower <= y) & (y <= upper))), len(y), float(np.std(y))
    away = mc.metrics.mae(y, np.median(y))
    blind = (
        f"; guessing mean and spread: {0.5 * math.log(2 * math.pi * math.e * spread**2):.4g}"
        if spread > 0
        else ""
    )
    measures = {
        "rmse": mc.metrics.rmse(y, loo.mean),
        "mae": mc.metrics.mae(y, loo.mean),
        "nlpd": -float(np.mean(loo.log_density)),
        "coverage_95": inside / n,
    }
    rows: Rows = [
        ("RMSE", f"{measures['rmse']:.4g}", f"in units of {target}; always guessing the mean: {spread:.4g}"),
        ("MAE", f"{measures['mae']:.4g}", f"in units of {target}; always guessing the median: {away:.4g}"),
        ("NLPD", f"{measures['nlpd']:.4g}", f"nats, lower is better{blind}"),
        ("coverage", f"{100 * inside / n:.1f} %", f"{inside} of {n} data lie in their 95 % interval"),
    ]
    return columns, rows, measures


def _class_quality(model: GPClassifier, y: np.ndarray, target: str) -> tuple[Rows, dict[str, float]]:
    p = np.asarray(model.loo().probability)
    wrong, n = int(np.sum(model.classes_[p.argmax(1)] != y)), len(y)
    names, counts = np.unique(y, return_counts=True)
    blind = 100 - 100 * counts.max() / n
    bits, most = mc.metrics.information(y, p, y), mc.metrics.information_baseline(y, y)
    measures = {"error_rate": wrong / n, "information_bits": bits, "nlp": mc.metrics.log_loss(y, p)}
    rows: Rows = [
        (
            "error",
            f"{100 * wrong / n:.1f} %",
            f"{wrong} of {n}; always guessing {names[counts.argmax()]}: {blind:.1f} %",
        ),
        (
            "information",
            f"{bits:.3g}",
            f"bits on {target} gained from the inputs, of {most:.3g} that are missing",
        ),
        (
            "NLP",
            f"{measures['nlp']:.4g}",
            f"nats, lower is better; guessing the frequencies: {most * np.log(2):.4g}",
        ),
    ]
    return rows, measures


def draw_fit(model: Estimator, y: np.ndarray, target: str, path: Path) -> None:
    """One input: the ribbon, or the probability of each class. Several: left-out data against predictions."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    if isinstance(model, GPClassifier):
        figure = _draw_classes(model, target)
    elif model._training[0].values.shape[1] == 1:
        figure = mc.viz.posterior(model, ylabel=target).figure
    else:
        figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4.2), layout="constrained")
        loo, (lower, upper) = model.loo(), model.loo_interval(0.95)
        std = (upper - lower) / (2 * NormalDist().inv_cdf(0.975))
        mc.viz.observed_vs_predicted(y, loo.mean, std, ax=left, label=target)
        if isinstance(model.model_.likelihood, AbstractNoise):
            mc.viz.outliers(model, ax=right)
        else:
            mc.viz.calibration(y, loo.mean, std, ax=right)
        figure.suptitle("each datum predicted from the others", fontsize="medium")
    save_figure(figure, path, dpi=130)
    plt.close(figure)


def _draw_classes(model: GPClassifier, target: str) -> Any:
    """One input: the probability of each class along it. Else which classes are taken for which, beside the
    regions of two inputs, or how far probabilities can be taken at their word.
    """
    import matplotlib.pyplot as plt

    columns = model.class_function().inputs.values.shape[1]
    if columns == 1:
        ax = mc.viz.probability(model)
        ax.set_ylabel(f"{ax.get_ylabel()} ({target})")
        return ax.figure
    figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.8), layout="constrained")
    (mc.viz.regions if columns == 2 else mc.viz.calibration)(model, ax=left)
    mc.viz.confusion(model, ax=right)
    figure.suptitle(target, fontsize="medium")
    return figure


def predict(model_path: Path, new: Path, level: float, latent: bool) -> tuple[Table, Table]:
    """The table, and the columns that are predicted of it, under names that it does not have."""
    model, table = mc.load(model_path), read_table(new)
    if isinstance(model, GPRegressor):
        predicted = model.predict_columns(_inputs(model, table, new), level, latent)
    elif isinstance(model, GPClassifier):
        predicted = model.predict_columns(_inputs(model, table, new), latent=latent)
    elif isinstance(model, mc.GPTimeSeries):
        predicted = _predicted_values(model, table, new, level, latent)
    else:
        raise ValueError(f"{model_path} {_INSTEAD[type(model).__name__]}")
    prefix = "predicted_" if any(name in table for name in predicted) else ""
    return table, {prefix + name: value for name, value in predicted.items()}


_CLUSTERS = "holds clusters: assign rows by `mercer cluster`, or in Python by mercer.load(...).predict."
_STATES = (
    "holds hidden states: find those of a sequence by `mercer hmm`, or in Python by mercer.load(...).predict."
)
_INSTEAD = {
    "GaussianMixture": _CLUSTERS,
    "BayesianGaussianMixture": _CLUSTERS,
    "HMM": _STATES,
    "BayesianHMM": _STATES,
    "GPMixture": "is a mixture of experts: predict with it in Python, by mercer.load(...).predict.",
}


def _predicted_values(
    model: mc.GPTimeSeries, table: Table, source: Path, level: float, latent: bool
) -> dict[str, np.ndarray]:
    """Of a time series, at the times of the table."""
    if latent:
        raise ValueError("--latent is not for time series: `mercer forecast --components` has their parts.")
    what = " of times (for what comes next: mercer forecast MODEL --horizon 2y --out FILE)"
    check_column(table, str(model.time_name_), named(source), what)
    known = dict(table) if set(model.regressors_) & set(table) else None
    return model.forecast_columns(table[model.time_name_], level, known)[1]


def draw_verdict(verdict: Any, path: Path) -> None:
    """Predictions of each rule against those of the reference."""
    from mercer import viz

    ax = viz.verdict(verdict)
    save_figure(ax.figure, path, dpi=120)


def search_settings(kernel: str | None, budget: str | None, max_models: int | None) -> dict[str, Any]:
    """What --kernel search takes; refused with other kernels."""
    if kernel == "search":
        return {"budget": budget, "max_models": max_models}
    if budget is not None or max_models is not None:
        raise ValueError("--budget and --max-models go with --kernel search.")
    return {}


def _inputs(model: Estimator, table: Table, source: Path) -> Any:
    assert model.columns_ is not None
    return new_columns(model.columns_, table, named(source))
