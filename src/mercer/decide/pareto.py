"""Several objectives, all to be minimised: the Pareto front, the volume it dominates, and how much a further
row is expected to add to it.

What is not dominated, below a reference point, is a union of boxes; a value adds the volume of what it
dominates in each. With independent objectives the expectation is a product of one-dimensional ones:
E (b - Y)+ - E (a - Y)+ for the side from a to b.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from mercer.decide.acquisition import Data, log_improvement
from mercer.decide.surrogate import bucket, predict

__all__ = ["boxes", "dominated_volume", "front_rows", "hypervolume_improvement", "volume_data"]

BOTTOM = -1e10  # of boxes that reach down for ever
TINY = 1e-300
FEWEST = 64  # boxes to pad to at least


def front_rows(Y: np.ndarray) -> np.ndarray:
    """Positions of the rows of Y (n, K) that no other row dominates; of equal rows the first."""
    keep = []
    for i, y in enumerate(Y):
        no_worse, better = (y >= Y).all(1), (y > Y).any(1)
        equal_before = (Y[:i] == y).all(1).any()
        if not (no_worse & better).any() and not equal_before:
            keep.append(i)
    return np.array(keep, int)


def boxes(front: np.ndarray, reference: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper corners (B, K) of boxes that make up what the front (n, K) does not dominate, below the
    reference (K,), for two or three objectives.
    """
    front = front[(front < reference).all(1)]
    if len(reference) == 2:
        return _strips(front, reference)
    order = np.argsort(front[:, 2], kind="stable")
    heights = np.r_[BOTTOM, front[order, 2], reference[2]]
    low, high = [], []
    for j in range(len(heights) - 1):
        if not heights[j + 1] > heights[j]:
            continue
        below = front[order[:j]][:, :2]
        a, b = _strips(below[front_rows(below)] if len(below) else below, reference[:2])
        low.append(np.c_[a, np.full(len(a), heights[j])])
        high.append(np.c_[b, np.full(len(b), heights[j + 1])])
    return np.concatenate(low), np.concatenate(high)


def _strips(front: np.ndarray, reference: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    front = front[np.argsort(front[:, 0], kind="stable")]
    sides, tops = np.r_[BOTTOM, front[:, 0], reference[0]], np.r_[reference[1], front[:, 1]]
    return np.c_[sides[:-1], np.full(len(tops), BOTTOM)], np.c_[sides[1:], tops]


def dominated_volume(front: np.ndarray, reference: np.ndarray) -> float:
    """The volume between the front (n, K) and the reference point (K,), K = 2 or 3.

    >>> dominated_volume(np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([2.0, 2.0]))
    3.0
    """
    front = np.asarray(front, float)
    front = front[front_rows(front)]
    corner = np.minimum(front.min(0), reference) - 1.0
    low, high = boxes(front, np.asarray(reference, float))
    free = np.prod(np.maximum(high - np.maximum(low, corner), 0.0), 1).sum()
    return float(np.prod(reference - corner) - free)


def volume_data(gps: tuple[Any, ...], front: np.ndarray, reference: np.ndarray) -> Data:
    """What `hypervolume_improvement` needs, in the units of the targets; boxes padded to a power of two."""
    low, high = boxes(front, reference)
    size = bucket(max(len(low), FEWEST))
    flat = np.zeros((size - len(low), low.shape[1]))
    return {"gps": gps, "low": np.r_[low, flat], "high": np.r_[high, flat]}


def hypervolume_improvement(A: Any, data: Data) -> Any:
    """log expected growth of the dominated volume."""
    volume = jnp.ones((A.shape[0], data["low"].shape[0]))
    for k, gp in enumerate(data["gps"]):
        mean, variance = predict(gp, A)
        std = jnp.sqrt(variance)[:, None]

        def below(bound, mean=mean, std=std):
            return std * jnp.exp(log_improvement((bound - mean[:, None]) / std))

        volume = volume * jnp.maximum(below(data["high"][:, k]) - below(data["low"][:, k]), 0.0)
    return jnp.log(jnp.maximum(jnp.sum(volume, 1), TINY))
