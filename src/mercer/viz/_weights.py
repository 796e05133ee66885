"""Looking inside a posterior: which data a prediction listens to, and how predictions hang together."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.viz._style import BLACK, CYCLE, GREY, frame, legend
from mercer.viz._subject import Subject, line


def smoother_weights(post: Any, xs: Any, ax: Any = None, xlabel: str | None = None) -> Any:
    """The weights that the mean at each of `xs` (a few numbers) gives to the data, against their inputs (GPML Fig. 2.6).

    >>> viz.smoother_weights(post, [0.05, 0.5])
    """
    subject = Subject.of(post)
    ax = frame(ax, xlabel or subject.xlabel, "weight of the datum")
    _, x = line(subject.X, "viz.smoother_weights")
    points = np.atleast_1d(np.asarray(xs, float)).reshape(-1, 1)
    order = np.argsort(x)
    ax.axhline(0, color=GREY, linewidth=0.8)
    for at, weights, color in zip(points[:, 0], subject.posterior.smoother(points), _colors(len(points)), strict=True):
        ax.plot(x[order], weights[order], "o-", color=color, linewidth=1, markersize=3, label=f"{subject.xlabel}* = {at:g}")
        ax.axvline(at, color=color, linewidth=0.9, linestyle=":")
    legend(ax)
    return ax


def posterior_covariance(post: Any, X: Any, xs: Any, ax: Any = None, xlabel: str | None = None) -> Any:
    """Posterior covariance of f along `X` (m, 1) with f at each of `xs` (a few numbers), and the data's inputs (GPML Fig. 2.4b).

    >>> viz.posterior_covariance(post, np.linspace(-5, 5, 200)[:, None], [-2, 1, 3])
    """
    subject = Subject.of(post)
    X, x = line(X, "viz.posterior_covariance")
    points = np.atleast_1d(np.asarray(xs, float)).reshape(-1, 1)
    name = subject.xlabel
    ax = frame(ax, xlabel or name, f"cov(f({name}), f({name}′))")
    covariance = subject.posterior.covariance(np.concatenate([X, points]), latent=True)[: len(X), len(X) :]
    ax.axhline(0, color=GREY, linewidth=0.8)
    for at, column, color in zip(points[:, 0], covariance.T, _colors(len(points)), strict=True):
        ax.plot(x, column, color=color, linewidth=1.5, label=f"{name}′ = {at:g}")
        ax.axvline(at, color=color, linewidth=0.9, linestyle=":")
    ax.plot(subject.X[:, 0], np.zeros(len(subject.X)), "+", color=BLACK, markersize=8, label="data", zorder=3)
    ax.set_xlim(x.min(), x.max())
    legend(ax)
    return ax


def _colors(count: int) -> tuple[str, ...]:
    return (CYCLE * (1 + count // len(CYCLE)))[:count]
