"""`mercer demo`: the CO2 record of Mauna Loa to 1981, learned, explained and continued; and the twenty years
that came, which the model has not seen.

The trend of the book (GPML 5.4.3), a smooth function that returns to its mean, is too sure of itself. The
evidence hardly tells it from a line whose slope wanders; the months that came do (docs/measurements.md has
both from seven starting years), and most of all where hyperparameters are integrated out.
"""

from __future__ import annotations

import calendar
import math
from pathlib import Path
from typing import Any

import numpy as np
import typer

import mercer as mc
from mercer import kernels as k
from mercer.app.console import show_table
from mercer.app.paths import save_figure
from mercer.learning import integrate

ORIGIN = 1958  # time is counted in years from here on
MADE, AHEAD = 1982, 20  # the forecast that is drawn: when it is made, and how many years it looks ahead
OTHERS, NEXT = (1968, 1972, 1977, 1982, 1987, 1992), 10  # forecasts that are judged, over so many years
PARTS = ("trend", "season", "irregularities")
UNKNOWN = (
    "What the model cannot know: why CO2 rises. It has seen a line whose slope wanders, and lets it go on "
    "wandering as it did; what people will burn is not among its data."
)


def run(out: Path, quick: bool = False) -> dict[str, Any]:
    """Fit, tell, draw; what machines should know."""
    data = mc.datasets.load_co2()
    step = 3 if quick else 1
    t, y = data.X[::step, 0] - ORIGIN, data.y[::step]
    known = t < MADE - ORIGIN
    typer.echo(
        f"{data.description}. Learning from the {known.sum()} months to {MADE - 1}; the {(~known).sum()} "
        "after them are kept back ..."
    )
    model, ahead = learn(t, y, MADE)
    typer.echo()
    show_table("What was learned", ("part", "what the data say"), learned(model, t[known], y[known]))
    show_table(
        f"What came, and what had been forecast at the end of {MADE - 1}",
        ("June", "measured", "forecast", "sd", "95 % interval"),
        outlook(ahead, t, y),
        right=(1, 2, 3),
    )
    inside, *_ = judged(ahead, t, y, MADE, AHEAD)
    typer.echo(f"{said(inside)} of the {inside.size} months that came lie in their 95 % interval.\n")
    show_table(
        f"The same forecast, made at other times and judged by the {NEXT} years after it",
        ("made at the end of", "in their interval", f"the interval after {NEXT} years"),
        others(t, y, ahead),
        right=(1, 2),
    )
    typer.echo(UNKNOWN)
    draw(model, ahead, t, y, said(inside), out)
    return {
        "months_learned_from": int(known.sum()),
        "months_kept_back": int(inside.size),
        "coverage_95": float(inside.mean()),
        "kernel": str(model.kernel_),
        "log_evidence": model.log_marginal_likelihood_,
    }


def kernel() -> Any:
    """A line whose slope wanders, a season that may change its shape, and irregularities that last months, in
    years and ppm.
    """
    trend = k.LocalLinear(about(0.01), level_variance=mc.fixed(50.0**2), slope_variance=mc.fixed(5.0**2))
    shape = k.Seasonal(period=mc.fixed(1.0), lengthscale=about(1.0), variance=about(2.0**2), harmonics=4)
    season = shape * k.SE(about(60.0), variance=mc.fixed(1.0))
    return trend + season + k.Matern(about(0.5), variance=about(0.4**2), nu=0.5)


def about(value: float) -> Any:
    """Positive, and within a factor e of the value with 68 % probability."""
    return mc.param(value, prior=mc.hyperpriors.LogNormal(math.log(value), 1.0))


def learn(t: np.ndarray, y: np.ndarray, year: int) -> tuple[Any, Any]:
    """The model at its best hyperparameters, of the months before a year; and its posterior averaged over
    hyperparameters.
    """
    known = t < year - ORIGIN
    model = mc.GPRegressor(kernel=kernel(), noise_variance=about(0.2**2)).fit(t[known, None], y[known])
    return model, integrate(model.fit_)


def judged(
    ahead: Any, t: np.ndarray, y: np.ndarray, year: int, years: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of the months that came in so many years: whether each is in its interval, and the ends of that."""
    later = (t >= year - ORIGIN) & (t < year - ORIGIN + years)
    lower, upper = ahead.quantile(t[later, None], [0.025, 0.975]).T
    return (lower <= y[later]) & (y[later] <= upper), lower, upper


def said(inside: np.ndarray) -> str:
    """A share in words."""
    return f"{100 * inside.mean():.0f} %"


def learned(model: Any, t: np.ndarray, y: np.ndarray) -> list[tuple[str, str]]:
    """The fitted model in words."""
    start, before, end = model.components([[t[0]], [t[-1] - 1], [t[-1]]])[0].mean
    days = t[-1] - np.linspace(1, 0, 366)[:, None]
    season = model.components(days)[1].mean
    trough, peak = (
        calendar.month_name[1 + int(12 * (days[i, 0] % 1))] for i in (season.argmin(), season.argmax())
    )
    trend, (_, changes), months = (
        model.kernel_.terms[0],
        model.kernel_.terms[1].factors,
        model.kernel_.terms[2],
    )
    _, (inside,) = model.coverage([0.95])
    return [
        (
            "trend",
            f"up {end - start:.1f} ppm from {ORIGIN + int(t[0])} to {ORIGIN + int(t[-1])}, "
            f"{end - before:.2f} ppm of it in the last year",
        ),
        ("", f"its slope changes by about {(10 * float(trend.variance)) ** 0.5:.1f} ppm a year in ten years"),
        ("season", f"{np.ptp(season):.1f} ppm from its trough in {trough} to its peak in {peak}"),
        ("", f"its shape changes over some {float(changes.lengthscale):.0f} years"),
        (
            "irregularities",
            f"± {float(months.variance) ** 0.5:.2f} ppm, lasting about {12 * float(months.lengthscale):.0f} "
            "months",
        ),
        ("noise", f"± {model.noise_variance_**0.5:.2f} ppm in each monthly mean"),
        (
            "trust",
            f"{100 * inside:.1f} % of these months, each predicted from the others, lie in their 95 % "
            "interval",
        ),
    ]


def outlook(ahead: Any, t: np.ndarray, y: np.ndarray) -> list[tuple[str, ...]]:
    """Rows of the forecast beside what was measured, in the middle of the year."""
    years = MADE + np.array([0, 1, 2, 4, 9, 14, 19])
    at = np.array([t[np.abs(t - (year - ORIGIN + 5.5 / 12)).argmin()] for year in years])
    measured = y[np.searchsorted(t, at)]
    mean, std = ahead.mean_and_std(at[:, None])
    lower, upper = ahead.quantile(at[:, None], [0.025, 0.975]).T
    return [
        (
            f"{years[i]}",
            f"{measured[i]:.1f}",
            f"{mean[i]:.1f}",
            f"{std[i]:.1f}",
            f"{lower[i]:.1f} to {upper[i]:.1f}",
        )
        for i in range(len(years))
    ]


def others(t: np.ndarray, y: np.ndarray, drawn: Any) -> list[tuple[str, ...]]:
    """Rows of forecasts made at other times."""
    rows, shares = [], []
    for year in OTHERS:
        ahead = drawn if year == MADE else learn(t, y, year)[1]
        inside, lower, upper = judged(ahead, t, y, year, NEXT)
        shares.append(inside)
        rows.append((f"{year - 1}", said(inside), f"± {(upper[-1] - lower[-1]) / 2:.1f} ppm"))
    return [*rows, ("all together", said(np.concatenate(shares)), "")]


def draw(model: Any, ahead: Any, t: np.ndarray, y: np.ndarray, share: str, out: Path) -> None:
    """The series, its forecast and what came; below, what it is made of."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    made = MADE - ORIGIN
    later = t >= made
    future = np.linspace(made, made + AHEAD, 24 * AHEAD + 1)[:, None]
    throughout = np.linspace(t[0], made + AHEAD, int(24 * (made + AHEAD - t[0])))[:, None]
    figure, axes = plt.subplots(
        4, 1, sharex=True, figsize=(8, 8), height_ratios=(3.6, 1, 1, 1), layout="constrained"
    )
    mc.viz.forecast(
        ahead, future, (t[later], y[later]), axes[0], xlabel="", ylabel="CO$_2$ / ppm", history="all"
    )
    axes[0].text(
        0.03,
        0.95,
        f"learned from the months to {MADE - 1}; {share} of the {later.sum()} after\n"
        "lie in the band, which says how the slope may wander,\nnot why CO$_2$ rises",
        transform=axes[0].transAxes,
        va="top",
        fontsize="small",
    )
    mc.viz.components(model, throughout, axes=axes[1:], names=PARTS, xlabel="year", ylabel="ppm")
    for ax in axes[1:]:
        ax.axvline(t[~later][-1], color="0.5", linewidth=0.9, linestyle=(0, (4, 3)))
    axes[-1].set_xticks(np.arange(1960, 2001, 10) - ORIGIN, [str(year) for year in range(1960, 2001, 10)])
    figure.align_ylabels()
    save_figure(figure, out, dpi=100)
    plt.close(figure)
