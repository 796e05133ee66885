"""The sweeps of `mercer.linalg.kalman`, in its notation, as loops: covariance filter, innovations, adjoints.

Steps that repeat are stored once: step i of the chain is number `step[i]` of the transitions. The number of
states is a constant of what is compiled.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from mercer.compiled import compiled


class Links(NamedTuple):
    """Transitions Phi (u, s, s) and covariances Q (u, s, s) of the different steps, the first the start;
    observations h (n, s); and which of the steps leads to each time (n,).
    """

    Phi: np.ndarray
    Q: np.ndarray
    h: np.ndarray
    step: np.ndarray


class Forward(NamedTuple):
    """k = P h (n, s), D (n,), w = W / D (n,), innovations e (n,); the sums of log D and of w e^2, and the
    least D.
    """

    k: np.ndarray
    D: np.ndarray
    w: np.ndarray
    e: np.ndarray
    logdet: float
    squares: float
    least: float


class LinksBar(NamedTuple):
    """Derivatives with respect to Phi, Q (u, s, s) and h (n, s)."""

    Phi: np.ndarray
    Q: np.ndarray
    h: np.ndarray


def filtered(links: Links, W: np.ndarray, z: np.ndarray) -> Forward:
    """The covariance filter and the innovations of z (n,)."""
    n, s = W.shape[0], links.h.shape[1]
    k, D, e = np.empty((n, s)), np.empty(n), np.empty(n)
    sums = _sweeps(s).forward(*links, W, z, k, D, e, np.empty((0, s, s)))
    return Forward(k, D, W / D, e, *sums)


def innovations(links: Links, k: np.ndarray, w: np.ndarray, V: np.ndarray) -> np.ndarray:
    """L^-1 V for V (n, q)."""
    E = np.empty(V.shape)
    _sweeps(links.h.shape[1]).innovations(links.Phi, links.h, links.step, k, w, V, E)
    return E


def dual(links: Links, k: np.ndarray, w: np.ndarray, E: np.ndarray) -> np.ndarray:
    """R V for the innovations E of V (n, q)."""
    R = np.empty(E.shape)
    _sweeps(links.h.shape[1]).dual(links.Phi, links.h, links.step, k, w, E, R)
    return R


def states(links: Links, V: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The adjoint states of V (n, q), and the covariance of every state with f times V: both (n, s, q)."""
    shape = (V.shape[0], links.h.shape[1], V.shape[1])
    r, X = np.empty(shape), np.empty(shape)
    _sweeps(shape[1]).states(*links, V, r, X)
    return r, X


def times(links: Links, V: np.ndarray) -> np.ndarray:
    """K V for V (n, q)."""
    return observe(links, states(links, V)[1])


def observe(links: Links, X: np.ndarray) -> np.ndarray:
    """h . X (n, q) for states X (n, s, q)."""
    return np.einsum("ns,nsq->nq", links.h[: X.shape[0]], X)


def drive(links: Links, U: np.ndarray) -> np.ndarray:
    """x_i = Phi_i x_{i-1} + U_i for U (n, s, q): (n, s, q)."""
    X = np.empty(U.shape)
    _sweeps(links.h.shape[1]).drive(links.Phi, links.step, U, X)
    return X


def pull_logdet(links: Links, W: np.ndarray) -> tuple[LinksBar, np.ndarray]:
    """Derivatives of log|I + K W| with respect to the chain and to W; the latter are the posterior variances
    of f (n,).
    """
    n, s = W.shape[0], links.h.shape[1]
    bar = LinksBar(np.zeros(links.Phi.shape), np.zeros(links.Q.shape), np.zeros(links.h.shape))
    variances, after = np.empty(n), np.empty((n, s, s))
    k, D, nothing = np.empty((n, s)), np.empty(n), np.zeros(n)
    _sweeps(s).forward(*links, W, nothing, k, D, np.empty(n), after)
    _sweeps(s).information(*links, W, k, D, after, *bar, variances)
    return bar, variances


def pull_products(links: Links, P: np.ndarray, Q: np.ndarray) -> LinksBar:
    """Derivatives of sum_c P_c' K Q_c with respect to the chain, P and Q (n, q)."""
    bar = LinksBar(np.zeros(links.Phi.shape), np.zeros(links.Q.shape), np.zeros(links.h.shape))
    q = P.shape[1]
    r, X = states(links, np.concatenate([P, Q], 1))
    _sweeps(links.h.shape[1]).outer(links.step, r, X, bar.Phi, bar.Q)
    bar.h[: len(P)] = np.einsum("nsq,nq->ns", X[:, :, :q], Q) + np.einsum("nsq,nq->ns", X[:, :, q:], P)
    return bar


class Sweeps(NamedTuple):
    """The loops for one number of states."""

    forward: Any
    innovations: Any
    dual: Any
    states: Any
    drive: Any
    information: Any
    outer: Any


@functools.cache
def _sweeps(s: int) -> Sweeps:
    """Loops whose inner bounds are known, so that they are unrolled."""

    def forward(Phi, Q, h, step, W, z, k_out, D_out, e_out, after):
        P, T, x, y, k = np.zeros((s, s)), np.zeros((s, s)), np.zeros(s), np.zeros(s), np.zeros(s)
        logdet, squares, least, product = 0.0, 0.0, np.inf, 1.0
        for i in range(W.shape[0]):
            j = step[i]
            for a in range(s):  # x = Phi x, T = Phi P
                y[a] = 0.0
                for c in range(s):
                    y[a] += Phi[j, a, c] * x[c]
                for b in range(s):
                    total = 0.0
                    for c in range(s):
                        total += Phi[j, a, c] * P[c, b]
                    T[a, b] = total
            for a in range(s):  # P = T Phi' + Q
                for b in range(a + 1):
                    total = Q[j, a, b]
                    for c in range(s):
                        total += T[a, c] * Phi[j, b, c]
                    P[a, b] = P[b, a] = total
            variance, e = 0.0, z[i]
            for a in range(s):
                total = 0.0
                for b in range(s):
                    total += P[a, b] * h[i, b]
                k[a] = k_out[i, a] = total
                variance += h[i, a] * total
                e -= h[i, a] * y[a]
            D = 1.0 + W[i] * variance
            w = W[i] / D
            for a in range(s):
                x[a] = y[a] + w * k[a] * e
                for b in range(a + 1):
                    P[a, b] -= w * k[a] * k[b]
                    P[b, a] = P[a, b]
            if after.shape[0] > 0:
                for a in range(s):
                    for b in range(s):
                        after[i, a, b] = P[a, b]
            D_out[i], e_out[i] = D, e
            squares += w * e * e
            least = D if not least <= D else least
            product *= D
            if not 1e-100 < product < 1e100:  # one logarithm for many factors
                logdet += np.log(product)
                product = 1.0
        return logdet + np.log(product), squares, least

    def innovations(Phi, h, step, k, w, V, E):
        q = V.shape[1]
        x, y = np.zeros((s, q)), np.zeros((s, q))
        for i in range(V.shape[0]):
            j = step[i]
            for c in range(q):
                e = V[i, c]
                for a in range(s):
                    total = 0.0
                    for b in range(s):
                        total += Phi[j, a, b] * x[b, c]
                    y[a, c] = total
                    e -= h[i, a] * total
                E[i, c] = e
                for a in range(s):
                    x[a, c] = y[a, c] + w[i] * k[i, a] * e

    def dual(Phi, h, step, k, w, E, R):
        q = E.shape[1]
        later, now = np.zeros((s, q)), np.zeros(s)
        for i in range(E.shape[0] - 1, -1, -1):
            j = step[i]
            for c in range(q):
                r = E[i, c]
                for a in range(s):
                    r -= k[i, a] * later[a, c]
                r *= w[i]
                R[i, c] = r
                for a in range(s):
                    now[a] = later[a, c] + h[i, a] * r
                for b in range(s):
                    total = 0.0
                    for a in range(s):
                        total += Phi[j, a, b] * now[a]
                    later[b, c] = total

    def states(Phi, Q, h, step, V, r, X):
        n, q = V.shape
        later, x, y = np.zeros((s, q)), np.zeros((s, q)), np.zeros(s)
        for i in range(n - 1, -1, -1):
            j = step[i]
            for c in range(q):
                for a in range(s):
                    r[i, a, c] = later[a, c] + h[i, a] * V[i, c]
                for b in range(s):
                    total = 0.0
                    for a in range(s):
                        total += Phi[j, a, b] * r[i, a, c]
                    later[b, c] = total
        for i in range(n):
            j = step[i]
            for c in range(q):
                for a in range(s):
                    total = 0.0
                    for b in range(s):
                        total += Phi[j, a, b] * x[b, c] + Q[j, a, b] * r[i, b, c]
                    y[a] = total
                for a in range(s):
                    x[a, c] = X[i, a, c] = y[a]

    def drive(Phi, step, U, X):
        n, _, q = U.shape
        x, y = np.zeros((s, q)), np.zeros(s)
        for i in range(n):
            j = step[i]
            for c in range(q):
                for a in range(s):
                    total = U[i, a, c]
                    for b in range(s):
                        total += Phi[j, a, b] * x[b, c]
                    y[a] = total
                for a in range(s):
                    x[a, c] = X[i, a, c] = y[a]

    def information(Phi, Q, h, step, W, k, D, after, Phi_bar, Q_bar, h_bar, variances):
        """N is what data from i on say of x_i, the derivative with respect to P_i, and L = Phi' N Phi of the
        step that follows."""
        N, L, T, ahead, Lc = np.zeros((s, s)), np.zeros((s, s)), np.zeros((s, s)), np.zeros(s), np.zeros(s)
        for i in range(W.shape[0] - 1, -1, -1):
            j, w = step[i], W[i] / D[i]
            seen, doubled = 0.0, 0.0
            for a in range(s):  # ahead = L k
                total = 0.0
                for b in range(s):
                    total += L[a, b] * k[i, b]
                ahead[a] = total
                seen += h[i, a] * k[i, a]
                doubled += k[i, a] * total
            variances[i] = seen / D[i] - doubled / (D[i] * D[i])
            for a in range(s):
                total = k[i, a]
                for b in range(s):
                    total -= after[i, a, b] * ahead[b]
                h_bar[i, a] = 2.0 * w * total
                Lc[a] = w * ahead[a]
            for a in range(s):  # N = C' L C + w h h', C = I - w k h'
                for b in range(a + 1):
                    value = L[a, b] - Lc[a] * h[i, b] - h[i, a] * Lc[b]
                    N[a, b] = N[b, a] = value + (w + w * w * doubled) * h[i, a] * h[i, b]
            for a in range(s):
                for b in range(s):
                    Q_bar[j, a, b] += N[a, b]
                    total = 0.0
                    for c in range(s):
                        total += N[a, c] * Phi[j, c, b]
                    T[a, b] = total
            if i > 0:  # the first step comes from nothing
                for a in range(s):
                    for b in range(s):
                        total = 0.0
                        for c in range(s):
                            total += T[a, c] * after[i - 1, c, b]
                        Phi_bar[j, a, b] += 2.0 * total
            for a in range(s):
                for b in range(a + 1):
                    total = 0.0
                    for c in range(s):
                        total += Phi[j, c, a] * T[c, b]
                    L[a, b] = L[b, a] = total

    def outer(step, r, X, Phi_bar, Q_bar):
        """Of the columns P and Q, side by side in r and X: what each says of the steps by the other's."""
        n, _, both = r.shape
        q = both // 2
        for i in range(n):
            j = step[i]
            for c in range(both):
                other = (c + q) % both
                for a in range(s):
                    for b in range(s):
                        Q_bar[j, a, b] += 0.5 * r[i, a, other] * r[i, b, c]
                        if i > 0:
                            Phi_bar[j, a, b] += r[i, a, other] * X[i - 1, b, c]

    loops = (forward, innovations, dual, states, drive, information, outer)
    return Sweeps(*(compiled(loop) for loop in loops))
