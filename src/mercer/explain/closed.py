"""Sobol indices of a posterior mean in closed form, for kernels that are sums of products over the columns.

The mean is m + sum_i alpha_i k(x, x_i). If k = sum_t prod_g k_tg(x_g, x_ig), averages over independent
columns are products of averages over one column: with P_tg the covariances (M, n) of the values that column g
takes with the data, c_tg their averages and C_g^ts = P_tg' P_sg / M,

    E[f | x_g]  = m + sum_t P_tg (alpha * prod_(h != g) c_th)
    T_g         = sum_ts alpha' (C_g^ts - c_tg c_sg') * prod_(h != g) C_h^ts alpha

so that nothing is integrated by points.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mercer.explain.products import Factor, products
from mercer.explain.sobol import Indices
from mercer.posteriors.protocol import AbstractPosterior

QUANTILES = 512  # values of a column that stand for its distribution, where there are more data
CELLS = 3e7  # numbers in all matrices C together
TERMS = 4
ROUNDING = 1e-4  # share of the variance that may be lost in quadratic forms in alpha


def closed_indices(posterior: AbstractPosterior, groups: Sequence[tuple[int, ...]]) -> Indices | None:
    """The indices of the posterior mean of f; None where there is no closed form, or it is too much work."""
    n, G = posterior.inputs.values.shape[0], len(groups)
    if not posterior.can("components") or not posterior.model.likelihood.mean_is_latent or G * n * n > CELLS:
        return None
    this: Any = posterior
    prior, alpha = this.state.prior, np.asarray(this.state.alpha, float)
    X = np.asarray(this.state.X)
    if prior.basis is not None or np.ptp(np.asarray(prior.mean.value(X))) != 0.0:
        return None
    terms = products(prior.kernel, groups)
    if terms is None or len(terms) > TERMS or any(term.mixture is not None for term in terms):
        return None
    parts = [_Part(term.scale * alpha, term.factors, X, groups) for term in terms]
    return _indices(parts, groups)


class _Part:
    """One product: alpha times its number, and of each group the matrix P (M, n) and its average c (n,)."""

    def __init__(
        self, alpha: np.ndarray, factors: Mapping[int, Any], X: np.ndarray, groups: Sequence[tuple[int, ...]]
    ):
        self.alpha = alpha
        one = np.ones((1, len(alpha)))
        self.P = [_matrix(factors[g], X) if g in factors else one for g in range(len(groups))]
        self.c = [P.mean(0) for P in self.P]

    def weights(self, *without: int) -> np.ndarray:
        """alpha times the averages of all groups but these."""
        kept = [c for g, c in enumerate(self.c) if g not in without]
        return functools.reduce(np.multiply, kept, self.alpha)


def _matrix(factors: tuple[Factor, ...], X: np.ndarray) -> np.ndarray:
    """Covariances (M, n) of the values that a group takes with those at the data."""
    n = X.shape[0]
    rows = np.arange(n)
    if n > QUANTILES:
        columns = list(dict.fromkeys(c for _, own in factors for c in own))
        order = np.lexsort([X[:, c] for c in reversed(columns)]) if X.dtype != object else rows
        rows = order[((np.arange(QUANTILES) + 0.5) * n / QUANTILES).astype(int)]
    matrices = [np.asarray(kernel(X[:, list(own)][rows], X[:, list(own)])) for kernel, own in factors]
    return functools.reduce(np.multiply, matrices)


def _indices(parts: list[_Part], groups: Sequence[tuple[int, ...]]) -> Indices | None:
    G = len(groups)
    first = np.array([np.var(sum(p.P[g] @ p.weights(g) for p in parts)) for g in range(G)])
    second = np.zeros((G, G))
    for i, j in itertools.combinations(range(G), 2):
        surface = sum((p.P[i] * p.weights(i, j)) @ p.P[j].T for p in parts)
        second[i, j] = second[j, i] = np.var(surface) - first[i] - first[j]
    V, total = 0.0, np.zeros(G)
    for p, q in itertools.product(parts, parts):
        v, t = _quadratic(p, q)
        V, total = V + v, total + t
    lost = np.finfo(float).eps * sum(float(np.abs(p.alpha).sum()) * max(map(np.max, p.P)) for p in parts) ** 2
    if not (V > 0 and lost > 0):
        return Indices.nothing(G) if lost == 0 else None
    if lost > ROUNDING * V:
        return None
    none, pairs = np.zeros(G), np.zeros((G, G))
    return Indices(
        first / V, none, np.maximum(total / V, 0.0), none, np.maximum(second / V, 0.0), pairs, V, 0
    )


def _quadratic(p: _Part, q: _Part) -> tuple[float, np.ndarray]:
    """alpha' (prod C - prod c c') alpha, and the same of each group with the others: of two products."""
    G = len(p.P)
    rest = np.ones((len(p.alpha), len(p.alpha)))
    after = [rest]  # the product of C over the groups after g, from the last
    for g in range(G - 1, 0, -1):
        after.append(after[-1] * _gram(p.P[g], q.P[g]))
    V, total, before, means = 0.0, np.zeros(G), rest, (p.alpha, q.alpha)
    for g in range(G):
        spread = _gram(p.P[g] - p.c[g], q.P[g] - q.c[g]) * after.pop()
        total[g] = p.alpha @ (spread * before) @ q.alpha
        V += means[0] @ spread @ means[1]
        means = (means[0] * p.c[g], means[1] * q.c[g])
        before = before * _gram(p.P[g], q.P[g])
    return float(V), total


def _gram(P: np.ndarray, Q: np.ndarray) -> np.ndarray:
    """Averages (n, n) over the values of a column; a matrix of one row does not depend on it."""
    M = max(len(P), len(Q))
    if len(P) == len(Q):
        return P.T @ Q / M
    return np.outer(P.mean(0), Q.mean(0))
