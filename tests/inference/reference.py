"""The algorithms of the texts in plain NumPy, with explicit matrices:
nothing here is shared with the package.
"""

from __future__ import annotations

import numpy as np
from scipy.special import log_expit, log_ndtr, logsumexp, softmax


def se(A, B, lengthscale, variance):
    return variance * np.exp(-0.5 * np.sum((A[:, None] - B[None]) ** 2, -1) / lengthscale**2)


def binary(link, f, y):
    """log p(y|f) and three derivatives in f (GPML p. 43, with the third)."""
    if link == "logit":
        p = np.exp(log_expit(f))
        return log_expit(y * f), (y + 1) / 2 - p, -p * (1 - p), -p * (1 - p) * (1 - 2 * p)
    z = y * f
    r = np.exp(-0.5 * z**2 - 0.5 * np.log(2 * np.pi) - log_ndtr(z))
    return log_ndtr(z), y * r, -r * (r + z), y * (r * (z**2 - 1) + 3 * z * r**2 + 2 * r**3)


def laplace_binary(K, y, link):
    """Algorithm 3.1: mode, a = K^-1 f, W, L = chol(B), log evidence."""
    f = np.zeros(len(y))
    for _ in range(60):
        _, g, h, _ = binary(link, f, y)
        s = np.sqrt(-h)
        L = np.linalg.cholesky(np.eye(len(y)) + s[:, None] * K * s)
        b = -h * f + g
        a = b - s * np.linalg.solve(L.T, np.linalg.solve(L, s * (K @ b)))
        f = K @ a
    log_p, _, h, _ = binary(link, f, y)
    s = np.sqrt(-h)
    L = np.linalg.cholesky(np.eye(len(y)) + s[:, None] * K * s)
    return f, a, -h, L, -0.5 * a @ f + log_p.sum() - np.log(np.diag(L)).sum()


def laplace_gradient(K, dK, y, link):
    """Algorithm 5.1, with a plus sign in front of the implicit term s2."""
    f, a, W, L, _ = laplace_binary(K, y, link)
    _, g, _, third = binary(link, f, y)
    s = np.sqrt(W)
    R = s[:, None] * np.linalg.solve(L.T, np.linalg.solve(L, np.diag(s)))
    C = np.linalg.solve(L, s[:, None] * K)
    s2 = 0.5 * (np.diag(K) - np.sum(C**2, 0)) * third
    s1 = 0.5 * a @ dK @ a - 0.5 * np.sum(R * dK)
    b = dK @ g
    return s1 + s2 @ (b - K @ (R @ b))


def laplace_softmax(Ks, y):
    """Dense Newton on the C n x C n system: mode (C, n), W, K, log evidence (3.44)."""
    C, n = len(Ks), len(y)
    K = np.zeros((C * n, C * n))
    for c, Kc in enumerate(Ks):
        K[c * n : (c + 1) * n, c * n : (c + 1) * n] = Kc
    Y = (np.arange(C)[:, None] == y[None]).astype(float).ravel()
    f = np.zeros(C * n)
    for _ in range(60):
        p = softmax(f.reshape(C, n), 0).ravel()
        stacked = np.vstack([np.diag(q) for q in p.reshape(C, n)])
        W = np.diag(p) - stacked @ stacked.T
        a = np.linalg.solve(np.eye(C * n) + W @ K, W @ f + Y - p)
        f = K @ a
    value = (
        -0.5 * a @ f
        + Y @ f
        - logsumexp(f.reshape(C, n), 0).sum()
        - 0.5 * np.linalg.slogdet(np.eye(C * n) + W @ K)[1]
    )
    return f.reshape(C, n), a.reshape(C, n), W, K, value


def ep_probit(K, y, sweeps=60):
    """Algorithm 3.5, site after site, with explicit inverses; log Z by (3.65) as it stands,
    and the posterior.
    """
    n = len(y)
    tau, nu = np.zeros(n), np.zeros(n)
    S, m = K.copy(), np.zeros(n)
    for _ in range(sweeps):
        for i in range(n):
            t, v = 1 / S[i, i] - tau[i], m[i] / S[i, i] - nu[i]
            mu, var = v / t, 1 / t
            z = y[i] * mu / np.sqrt(1 + var)
            r = np.exp(-0.5 * z**2 - 0.5 * np.log(2 * np.pi) - log_ndtr(z))
            mean = mu + y[i] * var * r / np.sqrt(1 + var)
            variance = var - var**2 * r / (1 + var) * (z + r)
            step = 1 / variance - t - tau[i]
            tau[i], nu[i] = tau[i] + step, mean / variance - v
            S = S - step / (1 + step * S[i, i]) * np.outer(S[:, i], S[i])
            m = S @ nu
        S = K - K @ np.linalg.solve(K + np.diag(1 / tau), K)
        m = S @ nu
    t = 1 / np.diag(S) - tau
    mu, var = (m / np.diag(S) - nu) / t, 1 / t
    site, noise = nu / tau, 1 / tau
    A = K + np.diag(noise)
    log_Z = -0.5 * np.linalg.slogdet(A)[1] - 0.5 * site @ np.linalg.solve(A, site)
    log_Z += np.sum(
        log_ndtr(y * mu / np.sqrt(1 + var))
        + 0.5 * np.log(var + noise)
        + (mu - site) ** 2 / (2 * (var + noise))
    )
    return log_Z, m, S, tau, nu, mu, var


def integrate(log_prob, K, mean=0.0, reach=6.5, nodes=61):
    """log evidence, posterior means and variances for n <= 3 by the trapezoidal rule on whitened f.

    f = mean + L z, so datum i depends on z_1 ... z_i only. `log_prob(i, f)` is elementwise.
    """
    n = len(K)
    L = np.linalg.cholesky(K)
    z = np.linspace(-reach, reach, nodes)
    grids = np.meshgrid(*[z] * n, indexing="ij", sparse=True)
    f = [mean + sum(L[i, j] * grids[j] for j in range(i + 1)) for i in range(n)]
    log_q = sum(log_prob(i, f[i]) - 0.5 * grids[i] ** 2 for i in range(n))
    top = log_q.max()
    q = np.exp(log_q - top)
    Z = q.sum()
    means = np.array([(q * fi).sum() / Z for fi in f])
    variances = np.array([(q * (fi - m) ** 2).sum() / Z for fi, m in zip(f, means, strict=True)])
    return top + np.log(Z) + n * (np.log(z[1] - z[0]) - 0.5 * np.log(2 * np.pi)), means, variances
