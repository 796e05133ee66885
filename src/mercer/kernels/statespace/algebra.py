"""Forms of sums, products, powers and scales of kernels that have one, and of kernels on a column."""

from __future__ import annotations

import abc
import functools
import itertools
import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from mercer.compiled.matern import Block
from mercer.kernels.algebra.columns import On
from mercer.kernels.algebra.powers import Power
from mercer.kernels.algebra.sums import Product, Scale, Sum
from mercer.kernels.statespace.form import TOLERANCE, AbstractForm, NoStateSpace, state_space


@state_space.register
def _(kernel: On, tolerance=TOLERANCE):
    return state_space(kernel.kernel, tolerance)


@state_space.register
def _(kernel: Sum, tolerance=TOLERANCE):
    return SumForm(tuple(state_space(part, tolerance) for part in kernel.terms))


@state_space.register
def _(kernel: Product, tolerance=TOLERANCE):
    return ProductForm(tuple(state_space(part, tolerance) for part in kernel.factors))


@state_space.register
def _(kernel: Power, tolerance=TOLERANCE):
    if not isinstance(kernel.exponent, int):
        raise NoStateSpace(f"{kernel} has no state-space form (whole powers have one)")
    return PowerForm(state_space(kernel.kernel, tolerance), kernel.exponent)


@state_space.register
def _(kernel: Scale, tolerance=TOLERANCE):
    return ScaleForm(kernel.variance, state_space(kernel.kernel, tolerance))


class SumForm(AbstractForm):
    """Independent processes side by side."""

    parts: tuple[AbstractForm, ...]

    @property
    def size(self) -> int:
        return sum(part.size for part in self.parts)

    @property
    def timeless(self) -> bool:
        return all(part.timeless for part in self.parts)

    @property
    def settled(self) -> bool:
        return all(part.settled for part in self.parts)

    def transition(self, t0: jax.Array, t1: jax.Array) -> tuple[jax.Array, jax.Array]:
        Phis, Qs = zip(*(part.transition(t0, t1) for part in self.parts), strict=True)
        return _blocks(Phis), _blocks(Qs)

    def covariance(self, t: jax.Array) -> jax.Array:
        return _blocks([part.covariance(t) for part in self.parts])

    def observation(self, t: jax.Array) -> jax.Array:
        return jnp.concatenate([part.observation(t) for part in self.parts], 1)

    def error(self) -> float:
        return sum(part.error() for part in self.parts)

    @property
    def blocks(self) -> tuple[Block, ...] | None:
        found = [part.blocks for part in self.parts]
        known = [blocks for blocks in found if blocks is not None]
        return tuple(itertools.chain(*known)) if len(known) == len(found) else None

    @property
    def fixed_observation(self) -> bool:
        return all(part.fixed_observation for part in self.parts)

    def theta(self) -> jax.Array:
        return jnp.concatenate([part.theta() for part in self.parts])


class AbstractProductForm(AbstractForm):
    """Kronecker products of the factors' states."""

    @property
    @abc.abstractmethod
    def factors(self) -> tuple[AbstractForm, ...]: ...

    @property
    def size(self) -> int:
        return math.prod(part.size for part in self.factors)

    @property
    def timeless(self) -> bool:
        return self.settled and all(part.timeless for part in self.factors)

    @property
    def settled(self) -> bool:
        return all(part.settled for part in self.factors)

    def transition(self, t0: jax.Array, t1: jax.Array) -> tuple[jax.Array, jax.Array]:
        # with M = Phi Pi Phi', so that Pi(t1) = M + Q: no difference of large covariances
        steps = [(*part.transition(t0, t1), part.covariance(t0)) for part in self.factors]
        (Phi, Q, Pi), *others = steps
        M = Phi @ Pi @ Phi.mT
        for other, more, start in others:
            N = other @ start @ other.mT
            Q = _kron(M, more) + _kron(Q, N) + _kron(Q, more)
            M, Phi = _kron(M, N), _kron(Phi, other)
        return Phi, Q

    def covariance(self, t: jax.Array) -> jax.Array:
        return functools.reduce(_kron, [part.covariance(t) for part in self.factors])

    def observation(self, t: jax.Array) -> jax.Array:
        columns = [part.observation(t)[:, :, None] for part in self.factors]
        return functools.reduce(_kron, columns)[:, :, 0]

    def error(self) -> float:
        return math.prod(1.0 + part.error() for part in self.factors) - 1.0

    @property
    def blocks(self) -> tuple[Block, ...] | None:
        """Weights times a Matern process are copies of it, each in one piece where the process comes last
        or has one state.
        """
        found = [part.blocks or () for part in self.factors]
        if any(len(blocks) != 1 for blocks in found):
            return None
        moving = [(i, block.s) for i, (block,) in enumerate(found) if block.s]
        if not moving:
            return (Block(0, self.size),)
        (last, s), *others = moving
        if others or (s > 1 and math.prod(part.size for part in self.factors[last + 1 :]) > 1):
            return None
        return (Block(s, self.size // s),)

    def theta(self) -> jax.Array:
        return jnp.concatenate([part.theta() for part in self.factors])


class ProductForm(AbstractProductForm):
    """A product of independent processes has the product of their covariances."""

    parts: tuple[AbstractForm, ...]

    @property
    def factors(self) -> tuple[AbstractForm, ...]:
        return self.parts


class PowerForm(AbstractProductForm):
    """A product of independent copies."""

    part: AbstractForm
    exponent: int = eqx.field(static=True)

    @property
    def factors(self) -> tuple[AbstractForm, ...]:
        return (self.part,) * self.exponent


class ScaleForm(AbstractForm):
    """An explicit amplitude."""

    variance: Any
    part: AbstractForm

    @property
    def size(self) -> int:
        return self.part.size

    @property
    def timeless(self) -> bool:
        return self.part.timeless

    @property
    def settled(self) -> bool:
        return self.part.settled

    def transition(self, t0: jax.Array, t1: jax.Array) -> tuple[jax.Array, jax.Array]:
        return self.part.transition(t0, t1)

    def covariance(self, t: jax.Array) -> jax.Array:
        return self.part.covariance(t)

    def observation(self, t: jax.Array) -> jax.Array:
        return jnp.sqrt(self.variance) * self.part.observation(t)

    def error(self) -> float:
        return self.part.error()

    @property
    def blocks(self) -> tuple[Block, ...] | None:
        return self.part.blocks

    @property
    def fixed_observation(self) -> bool:
        return self.part.fixed_observation

    def theta(self) -> jax.Array:
        return self.part.theta()


def _blocks(matrices):
    """Block-diagonal (n, s, s)."""
    if len(matrices) == 1:
        return matrices[0]
    sizes = [m.shape[1] for m in matrices]
    out = jnp.zeros((matrices[0].shape[0], sum(sizes), sum(sizes)))
    for m, first in zip(matrices, np.cumsum([0, *sizes]), strict=False):
        out = out.at[:, first : first + m.shape[1], first : first + m.shape[1]].set(m)
    return out


def _kron(A, B):
    """Kronecker products (n, a b, c d)."""
    (n, a, c), (_, b, d) = A.shape, B.shape
    return (A[:, :, None, :, None] * B[:, None, :, None, :]).reshape(n, a * b, c * d)
