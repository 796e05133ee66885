"""Metropolis-Hastings (Kuss 4.29), in logarithms: with any proposal on the host,
as a random walk in compiled chains.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from mercer.sampling.step import AbstractStep, Info, LogDensity, Point


class Walk(NamedTuple):
    """States visited (chains, draws, ...), their log densities and whether each proposal was accepted
    (chains, draws).

    interrupted: Ctrl-C ended the run early; the chains that were finished are kept, or what there is of the
    first.
    """

    draws: np.ndarray
    log_density: np.ndarray
    accepted: np.ndarray
    interrupted: bool = False


def metropolis_hastings(
    log_density: Callable, start: Any, draws: int, *, step: Any = 1.0, propose: Callable | None = None,
    log_proposal: Callable | None = None, chains: int = 1, seed: int = 0,
) -> Walk:  # fmt: skip
    """Chains that accept a proposal x' with probability min(1, p(x') q(x | x') / (p(x) q(x' | x))).

    propose(rng, x) -> x' and log_proposal(x', x) = log q(x' | x), which may be left out where q is symmetric;
    without `propose` a Gaussian random walk of standard deviation `step`. x may be a number, an array or an
    index of a discrete state.

    >>> metropolis_hastings(lambda x: -0.5 * x**2, 0.0, 1000, step=2.4).draws.std()
    """
    if draws < 1 or chains < 1:
        raise ValueError(
            f"Metropolis-Hastings needs at least one draw and one chain, got {draws} and {chains}."
        )
    walks: list[tuple] = []
    for rng in np.random.default_rng(seed).spawn(chains):
        walk = _walk(log_density, start, draws, step, propose, log_proposal, rng)
        if len(walk[0]) == draws or not walks:
            walks.append(walk)
        if len(walk[0]) < draws:
            break
    whole = len(walks) == chains and len(walks[-1][0]) == draws
    states, values, accepted = (np.stack(parts) for parts in zip(*walks, strict=True))
    return Walk(states, values, accepted, interrupted=not whole)


def _walk(log_density, start, draws, step, propose, log_proposal, rng):
    if propose is None:
        propose = lambda rng, x: x + step * rng.standard_normal(np.shape(x))  # noqa: E731
    x, value = start, float(log_density(start))
    if not np.isfinite(value):
        raise ValueError(
            f"the density is zero or undefined at the start {start!r}: start where it is positive."
        )
    states: list[Any] = []
    values, accepted = np.empty(draws), np.zeros(draws, bool)
    try:
        for t in range(draws):
            new = propose(rng, x)
            new_value = float(log_density(new))
            ratio = new_value - value
            if log_proposal is not None:
                ratio += float(log_proposal(x, new)) - float(log_proposal(new, x))
            if np.log(rng.random()) < ratio:  # false where the ratio is not a number
                x, value, accepted[t] = new, new_value, True
            values[t] = value
            states.append(x)
    except KeyboardInterrupt:
        if not states:
            raise
    return np.array(states), values[: len(states)], accepted[: len(states)]


@dataclasses.dataclass(frozen=True)
class RandomWalk(AbstractStep):
    """A Gaussian random walk whose step is tuned; the simplest sampler, slow in many dimensions."""

    acceptance: ClassVar[float] = 0.3
    needs_gradient: ClassVar[bool] = False

    def first_step_size(self, d: int) -> float:
        """2.4 / sqrt(d), the best for a Gaussian in d dimensions."""
        return 2.4 / max(d, 1) ** 0.5

    def __call__(
        self,
        key: jax.Array,
        point: Point,
        log_density: LogDensity,
        step_size: jax.Array | float,
        variance: jax.Array,
    ) -> tuple[Point, Info]:
        by_step, by_choice = jax.random.split(key)
        new = point.position + step_size * jnp.sqrt(variance) * jax.random.normal(
            by_step, point.position.shape
        )
        value = log_density(new)
        change = jnp.where(jnp.isnan(value), -jnp.inf, value - point.log_density)
        accepted = jnp.log(jax.random.uniform(by_choice)) < change
        moved = Point(jnp.where(accepted, new, point.position), jnp.where(accepted, value, point.log_density))
        return moved, Info(jnp.exp(jnp.minimum(change, 0.0)), jnp.isnan(value), -moved.log_density, 1)
