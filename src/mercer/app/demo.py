"""`mercer demo`: the CO2 record of Mauna Loa, learned, explained, continued and drawn (GPML 5.4.3)."""

from __future__ import annotations

import calendar
from pathlib import Path
from typing import Any

import numpy as np
import typer

import mercer as mc
from mercer import kernels as k
from mercer.app.console import show_table
from mercer.app.paths import save_figure

AHEAD = 20  # years
PARTS = ("trend", "season", "irregularities over years", "irregularities over months")


def run(out: Path, quick: bool = False) -> None:
    """Fit, tell, draw."""
    data = mc.datasets.load_co2()
    step = 3 if quick else 1
    X, y = data.X[::step], data.y[::step]
    typer.echo(f"{data.description} ({len(y)} months). Learning ...")
    model = mc.GPRegressor(kernel=kernel(), restarts=0).fit(X, y)
    typer.echo()
    show_table("What was learned", ("part", "what the data say"), learned(model, X, y))
    show_table(
        "What comes next, in the middle of the year",
        ("year", "CO2 / ppm", "sd", "95 % interval"),
        outlook(model, X),
        right=(1, 2, 3),
    )
    draw(model, X, out)
    seconds = model.fit_.status.seconds
    typer.echo(
        f"log evidence {model.log_marginal_likelihood_:.1f} nats, learned in {seconds:.0f} s; drawn {out}"
    )


def kernel() -> Any:
    """Trend, a season that may change its shape, irregularities over years and months,
    in years and ppm as the book starts.
    """
    return (
        k.SE(67.0, variance=66.0**2)
        + 2.4**2 * k.SE(90.0) * k.Periodic(period=mc.fixed(1.0), lengthscale=1.3)
        + k.RationalQuadratic(1.2, alpha=0.78, variance=0.66**2)
        + k.SE(0.13, variance=0.18**2)
    )


def learned(model: Any, X: np.ndarray, y: np.ndarray) -> list[tuple[str, str]]:
    """The fitted model in words."""
    first, last = float(X.min()), float(X.max())
    start, before, end = model.components([[first], [last - 1], [last]])[0].mean
    days = last - np.linspace(1, 0, 366)[:, None]
    season = model.components(days)[1].mean
    trough, peak = (
        calendar.month_name[1 + int(12 * (days[i, 0] % 1))] for i in (season.argmin(), season.argmax())
    )
    _, swing, years, months = model.kernel_.terms
    loo = model.loo()
    inside = np.abs(y - loo.mean) <= 1.96 * np.sqrt(loo.variance)
    return [
        (
            "trend",
            (
                f"up {end - start:.1f} ppm from {int(first)} to {int(last)}, {end - before:.2f} ppm of it in "
                "the last year"
            ),
        ),
        ("season", f"{np.ptp(season):.1f} ppm from its trough in {trough} to its peak in {peak}"),
        ("", f"its shape changes over some {float(swing.kernel.factors[0].lengthscale):.0f} years"),
        (
            "irregularities",
            f"± {float(years.variance) ** 0.5:.2f} ppm, lasting about {float(years.lengthscale):.1f} years",
        ),
        (
            "",
            (
                f"± {float(months.variance) ** 0.5:.2f} ppm, lasting about "
                f"{12 * float(months.lengthscale):.1f} months"
            ),
        ),
        ("noise", f"± {model.noise_variance_**0.5:.2f} ppm in each monthly mean"),
        (
            "trust",
            (
                f"{100 * inside.mean():.1f} % of the months, each predicted from the others, lie in their "
                "95 % "
                "interval"
            ),
        ),
    ]


def outlook(model: Any, X: np.ndarray) -> list[tuple[str, ...]]:
    """Rows of the forecast table."""
    first = int(np.ceil(X.max()))
    years = [first + i for i in (0, 1, 2, 3, 4, 9, 14, 19)]
    at = np.array(years)[:, None] + 0.5
    mean, std = model.predict(at, return_std=True)
    lower, upper = model.predict_interval(at, level=0.95)
    return [
        (f"{years[i]}", f"{mean[i]:.1f}", f"{std[i]:.1f}", f"{lower[i]:.1f} to {upper[i]:.1f}")
        for i in range(len(years))
    ]


def draw(model: Any, X: np.ndarray, out: Path) -> None:
    """The series and its forecast; below, what it is made of."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    first, last = float(X.min()), float(X.max())
    future = np.linspace(last, last + AHEAD, 24 * AHEAD + 1)[:, None]
    throughout = np.linspace(first, last + AHEAD, int(24 * (last + AHEAD - first)))[:, None]
    figure, axes = plt.subplots(
        5, 1, sharex=True, figsize=(8, 8.5), height_ratios=(3.2, 1, 1, 1, 1), layout="constrained"
    )
    mc.viz.forecast(model, future, ax=axes[0], xlabel="", ylabel="CO$_2$ / ppm")
    mc.viz.components(model, throughout, axes=axes[1:], names=PARTS, xlabel="year", ylabel="ppm")
    for ax in axes[1:]:
        ax.axvline(last, color="0.5", linewidth=0.9, linestyle=(0, (4, 3)))
    figure.align_ylabels()
    save_figure(figure, out, dpi=100)
    plt.close(figure)
