"""Stationary kernels: a one-line `profile(r2)` on a distance.

The distance is r2 = sum_d ((x_d - x'_d) / lengthscale_d)^2 + |loadings' (x - x')|^2: one length-scale
(isotropic), one for each column (automatic relevance determination), and optionally the factor-analysis
distance of (5.1) with `loadings` (d, k).
"""

from __future__ import annotations

import abc
import dataclasses
import functools
import math
from typing import Self

import jax
import jax.numpy as jnp
import numpy as np

from mercer.inputs import Array
from mercer.kernels.base import AbstractKernel
from mercer.kernels.distance import COINCIDENT, safe_sqrt, squared_distance
from mercer.kernels.families.bessel import matern_correlation
from mercer.kernels.traits import Traits
from mercer.params import Hyper, Param, ParameterError, Static, hyper, interval, positive, real


class AbstractStationary(AbstractKernel):
    """variance * profile(r2), with profile(0) = 1.

    lengthscale: in the units of the inputs; one number, or one for each column (ARD).
    variance: in the squared units of the output.
    loadings: None, or (d, k): k further directions, each adding (loadings[:, j] . (x - x'))^2 to r2.
    """

    lengthscale: Hyper = hyper(1.0, positive)
    variance: Hyper = hyper(1.0, positive)
    loadings: Hyper | None = hyper(None, real, kw_only=True)

    @abc.abstractmethod
    def profile(self, r2: jax.Array) -> jax.Array:
        """Correlation at scaled squared distance r2, elementwise."""

    def derivatives(self) -> float | None:
        """How many mean-square derivatives the functions have; None: not known."""
        return None

    def __check_init__(self):
        if jnp.ndim(self.lengthscale) > 1 or jnp.size(self.lengthscale) == 0:
            raise ParameterError(
                f"{type(self).__name__}.lengthscale must be a number or a vector with one entry per column."
            )
        if jnp.ndim(self.variance) > 0:
            raise ParameterError(f"{type(self).__name__}.variance must be one number.")
        if self.loadings is not None and jnp.ndim(self.loadings) != 2:
            raise ParameterError(f"{type(self).__name__}.loadings must be a (columns, directions) matrix.")

    def suggest(self, X: np.ndarray, variance: float) -> Self:
        spread = np.std(X, 0)
        spread = np.where(spread > 0, spread, 1.0) * np.sqrt(np.sqrt(X.shape[1]))
        return self.with_values(
            lengthscale=spread if np.ndim(self.lengthscale) else np.mean(spread), variance=variance
        )

    def bind(self, d: int, names: tuple[str, ...] | None = None) -> Self:
        if self.loadings is not None and np.shape(self.loadings)[0] != d:
            raise ParameterError(
                f"{type(self).__name__}.loadings has {np.shape(self.loadings)[0]} rows but the kernel sees "
                f"{d} input "
                f"column{'s' if d != 1 else ''}; it needs one row for each."
            )
        return super().bind(d, names)

    def traits(self, d: int = 1) -> Traits:
        return Traits(
            stationary=True,
            isotropic=d == 1 or (self.loadings is None and np.unique(self.lengthscale).size == 1),
            smoothness=self.derivatives(),
            lengthscale=self.lengthscale if self.loadings is None else None,
            beyond="returns to the mean within a few length-scales",
        )

    def scale(self, A: Array) -> jax.Array:
        """Inputs in which r2 is the plain squared distance."""
        scaled = A / self.lengthscale
        return scaled if self.loadings is None else jnp.concatenate([scaled, A @ self.loadings], 1)

    def block(self, A: jax.Array, B: jax.Array) -> jax.Array:
        return self.variance * self.profile(squared_distance(self.scale(A), self.scale(B)))


class SE(AbstractStationary):
    """Squared exponential, exp(-r2 / 2) (2.16): infinitely smooth functions.

    lengthscale: in the units of the inputs; one number, or (d,), one for each column
    variance: in the squared units of f

    >>> SE(lengthscale=[1.0, 2.0], variance=0.5)
    >>> SE()(X), SE()(X, Xs)                                  # covariance matrices, (n, n) and (n, m)
    """

    def profile(self, r2: jax.Array) -> jax.Array:
        return jnp.exp(-0.5 * r2)

    def derivatives(self) -> float:
        return math.inf


class Matern(AbstractStationary):
    """Matern class (4.14): functions differentiable ceil(nu) - 1 times; nu = 1/2 is Ornstein-Uhlenbeck, and
    the limit of large nu the SE. `SteinMatern` has the other convention of its length-scale.

    lengthscale, variance: as in `SE`
    nu: smoothness, part of the structure (1/2, 3/2, 5/2 ... have closed forms); given as `param(...)` it is
        learned like any other

    >>> Matern(nu=1.5, lengthscale=0.7)
    >>> Matern(nu=mercer.param(1.5))
    """

    nu: Hyper = hyper(2.5, positive, structural=True)

    def profile(self, r2: jax.Array) -> jax.Array:
        nu = self.nu
        if isinstance(nu, Static):
            p = float(nu) - 0.5
            if p == int(p) and p <= 6:
                return _half_integer(int(p), 2.0 * float(nu) * r2)
            return matern_correlation(2.0 * float(nu) * r2, jnp.float64(nu))
        return matern_correlation(2.0 * nu * r2, nu)

    def derivatives(self) -> float:
        return math.ceil(float(self.nu)) - 1


def OrnsteinUhlenbeck(lengthscale: Hyper = 1.0, variance: Hyper = 1.0) -> Matern:
    """The exponential kernel exp(-r): Matern of order 1/2,
    in one dimension the Ornstein-Uhlenbeck process.
    """
    return Matern(lengthscale, variance, nu=0.5)


def SteinMatern(lengthscale: Hyper = 1.0, variance: Hyper = 1.0, nu: Hyper = 2.5) -> Matern:
    """The Matern class in its other convention, (2 sqrt(nu) r)^nu K_nu(2 sqrt(nu) r) (Stein; Kuss 3.34): its
    limit of large nu is exp(-r2), and nu = 1/2 is exp(-sqrt(2) r).

    It is `Matern` with a length-scale smaller by sqrt(2), and is written so; priors and bounds of the
    length-scale are carried along.

    >>> SteinMatern(1.0, nu=1.5)                              # Matern(0.707107, nu=1.5)
    """
    factor = 1.0 / math.sqrt(2.0)
    if not isinstance(lengthscale, Param):
        return Matern(np.multiply(lengthscale, factor), variance, nu=nu)
    info = lengthscale.info
    if info.tie is not None:
        raise ParameterError("a tied length-scale means the same everywhere: tie that of Matern.")
    moved = dataclasses.replace(
        info,
        prior=None if info.prior is None else info.prior.scaled(factor),
        bounds=None if info.bounds is None else (info.bounds[0] * factor, info.bounds[1] * factor),
    )
    return Matern(Param(np.multiply(lengthscale.value, factor), moved), variance, nu=nu)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _half_integer(p: int, z2):
    """exp(-z) times the polynomial of (4.16), z2 = z^2 = 2 nu r2."""
    # derivatives of the root are never taken; its guard would make compiled code compute distances again
    z = jnp.sqrt(z2) if p else safe_sqrt(z2)
    scale = math.factorial(p) / math.factorial(2 * p)
    coefficients = [
        scale * math.factorial(2 * p - j) / (math.factorial(p - j) * math.factorial(j)) * 2.0**j
        for j in range(p + 1)
    ]
    poly = jnp.full_like(z, coefficients[p])
    for c in coefficients[p - 1 :: -1] if p else []:
        poly = poly * z + c
    return poly * jnp.exp(-z)


@_half_integer.defjvp
def _half_integer_jvp(p, primals, tangents):
    # the derivative in z2 is the next lower order: well-defined, and right to any order the process has, at
    # coincident points
    (z2,), (tangent,) = primals, tangents
    if p:
        return _half_integer(p, z2), -_half_integer(p - 1, z2) / (4 * p - 2) * tangent
    z = jnp.sqrt(jnp.where(z2 > COINCIDENT, z2, COINCIDENT))
    return _half_integer(p, z2), jnp.where(z2 > COINCIDENT, -0.5 * jnp.exp(-z) / z, 0.0) * tangent


class RationalQuadratic(AbstractStationary):
    """(1 + r2 / (2 alpha))^-alpha (4.19): a scale mixture of SEs; alpha -> infinity is the SE.

    lengthscale, variance: as in `SE`
    alpha: the smaller, the more length-scales are mixed

    >>> RationalQuadratic(1.2, alpha=0.78)
    """

    alpha: Hyper = hyper(1.0, positive)

    def profile(self, r2: jax.Array) -> jax.Array:
        return jnp.exp(-self.alpha * jnp.log1p(r2 / (2.0 * self.alpha)))

    def derivatives(self) -> float:
        return math.inf


class GammaExponential(AbstractStationary):
    """exp(-r^gamma) (4.18), 0 < gamma <= 2: gamma = 1 is the exponential;
    gamma = 2 the SE with lengthscale / sqrt 2.
    """

    gamma: Hyper = hyper(1.0, interval(0.0, 2.0))

    def __check_init__(self):
        if not isinstance(self.gamma, jnp.ndarray) and not self.gamma > 0:
            raise ParameterError("GammaExponential.gamma must be above 0 and at most 2.")

    def profile(self, r2: jax.Array) -> jax.Array:
        apart = r2 > COINCIDENT
        # keeps the curvature of the one smooth case
        at_zero = jnp.where(jnp.asarray(self.gamma) >= 2.0, r2, 0.0)
        power = jnp.where(
            apart, jnp.exp(0.5 * self.gamma * jnp.log(jnp.where(apart, r2, COINCIDENT))), at_zero
        )
        return jnp.exp(-power)

    def derivatives(self) -> float:
        return math.inf if float(self.gamma) == 2.0 else 0


class Periodic(AbstractKernel):
    """exp(-2 sum_d sin^2(pi (x_d - x'_d) / period_d) / lengthscale_d^2) (4.31): functions that repeat
    exactly.

    period: in the units of the inputs
    lengthscale: without units, how far along one period values stay alike
    variance: in the squared units of f

    >>> Periodic(period=mercer.fixed(1.0), lengthscale=0.8)
    >>> SE(10.0) * Periodic(1.0)                              # a season that changes slowly
    """

    period: Hyper = hyper(1.0, positive)
    lengthscale: Hyper = hyper(1.0, positive)
    variance: Hyper = hyper(1.0, positive)

    def block(self, A: jax.Array, B: jax.Array) -> jax.Array:
        angle_a, angle_b = (jnp.pi * X / self.period for X in (A, B))
        weight = jnp.broadcast_to(2.0 / jnp.square(self.lengthscale), (A.shape[1],))
        total = jnp.zeros(())
        for j in range(A.shape[1]):
            total = total + weight[j] * jnp.sin(angle_a[:, j, None] - angle_b[None, :, j]) ** 2
        return self.variance * jnp.exp(-total)

    def traits(self, d: int = 1) -> Traits:
        smooth, repeats = math.inf, "repeats exactly"
        return Traits(
            stationary=True,
            isotropic=d == 1,
            smoothness=smooth,
            period=self.period,
            recurs=True,
            beyond=repeats,
        )
