"""Squared distances without a large array, without lost digits, and with a cheap derivative."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from mercer.inputs import Array

DIFFERENCES_UP_TO = 32  # columns; above, centred matrix products are several times faster
COINCIDENT = 1e-24  # scaled squared distances up to this are zero
FARTHEST = 1e300  # scaled squared distances end here: a correlation beyond is 0, not inf times 0
PLAIN_UP_TO = 4  # columns; here the derivative is by plain differences too: exact for near-coincident points


def squared_distance(A: Array, B: Array) -> jax.Array:
    """r2 (a, b) between the rows of A (a, d) and B (b, d).

    Its derivative is written in matrix products, so pulling a cotangent back costs 2 a b d flops and no (a,
    b, d) array.
    """
    if A.shape[1] <= PLAIN_UP_TO:
        return _by_differences(A, B)
    centre = jax.lax.stop_gradient(jnp.mean(B, axis=0))
    return _squared_distance(A - centre, B - centre)


def _by_differences(A, B):
    r2 = jnp.zeros((A.shape[0], B.shape[0]), A.dtype)
    for j in range(A.shape[1]):
        r2 = r2 + (A[:, j, None] - B[None, :, j]) ** 2
    return jnp.minimum(r2, FARTHEST)


@jax.custom_jvp
def _squared_distance(A, B):
    if A.shape[1] <= DIFFERENCES_UP_TO:
        return _by_differences(A, B)
    a2, b2 = jnp.sum(A * A, 1)[:, None], jnp.sum(B * B, 1)[None, :]
    size = jnp.minimum(a2 + b2, FARTHEST)
    r2 = jnp.where(size < FARTHEST, size - 2.0 * A @ B.T, FARTHEST)
    # what is left of coincident rows after rounding is set to zero; safe here because the derivative is
    # stated below
    return jnp.where(r2 > 1e-14 * A.shape[1] * size, r2, 0.0)


@_squared_distance.defjvp
def _squared_distance_jvp(primals, tangents):
    A, B = primals
    dA, dB = tangents
    # d r2 = 2 (a - b).(da - db) as two products, [2 a.da, -2 da] [1, b]' + [1, a] [2 b.db, -2 db]': pulled
    # back, both read the cotangent as one matrix, which is made once
    along = _moved(A, dA) @ _with_one(B).T + _with_one(A) @ _moved(B, dB).T
    return _squared_distance(A, B), along


def _moved(A, dA):
    return jnp.concatenate([2.0 * jnp.sum(A * dA, 1)[:, None], -2.0 * dA], 1)


def _with_one(A):
    return jnp.concatenate([jnp.ones((A.shape[0], 1), A.dtype), A], 1)


def safe_sqrt(r2: jax.Array) -> jax.Array:
    """sqrt with value and derivative 0 at coincident points (scaled distance below 1e-12).

    Compiled code may compute r2 twice with different rounding, so the two tests here may disagree where r2 is
    all rounding: the inner one therefore falls back to a number whose root is next to nothing, never to 1.
    """
    return jnp.where(r2 > COINCIDENT, jnp.sqrt(jnp.where(r2 > COINCIDENT, r2, COINCIDENT)), 0.0)
