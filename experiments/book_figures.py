"""Figures 2.6, 6.1, 6.3 and 9.1 of GPML, which print no table: equivalent kernels, a spline beside a GP, losses, slopes as data.

Figure 8.1 is that of `sarcos_sparse`. Where the book does not print its points, others are drawn.
"""

from __future__ import annotations

import numpy as np
from scipy.special import log_ndtr

from experiments._table import table
from mercer import GP, GPRegressor, SmoothingSpline, kernels
from mercer.linalg.gaussian import GaussianVector

LENGTH = 0.0632


def run(out=None) -> str:
    weights = equivalent_kernels()
    rows = [
        [
            f"n = {n}, noise variance {noise:g}, x* = {at}",
            f"{w.max():.3f}",
            f"{w.min():.3f}",
            f"{width(x, w):.3f}" if np.sum(w >= 0.5 * w.max()) > 1 else "one point",
        ]
        for (n, noise, at), (x, w) in weights.items()
    ]
    spline, process, data = splines()
    plain, sloped, (at, y, slope) = slopes()
    grid = np.linspace(-5, 5, 201)
    if out is not None:
        picture(weights, spline, process, data, plain, sloped, (at, y), grid, out)
    facts = [
        ["6.1", "standard deviation of the noise found by the cubic spline, by the SE process (ten points, 0.2)",
         f"{np.sqrt(spline.noise_variance_):.3f}, {np.sqrt(process.noise_variance_):.3f}"],
        ["6.3", "loss at margin -1, 0, 1: hinge", ", ".join(f"{v:.3f}" for v in losses(np.array([-1.0, 0.0, 1.0]))["hinge"])],
        ["6.3", "loss at margin -1, 0, 1: logistic", ", ".join(f"{v:.3f}" for v in losses(np.array([-1.0, 0.0, 1.0]))["logistic"])],
        ["9.1", "mean standard deviation on (-5, 5), from four values", f"{plain(grid)[1].mean():.3f}"],
        ["9.1", "the same, from four values and four slopes", f"{sloped(grid)[1].mean():.3f}"],
    ]  # fmt: skip
    return "\n".join([
        "# Figures of the book without a table", "",
        "## Equivalent kernels (figure 2.6)", "",
        f"Weights h(x) of a prediction, SE with l = {LENGTH}, random inputs on (0, 1) (seed 0). The width is that at half of the largest weight.", "",
        table(["", "largest", "smallest", "width"], rows), "",
        "## Splines, losses, slopes (figures 6.1, 6.3, 9.1)", "",
        table(["figure", "", "here"], facts), "",
        f"Points of figure 9.1 (the book's are not printed): x = {at.tolist()}, y = {y.tolist()}, slopes {slope.tolist()}, without noise; SE of unit "
        "length-scale and variance.", "",
        "![the figures](book_figures.png)",
    ])  # fmt: skip


def equivalent_kernels() -> dict[tuple[int, float, float], tuple[np.ndarray, np.ndarray]]:
    """Inputs and weights h(x*) (2.36) for the panels of figure 2.6, by (n, noise variance, x*)."""
    found = {}
    for n, noise, at in ((50, 0.1, 0.5), (50, 0.1, 0.05), (50, 10.0, 0.5), (10, 0.1, 0.5), (250, 0.1, 0.5)):
        x = np.sort(np.random.default_rng(0).uniform(0, 1, n))
        post = GP(kernels.SE(LENGTH)).condition(x[:, None], np.zeros(n), noise_variance=noise)
        found[n, noise, at] = x, post.smoother([[at]])[0]
    return found


def width(x: np.ndarray, weights: np.ndarray) -> float:
    """Of the stretch around the largest weight where weights are at least half of it."""
    near = x[weights >= 0.5 * weights.max()]
    return float(np.ptp(near))


def splines():
    """A cubic smoothing spline and an SE process on ten points of figure 6.1's kind, both by the evidence."""
    rng = np.random.default_rng(3)
    x = np.sort(rng.uniform(-4, 4, 10))
    y = np.sin(x) + 0.2 * rng.standard_normal(10)
    spline = SmoothingSpline().fit(x[:, None], y)
    process = GPRegressor(kernels.SE(), mean=0.0).fit(x[:, None], y)
    return spline, process, (x, y)


def losses(z: np.ndarray, epsilon: float = 1.0) -> dict[str, np.ndarray]:
    """Figure 6.3 at margins z: hinge, logistic and probit losses, and the epsilon-insensitive loss of a residual z."""
    return {
        "hinge": np.maximum(1.0 - z, 0.0),
        "logistic": np.logaddexp(0.0, -z),
        "probit": -log_ndtr(z),
        "epsilon-insensitive": np.maximum(np.abs(z) - epsilon, 0.0),
    }


def slopes():
    """Mean and standard deviation at x from four noise-free values (figure 9.1 a), and from their slopes as well (b)."""
    x, y, slope = (
        np.array([-4.0, -1.0, 1.5, 4.0]),
        np.array([-0.5, 0.8, 0.2, -1.0]),
        np.array([1.0, 0.0, -1.0, -0.5]),
    )
    kernel, X = kernels.SE(), x[:, None]
    post = GP(kernel).condition(X, y)
    at_data = kernels.derivative_covariance(kernel)
    mixed = np.array([[at_data([a], [b])[0, 0] for b in x] for a in x])

    def both(grid):
        Xs = np.asarray(grid)[:, None]
        # f at the grid, f at the data, slopes at the data
        values = kernel(np.vstack([Xs, X]))
        gradient = kernels.input_gradient(kernel, X, np.vstack([Xs, X]))[:, :, 0]
        joint = GaussianVector(np.zeros(len(Xs) + 8), np.block([[values, gradient.T], [gradient, mixed]]))
        given = joint.condition(np.arange(len(Xs), len(Xs) + 8), np.concatenate([y, slope]))
        return given.mean, np.sqrt(np.maximum(np.diag(given.covariance), 0.0))

    return lambda grid: post.mean_and_std(np.asarray(grid)[:, None], latent=True), both, (x, y, slope)


def picture(weights, spline, process, data, plain, sloped, points, grid, out) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(3, 3, figsize=(13, 10), layout="constrained")
    panels = axes.ravel()
    for ax, ((n, noise, at), (x, w)) in zip(panels, weights.items(), strict=False):
        ax.plot(x, w, "o-", ms=2.5, lw=1)
        ax.axhline(0, color="0.6", lw=0.7)
        ax.axvline(at, color="0.6", lw=0.7, ls=":")
        ax.set(
            xlabel="x", ylabel="weight of a datum", title=f"2.6: n = {n}, noise variance {noise:g}, x* = {at}"
        )
    line = np.linspace(-5, 5, 200)
    for name, model in (("cubic spline", spline), ("SE process", process)):
        mean, std = model.predict(line[:, None], return_std=True)
        shade = panels[5].plot(line, mean, label=f"{name}, 95 %")[0].get_color()
        panels[5].fill_between(line, mean - 1.96 * std, mean + 1.96 * std, color=shade, alpha=0.15, lw=0)
    panels[5].plot(*data, "k.", label="data")
    panels[5].plot(line, np.sin(line), "k:", lw=0.9, label="what made them")
    panels[5].set(xlabel="x", ylabel="y", title="6.1: a spline and a process")
    z = np.linspace(-3, 4, 200)
    for name, loss in losses(z).items():
        panels[6].plot(z, loss, label=name, ls="--" if name.startswith("eps") else "-")
    panels[6].set(xlabel="margin y f (dashed: residual)", ylabel="loss", title="6.3: losses")
    for ax in panels[5:7]:
        ax.legend(fontsize="small", frameon=False)
    for ax, model, title in zip(panels[7:], (plain, sloped), ("values", "values and slopes"), strict=True):
        mean, std = model(grid)
        ax.plot(grid, mean, label="mean, 95 %")
        ax.fill_between(grid, mean - 1.96 * std, mean + 1.96 * std, alpha=0.2, lw=0)
        ax.plot(*points, "k.", label="data")
        ax.set(xlabel="x", ylabel="f", title=f"9.1: {title}", ylim=(-2.4, 2.4))
        ax.legend(fontsize="small", frameon=False, loc="lower left")
    figure.savefig(out / "book_figures.png", dpi=100)
    plt.close(figure)
