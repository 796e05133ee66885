"""Mixtures of Gaussian-process experts (GPML 9.6): a step, two regimes and two overlapping curves, beside one Gaussian process."""

from __future__ import annotations

import numpy as np

import mercer as mc
from experiments._table import table

REPEATS, TRAIN, TEST = 3, 80, 400


def step(rng, n):
    """From -1 to 1 at zero, noise 0.1."""
    x = np.sort(rng.uniform(-1, 1, n))
    return x, np.sign(x) + 0.1 * rng.normal(size=n)


def regimes(rng, n):
    """A quick wave with noise 0.05 up to 2, then a slow line with noise 0.3."""
    x = np.sort(rng.uniform(0, 4, n))
    quick = x < 2
    return x, np.where(quick, np.sin(8 * x), 0.5 * x - 2) + np.where(quick, 0.05, 0.3) * rng.normal(size=n)


def overlap(rng, n):
    """Each datum is on one of two curves, noise 0.1."""
    x = np.sort(rng.uniform(0, 4, n))
    return x, np.where(rng.random(n) < 0.5, np.sin(2 * x) + 1.5, -0.5 * x) + 0.1 * rng.normal(size=n)


CASES = {
    "step": (step, "softmax"),
    "two regimes": (regimes, "softmax"),
    "overlapping curves": (overlap, "constant"),
}


def run(out=None) -> str:
    rows, pictures = [], {}
    for name, (draw, gating) in CASES.items():
        found = []
        for seed in range(REPEATS):
            rng = np.random.default_rng(seed)
            (x, y), (xt, yt) = draw(rng, TRAIN), draw(rng, TEST)
            models = (
                mc.GPRegressor().fit(x[:, None], y),
                mc.GPMixture(2, gating=gating, restarts=1).fit(x[:, None], y),
            )
            found.append([score for m in models for score in scores(m, xt[:, None], yt)])
            pictures.setdefault(name, (x, y, *models))
        mean, error = np.mean(found, 0), np.std(found, 0, ddof=1) / np.sqrt(REPEATS)
        for i, model in enumerate(("one GP", "two experts")):
            rows.append(
                [f"{name}: {model}", *(f"{mean[j]:.3f} ± {error[j]:.3f}" for j in range(3 * i, 3 * i + 3))]
            )
    if out is not None:
        picture(pictures).savefig(out / "gp_experts.png", dpi=110)
    return "\n".join(
        [
            "# Mixtures of Gaussian-process experts",
            "",
            f"{TRAIN} data for training, {TEST} for test, {REPEATS} draws of both (mean ± standard error). NLPD: mean negative log predictive "
            "density, smaller is better; coverage of the 95 % interval; its mean width. `mercer.GPMixture(2, restarts=1)` beside "
            "`mercer.GPRegressor()`, both with default kernels.",
            "",
            table(["data and model", "NLPD", "coverage", "width"], rows),
            "",
            "![experts](gp_experts.png)",
        ]
    )


def scores(model, X, y) -> tuple[float, float, float]:
    low, high = model.predict_interval(X)
    return (
        -float(model.log_density(X, y).mean()),
        float(np.mean((low <= y) & (y <= high))),
        float(np.mean(high - low)),
    )


def picture(found: dict):
    """One GP above, the experts' predictive density and their means below."""
    import matplotlib.pyplot as plt

    from mercer.viz._style import BLUE, GREEN, VERMILLION, frame

    figure, axes = plt.subplots(
        2, len(found), figsize=(12, 6), sharex="col", sharey="col", layout="constrained"
    )
    for column, (name, (x, y, one, two)) in zip(axes.T, found.items(), strict=True):
        grid = np.linspace(x.min() - 0.1, x.max() + 0.1, 200)
        heights = np.linspace(y.min() - 0.7, y.max() + 0.7, 150)
        low, high = one.predict_interval(grid[:, None])
        column[0].fill_between(grid, low, high, color=BLUE, alpha=0.25, lw=0)
        column[0].plot(grid, one.predict(grid[:, None]), color=BLUE)
        column[0].set_title(f"{name}: one GP")
        density = two.predict_density(grid[:, None], heights)
        column[1].pcolormesh(
            grid, heights, np.log1p(density).T, cmap="Blues", shading="auto", rasterized=True
        )
        gate, (means, _) = two.predict_gate(grid[:, None]), two.predict_experts(grid[:, None])
        for k, colour in enumerate((VERMILLION, GREEN)):
            column[1].plot(
                grid, np.where(gate[:, k] > 0.05, means[:, k], np.nan), color=colour, label=f"expert {k}"
            )
        column[1].set_title(f"{name}: two experts, density")
        for ax in column:
            ax.plot(x, y, "k.", ms=3)
            ax.set_ylim(heights[0], heights[-1])
    for (i, j), ax in np.ndenumerate(axes):
        frame(ax, "x" if i == 1 else "", "y" if j == 0 else "")
    axes[1, 0].legend(frameon=False, loc="upper left")
    return figure
