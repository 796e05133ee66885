"""What one transition of a chain is: a hashable value that is called inside compiled code."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp

LogDensity: TypeAlias = Callable[[jax.Array], jax.Array]  # of one position (d,), traceable


class Point(NamedTuple):
    """Where a chain is: position (d,), log density and its gradient (None for steps that need none)."""

    position: Any
    log_density: Any
    gradient: Any = None


class Info(NamedTuple):
    """What a transition says of itself: acceptance probability, whether it diverged, energy,
    evaluations of the density.
    """

    acceptance: Any
    divergent: Any
    energy: Any
    evaluations: Any


@dataclasses.dataclass(frozen=True)
class AbstractStep(abc.ABC):
    """A transition that leaves a density invariant.
    `variance` (d,) is a guess of the variances of the coordinates.
    """

    acceptance: ClassVar[float]  # what tuning of the step size aims at
    needs_gradient: ClassVar[bool] = True

    def begin(self, log_density: LogDensity, position: jax.Array) -> Point:
        if not self.needs_gradient:
            return Point(position, log_density(position))
        return Point(position, *jax.value_and_grad(log_density)(position))

    def first_step_size(self, d: int) -> float:
        return 1.0 / max(d, 1) ** 0.25

    @abc.abstractmethod
    def __call__(
        self,
        key: jax.Array,
        point: Point,
        log_density: LogDensity,
        step_size: jax.Array | float,
        variance: jax.Array,
    ) -> tuple[Point, Info]: ...


def guarded(log_density: LogDensity) -> LogDensity:
    """The same density with -inf wherever it is not a number: such proposals are rejected."""

    def inner(z):
        value = log_density(z)
        return jnp.where(jnp.isnan(value), -jnp.inf, value)

    return inner


def over(function: Callable, together: bool, *arrays: Any, part: Any = None) -> Any:
    """function over the leading axis of the arrays: vectorised, or one after the other.

    The latter for densities that factor matrices: nothing is gained by factoring them in batches, chains need
    not wait for the longest trajectory, and XLA's thread pool can lock up on batched factorisations inside
    loops.

    part: two traced numbers, the first and the end of those that are wanted, one after the other; the others
    are zeros. The compiled code is the same for every part, and so is the last digit.
    """
    if together:
        return jax.vmap(function)(*arrays)
    if part is None:
        return jax.lax.map(lambda args: function(*args), arrays)

    def one(i: Any) -> Any:
        return function(*jax.tree.map(lambda a: a[i], arrays))

    n = jax.tree.leaves(arrays)[0].shape[0]
    room = jax.tree.map(lambda a: jnp.zeros((n, *a.shape), a.dtype), jax.eval_shape(one, 0))

    def body(i: Any, out: Any) -> Any:
        return jax.tree.map(lambda a, b: a.at[i].set(b), out, one(i))

    first, end = part
    return jax.lax.fori_loop(first, end, body, room)


def between_looks(most: int, d: int, easy: int) -> int:
    """How many steps in d dimensions go between two looks at the keyboard and the clock: `most` up to `easy`
    dimensions, beyond them fewer, as a step takes d^2.
    """
    return max(1, min(most, round(most * (easy / d) ** 2)))
