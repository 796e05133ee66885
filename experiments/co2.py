"""Mauna Loa CO2 (GPML 5.4.3): the composite kernel on the book's 545 months, and 20 years of extrapolation against what came."""

from __future__ import annotations

import numpy as np

import mercer as mc
from experiments._table import table
from mercer import datasets
from mercer import kernels as k

PUBLISHED = [66, 67, 2.4, 90, 1.3, 0.66, 1.2, 0.78, 0.18, 1.6 / 12, 0.19]
NAMES = [
    "long-term amplitude (ppm)", "long-term length-scale (years)", "periodic magnitude (ppm)", "periodic decay time (years)",
    "periodic smoothness", "medium-term magnitude (ppm)", "medium-term length-scale (years)", "medium-term shape alpha",
    "correlated-noise magnitude (ppm)", "correlated-noise length-scale (years)", "independent noise (ppm)",
]  # fmt: skip


def kernel(theta):
    """(5.19): long-term trend + decaying season + medium-term irregularities + correlated noise."""
    t = theta
    return (
        k.SE(t[1], variance=t[0] ** 2)
        + t[2] ** 2 * k.SE(t[3]) * k.Periodic(period=mc.fixed(1.0), lengthscale=t[4])
        + k.RationalQuadratic(t[6], alpha=t[7], variance=t[5] ** 2)
        + k.SE(t[9], variance=t[8] ** 2)
    )


def learned(model) -> list[float]:
    trend, season, medium, noise = model.kernel_.terms
    se, periodic = season.kernel.factors
    root = np.sqrt
    return [
        root(trend.variance), trend.lengthscale, root(season.variance), se.lengthscale, periodic.lengthscale, root(medium.variance),
        medium.lengthscale, medium.alpha, root(noise.variance), noise.lengthscale, root(model.noise_variance_),
    ]  # fmt: skip


def run(out=None) -> str:
    data = datasets.load("co2_gpml")
    X, y = data.X, data.y
    start = kernel(PUBLISHED)
    at_published = mc.log_evidence(
        mc.GP(start, mean=float(y.mean())), X, y, noise_variance=PUBLISHED[-1] ** 2
    )
    model = mc.GPRegressor(kernel=start, noise_variance=PUBLISHED[-1] ** 2, restarts=0).fit(X, y)
    horizon = np.array([[2024.0]])
    _, std = model.predict(horizon, return_std=True)
    rows = [[n, p, float(v)] for n, p, v in zip(NAMES, PUBLISHED, learned(model), strict=True)]
    rows += [
        ["log evidence", -108.5, float(model.log_marginal_likelihood_)],
        ["log evidence at the published hyperparameters", -108.5, float(at_published)],
        ["number of months", 545.0, float(len(y))],
        ["width of the 95 % band 20 years ahead (ppm)", 16.0, float(4 * std[0])],
    ]
    later = datasets.load("co2_noaa")
    after = later.X[:, 0] >= 2004
    mean, std = model.predict(later.X[after], return_std=True)
    first20 = later.X[after][:, 0] < 2024
    error, z = later.y[after] - mean, (later.y[after] - mean) / std
    text = ["# CO2 at Mauna Loa", "", table(["quantity", "published", "here"], rows), ""]
    text.append(
        f"Measured since (NOAA record, 2004-2024, {int(first20.sum())} months): inside the 95 % band "
        f"{np.mean(np.abs(z[first20]) < 1.96):.1%}; RMSE {np.sqrt(np.mean(error[first20] ** 2)):.2f} ppm; "
        f"error in the last year {np.mean(error[first20][-12:]):.1f} ppm."
    )
    if out is not None:
        from mercer import viz

        figure = viz.forecast(
            model,
            np.linspace(1958, 2026, 2000)[:, None],
            observed_later=(later.X[after], later.y[after]),
            xlabel="year",
            ylabel="CO$_2$ / ppm",
        ).figure
        figure.savefig(out / "co2.png", dpi=130)
    return "\n".join(text)
