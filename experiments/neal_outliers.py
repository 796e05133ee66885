"""Neal's one-dimensional regression with outliers: robust noise against normal noise in the log density of new data."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np

from experiments._table import table
from experiments.friedman_outliers import Scores
from mercer import GPRegressor, datasets, metrics

NOISES = ("gaussian", "student-t", "laplace", "mixture")
BLOCK = 100


def run(out=None, blocks: int = 11, noises=NOISES) -> str:
    """Fits that are in the file of scores in `out` are not repeated."""
    data = datasets.load("neal_outliers")
    X, y = np.asarray(data.X, float), np.asarray(data.y, float)
    scores = Scores(out and pathlib.Path(out) / "neal_outliers.jsonl")
    for i in range(blocks):
        for noise in noises:
            scores.need({"set": i, "method": noise}, lambda i=i, noise=noise: score(X, y, i, noise))
    nlpd = {noise: scores.column(noise, "nlpd", range(blocks)) for noise in noises}
    rows = []
    for noise in noises:
        means = [
            f"{scores.column(noise, name, range(blocks)).mean():.3f}"
            for name in ("rmse", "coverage", "width")
        ]
        gap = nlpd["gaussian"] - nlpd[noise]
        margins = (
            ["", ""]
            if noise == "gaussian"
            else [f"{gap[0]:.3f}", f"{gap.mean():.3f} (least {gap.min():.3f})"]
        )
        rows.append(
            [noise, f"{nlpd[noise][0]:.3f}", margins[0], f"{nlpd[noise].mean():.3f}", margins[1], *means]
        )
    beaten = [n for n in noises if n != "gaussian" and np.all(nlpd[n] < nlpd["gaussian"])]
    if out is not None:
        draw(X, y, pathlib.Path(out) / "neal_outliers.png")
    return "\n".join([
        "# Neal's data with outliers", "",
        "1100 cases of y = 0.3 + 0.4 x + 0.5 sin(2.7 x) + 1.1 / (1 + x²) + noise, x ~ N(0, 1): the noise is N(0, 0.1²) for 95 % and N(0, 1) for 5 %. "
        f"As Neal does, the first {BLOCK} cases train and the other 1000 test; then each of the first {blocks} blocks of {BLOCK} cases in turn trains, and the other "
        "1000 test. `GPRegressor(likelihood=...)` with nothing else set. The test cases have outliers too.", "",
        table(["noise", "NLPD, first block", "margin", "NLPD, all blocks", "margin over gaussian", "RMSE of f", "coverage of 95 %", "width of it"], rows), "",
        f"NLPD in nats per case. Better than normal noise on every block: {', '.join(beaten) if beaten else 'none'}. RMSE is that of the predicted mean against the "
        "function above.", "",
        "![fits to the first block](neal_outliers.png)",
    ])  # fmt: skip


def function(x: np.ndarray) -> np.ndarray:
    return 0.3 + 0.4 * x + 0.5 * np.sin(2.7 * x) + 1.1 / (1 + x**2)


def score(X, y, block: int, noise: str) -> dict[str, Any]:
    """NLPD, coverage and width of the 95 % interval for the other cases, RMSE of the function there."""
    train = np.arange(len(y)) // BLOCK == block
    model = GPRegressor(likelihood=noise).fit(X[train], y[train])
    Xs, ys = X[~train], y[~train]
    lower, upper = model.predict_interval(Xs)
    return {
        "nlpd": metrics.nlpd(ys, log_density=model.log_density(Xs, ys)), "rmse": metrics.rmse(function(Xs[:, 0]), model.predict(Xs)),
        "coverage": metrics.coverage(ys, lower, upper), "width": float(np.mean(upper - lower)),
    }  # fmt: skip


def draw(X, y, path: pathlib.Path) -> None:
    import matplotlib.pyplot as plt

    from mercer import viz

    x = np.linspace(-3, 3, 300)
    figure, axes = plt.subplots(2, 2, figsize=(11, 7), sharex=True, sharey=True, layout="constrained")
    for ax, noise in zip(axes.flat, NOISES, strict=True):
        model = GPRegressor(likelihood=noise).fit(X[:BLOCK], y[:BLOCK])
        viz.posterior(model.posterior_, x[:, None], ax=ax, xlabel="x", ylabel="y")
        ax.plot(x, function(x), color="black", linewidth=0.9, linestyle=(0, (4, 3)), label="function")
        ax.get_legend().remove()
        ax.set_ylim(-1.6, 4.3)
        ax.text(0.98, 0.03, f"{noise} noise", transform=ax.transAxes, ha="right", va="bottom")
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper left", ncols=5, frameon=False, fontsize="small")
    figure.savefig(path, dpi=110)
    plt.close(figure)
