"""Functions of the normal and the logistic distribution that stay accurate far into both tails, with all
their derivatives.

With r(z) = N(z) / Phi(z): d log Phi = r, d r = -r (z + r). For z << 0, r is close to -z and both z + r and
the next derivatives are small differences of large numbers; they are taken from the continued fraction r = x
+ c1, c_k = k / (x + c_{k+1}), x = -z, in which nothing cancels.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from mercer.inputs import Array

LOG_2PI = float(np.log(2 * np.pi))
_FAR = 5.0  # beyond this many standard deviations the continued fraction takes over
_TERMS = 30


@jax.jit
def _inverse_mills(z):
    """r, r (z + r) and 1 - r (z + r) - (z + r)^2."""
    x = jnp.maximum(-z, _FAR)
    c = jax.lax.fori_loop(0, _TERMS - 3, lambda i, c: (_TERMS - i) / (x + c), jnp.zeros_like(x))
    c3 = 3 / (x + c)
    c2 = 2 / (x + c3)
    c1 = 1 / (x + c2)
    far = z < -_FAR
    near = jnp.maximum(z, -_FAR)
    r = jnp.exp(-0.5 * near**2 - 0.5 * LOG_2PI - _log_ndtr_near(near))
    gap = near + r
    return (
        jnp.where(far, x + c1, r),
        jnp.where(far, 1 - c1 * (c2 - c1), r * gap),
        jnp.where(far, c1**2 * c2 * (c2 - c3), 1 - r * gap - gap**2),
    )


def _log_ndtr_near(z):
    upper = 0.5 * jax.scipy.special.erfc(jnp.abs(z) / np.sqrt(2))
    return jnp.where(z > 0, jnp.log1p(-upper), jnp.log(upper))


@jax.custom_jvp
def log_ndtr(z: ArrayLike) -> jax.Array:
    """log Phi(z), the log of the normal distribution function."""
    z = jnp.asarray(z, float)
    near = jnp.maximum(z, -_FAR)
    return jnp.where(
        z < -_FAR, -0.5 * z**2 - 0.5 * LOG_2PI - jnp.log(_inverse_mills(z)[0]), _log_ndtr_near(near)
    )


@jax.custom_jvp
def inverse_mills(z: ArrayLike) -> jax.Array:
    """r(z) = N(z) / Phi(z)."""
    return _inverse_mills(jnp.asarray(z, float))[0]


@jax.custom_jvp
def _probit_curvature(z):
    """-d2 log Phi = r (z + r), between 0 and 1."""
    return _inverse_mills(z)[1]


@jax.custom_jvp
def _probit_third(z):
    """-d3 log Phi / r = 1 - r (z + r) - (z + r)^2."""
    return _inverse_mills(z)[2]


@log_ndtr.defjvp
def _(primals, tangents):
    (z,), (dz,) = primals, tangents
    return log_ndtr(z), inverse_mills(z) * dz


@inverse_mills.defjvp
def _(primals, tangents):
    (z,), (dz,) = primals, tangents
    return inverse_mills(z), -_probit_curvature(z) * dz


@_probit_curvature.defjvp
def _(primals, tangents):
    (z,), (dz,) = primals, tangents
    return _probit_curvature(z), inverse_mills(z) * _probit_third(z) * dz


@_probit_third.defjvp
def _(primals, tangents):
    (z,), (dz,) = primals, tangents
    r, w = inverse_mills(z), _probit_curvature(z)
    gap = w / jnp.maximum(r, 1e-300) * (r > 0) + z * (r == 0)
    return _probit_third(z), (-r * _probit_third(z) - 2 * gap * (1 - w)) * dz


@jax.custom_jvp
def sigmoid(z: ArrayLike) -> jax.Array:
    """1 / (1 + exp(-z))."""
    return jax.nn.sigmoid(jnp.asarray(z, float))


@sigmoid.defjvp
def _(primals, tangents):
    (z,), (dz,) = primals, tangents
    return sigmoid(z), sigmoid(z) * sigmoid(-z) * dz


@jax.custom_jvp
def log_sigmoid(z: ArrayLike) -> jax.Array:
    """log of `sigmoid`."""
    return -jnp.logaddexp(0.0, -jnp.asarray(z, float))


@log_sigmoid.defjvp
def _(primals, tangents):
    (z,), (dz,) = primals, tangents
    return log_sigmoid(z), sigmoid(-z) * dz


def log1mexp(a: jax.Array) -> jax.Array:
    """log(1 - exp(-a)) for a > 0."""
    small = a < 0.6931471805599453
    return jnp.where(
        small, jnp.log(-jnp.expm1(-jnp.where(small, a, 1.0))), jnp.log1p(-jnp.exp(-jnp.where(small, 1.0, a)))
    )


def log_sub(a: jax.Array, b: jax.Array) -> jax.Array:
    """log(exp(a) - exp(b)) for a > b."""
    return a + log1mexp(a - b)


# ------------------------------------------------------------------------------------------------- the
# logistic-normal integral


def _kolmogorov(x: np.ndarray) -> np.ndarray:
    """Density of the Kolmogorov distribution, from whichever of its two theta series converges fast."""
    k = np.arange(1, 12)[:, None]
    a = (2 * k - 1) ** 2 * np.pi**2 / 8
    low = np.minimum(x, 1.0)
    lower = np.sqrt(2 * np.pi) * np.sum((2 * a / low**4 - 1 / low**2) * np.exp(-a / low**2), 0)
    upper = 8 * x * np.sum((-1.0) ** (k - 1) * k**2 * np.exp(-2 * k**2 * np.maximum(x, 1.0) ** 2), 0)
    return np.where(x < 1, lower, upper)


def _probit_mixture(nodes: int = 58) -> tuple[np.ndarray, np.ndarray]:
    """Squared scales and log weights of sigma(f) = sum_j w_j Phi(f / s_j):
    s is twice a Kolmogorov variable.
    """
    u = np.linspace(np.log(0.34), np.log(13.0), nodes)
    s = np.exp(u)
    weight = s * _kolmogorov(s / 2)
    return s**2, np.log(weight / weight.sum())


SCALES, LOG_WEIGHTS = _probit_mixture()


def log_logistic_normal(mean: Array, variance: Array) -> jax.Array:
    """log of the integral of sigma(f) N(f | mean, variance), to about 1e-12, for every variance from zero up.

    The logistic function is a scale mixture of probits, each of which integrates in closed form. Left of
    -variance / 2 the identity sigma(f) N(f | m, v) = exp(m + v / 2) sigma(-f) N(f | m + v, v) leads back to
    the right.
    """
    reflect = mean < -0.5 * variance
    m = jnp.where(reflect, -(mean + variance), mean)
    shape = (-1,) + (1,) * jnp.ndim(m + variance)
    s, w = SCALES.reshape(shape), LOG_WEIGHTS.reshape(shape)
    return jnp.where(reflect, mean + 0.5 * variance, 0.0) + jax.nn.logsumexp(
        w + log_ndtr(m / jnp.sqrt(s + variance)), axis=0
    )
