"""Functions of a state whose expectation over a Gaussian state is known: rewards, and values."""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from mercer.kernels import SE, AbstractKernel, On
from mercer.params import strip
from mercer.uncertain import Predictor, expected_product


class AbstractReward(eqx.Module):
    """What being in a state is worth at once, in JAX, and its averages over states that are Gaussian."""

    @abc.abstractmethod
    def __call__(self, state: Any) -> jax.Array:
        """Of a state (D,)."""

    @abc.abstractmethod
    def expected(self, mean: Any, covariance: Any) -> jax.Array:
        """The average over states N(mean (D,), covariance (D, D)) (7.36)."""

    @abc.abstractmethod
    def expected_square(self, mean: Any, covariance: Any) -> jax.Array:
        """The average of its square."""

    @abc.abstractmethod
    def expected_with(self, other: Bumps, mean: Any, covariance: Any) -> jax.Array:
        """The average of its product with another function."""


class Bumps(AbstractReward):
    """A sum of bumps: f(s) = sum_i weights_i k(s, centres_i), with a kernel that has a closed form over
    Gaussians (SE, sums and products of it with polynomials). All its averages are exact.

    `Bumps.at` makes the text's reward; `Bumps.of` is the mean of a Gaussian process, such as one of rewards
    that were observed.

    >>> reward = Bumps.at([0.6, 0.0], width=0.05)
    >>> reward.expected([0.5, 0.0], 0.01 * np.eye(2))
    """

    kernel: AbstractKernel
    centres: Any
    weights: Any

    @classmethod
    def at(
        cls,
        target: Sequence[float],
        width: float | Sequence[float],
        height: float = 1.0,
        columns: Sequence[int] | None = None,
    ) -> Bumps:
        """One Gaussian bump at a target (D,), or of the columns named alone; width: a standard deviation, or
        one for each column.
        """
        goal = jnp.asarray(target, float)
        widths = jnp.broadcast_to(
            jnp.asarray(width, float), (len(goal) if columns is None else len(columns),)
        )
        kernel: AbstractKernel = SE(lengthscale=widths, variance=1.0)
        if columns is not None:
            kernel = On(kernel, tuple(columns))
        return cls(as_arrays(kernel), goal[None], jnp.array([float(height)]))

    @classmethod
    def of(cls, predictor: Predictor) -> Bumps:
        """The mean of a Gaussian process of mean zero: `Bumps.of(model.posterior_.predictor())`."""
        return cls(predictor.kernels[0], predictor.X[0], predictor.alpha[0])

    def __call__(self, state: Any) -> jax.Array:
        at = self.kernel.encode(jnp.asarray(state, float)[None])
        return self.kernel.block(at, self.kernel.encode(self.centres))[0] @ self.weights

    def expected_kernel(self, mean: Any, covariance: Any) -> jax.Array:
        """The averages (n,) of single bumps, of weight one (7.23)."""
        return expected_product(self.kernel, None, self.centres, None, mean, covariance)

    def expected(self, mean: Any, covariance: Any) -> jax.Array:
        return self.expected_kernel(mean, covariance) @ self.weights

    def expected_square(self, mean: Any, covariance: Any) -> jax.Array:
        return self.expected_with(self, mean, covariance)

    def expected_with(self, other: Bumps, mean: Any, covariance: Any) -> jax.Array:
        both = expected_product(self.kernel, other.kernel, self.centres, other.centres, mean, covariance)
        return self.weights @ both @ other.weights


class Smooth(AbstractReward):
    """Any smooth function of a state (D,), in JAX, as if it were a parabola within the spread of the state
    (7.57): exact for quadratic ones.

    >>> reward = Smooth(lambda s: -((s[0] - 0.6) ** 2) - 0.1 * s[1] ** 2)
    """

    function: Callable[[jax.Array], jax.Array] = eqx.field(static=True)

    def __call__(self, state: Any) -> jax.Array:
        return self.function(jnp.asarray(state, float))

    def expected(self, mean: Any, covariance: Any) -> jax.Array:
        mean = jnp.asarray(mean, float)
        return self.function(mean) + 0.5 * jnp.sum(jax.hessian(self.function)(mean) * covariance)

    def expected_square(self, mean: Any, covariance: Any) -> jax.Array:
        """Of a parabola exactly: g'S g + 1/2 tr(H S H S) beside the squared mean."""
        mean = jnp.asarray(mean, float)
        g, HS = jax.grad(self.function)(mean), jax.hessian(self.function)(mean) @ covariance
        return self.expected(mean, covariance) ** 2 + g @ covariance @ g + 0.5 * jnp.sum(HS * HS.T)

    def expected_with(self, other: Bumps, mean: Any, covariance: Any) -> jax.Array:
        """As if this were straight: Stein's lemma."""
        mean, covariance = jnp.asarray(mean, float), jnp.asarray(covariance, float)
        value, slope = jax.value_and_grad(other.expected)(mean, covariance)
        return self.expected(mean, covariance) * value + jax.grad(self.function)(mean) @ covariance @ slope


def as_arrays(value: Any) -> Any:
    """A kernel or a predictor without what is said of its hyperparameters, every number in it an array: with
    other values nothing is compiled again.
    """
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, float), strip(value))
