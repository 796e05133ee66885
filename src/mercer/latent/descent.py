"""Minimising many small functions at once: BFGS on each, compiled, with nothing shared between them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

MOST = 200  # steps
HALVINGS = 30
FLAT = 1e-7  # largest slope at the end


class _Now(NamedTuple):
    x: jax.Array
    value: jax.Array
    slope: jax.Array
    inverse: jax.Array  # of the Hessian, as BFGS learns it
    steps: jax.Array
    stuck: jax.Array


def minimise(function: Callable[[jax.Array], jax.Array], start: jax.Array) -> jax.Array:
    """Where a smooth function of x (p,) is smallest near `start`; `jax.vmap` it for many.

    Backtracking from whole BFGS steps; it ends where the slope is nearly zero or no step leads down.
    """
    both = jax.value_and_grad(function)
    eye = jnp.eye(len(start))

    def going(now: _Now) -> jax.Array:
        steep = jnp.max(jnp.abs(now.slope)) > FLAT
        return steep & ~now.stuck & (now.steps < MOST)

    def step(now: _Now) -> _Now:
        direction = -now.inverse @ now.slope
        direction = direction / jnp.maximum(1.0, jnp.max(jnp.abs(direction)))  # at most one at a time
        descent = now.slope @ direction

        def too_long(trial: Any) -> jax.Array:
            length, value, count = trial
            enough = value <= now.value + 1e-4 * length * descent
            return ~enough & (count < HALVINGS)

        def halve(trial: Any) -> Any:
            length = 0.5 * trial[0]
            return length, function(now.x + length * direction), trial[2] + 1

        first = (jnp.ones(()), function(now.x + direction), 0)
        length, value, _ = jax.lax.while_loop(too_long, halve, first)
        down = value < now.value
        x = jnp.where(down, now.x + length * direction, now.x)
        value, slope = both(x)
        moved, turned = x - now.x, slope - now.slope
        along = moved @ turned
        curved = along > 1e-14
        rho = jnp.where(curved, 1.0 / jnp.where(curved, along, 1.0), 0.0)
        left = eye - rho * jnp.outer(moved, turned)
        learned = left @ now.inverse @ left.T + rho * jnp.outer(moved, moved)
        inverse = jnp.where(curved, learned, eye)
        return _Now(x, value, slope, inverse, now.steps + 1, ~down)

    value, slope = both(start)
    now = _Now(start, value, slope, eye, jnp.zeros((), int), jnp.zeros((), bool))
    return jax.lax.while_loop(going, step, now).x
