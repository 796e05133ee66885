"""Band-limited kernels: damped oscillations c (alpha r)^-nu J_nu(alpha r) without any frequency above alpha /
(2 pi).
"""

from __future__ import annotations

import dataclasses
import functools
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from mercer.kernels.distance import safe_sqrt
from mercer.kernels.families.stationary import AbstractStationary
from mercer.kernels.traits import Traits
from mercer.params import Hyper, ParameterError


class BesselJ(AbstractStationary):
    """2^nu Gamma(nu + 1) r^-nu J_nu(r) (Yaglom): damped oscillations without any frequency above 1 / (2 pi
    lengthscale).

    The book's alpha is 1 / lengthscale. nu >= (d - 2) / 2 on d columns: -1/2 is the cosine (d = 1), 1/2 the
    sinc sin(r) / r (d <= 3); the larger nu, the stronger the damping.

    >>> BesselJ(lengthscale=0.3, nu=1.0)
    """

    nu: float = eqx.field(default=0.5, static=True, converter=float)

    def __check_init__(self):
        if not -0.5 <= self.nu <= 50:
            raise ParameterError(f"BesselJ.nu must be between -1/2 and 50, got {self.nu}.")

    def bind(self, d: int, names: tuple[str, ...] | None = None) -> BesselJ:
        if self.nu < (d - 2) / 2:
            raise ParameterError(
                f"BesselJ.nu is {self.nu:g} but the kernel sees {d} input columns, where it is positive "
                "definite only for "
                f"nu >= {(d - 2) / 2:g}."
            )
        return super().bind(d, names)

    def profile(self, r2: jax.Array) -> jax.Array:
        return bessel_correlation(self.nu, r2)

    def rank(self, d: int) -> int | None:
        return 2 if self.nu == -0.5 and d == 1 else None

    def features(self, A: jax.Array) -> jax.Array:
        if self.rank(A.shape[1]) is None:
            return super().features(A)
        angle = A * jnp.linalg.norm(self.scale(jnp.ones((1, 1))))
        return jnp.sqrt(self.variance) * jnp.concatenate([jnp.cos(angle), jnp.sin(angle)], 1)

    def derivatives(self) -> float:
        return math.inf

    def traits(self, d: int = 1) -> Traits:
        general = dataclasses.replace(super().traits(d), max_dimension=math.floor(2 * self.nu + 2))
        if self.nu > -0.5:
            return dataclasses.replace(general, beyond="returns to the mean slowly, swinging around it")
        inverse = float(np.linalg.norm(self.scale(np.ones((1, 1)))))
        return dataclasses.replace(
            general, lengthscale=None, period=2 * math.pi / inverse, recurs=True, beyond="repeats exactly"
        )


def Sinc(lengthscale: Hyper = 1.0, variance: Hyper = 1.0) -> BesselJ:
    """sin(r) / r, on up to three columns: in one dimension all frequencies up to 1 / (2 pi lengthscale) in
    equal measure.
    """
    return BesselJ(lengthscale, variance, nu=0.5)


def Cosine(lengthscale: Hyper = 1.0, variance: Hyper = 1.0) -> BesselJ:
    """cos(x / lengthscale) of one column: sinusoids of period 2 pi lengthscale with unknown amplitude and
    phase.
    """
    return BesselJ(lengthscale, variance, nu=-0.5)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def bessel_correlation(nu: float, z2: jax.Array) -> jax.Array:
    """2^nu Gamma(nu + 1) z^-nu J_nu(z) at z2 = z^2, for a number nu >= -1/2;
    its derivative is the next order's.
    """
    z = safe_sqrt(z2)
    if nu == -0.5:
        return jnp.cos(z)
    if nu == 0.5:
        return jnp.where(z > 0, jnp.sin(z) / jnp.where(z > 0, z, 1.0), 1.0)
    near, far = _far(nu), jnp.maximum(z, _far(nu))
    return jnp.where(z < near, _by_quadrature(nu, jnp.minimum(z, near)), _by_expansion(nu, far))


@bessel_correlation.defjvp
def _bessel_correlation_jvp(nu, primals, tangents):
    (z2,), (tangent,) = primals, tangents
    return bessel_correlation(nu, z2), -bessel_correlation(nu + 1.0, z2) / (4.0 * (nu + 1.0)) * tangent


def _far(nu: float) -> float:
    """From here on Hankel's expansion has all digits."""
    return 30.0 + 0.5 * nu * nu


def _by_quadrature(nu: float, z):
    """Poisson's integral of cos(z t) (1 - t^2)^(nu - 1/2) over (-1, 1) by Gauss-Jacobi quadrature."""
    from scipy import special

    count = 2 * math.ceil(_far(nu) / 4 + 12)
    nodes, weights = special.roots_jacobi(count, nu - 0.5, nu - 0.5)
    nodes, weights = (
        jnp.asarray(nodes[count // 2 :]),
        jnp.asarray(weights[count // 2 :] / weights[count // 2 :].sum()),
    )
    add = lambda i, total: total + weights[i] * jnp.cos(nodes[i] * z)  # noqa: E731
    return jax.lax.fori_loop(0, count // 2, add, jnp.zeros_like(z))


def _by_expansion(nu: float, z):
    """Hankel's asymptotic expansion of J_nu for large z."""
    coefficients, mu = [1.0], 4.0 * nu * nu
    for i in range(1, 24):
        coefficients.append(coefficients[-1] * (mu - (2 * i - 1) ** 2) / (8.0 * i))
    u = 1.0 / z
    even = [(-1) ** (i // 2) * c for i, c in enumerate(coefficients) if i % 2 == 0]
    odd = [(-1) ** (i // 2) * c for i, c in enumerate(coefficients) if i % 2 == 1]
    P, Q = (
        functools.reduce(lambda total, c: total * u * u + c, reversed(terms), 0.0) for terms in (even, odd)
    )
    angle = z - (0.5 * nu + 0.25) * math.pi
    scale = jnp.exp(math.lgamma(nu + 1.0) + nu * jnp.log(2.0 * u)) * jnp.sqrt(2.0 / math.pi * u)
    return scale * (P * jnp.cos(angle) - Q * u * jnp.sin(angle))
