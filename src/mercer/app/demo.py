"""`mercer demo`: the CO2 record of Mauna Loa, learned, explained, continued and drawn (GPML 5.4.3)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import typer

import mercer as mc
from mercer import kernels as k
from mercer.app.console import show_table

AHEAD = 20  # years
PARTS = ("trend", "season", "irregularities of years", "irregularities of months")


def run(out: Path, quick: bool = False) -> None:
    """Fit, tell, draw."""
    data = mc.datasets.load_co2()
    step = 3 if quick else 1
    X, y = data.X[::step], data.y[::step]
    typer.echo(f"{data.description}: {len(y)} months, in ppm. Learning ...")
    model = mc.GPRegressor(kernel=kernel(), restarts=0).fit(X, y)
    show_table("What was learned", ("part", "what the data say"), learned(model, X, y), left=2)
    show_table("What comes next (middle of the year)", ("year", "CO2 / ppm", "±", "95 % interval"), outlook(model, X))
    draw(model, X, out)
    typer.echo(
        f"log evidence {model.log_marginal_likelihood_:.1f} nats; {model.fit_.status.seconds:.0f} s of learning; drawn {out}"
    )


def kernel() -> Any:
    """Trend + season that may change its shape + irregularities of years and of months; years and ppm, starting values of the book."""
    return (
        k.SE(67.0, variance=66.0**2)
        + 2.4**2 * k.SE(90.0) * k.Periodic(period=mc.fixed(1.0), lengthscale=1.3)
        + k.RationalQuadratic(1.2, alpha=0.78, variance=0.66**2)
        + k.SE(0.13, variance=0.18**2)
    )


def learned(model: Any, X: np.ndarray, y: np.ndarray) -> list[tuple[str, str]]:
    """The fitted model in words."""
    first, last = float(X.min()), float(X.max())
    trend = model.components(np.array([[first], [last - 1], [last]]))[0].mean
    year = np.linspace(last - 1, last, 366)[:, None]
    season = model.components(year)[1].mean
    months = ("January February March April May June July August September October November December").split()
    peak, trough = (months[int(12 * (float(year[i, 0]) % 1.0))] for i in (season.argmax(), season.argmin()))
    _, swing, years, weather = model.kernel_.terms
    loo = model.loo()
    inside = np.abs(y - loo.mean) <= 1.96 * np.sqrt(loo.variance)
    return [
        (
            "trend",
            f"up {trend[2] - trend[0]:.1f} ppm from {first:.0f} to {last:.0f}; {trend[2] - trend[1]:.2f} ppm in the last year",
        ),
        ("season", f"{np.ptp(season):.1f} ppm from the trough in {trough} to the peak in {peak}"),
        ("", f"its shape changes over some {float(swing.kernel.factors[0].lengthscale):.0f} years"),
        ("irregularities", f"{np.sqrt(float(years.variance)):.2f} ppm over {float(years.lengthscale):.1f} years"),
        ("", f"{np.sqrt(float(weather.variance)):.2f} ppm over {12 * float(weather.lengthscale):.1f} months"),
        ("noise", f"{np.sqrt(float(model.noise_variance_)):.2f} ppm in each monthly mean"),
        ("trust", f"{100 * inside.mean():.1f} % of the months lie in their 95 % interval when left out"),
    ]


def outlook(model: Any, X: np.ndarray) -> list[tuple[str, ...]]:
    """Rows of the forecast table."""
    start = int(np.ceil(X.max()))
    years = [start + i for i in (0, 1, 2, 3, 4, 9, 14, 19)]
    at = np.array(years)[:, None] + 0.5
    mean, std = model.predict(at, return_std=True)
    lower, upper = model.predict_interval(at, level=0.95)
    return [
        (str(t), f"{m:.1f}", f"{s:.1f}", f"{lo:.1f} to {hi:.1f}")
        for t, m, s, lo, hi in zip(years, mean, std, lower, upper, strict=True)
    ]


def draw(model: Any, X: np.ndarray, out: Path) -> None:
    """The series and its forecast; below, what it is made of."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    last = float(X.max())
    future = np.linspace(last, last + AHEAD, 24 * AHEAD + 1)[:, None]
    everywhere = np.concatenate([np.linspace(float(X.min()), last, 12 * int(last - X.min()))[:, None], future])
    figure, axes = plt.subplots(5, 1, sharex=True, figsize=(8, 8.5), height_ratios=(3.2, 1, 1, 1, 1), layout="constrained")
    mc.viz.forecast(model, future, ax=axes[0], xlabel=" ", ylabel="CO$_2$ / ppm")
    mc.viz.components(model, everywhere, axes=axes[1:], names=PARTS, xlabel="year", ylabel="ppm")
    for ax in axes[1:]:
        ax.axvline(last, color="0.5", linewidth=0.9, linestyle=(0, (4, 3)))
    figure.align_ylabels()
    figure.savefig(out, dpi=110)
    plt.close(figure)
