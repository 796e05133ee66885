"""Sites of EP visited one after the other (GPML Algorithm 3.5), as a loop, for labels y = +-1 whose
likelihood is a mixture of probits:

    p(y | f) = flip + (1 - 2 flip) sum_j w_j Phi(y f / s_j).

Phi itself is one of them, the logistic function another. Averages over a Gaussian are in closed form:
sum_j w_j Phi(y mean / sqrt(s_j^2 + variance)).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from mercer.compiled import compiled

FAR, TERMS = 5.0, 30  # as in `mercer.likelihoods.special`
SHORTEST = 1e-6  # a site whose step has to be shorter stays as it is


class Probits(NamedTuple):
    """Squared scales s_j^2 (J,), weights w_j (J,) and flip.

    logistic: sigma(f) = exp(f) sigma(-f), by which a mean far on the wrong side is taken to the other one
    """

    squares: np.ndarray
    weights: np.ndarray
    flip: float
    logistic: bool


def visit(
    joint: Any, y: np.ndarray, probits: Probits, longest: float, begin: int, U: np.ndarray, shares: np.ndarray
) -> None:  # fmt: skip
    """Move the sites from `begin` on of a `mercer.inference.ep.sequential.Joint`, as many as U (k, n) has
    rows, towards those that their cavities ask for, each by a step of at most `longest`. The covariance then
    is A - sum_k shares_k U_k U_k'.
    """
    parts = joint.A, joint.diagonal, joint.mean, joint.W, joint.gamma
    _visit(*parts, y, *probits, longest, SHORTEST, begin, U, shares)


@compiled
def _visit(
    A, diagonal, mean, W, gamma, y, squares, weights, flip, logistic, longest, shortest, begin, U, shares
):
    n, widest = len(y), squares.max()
    for k in range(len(U)):
        i, a = begin + k, U[k]
        a[:], shares[k] = 0.0, 0.0
        share = 1.0 - W[i] * diagonal[i]
        if not share > 0.0:
            continue
        v = diagonal[i] / share
        mu = mean[i] - v * gamma[i]

        # log Z, d and D: averages over the probits by their shares p in Z, of log Phi's derivatives
        m, offset = y[i] * mu, 0.0
        reflected = logistic and m < -0.5 * v
        if reflected:
            m, offset = -(m + v), m + 0.5 * v
        least = 0.5 * m * m / (widest + v) if m < 0.0 else 0.0  # Z and all p are larger by exp(least)
        Z, d, curvature, spread = 0.0, 0.0, 0.0, 0.0
        for j in range(len(squares)):
            root = math.sqrt(squares[j] + v)
            z = m / root
            density = math.exp(least - 0.5 * z * z) / math.sqrt(2.0 * math.pi)
            if z < -FAR:
                c, below = 0.0, 0.0
                for term in range(TERMS, 0, -1):
                    c, below = term / (c - z), c
                r, w = c - z, 1.0 - c * (below - c)
                p = weights[j] * density / r
            else:
                Phi = 0.5 * math.erfc(-z / math.sqrt(2.0)) * math.exp(least)
                r = density / Phi
                w, p = r * (z + r), weights[j] * Phi
            Z += p
            if Z > 0.0:
                old, d = d, d + p / Z * (r / root - d)
                spread += p * (r / root - old) * (r / root - d)
                curvature += p * w / (root * root)
        D = (curvature - spread) / Z
        d = 1.0 - d if reflected else d
        if flip > 0.0:
            right = (1.0 - 2.0 * flip) * Z * math.exp(offset - least)
            q = right / (flip + right)
            d, D = q * d, q * D - q * (1.0 - q) * d * d

        rest = 1.0 - v * D
        if not (np.isfinite(d) and np.isfinite(D) and rest > 0.0):
            continue
        new, g = D / rest, y[i] * d / rest  # (3.59)
        dW, dg = new - W[i], g + new * (mu - mean[i]) - gamma[i]

        a[:] = A[i]
        for l in range(k):
            part = shares[l] * U[l, i]
            if part != 0.0:
                for j in range(n):
                    a[j] -= part * U[l, j]
        step, fits = longest, False
        while step > shortest and not fits:
            remains = 1.0 + step * dW * diagonal[i]
            if remains > 1e-8:
                share, fits = step * dW / remains, True
                for j in range(n):
                    after = W[j] + step * dW if j == i else W[j]
                    if W[j] * diagonal[j] < 1.0 and not after * (diagonal[j] - share * a[j] * a[j]) < 1.0:
                        fits = False
            if not fits:
                step *= 0.5
        if not fits:
            continue
        dW, dg = step * dW, step * dg
        shift = dg / remains
        for j in range(n):
            mean[j] += shift * a[j]
            gamma[j] -= W[j] * shift * a[j]
            diagonal[j] -= share * a[j] * a[j]
        gamma[i] += dg - dW * shift * a[i]
        W[i] += dW
        shares[k] = share
