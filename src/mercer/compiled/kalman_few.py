"""The sweeps of `mercer.compiled.kalman` that learning needs, where f is the first of one or two states:
everything they carry along is in registers.

    D = 1 + W P,   P+ = P / D,   R+ = R / D,   S+ = S - W R^2 / D     for the covariance ((P, R), (R, S))

`carry` is what one block of steps hands on to the next. The filters keep what they find where there is room
for it.
"""

from __future__ import annotations

import numpy as np

from mercer.compiled import compiled

Array = np.ndarray


@compiled
def one(
    Phi: Array,
    Q: Array,
    h: Array,
    step: Array,
    W: Array,
    z: Array,
    k_out: Array,
    D_out: Array,
    e_out: Array,
    means: Array,
    after: Array,
    carry: Array,
) -> tuple[float, float, float]:
    """The filter of one state, whose covariance P = a / b follows a linear recursion without a division to
    wait for, with D = b+ / b: the product of all D is b.
    """
    keep = after.shape[0] > 0
    a, b, over, x = carry[0], 1.0, 1.0, carry[1]  # over = 1 / b
    logdet, squares, least = 0.0, 0.0, np.inf
    for i in range(W.shape[0]):
        j = step[i]
        A = Phi[j, 0, 0]
        x, a = A * x, Q[j, 0, 0] * b + A * A * a
        b, e = b + W[i] * a, z[i] - x
        if keep:
            k_out[i, 0] = a * over
        D, over = b * over, 1.0 / b
        gain = W[i] * a * over
        least = D if not least <= D else least
        squares += W[i] * e * e / D
        x += gain * e
        if keep:
            D_out[i], e_out[i], means[i, 0], after[i, 0, 0] = D, e, x, a * over
        if not 1e-100 < b < 1e100:
            logdet += np.log(b)
            a, b, over = a * over, 1.0, 1.0
    carry[0], carry[1] = a * over, x
    return logdet + np.log(b), squares, least


@compiled
def two(
    Phi: Array,
    Q: Array,
    h: Array,
    step: Array,
    W: Array,
    z: Array,
    k_out: Array,
    D_out: Array,
    e_out: Array,
    means: Array,
    after: Array,
    carry: Array,
) -> tuple[float, float, float]:
    """The filter of two states (x, y)."""
    keep = after.shape[0] > 0
    P, R, S, x, y = carry[0], carry[1], carry[2], carry[3], carry[4]
    logdet, squares, least, product = 0.0, 0.0, np.inf, 1.0
    for i in range(W.shape[0]):
        j = step[i]
        A, B, C, E = Phi[j, 0, 0], Phi[j, 0, 1], Phi[j, 1, 0], Phi[j, 1, 1]
        x, y = A * x + B * y, C * x + E * y
        P, R, S = (
            Q[j, 0, 0] + A * A * P + 2.0 * A * B * R + B * B * S,
            Q[j, 0, 1] + A * C * P + (A * E + B * C) * R + B * E * S,
            Q[j, 1, 1] + C * C * P + 2.0 * C * E * R + E * E * S,
        )
        D, e = 1.0 + W[i] * P, z[i] - x
        if keep:
            k_out[i, 0], k_out[i, 1], D_out[i], e_out[i] = P, R, D, e
        r = 1.0 / D
        squares += W[i] * r * e * e
        S -= W[i] * R * R * r
        P, R = P * r, R * r
        x, y = x + W[i] * P * e, y + W[i] * R * e
        if keep:
            means[i, 0], means[i, 1] = x, y
            after[i, 0, 0], after[i, 0, 1], after[i, 1, 0], after[i, 1, 1] = P, R, R, S
        least = D if not least <= D else least
        product *= D
        if not 1e-100 < product < 1e100:
            logdet += np.log(product)
            product = 1.0
    carry[0], carry[1], carry[2], carry[3], carry[4] = P, R, S, x, y
    return logdet + np.log(product), squares, least


@compiled
def one_back(
    Phi: Array,
    Q: Array,
    h: Array,
    step: Array,
    W: Array,
    k: Array,
    D: Array,
    e: Array,
    means: Array,
    after: Array,
    Phi_bar: Array,
    Q_bar: Array,
    h_bar: Array,
    alpha: Array,
    variances: Array,
    carry: Array,
) -> None:
    """Derivatives of the evidence of one state; L and the adjoint are carried."""
    L, later = carry[0], carry[1]
    for i in range(W.shape[0] - 1, -1, -1):
        j, P, w = step[i], k[i, 0], W[i] / D[i]
        A, ahead = Phi[j, 0, 0], L * P
        alpha[i] = w * (e[i] - P * later)
        variances[i] = P / D[i] - P * ahead / (D[i] * D[i])
        r = later + alpha[i]
        N = L + w - 2.0 * w * ahead + w * w * P * ahead
        later, T = A * r, N * A
        L = A * T
        Q_bar[j, 0, 0] += 0.5 * (r * r - N)
        Phi_bar[j, 0, 0] += r * (means[i, 0] + after[i, 0, 0] * later) - T * after[i, 0, 0]
    carry[0], carry[1] = L, later


@compiled
def two_back(
    Phi: Array,
    Q: Array,
    h: Array,
    step: Array,
    W: Array,
    k: Array,
    D: Array,
    e: Array,
    means: Array,
    after: Array,
    Phi_bar: Array,
    Q_bar: Array,
    h_bar: Array,
    alpha: Array,
    variances: Array,
    carry: Array,
) -> None:
    """Of two states; what is said of R, by Q_12 and Q_21, is put in one place."""
    L, M, O, later, last = carry[0], carry[1], carry[2], carry[3], carry[4]  # ((L, M), (M, O)), adjoints
    for i in range(W.shape[0] - 1, -1, -1):
        j, P, R, w = step[i], k[i, 0], k[i, 1], W[i] / D[i]
        A, B, C, E = Phi[j, 0, 0], Phi[j, 0, 1], Phi[j, 1, 0], Phi[j, 1, 1]
        ahead, further = L * P + M * R, M * P + O * R
        doubled = P * ahead + R * further
        alpha[i] = w * (e[i] - P * later - R * last)
        variances[i] = P / D[i] - doubled / (D[i] * D[i])
        r, s = later + alpha[i], last
        later, last = A * r + C * s, B * r + E * s
        L, M = L + w - 2.0 * w * ahead + w * w * doubled, M - w * further  # N
        Q_bar[j, 0, 0] += 0.5 * (r * r - L)
        Q_bar[j, 0, 1] += r * s - M
        Q_bar[j, 1, 1] += 0.5 * (s * s - O)
        T, U, V, X = L * A + M * C, L * B + M * E, M * A + O * C, M * B + O * E  # N Phi
        L, M, O = A * T + C * V, B * T + E * V, B * U + E * X
        p, q, v = after[i, 0, 0], after[i, 0, 1], after[i, 1, 1]
        x, y = means[i, 0] + p * later + q * last, means[i, 1] + q * later + v * last
        Phi_bar[j, 0, 0] += r * x - T * p - U * q
        Phi_bar[j, 0, 1] += r * y - T * q - U * v
        Phi_bar[j, 1, 0] += s * x - V * p - X * q
        Phi_bar[j, 1, 1] += s * y - V * q - X * v
    carry[0], carry[1], carry[2], carry[3], carry[4] = L, M, O, later, last
