"""Looking inside a posterior: which data a prediction listens to, and how predictions hang together."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.viz._style import BLACK, CYCLE, GREY, frame, legend
from mercer.viz._subject import input_name, line, posterior_of


def smoother_weights(model: Any, xs: Any, ax: Any = None, xlabel: str | None = None) -> Any:
    """The weights that the mean at each of `xs` (a few numbers) gives to the data, against their inputs (GPML
    Fig. 2.6).

    >>> viz.smoother_weights(post, [0.05, 0.5])
    """
    post = posterior_of(model)
    _, x = line(post.inputs, "viz.smoother_weights")
    points, at = line(np.atleast_1d(xs), "viz.smoother_weights")
    ax = frame(ax, input_name(post) if xlabel is None else xlabel, "weight of the datum")
    order = np.argsort(x)
    ax.axhline(0, color=GREY, linewidth=0.8)
    for i, weights in enumerate(post.smoother(points)):
        color = CYCLE[i % len(CYCLE)]
        ax.plot(
            x[order],
            weights[order],
            "o-",
            color=color,
            linewidth=1,
            markersize=3,
            label=f"{input_name(post)}* = {at[i]:g}",
        )
        ax.axvline(at[i], color=color, linewidth=0.9, linestyle=":")
    legend(ax)
    return ax


def posterior_covariance(model: Any, X: Any, xs: Any, ax: Any = None, xlabel: str | None = None) -> Any:
    """Posterior covariance of f along `X` (m, 1) with f at each of `xs` (a few numbers), and the data's
    inputs (GPML Fig. 2.4b).

    >>> viz.posterior_covariance(post, np.linspace(-5, 5, 200)[:, None], [-2, 1, 3])
    """
    post = posterior_of(model)
    _, data = line(post.inputs, "viz.posterior_covariance")
    X, x = line(X, "viz.posterior_covariance")
    points, at = line(np.atleast_1d(xs), "viz.posterior_covariance")
    name = input_name(post)
    ax = frame(ax, name if xlabel is None else xlabel, f"cov(f({name}), f({name}′))")
    covariance = post.covariance(np.concatenate([X, points]), latent=True)[: len(X), len(X) :]
    ax.axhline(0, color=GREY, linewidth=0.8)
    for i, column in enumerate(covariance.T):
        color = CYCLE[i % len(CYCLE)]
        ax.plot(x, column, color=color, linewidth=1.5, label=f"{name}′ = {at[i]:g}")
        ax.axvline(at[i], color=color, linewidth=0.9, linestyle=":")
    ax.plot(data, np.zeros(len(data)), "+", color=BLACK, markersize=8, label="data", zorder=3)
    ax.set_xlim(x.min(), x.max())
    legend(ax)
    return ax
