"""Kernels made of kernels: sum, product, scale, power, choice of columns."""

from __future__ import annotations

import abc
import functools
import math

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from mercer.kernels.base import AbstractKernel, given, number
from mercer.kernels.dot import Constant as Constant
from mercer.params import Hyper, ParameterError, hyper, positive


class AbstractComposite(AbstractKernel):
    """A kernel with children that all read the same inputs."""

    @property
    @abc.abstractmethod
    def parts(self) -> tuple[AbstractKernel, ...]: ...

    @abc.abstractmethod
    def rebuild(self, parts: tuple[AbstractKernel, ...]) -> AbstractKernel:
        """The same composite of other parts."""

    def encode(self, X):
        encoded = tuple(part.encode(X) for part in self.parts)
        return encoded[0] if all(e is encoded[0] for e in encoded) else encoded

    def bind(self, d, names=None):
        return self.rebuild(tuple(part.bind(d, names) for part in self.parts))

    def reads_objects(self):
        return any(part.reads_objects() for part in self.parts)

    def suggest(self, X, variance):
        return self.rebuild(tuple(part.suggest(X, variance) for part in self.parts))

    def blocks(self, A, B):
        """The parts' covariance blocks."""
        return [part.block(a, b) for part, a, b in zip(self.parts, self._split(A), self._split(B), strict=True)]

    def _split(self, A):
        return A if isinstance(A, tuple) else (A,) * len(self.parts)


class Sum(AbstractComposite):
    """k1 + k2 + ...: a sum of independent functions."""

    terms: tuple[AbstractKernel, ...]

    @property
    def parts(self):
        return self.terms

    children = parts

    def rebuild(self, parts):
        return Sum(parts)

    def suggest(self, X, variance):
        return Sum(tuple(t.suggest(X, variance / len(self.terms)) for t in self.terms))

    def block(self, A, B):
        return functools.reduce(jnp.add, self.blocks(A, B))

    def rank(self, d):
        ranks = [t.rank(d) for t in self.terms]
        return None if None in ranks else sum(ranks)

    def features(self, A):
        return jnp.concatenate([t.features(a) for t, a in zip(self.terms, self._split(A), strict=True)], 1)

    def amplitude(self):
        return tuple(f"terms.0.{name}" for name in self.terms[0].amplitude())

    def formula(self, digits=6):
        return " + ".join(t.formula(digits) for t in self.terms)


class Product(AbstractComposite):
    """k1 * k2 * ...: one amplitude is free (the first factor's, or an explicit scale's outside), the others are held."""

    factors: tuple[AbstractKernel, ...]

    @property
    def parts(self):
        return self.factors

    children = parts

    def rebuild(self, parts):
        return Product(parts)

    def suggest(self, X, variance):
        scales = [variance] + [1.0] * (len(self.factors) - 1)
        return Product(tuple(f.suggest(X, v) for f, v in zip(self.factors, scales, strict=True)))

    def block(self, A, B):
        return functools.reduce(jnp.multiply, self.blocks(A, B))

    def rank(self, d):
        ranks = [f.rank(d) for f in self.factors]
        return None if None in ranks else math.prod(r for r in ranks if r is not None)

    def features(self, A):
        return _row_products([f.features(a) for f, a in zip(self.factors, self._split(A), strict=True)])

    def amplitude(self):
        return tuple(f"factors.{i}.{name}" for i, f in enumerate(self.factors) for name in f.amplitude())

    def held(self):
        with_scale = [i for i, f in enumerate(self.factors) if f.amplitude()]
        return tuple(f"factors.{i}.{name}" for i in with_scale[1:] for name in self.factors[i].amplitude())

    def formula(self, digits=6):
        first, *others = (f.formula(digits) for f in self.factors)
        return " * ".join([_bracketed(first, "+"), *(_bracketed(text, "+", "*") for text in others)])


def _row_products(features):
    """All products of one column from each factor's features (row-wise Kronecker product)."""
    return functools.reduce(lambda p, q: (p[:, :, None] * q[:, None, :]).reshape(p.shape[0], -1), features)


def _bracketed(formula: str, *operators: str) -> str:
    """The formula in brackets if one of these operators stands in it."""
    return f"({formula})" if any(f" {operator} " in formula for operator in operators) else formula


class Scale(AbstractComposite):
    """variance * k: an explicit amplitude; the one inside k is held."""

    variance: Hyper = hyper(1.0, positive)
    kernel: AbstractKernel = Constant()

    @property
    def parts(self):
        return (self.kernel,)

    def encode(self, X):
        return self.kernel.encode(X)

    def rebuild(self, parts):
        return Scale(given(self, "variance"), parts[0])

    def suggest(self, X, variance):
        return self.rebuild((self.kernel.suggest(X, 1.0),)).with_values(variance=variance)

    def block(self, A, B):
        return self.variance * self.kernel.block(A, B)

    def rank(self, d):
        return self.kernel.rank(d)

    def features(self, A):
        return jnp.sqrt(self.variance) * self.kernel.features(A)

    def held(self):
        return tuple(f"kernel.{name}" for name in self.kernel.amplitude())

    def formula(self, digits=6):
        inner = self.kernel.formula(digits)
        return f"{number(self.variance, digits)} * " + (f"({inner})" if isinstance(self.kernel, Sum) else inner)


class Power(AbstractComposite):
    """k ** p for a whole number p >= 1 (Schur powers of a covariance are covariances)."""

    kernel: AbstractKernel
    exponent: int = eqx.field(static=True)

    def __check_init__(self):
        if not (isinstance(self.exponent, (int, np.integer)) and self.exponent >= 1):
            raise ParameterError(f"the exponent of a kernel must be a whole number of at least 1, got {self.exponent!r}.")

    @property
    def parts(self):
        return (self.kernel,)

    def encode(self, X):
        return self.kernel.encode(X)

    def rebuild(self, parts):
        return Power(parts[0], self.exponent)

    def suggest(self, X, variance):
        return self.rebuild((self.kernel.suggest(X, variance ** (1 / self.exponent)),))

    def block(self, A, B):
        return self.kernel.block(A, B) ** self.exponent

    def rank(self, d):
        rank = self.kernel.rank(d)
        return None if rank is None else rank**self.exponent

    def features(self, A):
        return _row_products([self.kernel.features(A)] * self.exponent)

    def amplitude(self):
        return tuple(f"kernel.{name}" for name in self.kernel.amplitude())

    def formula(self, digits=6):
        return f"({self.kernel.formula(digits)}) ** {self.exponent}"


class On(AbstractComposite):
    """A kernel that reads only some input columns, given by position or by name."""

    kernel: AbstractKernel
    columns: tuple[int | str, ...] = eqx.field(static=True, converter=tuple)

    def __check_init__(self):
        if not self.columns or len(set(self.columns)) != len(self.columns):
            raise ParameterError(f".on(...) needs at least one column and no column twice, got {self.columns}.")
        if not all(isinstance(c, (int, np.integer, str)) and not isinstance(c, bool) for c in self.columns):
            raise ParameterError(f".on(...) takes column positions or names, got {self.columns}.")

    @property
    def parts(self):
        return (self.kernel,)

    def rebuild(self, parts):
        return On(parts[0], self.columns)

    def bind(self, d, names=None):
        positions = tuple(self._position(c, d, names) for c in self.columns)
        return On(self.kernel.bind(len(positions), tuple(names[i] for i in positions) if names else None), positions)

    @staticmethod
    def _position(column, d, names) -> int:
        if isinstance(column, str):
            if names is None:
                raise ParameterError(f".on({column!r}) needs inputs with column names (a data frame); these have none.")
            if column not in names:
                raise ParameterError(f".on({column!r}): no such column; the inputs have {list(names)}.")
            return names.index(column)
        if not -d <= column < d:
            raise ParameterError(f".on({column}): the inputs have only {d} columns.")
        return int(column) % d

    def encode(self, X):
        return self.kernel.encode(X[:, self._positions()])

    def suggest(self, X, variance):
        return self.rebuild((self.kernel.suggest(X[:, self._positions()], variance),))

    def _positions(self) -> list[int]:
        if any(isinstance(c, str) for c in self.columns):
            raise ParameterError(f".on{self.columns} is not bound to inputs yet: condition on a data frame with those columns.")
        return [int(c) for c in self.columns]

    def block(self, A, B):
        return self.kernel.block(A, B)

    def rank(self, d):
        return self.kernel.rank(len(self.columns))

    def features(self, A):
        return self.kernel.features(A)

    def amplitude(self):
        return tuple(f"kernel.{name}" for name in self.kernel.amplitude())

    def formula(self, digits=6):
        inner = _bracketed(self.kernel.formula(digits), "+", "*", "**")
        return f"{inner}.on({', '.join(map(repr, self.columns))})"
