"""The true posterior of single latent values beside Gaussian approximations of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from mercer.viz._style import CYCLE, GREY, frame, legend
from mercer.viz._subject import posterior_of


def marginals(
    sampled: Any, approximations: Mapping[str, Any] | None = None, rows: Any = None, count: int = 4
) -> Any:
    """Histograms of the draws of f at single data, with the Gaussian densities of approximations (Kuss,
    figures 6.9 and 6.10). Returns the array of Axes.

    sampled: what `model.condition(X, y, MCMC())` gave, of one latent function
    approximations: posteriors of the same data by name, such as {"EP": ..., "Laplace": ...}
    rows: which data; by default the `count` of the most skewed marginals, those first

    >>> viz.marginals(model.condition(X, y, "mcmc"), {"EP": model.condition(X, y, "ep")})
    """
    import matplotlib.pyplot as plt

    sampled = posterior_of(sampled)
    draws, skewness = sampled.latent_draws(), sampled.marginal_skewness()
    if draws.ndim != 2:
        raise ValueError("viz.marginals is of one latent function; this model has several.")
    chosen = np.argsort(-np.abs(skewness), kind="stable")[:count] if rows is None else np.ravel(rows)
    _, axes = plt.subplots(
        1, len(chosen), figsize=(2.6 * len(chosen), 2.6), layout="constrained", squeeze=False
    )
    found = {
        name: posterior_of(post).mean_and_std(sampled.inputs.values, latent=True)
        for name, post in (approximations or {}).items()
    }
    for ax, i in zip(axes[0], chosen, strict=True):
        frame(ax, f"f at row {i}", "")
        ax.hist(draws[:, i], bins=40, density=True, color=GREY, alpha=0.5, label="draws")
        low, high = ax.get_xlim()
        f = np.linspace(low, high, 200)
        for (name, (mean, std)), colour in zip(found.items(), CYCLE, strict=False):
            z = (f - mean[i]) / std[i]
            density = np.exp(-0.5 * z**2) / (std[i] * np.sqrt(2 * np.pi))
            ax.plot(f, density, color=colour, linewidth=1.6, label=name)
        ax.set_title(f"skewness {skewness[i]:.2f}", loc="right", fontsize="small")
    legend(axes[0, 0])
    return axes[0]
