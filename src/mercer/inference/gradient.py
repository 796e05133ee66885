"""From a solver's cotangents to a dictionary of derivatives by dotted name."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.params import named_leaves, parameters


def prior_gradient(model: Any, bar: Any) -> dict[str, np.ndarray]:
    """Derivatives of the prior's hyperparameters, as the model names them (`kernel.lengthscale`,
    `gp.1.mean.constant`).

    `bar` is a prior-shaped value, or a tuple of them for several latent functions; those that share one GP
    add up.
    """
    if not isinstance(bar, tuple):
        return _one(model.gp, bar, "")
    if isinstance(model.gp, tuple):
        out: dict[str, np.ndarray] = {}
        for j, (gp, b) in enumerate(zip(model.gp, bar, strict=True)):
            out |= _one(gp, b, f"gp.{j}.")
        return out
    parts = [_one(model.gp, b, "") for b in bar]
    return {name: np.sum([part[name] for part in parts], 0) for name in parts[0]}


def _one(gp: Any, bar: Any, prefix: str) -> dict[str, np.ndarray]:
    out = {}
    for room in ("kernel", "mean"):
        for name, value in named_leaves(getattr(bar, room)):
            out[f"{prefix}{room}.{name}"] = np.asarray(value)
    if bar.inducing is not None:
        out["solver.inducing"] = bar.inducing
    if gp.basis is not None:
        for p in parameters(gp.basis):
            out[f"{prefix}basis.{p.name}"] = np.zeros(np.shape(p.value))
    return out
