"""Intensities and densities of points beside kernel density estimates: log densities of points held out.

Log-Gaussian Cox processes (Moller, Syversveen and Waagepetersen 1998) and logistic Gaussian processes (Leonard 1978).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.stats import gaussian_kde

import mercer as mc
from experiments._table import table
from mercer import datasets, viz

SPLITS = 10
SIDE = 60  # places along each column at which the mass of an estimate in the region is summed
COAL = (1851.0, 1963.0)


def true_intensity(X: np.ndarray) -> np.ndarray:
    """Points for each unit of area of the generated pattern, on the unit square: two clusters and a slope."""
    clusters = np.exp(-40 * ((X - [0.3, 0.65]) ** 2).sum(1)) + np.exp(-90 * ((X - [0.75, 0.3]) ** 2).sum(1))
    return 60 + 200 * X[:, 0] + 1500 * clusters


def generated(seed: int = 0) -> np.ndarray:
    """A pattern of that intensity, thinned from one of its maximum."""
    rng = np.random.default_rng(seed)
    most = 2000.0
    X = rng.random((rng.poisson(most), 2))
    return X[rng.random(len(X)) < true_intensity(X) / most]


def disasters() -> np.ndarray:
    """Dates (191, 1) of explosions in British coal mines that killed ten or more, in years (Jarrett 1979)."""
    return np.loadtxt(Path(os.environ["MERCER_DATA"]) / "coal_mining_disasters.csv", skiprows=1)[:, None]


def patterns() -> dict[str, tuple[Any, np.ndarray]]:
    """By name, an estimator and the points."""
    old = datasets.load("faithful")
    faithful = np.column_stack([old.X, old.y])
    meuse = datasets.load("meuse").X[:, :2]
    box = [(low - 50.0, high + 50.0) for low, high in zip(meuse.min(0), meuse.max(0), strict=True)]
    return {
        "coal-mining disasters": (mc.GPIntensity(region=COAL), disasters()),
        "eruptions, Old Faithful": (mc.GPDensity(), faithful[:, :1]),
        "eruptions and waiting": (mc.GPDensity(), faithful[:, :2]),
        "sites along the Meuse": (mc.GPIntensity(region=box), meuse),
        "generated pattern": (mc.GPIntensity(region=[(0, 1), (0, 1)]), generated()),
    }


def ends(model: Any, points: np.ndarray) -> Any:
    """The region, the same for all splits."""
    if model.region is not None:
        return model.region
    return [(a - s, b + s) for a, b, s in zip(points.min(0), points.max(0), points.std(0), strict=True)]


def smoothed(train: np.ndarray, region: Any, chosen: bool) -> Any:
    """Log density of a Gaussian kernel estimate in the region: bandwidth by Scott's rule, or that at which the points
    predict each other best when left out.
    """
    rule = gaussian_kde(train.T)
    if chosen:
        n = len(train)

        def left_out(log_factor: float) -> float:
            at = gaussian_kde(train.T, bw_method=float(np.exp(log_factor)))
            own = np.exp(at.logpdf(train.T)) * n - 1 / np.sqrt(np.linalg.det(2 * np.pi * at.covariance))
            return -float(np.sum(np.log(np.maximum(own, 1e-300) / (n - 1))))

        best = minimize_scalar(left_out, bounds=(np.log(0.05 * rule.factor), np.log(2 * rule.factor)))
        rule = gaussian_kde(train.T, bw_method=float(np.exp(best.x)))
    pairs = np.reshape(np.asarray(region, float), (-1, 2))
    axes = [a + (b - a) * (np.arange(SIDE) + 0.5) / SIDE for a, b in pairs]
    places = np.stack(np.meshgrid(*axes, indexing="ij")).reshape(len(pairs), -1)
    mass = float(np.mean(rule(places)) * np.prod(np.diff(pairs, axis=1)))
    return lambda X: rule.logpdf(X.T) - np.log(mass)


def log_densities(model: Any, X: np.ndarray) -> np.ndarray:
    """Of points X in the region: those of the intensity are divided by its total."""
    total = model.expected_count().mean if isinstance(model, mc.GPIntensity) else 1.0
    return model.score_samples(X) - np.log(total)


def compared(model: Any, points: np.ndarray) -> np.ndarray:
    """Mean log densities (SPLITS, 3) of the half held out: the GP, Scott's rule, bandwidth by leaving out."""
    region, scores = ends(model, points), []
    for split in range(SPLITS):
        order = np.random.default_rng(split).permutation(len(points))
        train, test = points[order[: len(points) // 2]], points[order[len(points) // 2 :]]
        fitted = type(model)(region=region).fit(train)
        estimates = [smoothed(train, region, chosen) for chosen in (False, True)]
        scores.append([log_densities(fitted, test).mean(), *(float(e(test).mean()) for e in estimates)])
    return np.array(scores)


def refined(points: np.ndarray) -> list[list[Any]]:
    """What changes as cells become smaller, on the coal-mining disasters."""
    rows = []
    for cells in (50, 100, 200, 400, 800):
        model = mc.GPIntensity(region=COAL, cells=cells).fit(points)
        box = model.expected_count(1900, 1910)
        at = model.predict([1860.0, 1950.0])
        rows.append([str(cells), f"{model.kernel_.lengthscale[0]:.2f}", f"{model.log_marginal_likelihood_:.2f}",
                     f"{at[0]:.3f}", f"{at[1]:.3f}", f"{box.mean:.2f} ({box.lower:.1f} to {box.upper:.1f})"])  # fmt: skip
    return rows


def covered() -> tuple[float, float, float]:
    """On the generated pattern: the share of places whose intensity lies in its band, and the relative errors (root
    mean square of the log ratio) of the GP and of the kernel estimate by leaving out.
    """
    points, region = generated(), [(0, 1), (0, 1)]
    model = mc.GPIntensity(region=region).fit(points)
    axis = (np.arange(SIDE) + 0.5) / SIDE
    X = np.stack(np.meshgrid(axis, axis, indexing="ij"), -1).reshape(-1, 2)
    lower, upper = model.predict_interval(X)
    truth = true_intensity(X)
    rival = len(points) * np.exp(smoothed(points, region, True)(X))
    errors = [float(np.sqrt(np.mean(np.log(found / truth) ** 2))) for found in (model.predict(X), rival)]
    return float(np.mean((lower < truth) & (upper > truth))), errors[0], errors[1]


def draw(found: dict[str, tuple[Any, np.ndarray]]) -> Any:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 2, figsize=(11, 7.6), layout="constrained")
    labels = [
        ("year", "disasters a year"),
        ("eruption / min", "waiting / min"),
        ("east / m", "north / m"),
        ("x", "y"),
    ]
    names = [name for name in found if name != "eruptions, Old Faithful"]
    for ax, name, (xlabel, ylabel) in zip(axes.flat, names, labels, strict=True):
        model, points = found[name]
        viz.points(model.fit(points), ax, xlabel=xlabel, ylabel=ylabel)
        ax.set_title(name, loc="right", fontsize="small", pad=20 if points.shape[1] == 1 else 6)
    return figure


def run(out=None) -> str:
    found = patterns()
    rows = []
    for name, (model, points) in found.items():
        scores = compared(model, points)
        gain = scores[:, 0] - scores[:, 2]
        rows.append([name, str(len(points)), *(f"{s:.3f}" for s in scores.mean(0)),
                     f"{gain.mean():.3f} ± {gain.std(ddof=1) / np.sqrt(SPLITS):.3f}"])  # fmt: skip
    share, ours, theirs = covered()
    grid = refined(found["coal-mining disasters"][1])
    if out is not None:
        draw(found).savefig(out / "points.png", dpi=110)
    return "\n".join([
        "# Points: intensities and densities", "",
        f"Mean log density of the points held out, {SPLITS} times half of them, in the units of the columns; higher is better. All estimates are of one region: that observed (coal "
        "mining, generated), the box of the sites and 50 m, or that of all points and a standard deviation. `scipy.stats.gaussian_kde` by Scott's rule (its default), "
        "and with the bandwidth at which the training points predict each other best when left out; its mass beyond the region is taken out. The last column is the mean gain of the GP "
        "over the latter, with its standard error over splits.", "",
        table(["points", "n", "GP", "kernels, Scott", "kernels, left out", "gain"], rows), "",
        f"On the generated pattern, of all its points, the band of 95 % holds the true intensity at {100 * share:.0f} % of the places; the root mean square of the log ratio to it is "
        f"{ours:.2f}, that of the kernel estimate {theirs:.2f}.", "",
        "Smaller cells, coal-mining disasters (191 from 1851 to 1962; 11 of them from 1900 to 1910): what is learned does not depend on the grid, of 200 cells by default", "",
        table(["cells", "length-scale / years", "log evidence", "a year, 1860", "a year, 1950", "expected 1900 to 1910"], grid), "",
        "![intensities and densities of four patterns](points.png)",
    ])  # fmt: skip
