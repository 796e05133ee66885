"""The loops of `mercer.compiled.lanes`: chunks of one chain side by side, so that a step of all of them is
a few vector instructions that wait for nothing.

Arrays are flat: for each step, `rows` of as many numbers as there are lanes. Their indices are unsigned, and
few arrays are written, so that the compiler sees that vectors do no harm.

    given: W, z                           made: Phi, Q (A, Q; or A, B, C, E, Q_11, Q_12, Q_22)
    carry: P, x (or P, R, S, x, y), as in `mercer.compiled.kalman_few`, then sums
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from mercer.compiled import compiled

Array = np.ndarray
LANES = 32
ONE, BOUND = np.uint64(1), np.uint64(2**32 - 1)  # by which the compiler sees that offsets do not wrap around
GIVEN, MADE, CARRIED = 2, {1: 2, 2: 7}, {1: 2, 2: 5}  # rows
NOTHING = 1e-200  # information about a state that is as good as none, and whose reciprocal would overflow
STARTS = {1: 3, 2: 9}  # that are carried along for what a chunk began with: G, J, eta


class Sweeps(NamedTuple):
    """start, forward(given, made, carry, D), keep(given, made, carry, kept): the filter. After the states,
    `carry` has the sum of w e^2, the least D and, in `start`, G, J and eta; kept: what is carried to each
    step.

    back(gaps, given, made, kept, carry, out, spread): derivatives of the evidence. carry: L and adjoints,
    then the derivative with respect to the rate, and that to the variance, times itself; out: R z and
    posterior variances; spread: variance times the density of the noise.

    The numbers of steps and of lanes come last.
    """

    start: Any
    forward: Any
    keep: Any
    back: Any


@functools.cache
def sweeps(s: int) -> Sweeps:
    """For one or two states."""
    first, back = (_one, _one_back) if s == 1 else (_two, _two_back)
    return Sweeps(first(True, False), first(False, False), first(False, True), compiled(back()))


def _rows(count: int) -> tuple[np.uint64, ...]:
    return tuple(np.uint64(LANES * k) for k in range(count))


def _one(starts: bool, keep: bool):
    _, r1, r2, r3, r4, r5, r6 = _rows(7)
    n_given, n_made, n_out = (np.uint64(LANES * k) for k in (GIVEN, MADE[1], CARRIED[1] if keep else 1))

    def run(given, made, carry, out, steps, lanes):
        for t in range(steps):
            g, m, o = t * n_given, t * n_made, t * n_out
            for c in range(lanes):
                A, w, P, x = made[m + c], given[g + c], carry[c], carry[r1 + c]
                if keep:
                    out[o + c], out[o + r1 + c] = P, x
                P, x = made[m + r1 + c] + A * A * P, A * x
                D, e = 1.0 + w * P, given[g + r1 + c] - x
                r = 1.0 / D
                w *= r
                if not keep:
                    out[o + c] = D
                carry[c], carry[r1 + c] = P * r, x + w * P * e
                carry[r2 + c] += w * e * e
                carry[r3 + c] = D if not carry[r3 + c] <= D else carry[r3 + c]
                if starts:
                    u = A * carry[r4 + c]
                    carry[r4 + c] = u * r
                    carry[r5 + c] += w * u * u
                    carry[r6 + c] += w * u * e

    return compiled(run)


def _two(starts: bool, keep: bool):
    _, r1, r2, r3, r4, r5, r6, r7, r8, r9, r10, r11, r12, r13, r14, r15 = _rows(16)
    n_given, n_made, n_out = (np.uint64(LANES * k) for k in (GIVEN, MADE[2], CARRIED[2] if keep else 1))

    def run(given, made, carry, out, steps, lanes):
        for t in range(steps):
            g, m, o = t * n_given, t * n_made, t * n_out
            for c in range(lanes):
                A, B, C, E = made[m + c], made[m + r1 + c], made[m + r2 + c], made[m + r3 + c]
                P, R, S, x, y = carry[c], carry[r1 + c], carry[r2 + c], carry[r3 + c], carry[r4 + c]
                if keep:
                    out[o + c], out[o + r1 + c], out[o + r2 + c] = P, R, S
                    out[o + r3 + c], out[o + r4 + c] = x, y
                x, y = A * x + B * y, C * x + E * y
                T, U, V, X = A * P + B * R, A * R + B * S, C * P + E * R, C * R + E * S  # Phi P
                P = made[m + r4 + c] + T * A + U * B
                R = made[m + r5 + c] + T * C + U * E
                S = made[m + r6 + c] + V * C + X * E
                w = given[g + c]
                D, e = 1.0 + w * P, given[g + r1 + c] - x
                r = 1.0 / D
                w *= r
                if not keep:
                    out[o + c] = D
                carry[c], carry[r1 + c], carry[r2 + c] = P * r, R * r, S - w * R * R
                carry[r3 + c], carry[r4 + c] = x + w * P * e, y + w * R * e
                carry[r5 + c] += w * e * e
                carry[r6 + c] = D if not carry[r6 + c] <= D else carry[r6 + c]
                if starts:  # G_11, G_12, G_21, G_22, J_11, J_21, J_22, eta
                    p, q, v, z = carry[r7 + c], carry[r8 + c], carry[r9 + c], carry[r10 + c]
                    u, k = A * p + B * v, A * q + B * z
                    carry[r7 + c], carry[r8 + c] = u * r, k * r
                    carry[r9 + c], carry[r10 + c] = C * p + E * v - w * R * u, C * q + E * z - w * R * k
                    carry[r11 + c] += w * u * u
                    carry[r12 + c] += w * u * k
                    carry[r13 + c] += w * k * k
                    carry[r14 + c] += w * u * e
                    carry[r15 + c] += w * k * e

    return compiled(run)


def _one_back():
    _, r1, r2, r3 = _rows(4)
    n_gaps, n_given, n_made, n_kept, n_out = (
        np.uint64(LANES * k) for k in (1, GIVEN, MADE[1], CARRIED[1], 2)
    )

    def run(gaps, given, made, kept, carry, out, spread, steps, lanes):
        for back in range(steps):
            t = (steps - back - ONE) & BOUND
            g, m, k, o = t * n_given, t * n_made, t * n_kept, t * n_out
            for c in range(lanes):
                A, Q, W, before, x = (
                    made[m + c],
                    made[m + r1 + c],
                    given[g + c],
                    kept[k + c],
                    kept[k + r1 + c],
                )
                L, later = carry[c], carry[r1 + c]
                P = Q + A * A * before
                over = 1.0 / (1.0 + W * P)
                w = W * over
                a = w * (given[g + r1 + c] - A * x - P * later)
                out[o + c], out[o + r1 + c] = a, P * over * (1.0 - L * P * over)
                r, N = later + a, w + L * over * over
                later, T = A * r, N * A
                by_Q = 0.5 * (r * r - N)
                by_Phi = r * (x + before * later) - T * before
                carry[c], carry[r1 + c] = A * T, later
                carry[r2 + c] += gaps[t * n_gaps + c] * A * (spread * by_Q * A - by_Phi)
                carry[r3 + c] += by_Q * Q

    return run


def _two_back():
    _, r1, r2, r3, r4, r5, r6 = _rows(7)
    n_gaps, n_given, n_made, n_kept, n_out = (
        np.uint64(LANES * k) for k in (1, GIVEN, MADE[2], CARRIED[2], 2)
    )

    def run(gaps, given, made, kept, carry, out, spread, steps, lanes):
        for back in range(steps):
            t = (steps - back - ONE) & BOUND
            g, m, k, o = t * n_given, t * n_made, t * n_kept, t * n_out
            for c in range(lanes):
                A, B, C, E = made[m + c], made[m + r1 + c], made[m + r2 + c], made[m + r3 + c]
                Q_11, Q_12, Q_22 = made[m + r4 + c], made[m + r5 + c], made[m + r6 + c]
                p, q, v, x, y = (
                    kept[k + c],
                    kept[k + r1 + c],
                    kept[k + r2 + c],
                    kept[k + r3 + c],
                    kept[k + r4 + c],
                )
                L, M, O, later, last = carry[c], carry[r1 + c], carry[r2 + c], carry[r3 + c], carry[r4 + c]
                T, U, W = A * p + B * q, A * q + B * v, given[g + c]
                P, R = Q_11 + T * A + U * B, Q_12 + T * C + U * E
                over = 1.0 / (1.0 + W * P)
                w = W * over
                ahead, further = L * P + M * R, M * P + O * R
                doubled = P * ahead + R * further
                a = w * (given[g + r1 + c] - A * x - B * y - P * later - R * last)
                out[o + c], out[o + r1 + c] = a, over * (P - doubled * over)
                r, s = later + a, last
                later, last = A * r + C * s, B * r + E * s
                L, M = L + w - 2.0 * w * ahead + w * w * doubled, M - w * further  # N
                S_11, S_12, S_22 = 0.5 * (r * r - L), r * s - M, 0.5 * (s * s - O)  # by Q
                T, U, V, X = L * A + M * C, L * B + M * E, M * A + O * C, M * B + O * E  # N Phi
                carry[c], carry[r1 + c], carry[r2 + c] = A * T + C * V, B * T + E * V, B * U + E * X
                carry[r3 + c], carry[r4 + c] = later, last
                x, y = x + p * later + q * last, y + q * later + v * last
                F_11, F_12 = r * x - T * p - U * q, r * y - T * q - U * v  # by Phi
                F_21, F_22 = s * x - V * p - X * q, s * y - V * q - X * v
                slope = F_11 * C + F_12 * E - F_21 * (A + 2.0 * C) - F_22 * (B + 2.0 * E)
                slope += spread * (S_11 * B * B + S_12 * B * E + S_22 * E * E)
                carry[r5 + c] += gaps[t * n_gaps + c] * slope
                carry[r6 + c] += S_11 * Q_11 + S_12 * Q_12 + S_22 * Q_22

    return run


@compiled
def lay(values: Array, out: Array, row: int) -> None:
    """A row of (steps, rows, LANES): values (n,), a chunk of all steps for each lane, then zeros."""
    steps, n = len(out), len(values)
    for t in range(steps):
        for c in range(LANES):
            k = c * steps + t
            out[t, row, c] = values[k] if k < n else 0.0


@compiled
def lift(lanes: Array, row: int, values: Array) -> None:
    """And back."""
    steps, n = len(lanes), len(values)
    for t in range(steps):
        for c in range(LANES):
            k = c * steps + t
            if k < n:
                values[k] = lanes[t, row, c]


@compiled
def link(
    x: Array, P: Array, G: Array, J: Array, eta: Array, m: Array, V: Array, seen: Array
) -> tuple[float, float]:
    """A chunk says of the state before it as much as s observations of it: rows u of J = sum d u u', with
    values y. Means m (s, LANES) and covariances V (s, s, LANES) of these states, from those that the chunks
    find from zeros; seen (s, s + 3, LANES): u, d, D and e = y - u . m of each. Returns what has to be added
    to the sums of log D and of w e^2.
    """
    s, C = x.shape
    mean, cov, v, T = np.zeros(s), np.zeros((s, s)), np.zeros(s), np.zeros((s, s))
    logdet, squares = 0.0, 0.0
    for c in range(C):
        m[:, c], V[:, :, c] = mean, cov
        for o in range(s):
            d, y = J[o, o, c], 0.0
            seen[o, :, c] = 0.0
            seen[o, s + 1, c] = 1.0
            if d > NOTHING:
                y = eta[o, c] / d
                for a in range(s):
                    seen[o, a, c] = (J[a, o, c] if a >= o else 0.0) / d
                D, e = 1.0, y
                for a in range(s):
                    v[a] = 0.0
                    for b in range(s):
                        v[a] += cov[a, b] * seen[o, b, c]
                    D += d * seen[o, a, c] * v[a]
                    e -= seen[o, a, c] * mean[a]
                seen[o, s, c], seen[o, s + 1, c], seen[o, s + 2, c] = d, D, e
                logdet += np.log(D)
                squares += d * (e * e / D - y * y)
                for a in range(s):
                    mean[a] += d / D * v[a] * e
                    for b in range(s):
                        cov[a, b] -= d / D * v[a] * v[b]
                for a in range(o, s):
                    eta[a, c] -= d * seen[o, a, c] * y
                    for b in range(o, a + 1):
                        J[a, b, c] -= d * seen[o, a, c] * seen[o, b, c]
        for a in range(s):
            v[a] = x[a, c]
            for b in range(s):
                v[a] += G[a, b, c] * mean[b]
                T[a, b] = 0.0
                for o in range(s):
                    T[a, b] += G[a, o, c] * cov[o, b]
        mean[:] = v
        for a in range(s):
            for b in range(a + 1):
                total = P[a, b, c]
                for o in range(s):
                    total += T[a, o] * G[b, o, c]
                cov[a, b] = cov[b, a] = total
    return logdet, squares


@compiled
def link_back(G: Array, V: Array, seen: Array, later: Array, L: Array) -> None:
    """What follows each chunk says of the state at its end: adjoints later (s, LANES) and L (s, s, LANES)."""
    s, C = later.shape
    r, N, T = np.zeros(s), np.zeros((s, s)), np.zeros((s, s))
    k, ahead, cov = np.zeros((s, s)), np.zeros(s), np.zeros((s, s))
    for c in range(C - 1, -1, -1):
        later[:, c], L[:, :, c] = r, N
        cov[:] = V[:, :, c]
        for o in range(s):  # gains, as they were on the way there
            for a in range(s):
                k[o, a] = 0.0
                for b in range(s):
                    k[o, a] += cov[a, b] * seen[o, b, c]
            for a in range(s):
                for b in range(s):
                    cov[a, b] -= seen[o, s, c] / seen[o, s + 1, c] * k[o, a] * k[o, b]
        for a in range(s):  # r = G' r, N = G' N G
            ahead[a] = 0.0
            for b in range(s):
                ahead[a] += G[b, a, c] * r[b]
                T[a, b] = 0.0
                for o in range(s):
                    T[a, b] += N[a, o] * G[o, b, c]
        r[:] = ahead
        for a in range(s):
            for b in range(s):
                N[a, b] = 0.0
                for o in range(s):
                    N[a, b] += G[o, a, c] * T[o, b]
        for o in range(s - 1, -1, -1):
            w, alpha, doubled = seen[o, s, c] / seen[o, s + 1, c], seen[o, s + 2, c], 0.0
            for a in range(s):
                ahead[a] = 0.0
                for b in range(s):
                    ahead[a] += N[a, b] * k[o, b]
                doubled += k[o, a] * ahead[a]
                alpha -= k[o, a] * r[a]
            for a in range(s):
                r[a] += w * alpha * seen[o, a, c]
            for a in range(s):
                for b in range(s):
                    N[a, b] += (w + w * w * doubled) * seen[o, a, c] * seen[o, b, c]
                    N[a, b] -= w * (ahead[a] * seen[o, b, c] + seen[o, a, c] * ahead[b])
