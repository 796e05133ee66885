"""The Matern correlation for any order: 2^(1-nu) / Gamma(nu) z^nu K_nu(z), differentiable in z^2 and nu.

K_nu(z) = integral over t >= 0 of exp(-z cosh t) cosh(nu t). The integrand falls doubly exponentially, so the
trapezoid rule with 100 nodes on the interval around its peak is accurate to about 1e-10. Nodes are summed in
a loop: no array larger than z.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

_NODES = 100
_SMALL = 1e-20  # z^2 below this is zero
_NARROW = 200.0  # from this order on the integrand is a narrow peak
_GAUSSIAN = 1e7  # from this order on the limit, exp(-r^2 / 2), is nearer than rounding lets the integral be


def matern_correlation(z2: jax.Array, nu: jax.Array) -> jax.Array:
    """Correlation at z2 = z^2 = 2 nu r^2 >= 0 (an array) for order nu > 0 (a scalar)."""
    z2 = jnp.asarray(z2)
    nu = jnp.asarray(nu, z2.dtype)
    gaussian = nu > _GAUSSIAN
    inside = _correlation(jnp.where(gaussian, 0.0, z2), jnp.where(gaussian, _GAUSSIAN, nu))
    return jnp.where(gaussian, jnp.exp(-0.25 * z2 / nu), inside)


@jax.custom_jvp
def _correlation(z2, nu):
    small = z2 < _SMALL
    return jnp.where(small, 1.0, _integral(jnp.sqrt(jnp.where(small, _SMALL, z2)), nu, nu, moment=False))


@_correlation.defjvp
def _correlation_jvp(primals, tangents):
    from jax.scipy.special import digamma

    z2, nu = primals
    dz2, dnu = tangents
    small = z2 < _SMALL
    z = jnp.sqrt(jnp.where(small, _SMALL, z2))
    value = _integral(z, nu, nu, moment=False)
    # d/dz z^nu K_nu = -z^nu K_(nu-1), at zero finite for nu > 1;  d/dnu by differentiating the integrand and
    # the normaliser
    slope = -0.5 * _integral(z, nu, jnp.abs(nu - 1.0), moment=False) / z
    slope_at_zero = jnp.where(nu > 1.0, -0.25 / jnp.where(nu > 1.0, nu - 1.0, 1.0), 0.0)
    by_order = _integral(z, nu, nu, moment=True) + (jnp.log(z) - jnp.log(2.0) - digamma(nu)) * value
    tangent = jnp.where(small, slope_at_zero, slope) * dz2 + jnp.where(small, 0.0, by_order) * dnu
    return jnp.where(small, 1.0, value), tangent


def _integral(z, nu, order, moment: bool):
    """2^(1-nu)/Gamma(nu) z^nu times the integral of exp(-z cosh t) cosh(order t) [t tanh(order t):
    for the derivative in order].
    """
    from jax.scipy.special import gammaln

    # the integrand is below 1e-17 of its peak beyond these points
    end = jnp.arcsinh((nu + 45.0 + 6.0 * jnp.sqrt(nu)) / z) + 1.0 / (1.0 + z)
    peak = jnp.arcsinh(order / z)
    start = jnp.maximum(peak - 1.0 - 42.0 / jnp.maximum(order, 1e-3), 0.0)
    width = jnp.where(nu > _NARROW, 10.0 / jnp.sqrt(jnp.hypot(order, z)), jnp.inf)
    start, end = jnp.maximum(start, peak - width), jnp.minimum(end, peak + width)
    start, step = jax.lax.stop_gradient((start, (end - start) / _NODES))
    log_scale = (1.0 - nu) * jnp.log(2.0) - gammaln(nu) + nu * jnp.log(z)

    def add(i, total):
        t = start + i * step
        log_cosh = order * t + jnp.log1p(jnp.exp(-2.0 * order * t)) - jnp.log(2.0)
        term = jnp.exp(log_scale - z * jnp.cosh(t) + log_cosh)
        if moment:
            term = term * t * jnp.tanh(order * t)
        return total + jnp.where(i == 0, 0.5, 1.0) * term

    return step * jax.lax.fori_loop(0, _NODES + 1, add, jnp.zeros_like(z))
