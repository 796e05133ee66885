"""What the commands do, apart from talking: read a table, fit, judge, draw, predict, describe a saved model."""

from __future__ import annotations

import json
import sys
import zipfile
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np

import mercer as mc
from mercer.app.tables import Table, TableError, drop_missing, numeric, read_table, write_table
from mercer.params import element_names, parameters

COLUMNS = ("mean", "std", "lower", "upper")
Rows = list[tuple[str, ...]]


def training_data(path: Path, target: str, features: str | None) -> tuple[Table, np.ndarray, list[str]]:
    """Columns to learn from, the target, and notes on what was left out."""
    source = str(path)
    everything = read_table(path)
    table, rows = drop_missing(everything, target, source)
    y = numeric(table, [target], source, rows)[target]
    dropped = len(everything[target]) - len(y)
    notes = [f"left out {dropped} row{'s' if dropped > 1 else ''} without a value of {target!r}"] if dropped else []
    if features is None:
        names = [name for name in _numeric_names(table) if name != target]
        text = [name for name in table if name not in names and name != target]
        notes += [f"left out columns of text: {', '.join(text)}"] if text else []
        if not names:
            raise TableError(f"{source} has no numeric column besides {target!r} to predict from.")
    else:
        names = [name.strip() for name in features.split(",")]
        if target in names:
            raise TableError(f"--features names the target {target!r} itself.")
        if len(set(names)) != len(names):
            raise TableError(f"--features names a column twice: {features}.")
    return numeric(table, names, source, rows), y, notes


def fit_model(
    X: Table, y: np.ndarray, kernel: str | None, restarts: int, noise: float | None, seed: int, progress: bool
) -> mc.GPRegressor:
    """A fitted estimator."""
    verbose = progress and sys.stderr.isatty()
    model = mc.GPRegressor(kernel=kernel, noise_variance=noise, restarts=restarts, random_state=seed, verbose=verbose)
    return model.fit(X, y)


def quality(model: mc.GPRegressor, y: np.ndarray, target: str) -> tuple[tuple[str, ...], Rows]:
    """Columns and rows of the table of leave-one-out measures, each beside what ignoring the inputs would score."""
    loo = model.loo()
    half = _half_width(0.95) * np.sqrt(loo.variance)
    inside, n, spread = int(np.sum(np.abs(y - loo.mean) <= half)), len(y), float(np.std(y))
    blind = f"; guessing mean and spread: {0.5 * np.log(2 * np.pi * np.e * spread**2):.4g}" if spread > 0 else ""
    return ("measure", "value", "meaning"), [
        ("RMSE", f"{mc.metrics.rmse(y, loo.mean):.4g}", f"in units of {target}; always guessing the mean: {spread:.4g}"),
        ("NLPD", f"{-np.mean(loo.log_density):.4g}", f"nats, lower is better{blind}"),
        ("coverage", f"{100 * inside / n:.1f} %", f"{inside} of {n} data lie in their 95 % interval"),
    ]


def draw_fit(model: mc.GPRegressor, y: np.ndarray, target: str, path: Path) -> None:
    """One input: the ribbon. Several: left-out data against their predictions, and how well calibrated these are."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    if model.n_features_in_ == 1:
        figure = mc.viz.posterior(model, ylabel=target).figure
    else:
        loo = model.loo()
        figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4.2), layout="constrained")
        mc.viz.observed_vs_predicted(y, loo.mean, np.sqrt(loo.variance), ax=left, label=target)
        mc.viz.calibration(y, loo.mean, np.sqrt(loo.variance), ax=right)
        figure.suptitle("each datum predicted from the others", fontsize="medium")
    figure.savefig(path, dpi=130)
    plt.close(figure)


def predict(model_path: Path, new: Path, out: Path, level: float, latent: bool) -> int:
    """Write the table with predictions beside its columns; returns the number of rows."""
    half_width = _half_width(level)
    model, table = mc.load(model_path), read_table(new)
    mean, std = model.predict(_inputs(model, table, new), return_std=True, latent=latent)
    prefix = "predicted_" if any(name in table for name in COLUMNS) else ""
    values = (mean, std, mean - half_width * std, mean + half_width * std)
    write_table(out, table | {prefix + name: value for name, value in zip(COLUMNS, values, strict=True)})
    return len(mean)


def describe(path: Path) -> list[tuple[str, tuple[str, ...], Rows]]:
    """Tables (title, columns, rows) on a saved model."""
    model = mc.load(path)
    with zipfile.ZipFile(path) as archive:
        manifest = json.loads(archive.read("manifest.json"))
    n, d = model.posterior_.inputs.values.shape
    names = list(getattr(model, "feature_names_in_", [f"{d} without names"]))
    facts: Rows = [
        ("estimator", manifest["class"]),
        ("columns", ", ".join(map(str, names))),
        ("data", f"{n} rows, {d} column{'s' if d > 1 else ''}"),
        ("kernel", str(model.kernel_)),
        ("log evidence", f"{model.log_marginal_likelihood_:.4f}"),
        ("versions", ", ".join(f"{name} {version}" for name, version in manifest["versions"].items())),
    ]
    values: Rows = []
    for p in parameters(model.model_):
        flat = np.ravel(p.value)
        if flat.size > 50:
            values.append((p.name, f"{flat.size} values", p.status))
            continue
        values += [(name, f"{v:.6g}", p.status) for name, v in zip(element_names(p.name, np.shape(p.value)), flat, strict=True)]
    return [(str(path), ("what", "value"), facts), ("Hyperparameters", ("name", "value", "status"), values)]


def _inputs(model: mc.GPRegressor, table: Table, source: Path) -> Any:
    """The columns the model needs, by name; in their order where it was fitted without names."""
    names = getattr(model, "feature_names_in_", None)
    if names is not None:
        return numeric(table, list(names), str(source))
    found = _numeric_names(table)
    if len(found) != model.n_features_in_:
        raise TableError(
            f"the model was fitted to {model.n_features_in_} columns without names, so {source} must have just as many numeric "
            f"columns; it has {len(found)}: {', '.join(found)}."
        )
    return np.column_stack(list(numeric(table, found, str(source)).values()))


def _numeric_names(table: Table) -> list[str]:
    return [name for name, column in table.items() if column.dtype.kind == "f"]


def _half_width(level: float) -> float:
    if not 0 < level < 1:
        raise ValueError(f"--level must lie strictly between 0 and 1, got {level:g}.")
    return NormalDist().inv_cdf((1 + level) / 2)
