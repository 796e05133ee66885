"""Gaussian Markov chains by scans: covariance filter, innovations, adjoints; O(n) for n times, s states.

A chain is x_0 ~ N(0, Q_0), x_i = Phi_i x_{i-1} + N(0, Q_i), f_i = h_i . x_i, so that K = cov(f) is known by
(Phi, Q, h) alone. Data enter as precisions W_i (zero and negative ones are legal). With P_i the covariance of
x_i given the data before i,

    k_i = P_i h_i,   D_i = 1 + W_i h_i . k_i,   w_i = W_i / D_i,   P_i+ = P_i - w_i k_i k_i',   P_{i+1} = Phi
    P_i+ Phi' + Q,

log|I + K W| = sum log D_i and R = (K + W^-1)^-1 = L^-T diag(w) L^-1 with L^-1 z the innovations of z.

Scans are sequential and their bodies a few small products with all coefficients made outside: XLA compiles a
loop whose body is small into one function, and runs larger bodies operation by operation, several times
slower. By default that is so from three states on, with the option that `import mercer` sets from about seven
(docs/timeseries.md has figures, and of parallel scans too).
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp

TINY = 8  # states


class Chain(NamedTuple):
    """Transitions Phi (n, s, s), covariances of the steps Q (n, s, s) (the first is that of the start),
    observations h (n, s).
    """

    Phi: jax.Array
    Q: jax.Array
    h: jax.Array


class Filtered(NamedTuple):
    """k = P h (n, s), D (n,), w = W / D (n,), and where they are asked for the covariances P+ (n, s, s)
    after each datum.
    """

    k: jax.Array
    D: jax.Array
    w: jax.Array
    after: jax.Array | None


def covariance_filter(chain: Chain, W: jax.Array, after: bool = False) -> Filtered:
    """The Riccati recursion. Keeping P+ takes as long as finding it, and an evidence does not need it."""

    def step(P, x):
        Phi, Q, h, W = x
        P = Phi @ P @ Phi.T + Q
        k = P @ h
        P = P - jnp.outer(W / (1.0 + W * (h @ k)) * k, k)
        return P, (k, P if after else None)

    s = chain.h.shape[1]
    _, (k, kept) = jax.lax.scan(step, jnp.zeros((s, s)), (*chain, W))
    D = 1.0 + W * _dot(chain.h, k)
    return Filtered(k, D, W / D, kept)


def innovations(chain: Chain, f: Filtered, V: jax.Array) -> jax.Array:
    """L^-1 V for V (n, q)."""

    def step(m, x):
        Phi, h, gain, v = x
        m = Phi @ m
        e = v - h @ m
        return m + gain[:, None] * e, e

    start = jnp.zeros((chain.h.shape[1], V.shape[1]))
    return jax.lax.scan(step, start, (chain.Phi, chain.h, f.k * f.w[:, None], V))[1]


def dual(chain: Chain, f: Filtered, E: jax.Array) -> jax.Array:
    """R V for the innovations E of V (n, q)."""

    def step(later, x):
        Phi, h, k, w, e = x
        r = w * (e - k @ later)
        return Phi.T @ (later + h[:, None] * r), r

    start = jnp.zeros((chain.h.shape[1], E.shape[1]))
    return jax.lax.scan(step, start, (chain.Phi, chain.h, f.k, f.w, E), reverse=True)[1]


def resolve(chain: Chain, f: Filtered, V: jax.Array) -> jax.Array:
    """R V for V (n, q)."""
    return dual(chain, f, innovations(chain, f, V))


def adjoint(chain: Chain, V: jax.Array) -> jax.Array:
    """sum over i >= j of Phi(i, j)' h_i V_i for V (n, q): (n, s, q)."""

    def step(later, x):
        Phi, h, v = x
        now = later + h[:, None] * v
        return Phi.T @ now, now

    return jax.lax.scan(
        step, jnp.zeros((chain.h.shape[1], V.shape[1])), (chain.Phi, chain.h, V), reverse=True
    )[1]


def drive(Phi: jax.Array, U: jax.Array) -> jax.Array:
    """x_i = Phi_i x_{i-1} + U_i for U (n, s, q): (n, s, q)."""

    def step(x, now):
        Phi, u = now
        x = Phi @ x + u
        return x, x

    return jax.lax.scan(step, jnp.zeros(U.shape[1:]), (Phi, U))[1]


def states(chain: Chain, V: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The adjoint states of V (n, q), and the covariance of every state with f times V: both (n, s, q)."""
    r = adjoint(chain, V)
    return r, drive(chain.Phi, multiply(chain.Q, r))


def times(chain: Chain, V: jax.Array) -> jax.Array:
    """K V for V (n, q)."""
    return observe(chain, states(chain, V)[1])


def observe(chain: Chain, X: jax.Array) -> jax.Array:
    """h . X (n, q) for states X (n, s, q)."""
    return multiply(chain.h[:, None, :], X)[:, 0]


def information(chain: Chain, f: Filtered) -> jax.Array:
    """What data from i on say of x_i (n, s, s): the derivative of log|I + K W| with respect to P_i."""
    C = jnp.eye(chain.h.shape[1]) - (f.k * f.w[:, None])[:, :, None] * chain.h[:, None, :]
    following = multiply(jnp.concatenate([chain.Phi[1:], jnp.zeros_like(chain.Phi[:1])]), C)
    own = f.w[:, None, None] * chain.h[:, :, None] * chain.h[:, None, :]

    def step(later, x):
        F, own = x
        now = F.T @ later @ F + own
        return now, now

    return jax.lax.scan(step, jnp.zeros_like(own[0]), (following, own), reverse=True)[1]


class LogDeterminant(NamedTuple):
    """Derivatives of log|I + K W| with respect to the chain and to W;
    the latter are the posterior variances of f.
    """

    chain: Chain
    variances: jax.Array


def pull_logdet(chain: Chain, W: jax.Array) -> LogDeterminant:
    """The derivatives of log|I + K W|, the adjoint of `covariance_filter` written out."""
    f = covariance_filter(chain, W, after=True)
    assert f.after is not None
    N = information(chain, f)
    onwards = multiply(N, chain.Phi)
    later = jnp.concatenate([multiply(chain.Phi[1:].mT, onwards[1:]), jnp.zeros_like(N[:1])])
    known = jnp.concatenate([jnp.zeros_like(N[:1]), f.after[:-1]])
    ahead = _apply(later, f.k)
    h = 2.0 * f.w[:, None] * (f.k - _apply(f.after, ahead))
    variances = _dot(chain.h, f.k) / f.D - _dot(f.k, ahead) / f.D**2
    return LogDeterminant(Chain(2.0 * multiply(onwards, known), N, h), variances)


class EvidenceSweep(NamedTuple):
    """Of data z with precisions W: log|I + K W|, z' R z, R z (n,) and the posterior variances of f (n,)."""

    logdet: jax.Array
    squares: jax.Array
    dual: jax.Array
    variances: jax.Array


def evidence(chain: Chain, W: jax.Array, z: jax.Array) -> tuple[Filtered, EvidenceSweep, Chain]:
    """The filter, what it says of data z (n,), and the derivatives of -1/2 (log|I + K W| + z' R z) with
    respect to the chain: what `resolve`, `pull_logdet` and `pull_products` find one by one, by one scan there
    and one back.
    """
    s = chain.h.shape[1]

    def forth(state, x):
        m, P = state
        Phi, Q, h, W, z = x
        m, P = Phi @ m, Phi @ P @ Phi.T + Q
        k, e = P @ h, z - h @ m
        w = W / (1.0 + W * (h @ k))
        m, P = m + w * e * k, P - jnp.outer(w * k, k)
        return (m, P), (k, e, m, P)

    def back(state, x):
        r, N = state  # what data after this one say of the state: R z gathered, and `information`
        Phi, h, k, w, e = x
        u = N @ k
        alpha = w * (e - k @ r)
        r = r + alpha * h
        both = jnp.outer(w * h, u)
        N = N - both - both.T + w * (1.0 + w * (k @ u)) * jnp.outer(h, h)
        return (Phi.T @ r, Phi.T @ N @ Phi), (alpha, r, N, u)

    start = jnp.zeros(s), jnp.zeros((s, s))
    _, (k, e, m, P) = jax.lax.scan(forth, start, (*chain, W, z))
    D = 1.0 + W * _dot(chain.h, k)
    f = Filtered(k, D, W / D, None)
    given = chain.Phi, chain.h, k, f.w, e
    _, (alpha, r, N, ahead) = jax.lax.scan(back, start, given, reverse=True)
    m_before, P_before = (jnp.concatenate([jnp.zeros_like(a[:1]), a[:-1]]) for a in (m, P))
    before = m_before + _apply(P_before, _apply(chain.Phi.mT, r))  # means given all data
    now = _apply(chain.Phi, before) + _apply(chain.Q, r)
    bar = Chain(
        r[:, :, None] * before[:, None, :] - multiply(multiply(N, chain.Phi), P_before),
        0.5 * (r[:, :, None] * r[:, None, :] - N),
        now * alpha[:, None] - f.w[:, None] * (k - _apply(P, ahead)),
    )
    variances = _dot(chain.h, k) / D - _dot(k, ahead) / D**2
    return f, EvidenceSweep(jnp.sum(jnp.log(D)), jnp.sum(f.w * e**2), alpha, variances), bar


def pull_products(chain: Chain, P: jax.Array, Q: jax.Array) -> Chain:
    """Derivatives of sum_c P_c' K Q_c with respect to the chain, P and Q (n, q)."""
    q = P.shape[1]
    r, X = states(chain, jnp.concatenate([P, Q], 1))
    before = jnp.concatenate([jnp.zeros_like(X[:1]), X[:-1]])
    swapped = jnp.concatenate([r[:, :, q:], r[:, :, :q]], 2)
    Phi, step = multiply(swapped, before.mT), 0.5 * multiply(swapped, r.mT)
    h = _apply(X, jnp.concatenate([Q, P], 1))
    return Chain(Phi, step, h)


def pull_variances(chain: Chain, W: jax.Array, direction: jax.Array) -> LogDeterminant:
    """Derivatives of sum_i direction_i var_i with respect to the chain (and, in `variances`, to W).

    var_i is the derivative of log|I + K W| with respect to W_i, so this is the change of its other
    derivatives along `direction`.
    """
    return jax.jvp(lambda W: pull_logdet(chain, W), (W,), (direction,))[1]


def multiply(A: jax.Array, B: jax.Array) -> jax.Array:
    """A_i B_i for stacks of matrices (n, ., .): as a sum of outer products where they are tiny,
    which XLA does in one pass.
    """
    if A.shape[2] > TINY:
        return A @ B
    return functools.reduce(jnp.add, [A[:, :, a, None] * B[:, None, a, :] for a in range(A.shape[2])])


def _dot(a, b):
    """a_i . b_i (n,) for a, b (n, s)."""
    return multiply(a[:, None, :], b[:, :, None])[:, 0, 0]


def _apply(A, b):
    """A_i b_i (n, s) for b (n, s)."""
    return multiply(A, b[:, :, None])[:, :, 0]
