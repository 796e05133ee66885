"""A gallery of figures of GPML that print no table: 2.6, 6.1, 6.3, 8.1 and 9.1, equivalent kernels, a spline beside a GP, losses, sparse methods, slopes as data.

Figure 8.1 is that of `sarcos_sparse`. Where the book does not print its points, others are drawn.
"""

from __future__ import annotations

import numpy as np
from scipy.special import log_ndtr

from experiments._table import table
from mercer import GP, GPRegressor, SmoothingSpline, kernels, theory
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
        pictures(weights, spline, process, data, plain, sloped, (at, y), grid, out)
    facts = [
        ["6.1", "standard deviation of the noise found by the cubic spline, by the SE process (ten points, 0.2)",
         f"{np.sqrt(spline.noise_variance_):.3f}, {np.sqrt(process.noise_variance_):.3f}"],
        ["6.3", "loss at margin -1, 0, 1: hinge", ", ".join(f"{v:.3f}" for v in losses(np.array([-1.0, 0.0, 1.0]))["hinge"])],
        ["6.3", "loss at margin -1, 0, 1: logistic", ", ".join(f"{v:.3f}" for v in losses(np.array([-1.0, 0.0, 1.0]))["logistic"])],
        ["6.3", "exp(-2 hinge) of both labels, normalised at f = 1, at f = 0, 1, 5 (6.39): no likelihood", ", ".join(f"{v:.3f}" for v in hinge_mass(np.array([0.0, 1.0, 5.0]), 2.0))],
        ["9.1", "mean standard deviation on (-5, 5), from four values", f"{spread(plain(grid)).mean():.3f}"],
        ["9.1", "the same, from four values and four slopes", f"{spread(sloped(grid)).mean():.3f}"],
    ]  # fmt: skip
    return "\n".join([
        "# Figures of the book, redrawn", "",
        "Those that print enough to be redone, of chapters 2, 6, 8 and 9; where the book does not print its points, others are drawn. Learning curves of chapter 7 are [on their own page](learning_curves.md), "
        "kernels in the [gallery of kernels](../gallery.md).", "",
        "## Equivalent kernels (figure 2.6)", "",
        f"Weights h(x) of a prediction, SE with l = {LENGTH}, random inputs on (0, 1) (seed 0). The width is that at half of the largest weight. The dashed line is the equivalent kernel of (7.9), for even data.", "",
        table(["", "largest", "smallest", "width"], rows), "",
        "![weights of a prediction](book_figures_weights.png)", "",
        "## A spline and a process, losses (figures 6.1, 6.3)", "",
        "Ten points; both by the evidence, with 95 % of the function and two functions drawn from each. Beyond the data the spline goes on straight, ever less sure; the process returns to its mean.", "",
        "![a spline beside a process, and losses](book_figures_splines.png)", "",
        table(["figure", "", "here"], facts[:4]), "",
        "## Sparse methods on SARCOS (figure 8.1)", "",
        "Made from the runs of [sarcos_sparse](sarcos_sparse.md).", "",
        "![errors against the number of inducing points and time](sarcos_sparse.png)", "",
        "## Slopes as data (figure 9.1)", "",
        "With three functions drawn from each.", "",
        "![values, and values with slopes](book_figures_slopes.png)", "",
        table(["figure", "", "here"], facts[4:]), "",
        f"Points (the book's are not printed): x = {at.tolist()}, y = {y.tolist()}, slopes {slope.tolist()}, without noise; SE of unit length-scale and variance.",
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


def hinge_mass(f: np.ndarray, C: float) -> np.ndarray:
    """What exp(-C hinge) of both labels sums to, times the largest constant that keeps it at most 1 (6.39): 1 at f = -1 and 1 alone, so that no
    likelihood has the hinge for its negative logarithm.
    """
    return (np.exp(-C * losses(f)["hinge"]) + np.exp(-C * losses(-f)["hinge"])) / (1.0 + np.exp(-2.0 * C))


def slopes():
    """f at x, a Gaussian vector, from four noise-free values (figure 9.1 a), and from their slopes as well (b)."""
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
        return joint.condition(np.arange(len(Xs), len(Xs) + 8), np.concatenate([y, slope]))

    def values_alone(grid):
        Xs = np.asarray(grid)[:, None]
        return GaussianVector(post.mean(Xs), post.covariance(Xs, latent=True))

    return values_alone, both, (x, y, slope)


def spread(f: GaussianVector) -> np.ndarray:
    """Standard deviations."""
    return np.sqrt(np.maximum(np.diag(f.covariance), 0.0))


def pictures(weights, spline, process, data, plain, sloped, points, grid, out) -> None:
    import matplotlib.pyplot as plt

    def row(count: int, height: float = 3.2):
        return plt.subplots(1, count, figsize=(4.2 * count, height), layout="constrained")

    def save(figure, name: str) -> None:
        figure.savefig(out / f"book_figures_{name}.png", dpi=72)
        plt.close(figure)

    figure, axes = plt.subplots(2, 3, figsize=(10, 5.2), layout="constrained")
    panels = axes.ravel()
    panels[-1].axis("off")
    fine = np.linspace(0, 1, 300)
    for ax, ((n, noise, at), (x, w)) in zip(panels, weights.items(), strict=False):
        ax.plot(x, w, "o-", ms=2.5, lw=1, label="weights")
        even = theory.equivalent_weights(kernels.SE(LENGTH), np.abs(fine - at), n, noise) / n
        ax.plot(fine, even, "--", color="0.4", lw=0.9, label="equivalent kernel / n")
        ax.axhline(0, color="0.6", lw=0.7)
        ax.set(xlabel="x", title=f"n = {n}, noise variance {noise:g}, x* = {at}")
        ax.title.set_fontsize("medium")
    axes[0, 0].legend(fontsize="small", frameon=False)
    for ax in axes[:, 0]:
        ax.set_ylabel("weight of a datum")
    save(figure, "weights")

    figure, (left, middle, right) = row(3)
    line = np.linspace(-5, 5, 200)[:, None]
    for ax, name, model in ((left, "cubic spline", spline), (middle, "SE process", process)):
        mean, std = model.predict(line, return_std=True)
        std = np.sqrt(np.maximum(std**2 - model.noise_variance_, 0.0))
        ax.fill_between(line[:, 0], mean - 1.96 * std, mean + 1.96 * std, alpha=0.2, lw=0)
        ax.plot(line, mean, label="mean, 95 %")
        ax.plot(line, model.sample_y(line, 2, latent=True), color="#D55E00", lw=0.8)
        ax.plot(*data, "k.")
        ax.plot(line, np.sin(line), "k:", lw=0.9, label="what made the data")
        ax.set(xlabel="x", title=f"6.1: {name}", ylim=(-3, 3))
    left.set_ylabel("y")
    z = np.linspace(-3, 4, 200)
    for name, loss in losses(z).items():
        right.plot(z, loss, label=name, ls="--" if name.startswith("eps") else "-")
    right.set(xlabel="margin y f (dashed: residual)", ylabel="loss", title="6.3: losses")
    for ax in (left, right):
        ax.legend(fontsize="small", frameon=False)
    save(figure, "splines")

    figure, axes = row(2)
    for ax, model, title in zip(axes, (plain, sloped), ("values", "values and slopes"), strict=True):
        f = model(grid)
        ax.plot(grid, f.mean, lw=1.8, label="mean, 95 %")
        ax.fill_between(grid, f.mean - 1.96 * spread(f), f.mean + 1.96 * spread(f), alpha=0.2, lw=0)
        ax.plot(grid, f.sample(3, 0).T, lw=0.8, color="#D55E00")
        ax.plot(*points, "k.", label="data")
        ax.set(xlabel="x", title=f"9.1: {title}", ylim=(-2.6, 2.6))
    axes[0].set_ylabel("f")
    axes[0].legend(fontsize="small", frameon=False, loc="lower left")
    save(figure, "slopes")
