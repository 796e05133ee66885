"""The loops of `mercer.compiled.kalman`, for any number of states."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from mercer.compiled import compiled


class Sweeps(NamedTuple):
    """The loops for one number of states, or for states in parts."""

    forward: Any
    innovations: Any
    dual: Any
    adjoint: Any
    states: Any
    drive: Any
    back: Any
    information: Any
    outer: Any


@functools.cache
def sweeps(sizes: tuple[int, ...]) -> Sweeps:
    """Loops whose inner bounds are known, so that they are unrolled. The two that take products of matrices
    know where Phi is zero: state a moves with those from low[a] up to high[a].
    """
    s, one = sum(sizes), len(sizes) == 1
    ends = np.cumsum(sizes)
    low, high = np.repeat(ends - sizes, sizes), np.repeat(ends, sizes)

    def forward(Phi, Q, h, step, W, z, k_out, D_out, e_out, means, after, x, P):
        T, y, k, keep = np.zeros((s, s)), np.zeros(s), np.zeros(s), after.shape[0] > 0
        logdet, squares, least, product = 0.0, 0.0, np.inf, 1.0
        for i in range(W.shape[0]):
            j = step[i]
            for a in range(s):  # x = Phi x, T = Phi P
                first, last = (0, s) if one else (low[a], high[a])
                y[a] = 0.0
                for c in range(first, last):
                    y[a] += Phi[j, a, c] * x[c]
                for b in range(s):
                    total = 0.0
                    for c in range(first, last):
                        total += Phi[j, a, c] * P[c, b]
                    T[a, b] = total
            for b in range(s):  # P = T Phi' + Q
                first, last = (0, s) if one else (low[b], high[b])
                for a in range(b, s):
                    total = Q[j, a, b]
                    for c in range(first, last):
                        total += T[a, c] * Phi[j, b, c]
                    P[a, b] = P[b, a] = total
            variance, e = 0.0, z[i]
            for a in range(s):
                total = 0.0
                for b in range(s):
                    total += P[a, b] * h[i, b]
                k[a] = total
                variance += h[i, a] * total
                e -= h[i, a] * y[a]
            D = 1.0 + W[i] * variance
            w = W[i] / D
            for a in range(s):
                x[a] = y[a] + w * k[a] * e
                for b in range(a + 1):
                    P[a, b] -= w * k[a] * k[b]
                    P[b, a] = P[a, b]
            if keep:
                D_out[i], e_out[i] = D, e
                for a in range(s):
                    k_out[i, a], means[i, a] = k[a], x[a]
                    for b in range(s):
                        after[i, a, b] = P[a, b]
            squares += w * e * e
            least = D if not least <= D else least
            product *= D
            if not 1e-100 < product < 1e100:  # one logarithm for many factors
                logdet += np.log(product)
                product = 1.0
        return logdet + np.log(product), squares, least

    def innovations(Phi, Q, h, step, k, w, V, E, x):
        q = V.shape[1]
        y = np.zeros(s)
        for i in range(V.shape[0]):
            j = step[i]
            for c in range(q):
                e = V[i, c]
                for a in range(s):
                    total = 0.0
                    for b in range(s):
                        total += Phi[j, a, b] * x[b, c]
                    y[a] = total
                    e -= h[i, a] * total
                E[i, c] = e
                for a in range(s):
                    x[a, c] = y[a] + w[i] * k[i, a] * e

    def dual(Phi, Q, h, step, k, w, E, R, later):
        q = E.shape[1]
        now = np.zeros(s)
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

    def adjoint(Phi, Q, h, step, V, r, later):
        for i in range(V.shape[0] - 1, -1, -1):
            j = step[i]
            for c in range(V.shape[1]):
                for a in range(s):
                    r[i, a, c] = later[a, c] + h[i, a] * V[i, c]
                for b in range(s):
                    total = 0.0
                    for a in range(s):
                        total += Phi[j, a, b] * r[i, a, c]
                    later[b, c] = total

    def states(Phi, Q, h, step, r, out, x):
        """x_i = Phi_i x_{i-1} + Q_i r_i, the covariances of the states with f times V."""
        y = np.zeros(s)
        for i in range(r.shape[0]):
            j = step[i]
            for c in range(r.shape[2]):
                f = 0.0
                for a in range(s):
                    total = 0.0
                    for b in range(s):
                        total += Phi[j, a, b] * x[b, c] + Q[j, a, b] * r[i, b, c]
                    y[a] = total
                    f += h[i, a] * total
                for a in range(s):
                    x[a, c] = y[a]
                out[i, c] = f

    def drive(Phi, Q, h, step, U, out):
        n, _, q = U.shape
        x, y = np.zeros((s, q)), np.zeros(s)
        for i in range(n):
            j = step[i]
            for c in range(q):
                f = 0.0
                for a in range(s):
                    total = U[i, a, c]
                    for b in range(s):
                        total += Phi[j, a, b] * x[b, c]
                    y[a] = total
                    f += h[i, a] * total
                for a in range(s):
                    x[a, c] = y[a]
                out[i, c] = f

    def back(Phi, Q, h, step, W, k, D, e, means, after, Phi_bar, Q_bar, h_bar, alphas, variances, later, L):
        """As `information` and `dual`, whose adjoint states r say of Q by 1/2 r r' and of Phi, with the
        states x that all data tell, by r x'.
        """
        N, T, ahead, Lc = np.zeros((s, s)), np.zeros((s, s)), np.zeros(s), np.zeros(s)
        r, x = np.zeros(s), np.zeros(s)
        for i in range(W.shape[0] - 1, -1, -1):
            j, w = step[i], W[i] / D[i]
            seen, doubled, alpha = 0.0, 0.0, e[i]
            for a in range(s):  # ahead = L k
                total = 0.0
                for b in range(s):
                    total += L[a, b] * k[i, b]
                ahead[a] = total
                seen += h[i, a] * k[i, a]
                doubled += k[i, a] * total
                alpha -= k[i, a] * later[a]
            alphas[i] = alpha = w * alpha
            variances[i] = seen / D[i] - doubled / (D[i] * D[i])
            for a in range(s):
                mean, total = means[i + 1, a], k[i, a]
                for b in range(s):
                    mean += after[i + 1, a, b] * later[b]
                    total -= after[i + 1, a, b] * ahead[b]
                h_bar[i, a] += alpha * mean - w * total
                Lc[a] = w * ahead[a]
            for a in range(s):
                r[a] = later[a] + h[i, a] * alpha
                for b in range(a + 1):
                    value = L[a, b] - Lc[a] * h[i, b] - h[i, a] * Lc[b]
                    N[a, b] = N[b, a] = value + (w + w * w * doubled) * h[i, a] * h[i, b]
            for b in range(s):
                first, last = (0, s) if one else (low[b], high[b])
                total = 0.0
                for c in range(first, last):
                    Q_bar[j, c, b] += 0.5 * (r[c] * r[b] - N[c, b])
                    total += Phi[j, c, b] * r[c]
                later[b] = total
                for a in range(s):  # T = N Phi
                    total = 0.0
                    for c in range(first, last):
                        total += N[a, c] * Phi[j, c, b]
                    T[a, b] = total
            for b in range(s):
                first, last = (0, s) if one else (low[b], high[b])
                total = means[i, b]
                for c in range(s):
                    total += after[i, b, c] * later[c]
                x[b] = total
                for a in range(first, last):
                    total = r[a] * x[b]
                    for c in range(s):
                        total -= T[a, c] * after[i, c, b]
                    Phi_bar[j, a, b] += total
            for a in range(s):
                first, last = (0, s) if one else (low[a], high[a])
                for b in range(a + 1):
                    total = 0.0
                    for c in range(first, last):
                        total += Phi[j, c, a] * T[c, b]
                    L[a, b] = L[b, a] = total

    def information(Phi, Q, h, step, W, k, D, after, Phi_bar, Q_bar, h_bar, variances, L):
        """N is what data from i on say of x_i, the derivative with respect to P_i, and L = Phi' N Phi of the
        step that follows."""
        N, T, ahead, Lc = np.zeros((s, s)), np.zeros((s, s)), np.zeros(s), np.zeros(s)
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
                    total -= after[i + 1, a, b] * ahead[b]
                h_bar[i, a] += 2.0 * w * total
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
            for a in range(s):
                for b in range(s):
                    total = 0.0
                    for c in range(s):
                        total += T[a, c] * after[i, c, b]
                    Phi_bar[j, a, b] += 2.0 * total
            for a in range(s):
                for b in range(a + 1):
                    total = 0.0
                    for c in range(s):
                        total += Phi[j, c, a] * T[c, b]
                    L[a, b] = L[b, a] = total

    def outer(Phi, Q, h, step, V, r, Phi_bar, Q_bar, h_bar, x, shift, factor):
        """What each column says of the steps by the one that is `shift` further, around."""
        n, _, q = r.shape
        y = np.zeros((s, q))
        for i in range(n):
            j = step[i]
            for c in range(q):
                other = c + shift if c + shift < q else c + shift - q
                for a in range(s):
                    total, here = 0.0, factor * r[i, a, other]
                    for b in range(s):
                        Q_bar[j, a, b] += 0.5 * here * r[i, b, c]
                        Phi_bar[j, a, b] += here * x[b, c]
                        total += Phi[j, a, b] * x[b, c] + Q[j, a, b] * r[i, b, c]
                    y[a, c] = total
                    h_bar[i, a] += factor * total * V[i, other]
            for c in range(q):
                for a in range(s):
                    x[a, c] = y[a, c]

    loops = (forward, innovations, dual, adjoint, states, drive, back, information, outer)
    return Sweeps(*(compiled(loop) for loop in loops))
