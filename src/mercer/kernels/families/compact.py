"""Piecewise polynomials with compact support: covariance exactly zero beyond one length-scale,
so that matrices are sparse.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from mercer.inputs import as_inputs
from mercer.kernels.distance import COINCIDENT, safe_sqrt
from mercer.kernels.families.stationary import AbstractStationary
from mercer.kernels.traits import Traits
from mercer.linalg import tiles
from mercer.params import ParameterError, strip

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

CHUNK = 1 << 14  # pairs computed at once


class PiecewisePolynomial(AbstractStationary):
    """Wendland's polynomials (4.21): zero from r = 1 on, functions differentiable q times (q = 0, 1, 2, 3).

    dimension: the largest number of columns for which it is positive definite; by default that of the inputs.
    More columns than that are refused: there the same polynomial is not a covariance function.

    >>> PiecewisePolynomial(lengthscale=2.0, q=2)
    >>> PiecewisePolynomial(2.0).sparse(X)  # scipy.sparse; only pairs closer than 2.0 are ever computed
    """

    q: int = eqx.field(default=1, static=True)
    dimension: int | None = eqx.field(default=None, static=True)

    def __check_init__(self):
        if not (isinstance(self.q, (int, np.integer)) and self.q in range(4)):
            raise ParameterError(f"PiecewisePolynomial.q must be 0, 1, 2 or 3, got {self.q!r}.")
        if self.dimension is not None and not (
            isinstance(self.dimension, (int, np.integer)) and self.dimension >= 1
        ):
            raise ParameterError(
                f"PiecewisePolynomial.dimension must be a whole number of at least 1, got {self.dimension!r}."
            )

    def bind(self, d: int, names: tuple[str, ...] | None = None) -> PiecewisePolynomial:
        if self.dimension is not None and d > self.dimension:
            raise ParameterError(
                f"PiecewisePolynomial.dimension is {self.dimension} but the kernel sees {d} input columns, "
                "where it is not "
                f"positive definite: use dimension={d} (or leave it out), or choose columns with .on(...)."
            )
        bound = super().bind(d, names)
        return bound if self.dimension is not None else dataclasses.replace(bound, dimension=d)

    def profile(self, r2: jax.Array) -> jax.Array:
        if self.dimension is None:
            raise ParameterError(
                "PiecewisePolynomial.dimension is not known yet: give it, or call the kernel on inputs."
            )
        return _wendland(self.dimension // 2 + self.q + 1, self.q, r2)

    def derivatives(self) -> int:
        return self.q

    def traits(self, d: int = 1) -> Traits:
        beyond = "returns to the mean exactly, one length-scale away"
        return dataclasses.replace(super().traits(d), max_dimension=self.dimension or d, beyond=beyond)

    def sparse(self, X: Any, X2: Any = None) -> csr_matrix:
        """The covariance matrix (n, n), or (n, n2), in scipy's CSR form:
        time and memory of the pairs inside the support.
        """
        from scipy.sparse import csr_matrix
        from scipy.spatial import cKDTree

        first = as_inputs(X)
        kernel = strip(self.bind(first.values.shape[1], first.names))
        left = cKDTree(np.asarray(kernel.scale(kernel.encode(first.values))))
        right = (
            left
            if X2 is None
            else cKDTree(np.asarray(kernel.scale(kernel.encode(as_inputs(X2, columns=first.names).values))))
        )
        pairs = left.sparse_distance_matrix(right, 1.0, output_type="ndarray")
        values = np.empty(len(pairs))
        for start in range(0, len(pairs), CHUNK):
            r = pairs["v"][start : start + CHUNK]
            padded = np.pad(r, (0, CHUNK - len(r)), constant_values=1.0)
            values[start : start + CHUNK] = np.asarray(tiles.call(_covariance, kernel, padded))[: len(r)]
        return csr_matrix((values, (pairs["i"], pairs["j"])), shape=(left.n, right.n))


def _covariance(kernel: PiecewisePolynomial, r):
    return kernel.variance * kernel.profile(r * r)


def _coefficients(j: int, q: int) -> list[float]:
    """Of the polynomial that multiplies (1 - r)^(j + q), from the constant upwards."""
    return [
        [1.0],
        [1.0, j + 1.0],
        [1.0, j + 2.0, (j * j + 4 * j + 3) / 3],
        [1.0, j + 3.0, (6 * j * j + 36 * j + 45) / 15, (j**3 + 9 * j * j + 23 * j + 15) / 15],
    ][q]


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def _wendland(j: int, q: int, r2):
    r = safe_sqrt(r2)
    polynomial: jax.Array | float = 0.0
    for c in reversed(_coefficients(j, q)):
        polynomial = polynomial * r + c
    return jnp.maximum(1.0 - r, 0.0) ** (j + q) * polynomial


@_wendland.defjvp
def _wendland_jvp(j, q, primals, tangents):
    # the derivative in r2 is a multiple of the next rougher one of the same j: well-defined at coincident
    # points
    (r2,), (tangent,) = primals, tangents
    value = _wendland(j, q, r2)
    if q:
        a, m = _coefficients(j, q), j + q
        curvature = 2.0 * (m * a[1] - (a[2] if q > 1 else 0.0) - math.comb(m, 2))
        return value, -0.5 * curvature * _wendland(j, q - 1, r2) * tangent
    r = jnp.sqrt(jnp.where(r2 > COINCIDENT, r2, COINCIDENT))
    slope = (
        -0.5 * j * jnp.maximum(1.0 - r, 0.0) ** (j - 1) / r if j > 1 else jnp.where(r < 1.0, -0.5 / r, 0.0)
    )
    return value, jnp.where(r2 > COINCIDENT, slope, 0.0) * tangent
