"""Dot-product kernels: constant, linear, polynomial. All of finite rank:
Bayesian linear regression in disguise.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from mercer.inputs import Array
from mercer.kernels.base import AbstractKernel
from mercer.kernels.distance import safe_sqrt
from mercer.kernels.families.factors import lower_triangular
from mercer.kernels.traits import Traits
from mercer.linalg.tiles import rows
from mercer.params import Hyper, ParameterError, hyper, nonnegative, positive, real


class Constant(AbstractKernel):
    """k = variance: an unknown constant offset with that prior variance, in squared units of f.

    >>> Linear() + Constant(100.0)
    """

    variance: Hyper = hyper(1.0, positive)

    def encode(self, X: Array) -> Array:
        """Only the number of rows matters, so the columns may hold anything."""
        return np.zeros((X.shape[0], 1)) if X.dtype == object else X

    def block(self, A: jax.Array, B: jax.Array) -> jax.Array:
        return jnp.broadcast_to(self.variance, (rows(A), rows(B)))

    def rank(self, d: int) -> int:
        return 1

    def features(self, A: jax.Array) -> jax.Array:
        return jnp.sqrt(self.variance) * jnp.ones((rows(A), 1))

    def traits(self, d: int = 1) -> Traits:
        return Traits(
            stationary=True,
            isotropic=True,
            dot_product=True,
            smoothness=math.inf,
            recurs=True,
            beyond="keeps its level",
        )


class Linear(AbstractKernel):
    """sum_d variance_d (x_d - c_d)(x'_d - c_d): a linear function that is zero at the centre c, with weights
    of that prior variance (A.K2).

    variance: of the weights, in squared units of f over those of x; one number, or (d,), one for each column
    centre: None for the origin; one number, or (d,), in units of x

    Add `Constant()` for an intercept.

    >>> Linear([1.0, 4.0]) + Constant(10.0)
    """

    variance: Hyper = hyper(1.0, positive)
    centre: Hyper | None = hyper(None, real, free=False, kw_only=True)

    def block(self, A: jax.Array, B: jax.Array) -> jax.Array:
        return (self._from_centre(A) * self.variance) @ self._from_centre(B).T

    def rank(self, d: int) -> int:
        return d

    def features(self, A: jax.Array) -> jax.Array:
        return self._from_centre(A) * jnp.sqrt(self.variance)

    def _from_centre(self, A: jax.Array) -> jax.Array:
        return A if self.centre is None else A - self.centre

    def traits(self, d: int = 1) -> Traits:
        equal = self.centre is None and (d == 1 or np.unique(self.variance).size == 1)
        return Traits(dot_product=equal, smoothness=math.inf, beyond="continues the straight line")


class LinearCovariance(AbstractKernel):
    """bias_variance + x' S x' with S = factor factor': Bayesian linear regression with correlated weights
    (A.K2).

    factor: the lower Cholesky factor (d, d) of the weights' prior covariance S (`kernels.lower_factor(S)`).
    bias_variance: of the intercept; zero for a function through the origin.

    >>> LinearCovariance(lower_factor([[1.0, 0.5], [0.5, 2.0]]), bias_variance=10.0)
    """

    factor: Hyper = hyper(constraint=lower_triangular)
    bias_variance: Hyper = hyper(1.0, nonnegative)

    def bind(self, d: int, names: tuple[str, ...] | None = None) -> LinearCovariance:
        check_factor(self, d)
        return super().bind(d, names)

    def block(self, A: jax.Array, B: jax.Array) -> jax.Array:
        L = jnp.tril(self.factor)
        return self.bias_variance + (A @ L) @ (B @ L).T

    def rank(self, d: int) -> int:
        return d + 1

    def features(self, A: jax.Array) -> jax.Array:
        bias = jnp.broadcast_to(safe_sqrt(self.bias_variance), (A.shape[0], 1))
        return jnp.concatenate([bias, A @ jnp.tril(self.factor)], 1)

    def traits(self, d: int = 1) -> Traits:
        return Traits(smoothness=math.inf, beyond="continues the straight line")


def check_factor(kernel: Any, size: int) -> None:
    """A factor of weights must have one row for each weight."""
    if kernel.factor is not None and np.shape(kernel.factor)[0] != size:
        raise ParameterError(
            f"{type(kernel).__name__}.factor is {np.shape(kernel.factor)} but there are {size} weights."
        )


class Polynomial(AbstractKernel):
    """variance * (x' S x' + offset)^degree (4.23): all monomials up to the degree (exactly the degree if
    offset = 0).

    S is the identity, or factor factor' with the lower Cholesky factor (d, d).
    """

    degree: int = eqx.field(default=2, static=True)
    offset: Hyper = hyper(1.0, nonnegative)
    variance: Hyper = hyper(1.0, positive)
    factor: Hyper | None = hyper(None, lower_triangular, kw_only=True)

    def __check_init__(self):
        if not (isinstance(self.degree, (int, np.integer)) and self.degree >= 1):
            raise ParameterError(
                f"Polynomial.degree must be a whole number of at least 1, got {self.degree!r}."
            )

    def bind(self, d: int, names: tuple[str, ...] | None = None) -> Polynomial:
        check_factor(self, d)
        return super().bind(d, names)

    def _weighted(self, A):
        return A if self.factor is None else A @ jnp.tril(self.factor)

    def block(self, A: jax.Array, B: jax.Array) -> jax.Array:
        return self.variance * (self._weighted(A) @ self._weighted(B).T + self.offset) ** self.degree

    def rank(self, d: int) -> int:
        return math.comb(d + self.degree, self.degree)

    def features(self, A: jax.Array) -> jax.Array:
        """Monomials of the augmented input (x, sqrt offset),
        weighted by the square root of the multinomial coefficient (4.24).
        """
        offset = jnp.broadcast_to(safe_sqrt(self.offset), (A.shape[0], 1))
        augmented = jnp.concatenate([self._weighted(A), offset], 1)
        columns = []
        for chosen in itertools.combinations_with_replacement(range(augmented.shape[1]), self.degree):
            counts = [chosen.count(j) for j in set(chosen)]
            weight = math.factorial(self.degree) / math.prod(math.factorial(c) for c in counts)
            columns.append(math.sqrt(weight) * jnp.prod(augmented[:, list(chosen)], axis=1))
        return jnp.sqrt(self.variance) * jnp.stack(columns, 1)

    def traits(self, d: int = 1) -> Traits:
        plain = self.factor is None
        return Traits(
            dot_product=plain, smoothness=math.inf, beyond=f"continues a polynomial of degree {self.degree}"
        )
