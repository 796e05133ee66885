"""Functions of one input: prior draws, posterior ribbons, forecasts, additive terms."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from mercer.likelihoods import AbstractNoise
from mercer.viz._outliers import find_outliers, mark_outliers
from mercer.viz._series import series_forecast, shown_from
from mercer.viz._style import (
    BLACK,
    BLUE,
    CYCLE,
    GREY,
    ORANGE,
    VERMILLION,
    frame,
    half_width,
    legend,
    panels,
    percent,
    ribbon,
)
from mercer.viz._subject import grid, input_name, knows_noise, line, posterior_of

GRID = 400  # points of a curve where the caller names none


def posterior(
    model: Any, X: Any = None, ax: Any = None, level: float = 0.95, samples: int = 0, latent: bool = False,
    xlabel: str | None = None, ylabel: str = "y", seed: Any = 0, outliers: Any = None,
) -> Any:  # fmt: skip
    """Mean and central intervals along one input, with the data.

    The wide band holds observations y, the darker one the function f; `latent=True` draws f alone. `X` (m, 1)
    says where (default: the range of the data and a little more); `samples` draws that many functions from
    the posterior as well. Where noise has heavy tails the band of y is that of its quantiles, and outliers
    (those of a fitted estimator, or a report given as `outliers`) are ringed, or triangles at the edge where
    they lie far out of view.

    >>> viz.posterior(gp.condition(X, y, noise_variance=0.09), samples=3)
    """
    post = posterior_of(model)
    X, x = line(grid(post, GRID) if X is None else X, "viz.posterior")
    ax = frame(ax, input_name(post) if xlabel is None else xlabel, ylabel)
    mean = post.mean(X)
    heavy = isinstance(post.model.likelihood, AbstractNoise)
    if knows_noise(post) and not latent:
        if heavy and half_width(level):  # refuses a level that is none
            ends = post.quantile(X, [0.5 - 0.5 * level, 0.5 + 0.5 * level]).T
            ax.fill_between(x, *ends, color=BLUE, alpha=0.18, linewidth=0, label=f"{percent(level)} of y")
        else:
            ribbon(ax, x, mean, post.std(X), level, alpha=0.18, label=f"{percent(level)} of y")
    ribbon(ax, x, mean, post.std(X, latent=True), level, alpha=0.32, label=f"{percent(level)} of f")
    if samples:
        draws = ax.plot(x, post.sample(X, samples, seed, latent=True).T, color=ORANGE, linewidth=1.0)
        draws[0].set_label("draws of f")
    ax.plot(x, mean, color=BLUE, linewidth=1.8, label="mean")
    _data(ax, post)
    ax.set_xlim(x.min(), x.max())
    if heavy and (found := find_outliers(model if outliers is None else outliers)):
        regular = np.concatenate([mean, post.y[~found.flagged]])
        mark_outliers(ax, post.inputs.values[:, 0], found, regular.min(), regular.max())
    legend(ax)
    return ax


def prior(
    gp: Any,
    X: Any,
    samples: int = 3,
    seed: Any = 0,
    ax: Any = None,
    level: float = 0.95,
    xlabel: str = "x",
    ylabel: str = "f(x)",
    likelihood: Any = None,
) -> Any:
    """Functions drawn from a prior, over the band that holds `level` of them at each input.

    likelihood: of two classes, such as `likelihoods.Bernoulli()`; the functions are then squashed to the
    probability of the second class (figure 3.2 of GPML), and so is the band

    >>> viz.prior(GP(kernels.SE()), np.linspace(-5, 5, 200)[:, None])
    >>> viz.prior(GP(kernels.SE(variance=9.0)), X, likelihood=likelihoods.Bernoulli())
    """
    X, x = line(X, "viz.prior")
    ax = frame(ax, xlabel, ylabel if likelihood is None else "probability")
    mean, half = np.asarray(gp.mean.value(X)), half_width(level) * np.sqrt(np.diag(gp.covariance(X)))

    def squashed(f: np.ndarray) -> np.ndarray:
        return f if likelihood is None else np.exp(np.asarray(likelihood.log_prob(f, np.ones_like(f))))

    ends = squashed(mean - half), squashed(mean + half)
    label = f"{percent(level)} of {'f' if likelihood is None else 'probabilities'}"
    ax.fill_between(x, *ends, color=BLUE, alpha=0.2, linewidth=0, label=label)
    for i, f in enumerate(map(squashed, gp.sample(X, samples, seed))):
        ax.plot(x, f, color=CYCLE[i % len(CYCLE)], linewidth=1.3)
    ax.set_xlim(x.min(), x.max())
    legend(ax)
    return ax


def forecast(
    model: Any, X_future: Any, observed_later: Any = None, ax: Any = None, level: float = 0.95,
    xlabel: str | None = None, ylabel: str = "y", history: Any = "auto",
) -> Any:  # fmt: skip
    """The series, and its extrapolation to `X_future` (m, 1) beyond a line at the end of the data.

    `observed_later`: what was measured afterwards, y at X_future or a pair (X, y). A fitted `GPTimeSeries` is
    continued as its `forecast` says: for `X_future` steps, "2y", or to those stamps.

    `history`: how much of the data is drawn before: "all"; a length in units of the input, or, for a
    `GPTimeSeries`, so many steps, "5y", or from a date on; "auto" is six times the length of the forecast,
    and 60 data at least.

    >>> viz.forecast(model, np.linspace(3, 5, 100)[:, None], xlabel="time / s", ylabel="height / m")
    >>> viz.forecast(GPTimeSeries().fit(series), "2y", history="10y")
    """
    if hasattr(model, "forecast_columns"):
        return series_forecast(
            model, X_future, observed_later, ax, level, xlabel, None if ylabel == "y" else ylabel, history
        )
    post = posterior_of(model)
    X_future, x = line(X_future, "viz.forecast")
    _, past = line(post.inputs, "viz.forecast")
    ax = frame(ax, input_name(post) if xlabel is None else xlabel, ylabel)
    mean, latent = post.mean(X_future), not knows_noise(post)
    label = f"{percent(level)} of {'f' if latent else 'y'}"
    if post.can("quantile") and not latent and half_width(level):  # refuses a level that is none
        ends = post.quantile(X_future, [0.5 - 0.5 * level, 0.5 + 0.5 * level]).T
        ax.fill_between(x, *ends, color=BLUE, alpha=0.25, linewidth=0, label=label)
    else:
        ribbon(ax, x, mean, post.std(X_future, latent), level, alpha=0.25, label=label)
    ax.plot(x, mean, color=BLUE, linewidth=1.2, label="forecast")
    first = _first(np.sort(past), float(x.max()), history)
    _data(ax, post, first)
    if observed_later is not None:
        at, y = observed_later if isinstance(observed_later, tuple) else (x, observed_later)
        at, y = np.ravel(at), np.ravel(y)
        if at.shape != y.shape:
            raise ValueError(
                f"observed_later has {y.size} values for {at.size} inputs: give y at X_future, or (X, y)."
            )
        ax.plot(at, y, ".", color=VERMILLION, markersize=3.5, label="observed later")
    ax.axvline(past.max(), color=GREY, linewidth=0.9, linestyle=(0, (4, 3)))
    ax.set_xlim(first - 0.01 * (past.max() - first), max(x.max(), past.max()))
    legend(ax)
    return ax


def components(
    model: Any, X: Any = None, axes: Any = None, level: float = 0.95, names: Any = None,
    xlabel: str | None = None, ylabel: str = "y",
) -> Any:  # fmt: skip
    """One panel for each additive term of the kernel: its mean and its own uncertainty. Returns the array of
    Axes.

    `names` replaces the terms' formulas as titles.

    >>> model = mercer.GPRegressor(kernels.SE(3.0) + kernels.Periodic(3.0)).fit(X, y)
    >>> viz.components(model, names=["trend", "season"])
    """
    post = posterior_of(model)
    X, x = line(grid(post, GRID) if X is None else X, "viz.components")
    parts = post.components(X)
    titles = [_rounded(part.name) for part in parts] if names is None else list(names)
    axes = panels(len(parts), (6.4, 1.0 + 1.35 * len(parts))) if axes is None else np.ravel(axes)
    for what, given in (("names", titles), ("Axes", axes)):
        if len(given) != len(parts):
            raise ValueError(f"the kernel has {len(parts)} terms, but {len(given)} {what} were given.")
    for ax, part, title in zip(axes, parts, titles, strict=True):
        frame(ax, "", ylabel)
        ribbon(ax, x, part.mean, part.std, level, alpha=0.25)
        ax.plot(x, part.mean, color=BLUE, linewidth=1.2)
        ax.set_title(title, loc="left", fontsize="small", pad=3)
        ax.set_xlim(x.min(), x.max())
    axes[-1].set_xlabel(input_name(post) if xlabel is None else xlabel)
    return axes


def _rounded(formula: str) -> str:
    """A formula with its numbers to three digits."""
    return re.sub(r"\d+\.\d+(e[+-]?\d+)?", lambda number: f"{float(number[0]):.3g}", formula)


def _first(past: np.ndarray, end: float, history: Any) -> float:
    """The first of sorted inputs to draw before a forecast that ends there."""
    if not isinstance(history, str):
        return float(max(past[0], past[-1] - history))
    if history not in ("auto", "all"):
        raise ValueError(f"history must be 'auto', 'all' or a length in units of the input, got {history!r}.")
    return float(past[shown_from(past, max(end - past[-1], 0.0)) if history == "auto" else 0])


def _data(ax: Any, post: Any, first: float = -np.inf) -> None:
    x = post.inputs.values[:, 0]
    shown = x >= first
    size = float(np.clip(40 / np.sqrt(shown.sum()), 2.2, 5.0))
    ax.plot(
        x[shown], post.y[shown], "o", color=BLACK, markersize=size, markeredgewidth=0, label="data", zorder=3
    )
