"""Pictures of Markov chains: what was drawn, and whether to believe it."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.viz._style import CYCLE, GREY, frame


def chains(posterior: Any, names: Any = None, most: int = 4) -> Any:
    """Traces of each chain (left) and their autocorrelations (right), the quantities that mixed worst first.

    posterior: what `model.condition(X, y, MCMC())` or `fit(..., inference=MCMC())` gave (its posterior).
    names: which quantities, by name as in `posterior.diagnostics`; default the `most` with the largest R-hat.
    Returns the array of Axes (quantities, 2).
    """
    import matplotlib.pyplot as plt

    values = _quantities(posterior)
    diagnostics = posterior.diagnostics
    order = [
        diagnostics.names[i] for i in np.argsort(-np.nan_to_num(diagnostics.r_hat, nan=np.inf), kind="stable")
    ]
    chosen = [n for n in order if n in values][:most] if names is None else list(names)
    unknown = [n for n in chosen if n not in values]
    if unknown:
        raise ValueError(f"no quantity named {unknown}; there are {sorted(values)[:8]} ...")
    size = (9.0, 1.9 * len(chosen))
    _, axes = plt.subplots(
        len(chosen), 2, figsize=size, layout="constrained", squeeze=False, width_ratios=(3, 1)
    )
    for row, name in zip(axes, chosen, strict=True):
        draws = values[name]
        i = diagnostics.names.index(name)
        for chain, colour in zip(draws, CYCLE * (1 + len(draws) // len(CYCLE)), strict=False):
            row[0].plot(chain, lw=0.6, color=colour, alpha=0.8)
            rho = _autocorrelation(chain)
            row[1].plot(np.arange(min(60, len(rho))), rho[:60], lw=1, color=colour)
        frame(row[0], "draw", name)
        frame(row[1], "lag", "autocorrelation")
        row[1].axhline(0, color=GREY, lw=0.6)
        row[0].set_title(
            f"R-hat {diagnostics.r_hat[i]:.3f}, {diagnostics.ess_bulk[i]:.0f} effective draws",
            fontsize=9,
            loc="left",
        )
    return axes


def _autocorrelation(chain: np.ndarray) -> np.ndarray:
    e = chain - chain.mean()
    power = np.abs(np.fft.rfft(e, 2 * len(e))) ** 2
    covariance = np.fft.irfft(power)[: len(e)]
    return covariance / covariance[0] if covariance[0] > 0 else np.ones_like(covariance)


def _quantities(posterior: Any) -> dict[str, np.ndarray]:
    """Everything that was drawn, by the names of the diagnostics: (chains, draws) each."""
    out = {}
    for name, draws in posterior.draws.items():
        flat = draws.reshape(*draws.shape[:2], -1)
        if draws.ndim == 2:
            out[name] = draws
            continue
        for k, index in enumerate(np.ndindex(*draws.shape[2:])):
            out[f"{name}[{','.join(map(str, index))}]"] = flat[..., k]
    return out
