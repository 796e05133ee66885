"""Functions of the prior that can be evaluated anywhere: sums of features with random weights.

A kernel of finite rank has exact features. A stationary one is a sum of random waves (Bochner): every draw
has frequencies of its own, so that over draws the covariance is the kernel's, whatever their number.
"""

from __future__ import annotations

import abc
import math
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from mercer.inputs import Array, numeric
from mercer.kernels.algebra.columns import On
from mercer.kernels.algebra.shared import Shared
from mercer.kernels.algebra.sums import Product, Scale, Sum, row_products
from mercer.kernels.base import AbstractKernel, Encoded
from mercer.kernels.spectral.density import SpectralError
from mercer.kernels.spectral.sampled import draw
from mercer.linalg import tiles
from mercer.params import strip

__all__ = ["PriorFunctions", "prior_functions"]


class PriorFunctions(eqx.Module):
    """Draws of f ~ GP(0, k) as functions: features times standard normal weights (S, p)."""

    expansion: AbstractExpansion
    weights: Any

    def encode(self, X: Array) -> Encoded:
        """What `values` reads from columns X (m, d)."""
        return self.expansion.encode(X)

    def values(self, A: Encoded) -> jax.Array:
        """Of every draw at encoded inputs: (m, S); pure JAX."""
        if not self.expansion.random:
            return self.expansion.features(A, 0) @ self.weights.T
        expansion, weights = jax.tree.map(jnp.asarray, (self.expansion, self.weights))
        return jax.lax.map(lambda s: expansion.features(A, s) @ weights[s], jnp.arange(len(weights))).T

    def only(self, s: int) -> PriorFunctions:
        """Draw s."""
        return PriorFunctions(self.expansion.only(s), self.weights[[s]])

    def __call__(self, X: np.ndarray) -> np.ndarray:
        """Values (m, S) at columns X (m, d)."""
        A = self.encode(X)
        return tiles.map_rows(_values, self, tiles.Panels(A, tiles.tile_size(tiles.rows(A))))


def _values(functions: PriorFunctions, A: Encoded) -> jax.Array:
    return functions.values(A)


def prior_functions(
    kernel: AbstractKernel, d: int, size: int, waves: int, rng: np.random.Generator
) -> PriorFunctions:
    """`size` functions of a kernel bound to d columns; a `SpectralError` where it has neither finitely many
    features nor random frequencies.
    """
    expansion = expand(strip(kernel), d, size, waves, rng)
    return PriorFunctions(expansion, rng.standard_normal((size, expansion.count(d))))


# -- features ------------------------------------------------------------------------------------------------


class AbstractExpansion(eqx.Module):
    """Features of draw s at encoded inputs."""

    random: ClassVar[bool] = True  # whether draws differ in their features

    @abc.abstractmethod
    def only(self, s: int) -> AbstractExpansion:
        """That of draw s alone."""

    @abc.abstractmethod
    def count(self, d: int) -> int:
        """The number of features of a draw."""

    @abc.abstractmethod
    def encode(self, X: Array) -> Encoded:
        """What `features` reads from columns X (m, d)."""

    @abc.abstractmethod
    def features(self, A: Encoded, s: Any) -> jax.Array:
        """Psi (m, p) of draw s."""


class Finite(AbstractExpansion):
    """The features that a kernel of finite rank has."""

    kernel: AbstractKernel
    random: ClassVar[bool] = False

    def only(self, s: int) -> Finite:
        return self

    def count(self, d: int) -> int:
        rank = self.kernel.rank(d)
        assert rank is not None
        return rank

    def encode(self, X: Array) -> Encoded:
        return self.kernel.encode(X)

    def features(self, A: Encoded, s: Any) -> jax.Array:
        return self.kernel.features(A)


class Waves(AbstractExpansion):
    """Cosines and sines: frequencies (S, waves, d) in cycles per unit, and k(0)."""

    frequencies: Any
    variance: Any
    columns: tuple[int, ...] = eqx.field(static=True)

    def only(self, s: int) -> Waves:
        return Waves(self.frequencies[[s]], self.variance, self.columns)

    def count(self, d: int) -> int:
        return 2 * int(self.frequencies.shape[1])

    def encode(self, X: Array) -> Encoded:
        chosen = X[:, list(self.columns)]
        return chosen if isinstance(chosen, jax.Array) else numeric(chosen)

    def features(self, A: Encoded, s: Any) -> jax.Array:
        angle = 2.0 * jnp.pi * A @ self.frequencies[s].T
        amplitude = jnp.sqrt(self.variance / angle.shape[1])
        return amplitude * jnp.concatenate([jnp.cos(angle), jnp.sin(angle)], 1)


class Together(AbstractExpansion):
    """A sum of kernels, or a product: features side by side, or all products of one of each."""

    parts: tuple[AbstractExpansion, ...]
    product: bool = eqx.field(static=True)

    def only(self, s: int) -> Together:
        return Together(tuple(part.only(s) for part in self.parts), self.product)

    def count(self, d: int) -> int:
        counts = [part.count(d) for part in self.parts]
        return math.prod(counts) if self.product else sum(counts)

    def encode(self, X: Array) -> Encoded:
        return tuple(part.encode(X) for part in self.parts)

    def features(self, A: Encoded, s: Any) -> jax.Array:
        each = [part.features(a, s) for part, a in zip(self.parts, A, strict=True)]
        return row_products(each) if self.product else jnp.concatenate(each, 1)


class Scaled(AbstractExpansion):
    """variance * k, on some of the columns."""

    part: AbstractExpansion
    variance: Any
    columns: tuple[int, ...] | None = eqx.field(static=True, default=None)

    def only(self, s: int) -> Scaled:
        return Scaled(self.part.only(s), self.variance, self.columns)

    def count(self, d: int) -> int:
        return self.part.count(d if self.columns is None else len(self.columns))

    def encode(self, X: Array) -> Encoded:
        return self.part.encode(X if self.columns is None else X[:, list(self.columns)])

    def features(self, A: Encoded, s: Any) -> jax.Array:
        return jnp.sqrt(self.variance) * self.part.features(A, s)


def expand(
    kernel: AbstractKernel, d: int, size: int, waves: int, rng: np.random.Generator
) -> AbstractExpansion:
    """Features of a kernel bound to d columns, for `size` draws."""
    if kernel.rank(d) is not None:
        return Finite(kernel)
    if isinstance(kernel, Sum):
        return Together(tuple(expand(term, d, size, waves, rng) for term in kernel.terms), False)
    if isinstance(kernel, Scale):
        return Scaled(expand(kernel.kernel, d, size, waves, rng), kernel.variance)
    if isinstance(kernel, On):
        columns = tuple(int(c) for c in kernel.columns)
        return Scaled(expand(kernel.kernel, len(columns), size, waves, rng), 1.0, columns)
    if isinstance(kernel, Shared):
        return expand(kernel.expanded(), d, size, waves, rng)
    if isinstance(kernel, Product) and not kernel.traits(d).stationary:
        parts = tuple(expand(factor, d, size, waves, rng) for factor in kernel.factors)
        if sum(part.random for part in parts) > 1:
            raise SpectralError(
                f"{kernel.formula()} is a product of several kernels without finite features."
            )
        return Together(parts, True)
    frequencies = draw(kernel, size * waves, d, rng).reshape(size, waves, d)
    columns = tuple(np.flatnonzero((frequencies != 0).any((0, 1))).tolist())
    variance = float(kernel(np.zeros((1, d)))[0, 0])
    return Waves(frequencies[:, :, list(columns)], variance, columns)
