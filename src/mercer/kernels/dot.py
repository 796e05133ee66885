"""Dot-product kernels: constant, linear, polynomial. All of finite rank: Bayesian linear regression in disguise."""

from __future__ import annotations

import itertools
import math

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from mercer.kernels.base import AbstractKernel
from mercer.linalg.tiles import rows
from mercer.params import Hyper, ParameterError, hyper, nonnegative, positive


class Constant(AbstractKernel):
    """k = variance: an unknown constant offset with that prior variance."""

    variance: Hyper = hyper(1.0, positive)

    def block(self, A, B):
        return jnp.broadcast_to(self.variance, (rows(A), rows(B)))

    def rank(self, d):
        return 1

    def features(self, A):
        return jnp.sqrt(self.variance) * jnp.ones((rows(A), 1))


class Linear(AbstractKernel):
    """sum_d variance_d x_d x'_d: a linear function through the origin with weights of that prior variance (A.K2).

    Add `Constant()` for an intercept.
    """

    variance: Hyper = hyper(1.0, positive)

    def block(self, A, B):
        return (A * self.variance) @ B.T

    def rank(self, d):
        return d

    def features(self, A):
        return A * jnp.sqrt(self.variance)


class Polynomial(AbstractKernel):
    """variance * (x . x' + offset)^degree (4.23): all monomials up to the degree (exactly the degree if offset = 0)."""

    degree: int = eqx.field(default=2, static=True)
    offset: Hyper = hyper(1.0, nonnegative)
    variance: Hyper = hyper(1.0, positive)

    def __check_init__(self):
        if not (isinstance(self.degree, (int, np.integer)) and self.degree >= 1):
            raise ParameterError(f"Polynomial.degree must be a whole number of at least 1, got {self.degree!r}.")

    def block(self, A, B):
        return self.variance * (A @ B.T + self.offset) ** self.degree

    def rank(self, d):
        return math.comb(d + self.degree, self.degree)

    def features(self, A):
        """Monomials of the augmented input (x, sqrt offset), weighted by the square root of the multinomial coefficient (4.24)."""
        augmented = jnp.concatenate([A, jnp.broadcast_to(jnp.sqrt(self.offset), (A.shape[0], 1))], 1)
        columns = []
        for chosen in itertools.combinations_with_replacement(range(augmented.shape[1]), self.degree):
            counts = [chosen.count(j) for j in set(chosen)]
            weight = math.factorial(self.degree) / math.prod(math.factorial(c) for c in counts)
            columns.append(math.sqrt(weight) * jnp.prod(augmented[:, list(chosen)], axis=1))
        return jnp.sqrt(self.variance) * jnp.stack(columns, 1)
