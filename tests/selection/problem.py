"""One small problem that the tests of selections share."""

import numpy as np

import mercer as mc
from mercer import kernels as k
from mercer import means
from mercer.inputs import as_inputs
from mercer.selection import Pool

N, M, NOISE = 30, 6, 0.05
rng = np.random.default_rng(2)
X = rng.uniform(-2, 2, size=(N, 2))
Y = np.sin(2 * X[:, 0]) + 0.2 * rng.normal(size=N) + 0.5
LABELS = np.where(Y > 0.5, 1.0, -1.0)
R = Y - 0.4
GP = mc.GP(k.Matern([1.0, 2.0], 1.3, nu=1.5), means.Constant(0.4)).bind(as_inputs(X))
K = GP.kernel(X)
POOL = Pool(GP, X, Y, NOISE)


def low_rank(active):
    """K~ of (8.4)."""
    return K[:, active] @ np.linalg.solve(K[np.ix_(active, active)], K[active])


def posterior(active, noise=NOISE):
    """Mean and covariance of f at all data given those in `active` (2.25)-(2.26)."""
    S = K[np.ix_(active, active)] + noise * np.eye(len(active))
    G = np.linalg.solve(S, K[active])
    return 0.4 + G.T @ R[active], K - K[active].T @ G


def information(active, i):
    """KL of the joint posterior of f at all data with datum i from that without it."""
    (old, S), (new, T) = posterior(active), posterior([*active, i])
    P, step = np.linalg.inv(S), new - old
    logdets = np.linalg.slogdet(S)[1] - np.linalg.slogdet(T)[1]
    return 0.5 * (np.trace(P @ T) - N + step @ P @ step + logdets)


def value(name, active):
    """What a greedy selection by this name maximises, from nothing."""
    Q = low_rank(active) if len(active) else np.zeros((N, N))
    if name == "trace":
        return -np.trace(K - Q)
    if name == "residual":
        fit = K[:, active] @ np.linalg.lstsq(K[:, active], R, rcond=None)[0] if len(active) else 0.0
        return -np.sum((R - fit) ** 2)
    if name == "entropy":  # of f at all data, but for a constant: what a Gaussian channel tells
        return 0.5 * np.linalg.slogdet(np.eye(len(active)) + K[np.ix_(active, active)] / NOISE)[1]
    S = Q + NOISE * np.eye(N)
    quadratic = R @ np.linalg.solve(S, R)
    return -quadratic if name == "matching" else -0.5 * quadratic - 0.5 * np.linalg.slogdet(S)[1]


def gain(name, active, i):
    """The score of datum i by its definition."""
    if name == "pivoted":
        return K[i, i] - (low_rank(active)[i, i] if len(active) else 0.0)
    if name == "information-gain":
        return information(active, i)
    return value(name, [*active, i]) - value(name, active)
