"""From a solver's cotangents to a dictionary of derivatives by dotted name."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.params import named_leaves, parameters


def prior_gradient(model: Any, bar: Any) -> dict[str, np.ndarray]:
    """Derivatives of the prior's hyperparameters, as the model names them (`kernel.lengthscale`, `mean.constant`)."""
    out = {}
    for room in ("kernel", "mean"):
        for name, value in named_leaves(getattr(bar, room)):
            out[f"{room}.{name}"] = np.asarray(value)
    if model.gp.basis is not None:
        for p in parameters(model.gp.basis):
            out[f"basis.{p.name}"] = np.zeros(np.shape(p.value))
    return out
