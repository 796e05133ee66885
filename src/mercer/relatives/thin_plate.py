"""Thin-plate splines: the smoothest surface through noisy data, without a length-scale (GPML 6.2.1)."""

from __future__ import annotations

import functools
import itertools
import math
from typing import Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg as sla
from scipy.special import gamma

from mercer.gp import GP
from mercer.inputs import Array
from mercer.kernels.base import AbstractKernel
from mercer.kernels.distance import squared_distance
from mercer.kernels.traits import Traits
from mercer.means import Features
from mercer.params import Hyper, ParameterError, fixed, hyper, positive, real
from mercer.relatives.splines import AbstractSpline


class ThinPlate(AbstractSpline):
    """The thin-plate spline on d columns: the function f with the least sum_i w_i (y_i - f(x_i))^2 +
    smoothing * |O^m f|^2.

    |O^m f|^2 is the integral of the sum of all squared m-th derivatives (6.10-6.11), 2m > d: the bending
    energy of a plate for m = d = 2. Polynomials of degree less than m are not penalised: they are basis
    functions of vague weight. Turning the inputs changes nothing; columns should be in like units. O(n^3); on
    one column `SmoothingSpline` is the same in O(n).

    smoothing: float, None or "gcv", default None. In units of X^(2m-d). None: that of the largest evidence.
        "gcv": of generalised cross-validation. The noise variance is learned in every case. In the plane 8 pi
        times this is the `smoothing` of `scipy.interpolate.RBFInterpolator` with kernel="thin_plate_spline".
    order: int or None, default None. The m above. None: 2, or more where d asks for it.

    smoothing_, noise_variance_, variance_ (of the process: noise_variance_ / smoothing_), log_evidence_,
    degrees_of_freedom_

    >>> surface = ThinPlate().fit(X, y)
    >>> mean, std = surface.predict(Xs, return_std=True)
    """

    def __init__(self, smoothing: float | str | None = None, order: int | None = None):
        self.smoothing = smoothing
        self.order = order

    def _order(self, d):
        order = max(2, d // 2 + 1) if self.order is None else self.order
        if isinstance(order, bool) or not isinstance(order, int | np.integer) or not d < 2 * order <= 16:
            raise ValueError(
                f"on {d} columns the order must be a whole number from {d // 2 + 1} to 8, got {order!r}."
            )
        return int(order)

    def _condition(self, U, z, variance, noise):
        m, d = self.order_, U.shape[1]
        H = monomials(U, m)
        pivots = sla.qr(H.T, pivoting=True, mode="r")[1][: H.shape[1]]
        if np.linalg.svd(H, compute_uv=False)[-1] < 1e-9 * np.sqrt(len(U)):
            raise ValueError(
                f"the inputs lie on a curve or plane where the {H.shape[1]} polynomials of degree less "
                f"than {m} in {d} columns are "
                "not told apart: use fewer columns."
            )
        basis = Features(functools.partial(monomials, m=m), name="monomials")
        return GP(Polyharmonic(m, fixed(variance), anchors=U[pivots]), basis=basis).condition(
            U, z, noise_variance=noise
        )


class Polyharmonic(AbstractKernel):
    """The thin-plate covariance with respect to anchors: what the penalty |O^m f|^2 says of f, up to
    polynomials of degree < m.

    G(r) = c r^(2m - d), times log r for even d (6.22), is a generalised covariance: it tells the variance
    only of combinations of values that polynomials cancel out of. Taking from f the polynomial through its
    values at q anchors (q, d) makes a covariance of it; the values there are independent with unit variance.
    With polynomials of vague weight (`basis=`) the anchors do not matter.

    order: m, 2m > d. anchors: as many points as there are monomials of degree less than m, not on a common
    zero of a polynomial.
    """

    order: int = eqx.field(default=2, static=True)
    variance: Hyper = hyper(1.0, positive)
    anchors: Hyper = hyper(None, real, free=False)

    def bind(self, d: int, names: tuple[str, ...] | None = None) -> Self:
        q = math.comb(self.order - 1 + d, d)
        if np.shape(self.anchors) != (q, d):
            raise ParameterError(
                f"Polyharmonic.anchors must be {q} points of {d} columns, got shape {np.shape(self.anchors)}."
            )
        if not 2 * self.order > d:
            raise ParameterError(
                f"Polyharmonic.order must be more than half the number of columns ({d}), got {self.order}."
            )
        return self

    def block(self, A: jax.Array, B: jax.Array) -> jax.Array:
        S = jnp.asarray(self.anchors)
        at = monomials(S, self.order)
        P, Q = (jnp.linalg.solve(at.T, monomials(X, self.order).T).T for X in (A, B))
        G = functools.partial(green, m=self.order)
        mixed = G(A, B) - P @ G(S, B) - G(A, S) @ Q.T + P @ G(S, S) @ Q.T
        return self.variance * (mixed + P @ Q.T)

    def traits(self, d: int = 1) -> Traits:
        return Traits(
            smoothness=math.ceil(self.order - d / 2) - 1, beyond="goes on as a polynomial, ever less surely"
        )


def green(A: jax.Array, B: jax.Array, m: int) -> jax.Array:
    """G(|a - b|) for rows of A and B: the function with (-1)^m Laplacian^m G = delta (6.22),
    conditionally positive definite.
    """
    d = A.shape[1]
    r2, power = squared_distance(A, B), m - d / 2
    if d % 2:
        constant = gamma(d / 2 - m) / (2.0 ** (2 * m) * math.pi ** (d / 2) * math.factorial(m - 1))
        return constant * jnp.where(r2 > 0, jnp.where(r2 > 0, r2, 1.0) ** power, 0.0)
    factorials = math.factorial(m - 1) * math.factorial(m - d // 2)
    constant = (-1) ** (d // 2 + 1 + m) / (2.0 ** (2 * m - 1) * math.pi ** (d / 2) * factorials)
    safe = jnp.where(r2 > 0, r2, 1.0)
    return constant * jnp.where(r2 > 0, 0.5 * safe**power * jnp.log(safe), 0.0)


def monomials(X: Array, m: int) -> Array:
    """All products of columns of X (n, d) of degree less than m: (n, q)."""
    xp = np if isinstance(X, np.ndarray) else jnp
    columns = [xp.ones(X.shape[0])]
    for degree in range(1, m):
        for which in itertools.combinations_with_replacement(range(X.shape[1]), degree):
            columns.append(functools.reduce(lambda a, b: a * b, [X[:, j] for j in which]))
    return xp.stack(columns, 1)
