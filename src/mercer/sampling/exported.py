"""Draws as other programs take them: ArviZ."""

from __future__ import annotations

import contextlib
import importlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

__all__ = ["to_arviz"]


def to_arviz(
    draws: Mapping[str, np.ndarray],
    stats: Mapping[str, np.ndarray],
    observed: np.ndarray | None = None,
    log_likelihood: np.ndarray | None = None,
    columns: Sequence[str] | None = None,
) -> Any:
    """Groups `posterior` (draws by name, (chains, draws, ...)), `sample_stats`, `observed_data` (y) and
    `log_likelihood` (chains, draws, n): an InferenceData of ArviZ before 1.0, a DataTree of xarray from 1.0
    on. columns: names of inputs, by which vectors of as many numbers are indexed.
    """
    draws = _vectors(draws)
    groups: dict[str, Any] = {"posterior": draws, "sample_stats": dict(stats)}
    coords: dict[str, Any] = {}
    dims: dict[str, list[str]] = {}
    if observed is not None:
        groups["observed_data"], coords["row"], dims["y"] = {"y": observed}, np.arange(len(observed)), ["row"]
    if log_likelihood is not None:
        groups["log_likelihood"] = {"y": log_likelihood}
    for name, values in draws.items():
        size = values.shape[2:]
        if name in ("f", "u") and observed is not None and size[:1] == (len(observed),):
            dims[name] = ["row", *(f"{name}_latent" for _ in size[1:])]
        elif columns is not None and size == (len(columns),):
            dims[name], coords["column"] = ["column"], list(columns)
    return _made(groups, coords, dims)


def _vectors(draws: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Draws of the elements of a vector, "kernel.lengthscale[0]" and so on, as those of the vector."""
    out: dict[str, Any] = {}
    for name, values in draws.items():
        element = re.fullmatch(r"(.+)\[(\d+)\]", name)
        if element is None:
            out[name] = values
        else:
            out.setdefault(element[1], []).append(values)
    return {k: np.stack(v, -1) if isinstance(v, list) else v for k, v in out.items()}


def _made(groups: dict[str, Any], coords: dict[str, Any], dims: dict[str, list[str]]) -> Any:
    """By whichever ArviZ is installed."""
    for name in ("arviz", "arviz_base"):
        with contextlib.suppress(ImportError):
            arviz: Any = importlib.import_module(name)
            break
    else:
        raise ImportError("to_arviz needs ArviZ: pip install arviz.")
    if int(arviz.__version__.split(".")[0]) >= 1 or arviz.__name__ == "arviz_base":
        return arviz.from_dict(groups, coords=coords, dims=dims)
    return arviz.from_dict(**groups, coords=coords, dims=dims)
