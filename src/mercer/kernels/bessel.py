"""The Matern correlation for any order: 2^(1-nu) / Gamma(nu) z^nu K_nu(z), differentiable in z and nu.

K_nu(z) = integral over t >= 0 of exp(-z cosh t) cosh(nu t). The integrand falls doubly exponentially, so the trapezoid rule with 100
nodes on an interval that depends on z is accurate to about 1e-10. Nodes are summed in a loop: no array larger than z.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.scipy.special import digamma, gammaln

_NODES = 100


def matern_correlation(z, nu):
    """Correlation at z = sqrt(2 nu) r >= 0 (an array) for order nu > 0 (a scalar)."""
    return _correlation(jnp.asarray(z), jnp.asarray(nu, jnp.asarray(z).dtype))


@jax.custom_jvp
def _correlation(z, nu):
    small = z < 1e-10
    return jnp.where(small, 1.0, _integral(jnp.where(small, 1.0, z), nu, nu, moment=False))


@_correlation.defjvp
def _correlation_jvp(primals, tangents):
    z, nu = primals
    dz, dnu = tangents
    small = z < 1e-10
    safe = jnp.where(small, 1.0, z)
    value = _integral(safe, nu, nu, moment=False)
    # d/dz z^nu K_nu = -z^nu K_(nu-1);  d/dnu by differentiating the integrand and the normaliser
    slope = -_integral(safe, nu, jnp.abs(nu - 1.0), moment=False)
    log_z = jnp.log(safe)
    by_order = _integral(safe, nu, nu, moment=True) + (log_z - jnp.log(2.0) - digamma(nu)) * value
    tangent = jnp.where(small, 0.0, slope) * dz + jnp.where(small, 0.0, by_order) * dnu
    return jnp.where(small, 1.0, value), tangent


def _integral(z, nu, order, moment: bool):
    """2^(1-nu)/Gamma(nu) z^nu times the integral of exp(-z cosh t) cosh(order t) [times t tanh(order t) for the derivative in order]."""
    # the integrand is below 1e-17 of its peak beyond this point
    end = jnp.arcsinh((nu + 45.0 + 6.0 * jnp.sqrt(nu)) / z) + 1.0 / (1.0 + z)
    step = end / _NODES
    log_scale = (1.0 - nu) * jnp.log(2.0) - gammaln(nu) + nu * jnp.log(z)

    def add(i, total):
        t = i * step
        log_cosh = order * t + jnp.log1p(jnp.exp(-2.0 * order * t)) - jnp.log(2.0)
        term = jnp.exp(log_scale - z * jnp.cosh(t) + log_cosh)
        if moment:
            term = term * t * jnp.tanh(order * t)
        return total + jnp.where(i == 0, 0.5, 1.0) * term

    return step * jax.lax.fori_loop(0, _NODES + 1, add, jnp.zeros_like(z))
