"""The best of bounded actions: a coarse grid, then a climb by gradient from the best of it (7.39)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

CLIMB = 8  # steps by gradient


def action_grid(low: np.ndarray, high: np.ndarray, count: int) -> np.ndarray:
    """About `count` actions (G, A), evenly spread between their bounds, those included."""
    each = max(3, round(count ** (1.0 / len(low))))
    sides = [np.linspace(a, b, each) for a, b in zip(low, high, strict=True)]
    return np.stack(np.meshgrid(*sides, indexing="ij"), -1).reshape(-1, len(low))


def best_action(
    worth: Callable[[Any], jax.Array], grid: Any, low: Any, high: Any
) -> tuple[jax.Array, jax.Array]:
    """The action (A,) of the highest worth between its bounds, and that worth. In JAX.

    grid: (G, A) to begin with. From the best of it Newton's step along each column where the worth bends
    down, and uphill where it does not, no further than the grid is wide; what does not improve is halved.
    """
    values = jax.vmap(worth)(grid)
    first = jnp.argmax(values)
    width = (high - low) / jnp.maximum(len(grid) ** (1.0 / grid.shape[1]) - 1.0, 1.0)
    slope, bend = jax.grad(worth), jax.hessian(worth)

    def step(carried: Any, _: Any) -> tuple[Any, None]:
        a, value, radius = carried
        g, h = slope(a), jnp.diag(bend(a))
        newton = jnp.where(h < 0.0, -g / jnp.where(h < 0.0, h, -1.0), jnp.sign(g) * radius)
        new = jnp.clip(a + jnp.clip(newton, -radius, radius), low, high)
        reached = worth(new)
        better = reached > value
        return (
            jnp.where(better, new, a),
            jnp.where(better, reached, value),
            jnp.where(better, radius, 0.5 * radius),
        ), None

    (a, value, _), _ = jax.lax.scan(step, (grid[first], values[first], width), None, CLIMB)
    return a, value
