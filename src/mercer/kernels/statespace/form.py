"""What a state-space form is, and where those of kernels are registered."""

from __future__ import annotations

import abc
import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from mercer.compiled.matern import Block
from mercer.kernels.base import AbstractKernel
from mercer.linalg.kalman import Chain

TOLERANCE = 1e-3  # of an approximated covariance, relative to its variance


class NoStateSpace(ValueError):
    """The kernel is not that of a Markov process of finite state."""


@functools.singledispatch
def state_space(kernel: AbstractKernel, tolerance: float = TOLERANCE) -> AbstractForm:
    """The state-space form of a kernel on one column (a time).

    tolerance: the largest error of an approximated correlation (SE, periodic ones). The leaves of the form
    are those of the kernel, in the same order; what is static in it (numbers of harmonics and states) was
    chosen for the kernel's values of now.
    """
    raise NoStateSpace(f"{type(kernel).__name__} has no state-space form")


def chain(form: AbstractForm, t: jax.Array) -> Chain:
    """The Markov chain of a form at times t (n,) in ascending order."""
    return chain_by_steps(form, t, jnp.concatenate([t[:1], t[:-1]]), t)


def chain_by_steps(form: AbstractForm, t: jax.Array, t0: jax.Array, t1: jax.Array) -> Chain:
    """The same with transitions from t0 to t1 (u,) alone, the first of which stands for the start."""
    Phi, Q = form.transition(t0, t1)
    return Chain(Phi, Q.at[0].set(form.covariance(t[:1])[0]), form.observation(t))


class AbstractForm(eqx.Module):
    """x(t1) = Phi x(t0) + N(0, Q) for t0 <= t1, cov x(t) = Pi(t), f(t) = h(t) . x(t),
    for all times of a vector at once.
    """

    __getattribute__ = object.__getattribute__  # as in `Parametrised`

    @property
    @abc.abstractmethod
    def size(self) -> int:
        """Number s of states."""

    @abc.abstractmethod
    def transition(self, t0: jax.Array, t1: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Phi and Q (n, s, s) from times t0 to t1 (n,)."""

    @abc.abstractmethod
    def covariance(self, t: jax.Array) -> jax.Array:
        """Pi(t) (n, s, s) before any datum."""

    @abc.abstractmethod
    def observation(self, t: jax.Array) -> jax.Array:
        """h(t) (n, s)."""

    @property
    def timeless(self) -> bool:
        """Whether a transition depends on t1 - t0 alone."""
        return False

    @property
    def settled(self) -> bool:
        """Whether the covariance is the same at all times."""
        return False

    @property
    def blocks(self) -> tuple[Block, ...] | None:
        """The states as independent Matern processes and weights, whose transitions compiled loops make
        (`compiled.matern`); None: they are something else, and XLA makes all transitions at once.
        """
        return None

    @property
    def f_is_first(self) -> bool:
        """Whether f is the first state at all times."""
        return False

    @property
    def fixed_observation(self) -> bool:
        """Whether h is the same at all times."""
        return self.f_is_first

    def theta(self) -> jax.Array:
        """Rate and variance (2 b,) of the processes among the blocks."""
        return jnp.zeros(0)

    def error(self) -> float:
        """The largest error of the covariance, relative to the largest variance involved;
        zero where the form is exact.
        """
        return 0.0


class AbstractKernelForm(AbstractForm):
    """The form of one kernel."""

    kernel: Any

    def _spread(self, matrix, t):
        return jnp.broadcast_to(matrix, (t.shape[0], *matrix.shape))


class AbstractWeights(AbstractKernelForm):
    """f(t) = h(t) . w: weights w ~ N(0, I) that stay as they are."""

    @property
    def timeless(self) -> bool:
        return True

    @property
    def settled(self) -> bool:
        return True

    def transition(self, t0: jax.Array, t1: jax.Array) -> tuple[jax.Array, jax.Array]:
        one = self.covariance(t0)
        return one, jnp.zeros_like(one)

    def covariance(self, t: jax.Array) -> jax.Array:
        return self._spread(jnp.eye(self.size), t)

    @property
    def blocks(self) -> tuple[Block, ...]:
        return (Block(0, self.size),)
