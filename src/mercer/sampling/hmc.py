"""Hamiltonian Monte Carlo (Kuss 4.33-4.35, Algorithm 11 with the acceptance rule the right way round) and
NUTS.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp

from mercer.sampling.step import AbstractStep, Info, LogDensity, Point

DIVERGENT = 1000.0  # a change of energy that says the integrator has lost the trajectory


def leapfrog(
    log_density: LogDensity,
    position: jax.Array,
    momentum: jax.Array,
    slope: jax.Array,
    step_size: jax.Array | float,
    variance: jax.Array,
    steps: int,
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """`steps` leapfrog steps: position and momentum (d,), gradient of the log density (d,) and its value at
    the end.

    step_size: a number or one for each coordinate. It is reversible: from the end, with the momentum negated,
    it leads back.
    """

    def one(_, carry):
        x, p, g, _ = carry
        p = p + 0.5 * step_size * g
        x = x + step_size * variance * p
        value, g = jax.value_and_grad(log_density)(x)
        return x, p + 0.5 * step_size * g, g, value

    return jax.lax.fori_loop(0, steps, one, (position, momentum, slope, jnp.zeros(())))


@dataclasses.dataclass(frozen=True)
class HMC(AbstractStep):
    """Hybrid Monte Carlo: `leapfrogs` steps of a size that is jittered by a factor in 1 +- jitter, then
    accept or reject.

    longest: the most that a trajectory may be long in tuning, in standard deviations of the density (None: no
    limit); after half an oscillation, about 3, it turns back. Where a density or gradient is not finite, the
    proposal is rejected and counted as a divergence.
    """

    leapfrogs: int = 8
    jitter: float = 0.2
    longest: float | None = None

    acceptance: ClassVar[float] = 0.8

    def __post_init__(self):
        if self.leapfrogs < 1 or not 0 <= self.jitter < 1:
            raise ValueError(
                f"HMC needs leapfrogs >= 1 and jitter in [0, 1), got {self.leapfrogs} and {self.jitter}."
            )

    def __call__(
        self,
        key: jax.Array,
        point: Point,
        log_density: LogDensity,
        step_size: jax.Array | float,
        variance: jax.Array,
    ) -> tuple[Point, Info]:
        by_momentum, by_jitter, by_choice = jax.random.split(key, 3)
        momentum = jax.random.normal(by_momentum, point.position.shape) / jnp.sqrt(variance)
        size = step_size if self.longest is None else jnp.minimum(step_size, self.longest / self.leapfrogs)
        size = size * (1.0 + self.jitter * jax.random.uniform(by_jitter, minval=-1.0, maxval=1.0))
        x, p, g, value = leapfrog(
            log_density, point.position, momentum, point.gradient, size, variance, self.leapfrogs
        )
        before = -point.log_density + 0.5 * jnp.sum(variance * momentum**2)
        after = -value + 0.5 * jnp.sum(variance * p**2)
        change = before - after
        ok = jnp.isfinite(after) & jnp.all(jnp.isfinite(g))
        change = jnp.where(ok, change, -jnp.inf)
        accepted = jnp.log(jax.random.uniform(by_choice)) < change
        new = jax.tree.map(lambda a, b: jnp.where(accepted, a, b), Point(x, value, g), point)
        energy = jnp.where(accepted, after, before)
        return new, Info(jnp.exp(jnp.minimum(change, 0.0)), change < -DIVERGENT, energy, self.leapfrogs)


@dataclasses.dataclass(frozen=True)
class NUTS(AbstractStep):
    """The no-U-turn sampler (of blackjax): HMC that finds the length of its trajectories itself.

    acceptance: what the step size is tuned to; closer to 1 are shorter steps and fewer divergences.
    """

    max_doublings: int = 8
    acceptance: float = 0.8  # type: ignore[misc]

    def __call__(
        self,
        key: jax.Array,
        point: Point,
        log_density: LogDensity,
        step_size: jax.Array | float,
        variance: jax.Array,
    ) -> tuple[Point, Info]:
        from blackjax.mcmc import hmc, nuts

        state = hmc.HMCState(point.position, point.log_density, point.gradient)
        state, info = nuts.build_kernel()(key, state, log_density, step_size, variance, self.max_doublings)
        new = Point(state.position, state.logdensity, state.logdensity_grad)
        return new, Info(info.acceptance_rate, info.is_divergent, info.energy, info.num_integration_steps)
