"""Oil flow in two dimensions: Bayesian and MAP GPLVM and GTM beside principal components, by the classes of nearest neighbours."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

import mercer as mc
from experiments._table import table

# of 1,000 rows, columns as they are; Titsias and Lawrence 2010
PUBLISHED = {"PCA": "162", "Bayesian GPLVM, the two most relevant of ten": "3"}


def errors(points: np.ndarray, labels: np.ndarray) -> int:
    """How many rows have another class than their nearest neighbour."""
    apart = np.sum((points[:, None] - points[None]) ** 2, -1)
    np.fill_diagonal(apart, np.inf)
    return int(np.sum(labels[apart.argmin(1)] != labels))


def run(out=None, rows: int = 1000, max_evaluations: int = 400) -> str:
    data = mc.datasets.load("oil_flow", part="train")
    X, labels = data.X[:rows], data.y[:rows]
    limit = {"max_evaluations": max_evaluations}
    cases = [
        ("PCA", False, None),
        ("Bayesian GPLVM, the two most relevant of ten", False, mc.GPLVM(10, standardise=False, **limit)),
        ("MAP GPLVM, two dimensions", False, mc.GPLVM(2, "map", standardise=False, **limit)),
        ("GTM", False, mc.GTM(standardise=False, max_evaluations=200)),
        ("PCA", True, None),
        ("Bayesian GPLVM, the two most relevant of ten", True, mc.GPLVM(10, **limit)),
        ("GTM", True, mc.GTM(max_evaluations=200)),
    ]
    lines, pictures = [], {}
    for name, scaled, model in cases:
        if model is None:
            columns = (X - X.mean(0)) / (X.std(0) if scaled else 1.0)
            U, size, _ = np.linalg.svd(columns, full_matrices=False)
            points, said = (U * size)[:, :2], f"{np.sum(size[:2] ** 2) / np.sum(size**2):.0%} of the variance"
        else:
            with warnings.catch_warnings():
                warnings.simplefilter(
                    "ignore", ConvergenceWarning
                )  # what a limit leaves is said in the table
                points, said = model.fit(X).embedding_[:, :2], words(model)
        if not scaled:
            pictures[name] = points if model is None else model
        published = "" if scaled else PUBLISHED.get(name, "")
        units = "standardised" if scaled else "as they are"
        lines.append([name, units, str(errors(points, labels)), published, said])
    if out is not None:
        picture(pictures, labels).savefig(out / "oil_flow.png", dpi=110)
    return "\n".join(
        [
            "# Oil flow in two latent dimensions",
            "",
            f"{len(X)} rows of 12 measurements of oil, water and gas in a pipe, of three classes that no method is told (Bishop and James 1993). "
            "An error is a row whose nearest neighbour in two latent dimensions has another class. Columns as they are (all divided by one "
            "number), and each divided by its standard deviation, which is the default.",
            "",
            table(["method", "columns", "errors", "published", ""], lines),
            "",
            '`mercer.GPLVM(10)`, `mercer.GPLVM(2, "map")` and `mercer.GTM()` with fifty inducing inputs, one start, from the '
            f"principal components, and at most {max_evaluations} evaluations; a grid of 20 x 20 and at most 200 steps of EM. Published: Titsias and "
            "Lawrence (2010).",
            "",
            "![latent spaces](oil_flow.png)",
            "",
            "The three methods on columns as they are. Crosses are one standard deviation long to each side. Behind the GPLVMs, light is where they are "
            "sure of the data a place stands for; behind the GTM, light is where the surface is stretched, between clusters.",
        ]
    )


def words(model) -> str:
    """What the fit says of itself."""
    if isinstance(model, mc.GTM):
        (scale,) = np.unique(model.kernel_.lengthscale)
        return f"length-scale {scale:g} chosen, {model.n_iter_} iterations"
    end = "converged" if model.converged_ else "stopped"
    return f"{model.n_relevant_} dimensions used, {end} after {model.n_iter_} evaluations"


def picture(found: dict, labels: np.ndarray):
    import matplotlib.pyplot as plt

    from mercer import viz
    from mercer.viz._classes import MARKS, colour
    from mercer.viz._style import frame

    figure, axes = plt.subplots(2, 2, figsize=(12, 10), layout="constrained")
    frame(axes[0, 0], "principal component 0", "principal component 1")
    for c in np.unique(labels):
        axes[0, 0].scatter(
            *found["PCA"][labels == c].T,
            color=colour(c),
            marker=MARKS[c],
            s=16,
            linewidths=0.3,
            edgecolors="white",
        )
    axes[0, 0].set_title("principal components")
    for ax, name in zip(axes.ravel()[1:], (n for n in found if n != "PCA"), strict=True):
        viz.latent_space(found[name], ax=ax, labels=labels)
        ax.get_legend().remove()
        ax.set_title(name)
    return figure
