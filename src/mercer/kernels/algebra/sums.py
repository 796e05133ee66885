"""Kernels made of kernels: sum, product, scale."""

from __future__ import annotations

import abc
import functools
import math
from collections.abc import Sequence
from typing import ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np

from mercer.inputs import Array
from mercer.kernels.base import AbstractKernel, Encoded, given
from mercer.kernels.families.dot import Constant as Constant
from mercer.kernels.traits import Traits, joint
from mercer.kernels.words.names import EXACT, POWER, PRODUCT, SUM, bracketed, hyperparameter
from mercer.params import Hyper, hyper, positive


class AbstractComposite(AbstractKernel):
    """A kernel with children that all read the same inputs."""

    @property
    @abc.abstractmethod
    def parts(self) -> tuple[AbstractKernel, ...]: ...

    @abc.abstractmethod
    def rebuild(self, parts: tuple[AbstractKernel, ...]) -> Self:
        """The same composite of other parts."""

    def encode(self, X: Array) -> Encoded:
        """What the one part reads; of several, one array where all read the same, else a tuple."""
        first, *others = encoded = tuple(part.encode(X) for part in self.parts)
        if not others:
            return first
        return encoded if isinstance(first, tuple) or any(e is not first for e in others) else first

    def bind(self, d: int, names: tuple[str, ...] | None = None) -> Self:
        return self.rebuild(tuple(part.bind(d, names) for part in self.parts))

    def reads_objects(self) -> bool:
        return any(part.reads_objects() for part in self.parts)

    def suggest(self, X: np.ndarray, variance: float) -> Self:
        return self.rebuild(tuple(part.suggest(X, variance) for part in self.parts))

    def blocks(self, A: Encoded, B: Encoded) -> list[jax.Array]:
        """The parts' covariance blocks."""
        return [
            part.block(a, b) for part, a, b in zip(self.parts, self._split(A), self._split(B), strict=True)
        ]

    def leads(self, digits: int = 6) -> bool:
        return False

    def _split(self, A):
        return A if isinstance(A, tuple) and len(self.parts) > 1 else (A,) * len(self.parts)


class Sum(AbstractComposite):
    """k1 + k2 + ...: a sum of independent functions."""

    level: ClassVar[int] = SUM
    terms: tuple[AbstractKernel, ...]

    @property
    def parts(self) -> tuple[AbstractKernel, ...]:
        """The terms."""
        return self.terms

    children = parts

    def rebuild(self, parts: tuple[AbstractKernel, ...]) -> Sum:
        return Sum(parts)

    def suggest(self, X: np.ndarray, variance: float) -> Sum:
        return Sum(tuple(t.suggest(X, variance / len(self.terms)) for t in self.terms))

    def block(self, A: Encoded, B: Encoded) -> jax.Array:
        return functools.reduce(jnp.add, self.blocks(A, B))

    def rank(self, d: int) -> int | None:
        ranks = [t.rank(d) for t in self.terms]
        return None if None in ranks else sum(r for r in ranks if r is not None)

    def features(self, A: Encoded) -> jax.Array:
        return jnp.concatenate([t.features(a) for t, a in zip(self.terms, self._split(A), strict=True)], 1)

    def traits(self, d: int = 1) -> Traits:
        return joint(t.traits(d) for t in self.terms)

    def amplitude(self) -> tuple[str, ...]:
        return tuple(f"terms.0.{name}" for name in self.terms[0].amplitude())

    def formula(self, digits: int = 6) -> str:
        return " + ".join(t.formula(digits) for t in self.terms)


class Product(AbstractComposite):
    """k1 * k2 * ...: one amplitude is free (the first factor's, or an explicit scale's outside),
    the others are held.
    """

    level: ClassVar[int] = PRODUCT
    factors: tuple[AbstractKernel, ...]

    @property
    def parts(self) -> tuple[AbstractKernel, ...]:
        """The factors."""
        return self.factors

    children = parts

    def rebuild(self, parts: tuple[AbstractKernel, ...]) -> Product:
        return Product(parts)

    def suggest(self, X: np.ndarray, variance: float) -> Product:
        scales = [variance] + [1.0] * (len(self.factors) - 1)
        return Product(tuple(f.suggest(X, v) for f, v in zip(self.factors, scales, strict=True)))

    def block(self, A: Encoded, B: Encoded) -> jax.Array:
        return functools.reduce(jnp.multiply, self.blocks(A, B))

    def rank(self, d: int) -> int | None:
        ranks = [f.rank(d) for f in self.factors]
        return None if None in ranks else math.prod(r for r in ranks if r is not None)

    def features(self, A: Encoded) -> jax.Array:
        return row_products([f.features(a) for f, a in zip(self.factors, self._split(A), strict=True)])

    def traits(self, d: int = 1) -> Traits:
        return joint((f.traits(d) for f in self.factors), product=True)

    def amplitude(self) -> tuple[str, ...]:
        return tuple(f"factors.{i}.{name}" for i, f in enumerate(self.factors) for name in f.amplitude())

    def held(self) -> tuple[str, ...]:
        with_scale = [i for i, f in enumerate(self.factors) if f.amplitude()]
        return tuple(f"factors.{i}.{name}" for i in with_scale[1:] for name in self.factors[i].amplitude())

    def formula(self, digits: int = 6) -> str:
        first, *others = self.factors
        return " * ".join([bracketed(first, digits, PRODUCT), *(bracketed(f, digits, POWER) for f in others)])


def row_products(features: Sequence[jax.Array]) -> jax.Array:
    """All products of one column from each factor's features (row-wise Kronecker product)."""
    return functools.reduce(lambda p, q: (p[:, :, None] * q[:, None, :]).reshape(p.shape[0], -1), features)


class Scale(AbstractComposite):
    """variance * k: an explicit amplitude; the one inside k is held."""

    level: ClassVar[int] = PRODUCT
    variance: Hyper = hyper(1.0, positive)
    kernel: AbstractKernel = Constant()

    @property
    def parts(self) -> tuple[AbstractKernel, ...]:
        """The kernels it is made of."""
        return (self.kernel,)

    def rebuild(self, parts: tuple[AbstractKernel, ...]) -> Scale:
        return Scale(given(self, "variance"), parts[0])

    def suggest(self, X: np.ndarray, variance: float) -> Scale:
        return self.rebuild((self.kernel.suggest(X, 1.0),)).with_values(variance=variance)

    def block(self, A: Encoded, B: Encoded) -> jax.Array:
        return self.variance * self.kernel.block(A, B)

    def rank(self, d: int) -> int | None:
        return self.kernel.rank(d)

    def features(self, A: Encoded) -> jax.Array:
        return jnp.sqrt(self.variance) * self.kernel.features(A)

    def traits(self, d: int = 1) -> Traits:
        return self.kernel.traits(d)

    def held(self) -> tuple[str, ...]:
        return tuple(f"kernel.{name}" for name in self.kernel.amplitude())

    def formula(self, digits: int = 6) -> str:
        """Brackets keep the number apart from one further in;
        "1 *" marks a variance of one that is the inner kernel's own.
        """
        exact, inner = digits >= EXACT, self.kernel.formula(digits)
        if exact and self.kernel.leads(digits) and not inner[0].isdigit():
            inner = f"1 * {inner}"
        apart = self.kernel.level <= (PRODUCT if exact else SUM) or inner[0].isdigit()
        return f"{hyperparameter(self, 'variance', digits)} * " + (f"({inner})" if apart else inner)
