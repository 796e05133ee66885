"""Sums over columns: additive models and the functional ANOVA."""

from __future__ import annotations

import functools
import operator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from mercer.inputs import Array, numeric
from mercer.kernels.algebra.sums import AbstractComposite
from mercer.kernels.base import AbstractKernel, Encoded, given
from mercer.params import Hyper, ParameterError, hyper, positive


def direct_sum(*pairs: Any) -> AbstractKernel:
    """k1(x_1, x_1') + k2(x_2, x_2') + ...: `direct_sum(k1, columns1, k2, columns2, ...)`.

    Columns are one or several, by position or name.

    >>> direct_sum(SE(), "age", Periodic(), ["hour"])
    """
    return functools.reduce(operator.add, _placed("direct_sum", pairs))


def tensor_product(*pairs: Any) -> AbstractKernel:
    """k1(x_1, x_1') k2(x_2, x_2') ...: `tensor_product(k1, columns1, k2, columns2, ...)`.

    >>> tensor_product(SE(0.5), 0, Matern(2.0), 1)
    """
    return functools.reduce(operator.mul, _placed("tensor_product", pairs))


def _placed(who: str, pairs) -> list[AbstractKernel]:
    kernels, columns = pairs[::2], pairs[1::2]
    if not pairs or len(kernels) != len(columns) or not all(isinstance(k, AbstractKernel) for k in kernels):
        raise ParameterError(
            f"{who}(kernel, columns, kernel, columns, ...) takes kernels, each followed by its columns."
        )
    return [
        k.on(*(c if isinstance(c, (list, tuple)) else (c,))) for k, c in zip(kernels, columns, strict=True)
    ]


class Additive(AbstractComposite):
    """Functional ANOVA: sum over q up to `order` of variance_q times the sum of all products of q different
    columns' kernels.

    kernels: one for each column, in order. order: how many columns may interact; 1 is the additive model.
    variance: one number for all orders, or one for each. The elementary symmetric polynomials are built
    column by column: order x columns products of matrices instead of all combinations, and nothing cancels.
    The columns' own variances are held.

    >>> Additive([SE(0.5), SE(1.0), Matern(2.0)], order=2, variance=[1.0, 0.1])
    """

    kernels: tuple[AbstractKernel, ...] = eqx.field(converter=tuple)
    order: int = eqx.field(default=1, static=True)
    variance: Hyper = hyper(1.0, positive)

    def __check_init__(self):
        if not self.kernels or not all(isinstance(k, AbstractKernel) for k in self.kernels):
            raise ParameterError("Additive.kernels must be kernels, one for each column.")
        if isinstance(self.order, bool) or self.order not in range(1, len(self.kernels) + 1):
            raise ParameterError(
                f"Additive.order must be a whole number from 1 to {len(self.kernels)}, got {self.order!r}."
            )
        if np.ndim(self.variance) and np.shape(self.variance) != (self.order,):
            raise ParameterError(
                f"Additive.variance must be one number, or one for each of the {self.order} orders."
            )

    @property
    def parts(self) -> tuple[AbstractKernel, ...]:
        """The kernels it is made of."""
        return self.kernels

    def rebuild(self, parts: tuple[AbstractKernel, ...]) -> Additive:
        return Additive(parts, self.order, given(self, "variance"))

    def bind(self, d: int, names: tuple[str, ...] | None = None) -> Additive:
        if d != len(self.kernels):
            raise ParameterError(
                f"Additive has {len(self.kernels)} kernels but there are {d} columns: choose with .on(...)."
            )
        return self.rebuild(
            tuple(k.bind(1, None if names is None else (names[j],)) for j, k in enumerate(self.kernels))
        )

    def encode(self, X: Array) -> tuple[Encoded, ...]:
        return tuple(k.encode(X[:, [j]]) for j, k in enumerate(self.kernels))

    def _split(self, A):
        return A

    def suggest(self, X: np.ndarray, variance: float) -> Additive:
        columns = [X[:, [j]] if k.reads_objects() else numeric(X[:, [j]]) for j, k in enumerate(self.kernels)]
        parts = tuple(k.suggest(x, 1.0) for k, x in zip(self.kernels, columns, strict=True))
        return self.rebuild(parts).with_values(variance=variance / len(self.kernels))

    def block(self, A: Encoded, B: Encoded) -> jax.Array:
        sums = [jnp.ones(())] + [jnp.zeros(())] * self.order
        for z in self.blocks(A, B):
            for q in range(self.order, 0, -1):
                sums[q] = sums[q] + z * sums[q - 1]
        variances = jnp.broadcast_to(self.variance, (self.order,))
        return functools.reduce(jnp.add, [variances[q] * sums[q + 1] for q in range(self.order)])

    def held(self) -> tuple[str, ...]:
        return tuple(f"kernels.{j}.{name}" for j, k in enumerate(self.kernels) for name in k.amplitude())

    def amplitude(self) -> tuple[str, ...]:
        return ("variance",)

    def formula(self, digits: int = 6) -> str:
        return AbstractKernel.formula(self, digits)

    def leads(self, digits: int = 6) -> bool:
        return AbstractKernel.leads(self, digits)
