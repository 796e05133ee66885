"""The data every library sees, and the evidence by which they are judged: plain NumPy,
no library's word taken.
"""

from __future__ import annotations

import numpy as np


def regression(n: int, d: int = 8, noise: float = 0.1, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Standard-normal inputs of which the first three matter, and a centred target: X (n, d), y (n,)."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    f = np.sin(2 * X[:, 0]) + np.tanh(X[:, 1]) * X[:, 2] + 0.5 * np.cos(X[:, 1])
    y = f + noise * rng.standard_normal(n)
    return X, y - y.mean()


def covariance(X: np.ndarray, lengthscale: np.ndarray, variance: float, noise_variance: float) -> np.ndarray:
    """K + noise I for the squared exponential with a length-scale per input (GPML eq. 5.1),
    from plain differences.
    """
    Z = X / lengthscale
    r2 = np.zeros((len(Z), len(Z)))
    for column in Z.T:
        r2 += np.subtract.outer(column, column) ** 2
    K = variance * np.exp(-0.5 * r2)
    K[np.diag_indices_from(K)] += noise_variance
    return K


def log_evidence(
    X: np.ndarray, y: np.ndarray, lengthscale: np.ndarray, variance: float, noise_variance: float
) -> float:
    """The log marginal likelihood of GPML eq. 2.30 at the given hyperparameters, in nats."""
    L = np.linalg.cholesky(covariance(X, np.asarray(lengthscale), variance, noise_variance))
    z = np.linalg.solve(L, y)
    return float(-0.5 * z @ z - np.log(np.diag(L)).sum() - 0.5 * len(y) * np.log(2 * np.pi))


def classification(n: int, d: int = 8, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A binary problem with three informative inputs of d, and labels +-1 that overlap."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    f = 3.0 * np.sin(1.5 * X[:, 0]) + 2.0 * X[:, 1] * X[:, 2]
    return X, np.where(rng.random(n) < 1.0 / (1.0 + np.exp(-f)), 1.0, -1.0)


def laplace_evidence(X: np.ndarray, y: np.ndarray, lengthscale, variance: float) -> float:
    """Laplace's log evidence of the logit model (3.32), in plain NumPy by Algorithm 3.1."""
    K = covariance(X, lengthscale, variance, 0.0)
    f = np.zeros(len(y))
    for _ in range(100):
        p = 1.0 / (1.0 + np.exp(-f))
        W, g = p * (1 - p), (y + 1) / 2 - p
        root = np.sqrt(W)
        B = np.eye(len(y)) + root[:, None] * K * root
        b = W * f + g
        a = b - root * np.linalg.solve(B, root * (K @ b))
        new = K @ a
        done = np.max(np.abs(new - f)) < 1e-10
        f = new
        if done:
            break
    p = 1.0 / (1.0 + np.exp(-f))
    root = np.sqrt(p * (1 - p))
    B = np.eye(len(y)) + root[:, None] * K * root
    return float(-0.5 * a @ f - np.sum(np.logaddexp(0.0, -y * f)) - 0.5 * np.linalg.slogdet(B)[1])
