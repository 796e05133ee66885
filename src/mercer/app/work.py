"""What the commands do, apart from talking: read a table, fit, judge, draw, predict, describe a saved model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import mercer as mc
from mercer.app.tables import Table, TableError, drop_missing, numeric, read_table, write_table

COLUMNS = ("mean", "std", "lower", "upper")


def training_data(path: Path, target: str, features: str | None) -> tuple[Table, np.ndarray, list[str]]:
    """Columns to learn from, the target, and notes on what was left out."""
    source = str(path)
    table = read_table(path)
    table, dropped = drop_missing(table, target, source)
    y = numeric(table, [target], source)[target]
    notes = [f"left out {dropped} row{'s' if dropped > 1 else ''} without a value of {target!r}"] if dropped else []
    if features is None:
        names = [name for name, column in table.items() if name != target and column.dtype.kind == "f"]
        text = [name for name, column in table.items() if name != target and column.dtype.kind != "f"]
        notes += [f"left out columns of text: {', '.join(text)}"] if text else []
        if not names:
            raise TableError(f"{source} has no numeric column besides {target!r} to predict from.")
    else:
        names = [name.strip() for name in features.split(",")]
        if target in names:
            raise TableError(f"--features names the target {target!r} itself.")
        if len(set(names)) != len(names):
            raise TableError(f"--features names a column twice: {features}.")
    return numeric(table, names, source), y, notes


def fit_model(X: Table, y: np.ndarray, kernel: str | None, restarts: int, noise: float | None, seed: int, progress: bool) -> Any:
    options = {} if noise is None else {"noise_variance": noise}
    return mc.GPRegressor(kernel=kernel, restarts=restarts, random_state=seed, verbose=None if progress else False, **options).fit(
        X, y
    )


def quality(model: Any, y: np.ndarray, target: str) -> tuple[tuple[str, ...], list[tuple[str, str, str]]]:
    """Columns and rows of the leave-one-out table."""
    loo = model.loo()
    std = np.sqrt(loo.variance)
    half = 1.959963984540054 * std
    n = len(y)
    inside = int(np.sum(np.abs(y - loo.mean) <= half))
    baseline = mc.metrics.nlpd(y, np.mean(y), np.std(y)) if np.std(y) > 0 else np.nan
    rows = [
        ("RMSE", f"{mc.metrics.rmse(y, loo.mean):.5g}", f"in units of {target}; always guessing the mean: {np.std(y):.5g}"),
        ("NLPD", f"{-np.mean(loo.log_density):.4f}", f"nats, lower is better; guessing mean and spread: {baseline:.4f}"),
        ("coverage", f"{100 * inside / n:.1f} %", f"{inside} of {n} inside their 95 % interval"),
    ]
    return ("measure", "value", "meaning"), rows


def draw_fit(model: Any, y: np.ndarray, target: str, path: Path) -> None:
    """One input: the ribbon. Several: left-out data against their predictions, and the relevance of the inputs."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    if len(model.feature_names_in_) == 1:
        figure = mc.viz.posterior(model, ylabel=target).figure
    else:
        loo = model.loo()
        figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
        mc.viz.observed_vs_predicted(y, loo.mean, np.sqrt(loo.variance), ax=left, label=target)
        mc.viz.calibration(y, loo.mean, np.sqrt(loo.variance), ax=right)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def predict(model_path: Path, new: Path, out: Path, level: float, latent: bool) -> int:
    """Write the table with predictions beside its columns; returns the number of rows."""
    if not 0 < level < 1:
        raise ValueError(f"--level must lie strictly between 0 and 1, got {level:g}.")
    model = mc.load(model_path)
    table = read_table(new)
    X = numeric(table, list(model.feature_names_in_), str(new))
    mean, std = model.predict(X, return_std=True, latent=latent)
    half = mc.viz.half_width(level) * std
    taken = any(name in table for name in COLUMNS)
    names = [f"predicted_{name}" if taken else name for name in COLUMNS]
    write_table(out, table | dict(zip(names, (mean, std, mean - half, mean + half), strict=True)))
    return len(mean)
