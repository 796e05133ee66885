"""Functions of one input: prior draws, posterior ribbons, forecasts, additive terms."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.viz._style import BLACK, BLUE, CYCLE, GREY, VERMILLION, frame, legend, panels, percent, ribbon
from mercer.viz._subject import Subject, line

GRID = 400  # points of a curve where the caller names none


def posterior(
    model: Any, X: Any = None, ax: Any = None, level: float = 0.95, samples: int = 0, latent: bool = False,
    xlabel: str | None = None, ylabel: str | None = None, seed: Any = 0,
) -> Any:  # fmt: skip
    """Mean and central intervals along one input, with the data.

    The wide band holds observations y, the darker one the function f; `latent=True` draws f alone. `X` (m, 1) says where (default: the range of
    the data and a little more); `samples` draws that many functions from the posterior as well.

    >>> viz.posterior(gp.condition(X, y, noise_variance=0.09), samples=3)
    """
    subject = Subject.of(model)
    X, x = line(subject.grid(GRID) if X is None else X, "viz.posterior")
    ax = frame(ax, xlabel or subject.xlabel, ylabel or subject.ylabel)
    if not (latent or subject.noise_per_datum):
        mean, std = subject.moments(X, latent=False)
        ribbon(ax, x, mean, std, level, alpha=0.18, label=f"{percent(level)} of y")
    mean, std = subject.moments(X, latent=True)
    ribbon(ax, x, mean, std, level, alpha=0.32, label=f"{percent(level)} of f")
    if samples:
        for i, f in enumerate(subject.sample(X, samples, seed)):
            ax.plot(x, f, color=CYCLE[1 + i % (len(CYCLE) - 1)], linewidth=0.9, label="draws of f" if i == 0 else None)
    ax.plot(x, mean, color=BLUE, linewidth=1.8, label="mean")
    _data(ax, subject)
    ax.set_xlim(x.min(), x.max())
    legend(ax)
    return ax


def prior(
    gp: Any, X: Any, samples: int = 3, seed: Any = 0, ax: Any = None, level: float = 0.95, xlabel: str = "x", ylabel: str = "f(x)"
) -> Any:
    """Functions drawn from a prior, over the band that holds `level` of them at each input.

    >>> viz.prior(GP(kernels.SE()), np.linspace(-5, 5, 200)[:, None])
    """
    X, x = line(X, "viz.prior")
    ax = frame(ax, xlabel, ylabel)
    mean, std = np.asarray(gp.mean.value(X)), np.sqrt(np.diag(gp.covariance(X)))
    ribbon(ax, x, mean, std, level, label=percent(level))
    for f, color in zip(gp.sample(X, samples, seed), CYCLE * (1 + samples // len(CYCLE)), strict=False):
        ax.plot(x, f, color=color, linewidth=1.3)
    ax.set_xlim(x.min(), x.max())
    legend(ax)
    return ax


def forecast(
    model: Any, X_future: Any, observed_later: Any = None, ax: Any = None, level: float = 0.95,
    xlabel: str | None = None, ylabel: str | None = None,
) -> Any:  # fmt: skip
    """The series, and its extrapolation to `X_future` (m, 1) beyond a line at the end of the data.

    `observed_later`: what was measured afterwards, y at X_future or a pair (X, y).

    >>> viz.forecast(model, np.linspace(2002, 2022, 240)[:, None], ylabel="CO2 / ppm")
    """
    subject = Subject.of(model)
    X_future, x = line(X_future, "viz.forecast")
    ax = frame(ax, xlabel or subject.xlabel, ylabel or subject.ylabel)
    mean, std = subject.moments(X_future, latent=subject.noise_per_datum)
    ribbon(ax, x, mean, std, level, alpha=0.25, label=f"{percent(level)} of {'f' if subject.noise_per_datum else 'y'}")
    ax.plot(x, mean, color=BLUE, linewidth=1.2, label="forecast")
    _data(ax, subject)
    if observed_later is not None:
        at, y = observed_later if isinstance(observed_later, tuple) else (x, observed_later)
        at, y = np.ravel(at), np.ravel(y)
        if at.shape != y.shape:
            raise ValueError(f"observed_later has {y.size} values for {at.size} inputs: give one for each row of X_future, or (X, y).")
        ax.plot(at, y, ".", color=VERMILLION, markersize=3.5, label="observed later")
    ax.axvline(subject.X[:, 0].max(), color=GREY, linewidth=0.9, linestyle=(0, (4, 3)))
    ax.set_xlim(subject.X[:, 0].min(), max(x.max(), subject.X[:, 0].max()))
    legend(ax)
    return ax


def components(
    model: Any, X: Any = None, axes: Any = None, level: float = 0.95, names: Any = None,
    xlabel: str | None = None, ylabel: str | None = None,
) -> Any:  # fmt: skip
    """One panel for each additive term of the kernel: its mean and its own uncertainty. Returns the array of Axes.

    `names` replaces the terms' formulas as titles.

    >>> viz.components(model, names=["trend", "season", "irregularities", "weather"])
    """
    subject = Subject.of(model)
    X, x = line(subject.grid(GRID) if X is None else X, "viz.components")
    parts = subject.components(X)
    titles = [part.name for part in parts] if names is None else list(names)
    if len(titles) != len(parts):
        raise ValueError(f"the kernel has {len(parts)} terms, but {len(titles)} names were given.")
    axes = panels(len(parts), (6.4, 1.0 + 1.35 * len(parts))) if axes is None else np.ravel(axes)
    if len(axes) != len(parts):
        raise ValueError(f"the kernel has {len(parts)} terms, but {len(axes)} Axes were given.")
    for ax, part, title in zip(axes, parts, titles, strict=True):
        frame(ax, "", ylabel or subject.ylabel)
        ribbon(ax, x, part.mean, part.std, level, alpha=0.25)
        ax.plot(x, part.mean, color=BLUE, linewidth=1.2)
        ax.set_title(title, loc="left", fontsize="small", pad=3)
        ax.set_xlim(x.min(), x.max())
    axes[-1].set_xlabel(xlabel or subject.xlabel)
    return axes


def _data(ax: Any, subject: Subject) -> None:
    size = float(np.clip(40 / np.sqrt(len(subject.y)), 2.2, 5.0))
    ax.plot(subject.X[:, 0], subject.y, "o", color=BLACK, markersize=size, markeredgewidth=0, label="data", zorder=3)
