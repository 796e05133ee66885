"""Why an optimiser suggests a row, in words."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtr

from mercer.decide.feasible import log_label, log_within
from mercer.decide.surrogate import predict_jit

if TYPE_CHECKING:
    from mercer.decide.optimiser import Optimiser

__all__ = ["reason"]


def reason(opt: Optimiser, u: np.ndarray, data: dict[str, Any] | None) -> str:
    """Of the point u (D,), chosen by what `data` says; None where it only fills the space."""
    said = len(opt.history) + len(opt.pending)
    if data is None:
        if said < opt.initial:
            return f"Row {said + 1} of {opt.initial} that fill the space before there is a model to go by."
        return "A row that fills the space: the values told so far do not differ, there is nothing to go by."
    words = [_of_objective(opt, name, k, u) for k, name in enumerate(opt.objectives)]
    words += _of_use(opt, u, data)
    distance, name = _novelty(opt, u)
    words.append(
        f"The nearest row told differs most in {name}, by {distance:.0%} of its range."
        if distance > 1e-6
        else "It repeats a row that was told: the noise hides how good it is."
    )
    return " ".join(words)


def _of_objective(opt: Optimiser, name: str, k: int, u: np.ndarray) -> str:
    gp, sign = opt._gp(name), opt._signs[k]
    mean, variance = (float(part[0]) for part in predict_jit(gp, u[None]))
    std = math.sqrt(variance)
    middle, low, high = (sign * float(gp.warp.back(mean + s * std)) for s in (0.0, -1.96, 1.96))
    low, high = min(low, high), max(low, high)
    text = f"{name} is expected at {middle:.4g}, 95% from {low:.4g} to {high:.4g}"
    told, fine = opt._usable()
    if len(opt.objectives) > 1 or not fine.any():
        return text + "."
    values = sign * np.array([opt.history[i].value for i in told])
    best = values[fine].min()
    chance = float(ndtr((float(gp.warp(best)) - mean) / std))
    better = sign * middle < best if sign > 0 else -middle < best
    why = (
        "better than the best so far: it goes after what the model promises"
        if better
        else "not better than the best so far in the middle, but what is not known there may be"
    )
    return f"{text}, {why} ({sign * best:.4g} so far, better with probability {chance:.2f})."


def _of_use(opt: Optimiser, u: np.ndarray, data: dict[str, Any]) -> list[str]:
    out = []
    for name, limit in zip(opt.limits, data.get("limits", ()), strict=False):
        out.append(
            f"{name} keeps its limits with probability {math.exp(float(log_within(u[None], limit)[0])):.2f}."
        )
    if "labels" in data:
        chance = math.exp(float(log_label(u[None], data["labels"])[0]))
        out.append(f"The evaluation succeeds with probability {chance:.2f}.")
    if "cost" in data:
        gp = data["cost"]
        out.append(
            f"It should cost about {math.exp(float(gp.warp.back(predict_jit(gp, u[None])[0][0]))):.3g}."
        )
    return out


def _novelty(opt: Optimiser, u: np.ndarray) -> tuple[float, str]:
    """How far the nearest row told is in the column in which it is farthest, and that column."""
    apart = np.abs(np.array(opt._inputs) - u)
    nearest = apart[np.argmin(apart.max(1))]
    return float(nearest.max()), opt.space.names[int(opt.space.groups[int(np.argmax(nearest))])]
