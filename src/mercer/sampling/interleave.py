"""A step for latent values and hyperparameters together,
followed by a move of the hyperparameters while f itself stands.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from mercer.sampling.step import AbstractStep, Info, LogDensity, Point
from mercer.sampling.target import sufficient_target


@dataclasses.dataclass(frozen=True)
class Interleaved(AbstractStep):
    """`base` moves (v, theta) with the whitened latents standing (ancillary); then `tries` random-walk
    proposals move theta with f standing (sufficient). Both leave the same density invariant; where one mixes
    slowly the other is quick.
    """

    base: AbstractStep
    spec: Any
    latents: int
    tries: int = 3

    needs_data: ClassVar[bool] = True

    @property
    def acceptance(self) -> float:  # type: ignore[override]
        return self.base.acceptance

    @property
    def needs_gradient(self) -> bool:  # type: ignore[override]
        return self.base.needs_gradient

    def first_step_size(self, d: int) -> float:
        return self.base.first_step_size(d)

    def __call__(
        self,
        key: jax.Array,
        point: Point,
        log_density: LogDensity,
        step_size: jax.Array | float,
        variance: jax.Array,
        data: Any = None,
    ) -> tuple[Point, Info]:
        first, *rest = jax.random.split(key, 1 + self.tries)
        point, info = self.base(first, point, log_density, step_size, variance)
        unpack, density, pack = sufficient_target(self.spec, self.latents)
        f, theta = unpack(point.position, data)
        p = theta.shape[0]
        scale = 2.4 / jnp.sqrt(p) * jnp.sqrt(variance[-p:])
        value, u = density(theta, f, data)
        for i, sub in enumerate(rest):
            by_step, by_choice = jax.random.split(sub)
            new = theta + 0.3**i * scale * jax.random.normal(by_step, theta.shape)
            new_value, new_u = density(new, f, data)
            accepted = jnp.log(jax.random.uniform(by_choice)) < jnp.where(
                jnp.isnan(new_value), -jnp.inf, new_value - value
            )
            theta, value, u = (
                jnp.where(accepted, a, b) for a, b in ((new, theta), (new_value, value), (new_u, u))
            )
        point = self.base.begin(log_density, pack(u, theta, data))
        return point, info._replace(evaluations=info.evaluations + self.tries + 2)
