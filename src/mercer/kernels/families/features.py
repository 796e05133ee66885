"""Kernels made of your own basis functions: Bayesian linear regression on features (GPML 2.1.2)."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from mercer.inputs import Array
from mercer.kernels.algebra.functions import AbstractFunction, as_function
from mercer.kernels.algebra.sums import Product
from mercer.kernels.base import AbstractKernel
from mercer.kernels.families.dot import check_factor
from mercer.kernels.families.factors import lower_factor, lower_triangular
from mercer.params import Hyper, ParameterError, hyper, positive


class Features(AbstractKernel):
    """phi(x)' S phi(x') (2.15): a weighted sum of p basis functions, of finite rank p, so
    `solver="weight-space"` works with it.

    function: X (n, d) -> (n, p). S is the weights' prior covariance: variance times the identity, p
    variances, or variance times factor factor' with the lower Cholesky factor (p, p)
    (`kernels.lower_factor(covariance)`).

    >>> Features(lambda X: np.hstack([np.ones_like(X), X, X**2]), variance=[10.0, 1.0, 0.1])
    """

    function: AbstractFunction = eqx.field(converter=as_function)
    variance: Hyper = hyper(1.0, positive)
    factor: Hyper | None = hyper(None, lower_triangular, kw_only=True)

    def __check_init__(self):
        if self.factor is not None and np.ndim(self.variance) > 0:
            raise ParameterError("Features.variance must be one number where a factor is given.")

    def bind(self, d: int, names: tuple[str, ...] | None = None) -> Features:
        p = self.rank(d)
        check_factor(self, p)
        if np.ndim(self.variance) > 0 and np.shape(self.variance) != (p,):
            raise ParameterError(
                f"Features.variance has shape {np.shape(self.variance)} but there are {p} features."
            )
        return self

    def held(self) -> tuple[str, ...]:
        return () if self.factor is None else ("variance",)

    def encode(self, X: Array) -> Array:
        return self.function.encode(X)

    def block(self, A: jax.Array, B: jax.Array) -> jax.Array:
        return self.features(A) @ self.features(B).T

    def rank(self, d: int) -> int:
        return self.function.outputs(d) or 1

    def features(self, A: jax.Array) -> jax.Array:
        phi = self.function.value(A)
        phi = phi[:, None] if jnp.ndim(phi) == 1 else phi
        phi = phi if self.factor is None else phi @ jnp.tril(self.factor)
        return jnp.sqrt(self.variance) * phi


def varying_coefficients(features: Any, covariance: ArrayLike, kernel: AbstractKernel) -> Product:
    """phi(x)' W phi(x') k(x, x'): a linear model whose weights change from place to place, as Gaussian
    processes with kernel k.

    features: phi, X (n, d) -> (n, p). covariance: W (p, p), or p variances. kernel: how the weights change
    with x.
    """
    W = np.asarray(covariance, float)
    first = Features(features, W) if W.ndim < 2 else Features(features, factor=lower_factor(W))
    return Product((first, kernel))
