"""Elliptical slice sampling: no step size, no gradient;
best where the density is a Gaussian with a mild factor.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from mercer.sampling.step import AbstractStep, Info, LogDensity, Point


@dataclasses.dataclass(frozen=True)
class EllipticalSlice(AbstractStep):
    """Moves on an ellipse through the position and a draw of a Gaussian; the rest of the density decides how
    far.

    prior=True: the density is a standard normal times a likelihood, and the Gaussian is that one (Murray,
    Adams and MacKay). prior=False: the Gaussian is N(0, 2 variance) with the variances found in tuning; any
    is valid, a wide one reaches the tails.
    """

    prior: bool = False

    acceptance: ClassVar[float] = 1.0
    needs_gradient: ClassVar[bool] = False

    def first_step_size(self, d: int) -> float:
        """It has no step size: 1."""
        return 1.0

    def __call__(
        self,
        key: jax.Array,
        point: Point,
        log_density: LogDensity,
        step_size: jax.Array | float,
        variance: jax.Array,
    ) -> tuple[Point, Info]:
        variance = jnp.ones_like(variance) if self.prior else 2.0 * variance
        by_nu, by_height, by_angle, by_loop = jax.random.split(key, 4)
        x = point.position
        nu = jax.random.normal(by_nu, x.shape) * jnp.sqrt(variance)

        def factor(x, value):
            return value + 0.5 * jnp.sum(x**2 / variance)

        height = factor(x, point.log_density) + jnp.log(jax.random.uniform(by_height))
        angle = jax.random.uniform(by_angle, maxval=2 * np.pi)

        def propose(angle):
            new = x * jnp.cos(angle) + nu * jnp.sin(angle)
            return new, log_density(new)

        def outside(carry):
            (new, value), _, _, _, _, tries = carry
            return ~(factor(new, value) >= height) & (tries < 200)

        def shrink(carry):
            _, angle, low, high, key, tries = carry
            low, high = jnp.where(angle < 0, angle, low), jnp.where(angle < 0, high, angle)
            key, sub = jax.random.split(key)
            angle = low + (high - low) * jax.random.uniform(sub)
            return propose(angle), angle, low, high, key, tries + 1

        first = (propose(angle), angle, angle - 2 * np.pi, angle, by_loop, jnp.asarray(1))
        (new, value), _, _, _, _, tries = jax.lax.while_loop(outside, shrink, first)
        found = factor(new, value) >= height
        new, value = jnp.where(found, new, x), jnp.where(found, value, point.log_density)
        return Point(new, value), Info(1.0 / tries, jnp.zeros((), bool), jnp.nan, tries)
