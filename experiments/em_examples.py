"""EM on real data: Old Faithful by Gaussian mixtures, the Nile and the sunspot cycle by hidden Markov models."""

from __future__ import annotations

import warnings

import numpy as np
import sklearn.mixture

import mercer as mc
from experiments._table import table
from mercer import datasets, viz


def run(out=None) -> str:
    return "\n".join(["# EM on real data", "", *faithful(out), "", *nile(out), "", *sunspots(out)])


def faithful(out) -> list[str]:
    X = eruptions()
    rows = []
    for kind in ("full", "tied", "diagonal", "spherical"):
        model = mc.GaussianMixture(range(1, 7), kind, restarts=4, max_evaluations=2000, random_state=0).fit(X)
        best = model.n_components_
        rows.append(
            [
                kind,
                str(best),
                f"{model.log_likelihood_:.3f}",
                f"{model.bic(X):.1f}",
                ", ".join(f"{model.selection_[k]:.0f}" for k in model.selection_),
            ]
        )
    reference = {k: sklearn_log_likelihood(X, k, kind) for k, kind in ((2, "full"), (3, "tied"))}
    two = mc.GaussianMixture(2, restarts=4, tol=1e-12, max_evaluations=2000, random_state=0).fit(X)
    order = two.means_[:, 0].argsort()
    three = mc.GaussianMixture(3, "tied", restarts=19, tol=1e-12, max_evaluations=5000, random_state=0).fit(X)
    gaps, rng = X.copy(), np.random.default_rng(0)
    gaps[rng.random(X.shape) < 0.2] = np.nan
    partial = mc.GaussianMixture(2, restarts=4, tol=1e-10, max_evaluations=2000, random_state=0).fit(gaps)
    by = partial.means_[:, 0].argsort()
    if out is not None:
        import matplotlib.pyplot as plt

        figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
        names = ("eruption / min", "waiting / min")
        viz.ellipses(two, X, axes[0], names=names)
        axes[0].set_title("all data")
        viz.ellipses(partial, gaps[~np.isnan(gaps).any(1)], axes[1], names=names)
        axes[1].set_title("a fifth of all values missing (complete rows shown)")
        figure.savefig(out / "em_faithful.png", dpi=110)
        plt.close(figure)
    return [
        "## Old Faithful, 272 eruptions: duration and waiting time", "",
        table(["covariances", "components by BIC", "log-likelihood", "BIC", "BIC of 1 to 6"], rows), "",
        f"Two full Gaussians: log-likelihood {two.log_likelihood_:.3f} (scikit-learn's best of 20 starts: {reference[2]:.3f}), means "
        + "; ".join(f"({a:.3f}, {b:.3f})" for a, b in two.means_[order]) + f", shares {two.weights_[order][0]:.4f} and {two.weights_[order][1]:.4f}.",
        f"Three of equal covariance: log-likelihood {three.log_likelihood_:.3f} (scikit-learn: {reference[3]:.3f}), BIC {three.bic(X):.3f}.",
        "With a fifth of all values removed at random: means " + "; ".join(f"({a:.3f}, {b:.3f})" for a, b in partial.means_[by])
        + f", and {np.mean((two.predict(X) == order[0]) == (partial.predict(X) == by[0])):.1%} of the eruptions in the same group.", "",
        "![Old Faithful](em_faithful.png)",
    ]  # fmt: skip


def nile(out) -> list[str]:
    data = datasets.load("nile")
    year, flow = data.X[:, 0], data.y
    chosen = mc.HMM(range(1, 5), restarts=4, tol=1e-9, random_state=0).fit(flow)
    two = mc.HMM(2, restarts=4, tol=1e-10, random_state=0).fit(flow)
    high = int(two.means_[:, 0].argmax())
    path = two.viterbi(flow)
    last = int(year[path == high].max())
    if out is not None:
        ax = viz.state_path(two, flow, year, xlabel="year", ylabel="flow of the Nile / 10⁸ m³")
        ax.figure.savefig(out / "em_nile.png", dpi=110)
    return [
        "## The Nile at Aswan, 1871 to 1970", "",
        table(["states", "BIC"], [[str(n), f"{b:.1f}"] for n, b in chosen.selection_.items()]), "",
        f"Two states: mean flow {two.means_[high, 0]:.0f} until {last}, {two.means_[1 - high, 0]:.0f} after it; log-likelihood {two.log_likelihood_:.3f}.", "",
        "![Nile](em_nile.png)",
    ]  # fmt: skip


def sunspots(out) -> list[str]:
    """States of the square root of the monthly number: fitted to the first two thirds, scored on the rest."""
    data = datasets.load("sunspots")
    time, root = data.X[:, 0], np.sqrt(np.maximum(data.y, 0.0))
    split = len(root) * 2 // 3
    rows = []
    for n in (1, 2, 3, 4, 6):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = mc.HMM(n, restarts=2, random_state=0).fit(root[:split])
        whole, before = (float(model.score_samples(part).sum()) for part in (root, root[:split]))
        rows.append(
            [
                str(n),
                f"{before / split:.4f}",
                f"{(whole - before) / (len(root) - split):.4f}",
                f"{model.bic(root[:split]):.0f}",
            ]
        )
    four = mc.HMM(4, restarts=2, random_state=0).fit(root)
    if out is not None:
        import matplotlib.pyplot as plt

        figure, axes = plt.subplots(1, 2, figsize=(11, 4), width_ratios=(2.2, 1), layout="constrained")
        show = time > 1900
        viz.state_path(
            four, root[show], time[show], axes[0], xlabel="year", ylabel="√ monthly sunspot number"
        )
        viz.transition_graph(four, axes[1])
        figure.savefig(out / "em_sunspots.png", dpi=110)
        plt.close(figure)
    return [
        f"## Monthly sunspot numbers since 1749 (square root), {len(root)} months: fitted to the first two thirds", "",
        table(["states", "log p per month, fitted", "log p per month, those after", "BIC"], rows), "",
        "![sunspots](em_sunspots.png)",
    ]  # fmt: skip


def sklearn_log_likelihood(X: np.ndarray, k: int, kind: str) -> float:
    """Of the best of 20 fits by scikit-learn, as a reference computed by other code."""
    other = sklearn.mixture.GaussianMixture(
        k, covariance_type=kind, n_init=20, tol=1e-12, max_iter=5000, reg_covar=0.0, random_state=0
    )
    return float(other.fit(X).score(X)) * len(X)


def eruptions() -> np.ndarray:
    data = datasets.load("faithful")
    return np.column_stack([data.X[:, 0], data.y])
