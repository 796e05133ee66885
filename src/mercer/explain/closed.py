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

from mercer.explain.sobol import Indices
from mercer.kernels import SE, AbstractKernel, Constant, On, Periodic, Product, Scale, Sum
from mercer.posteriors.protocol import AbstractPosterior

QUANTILES = 512  # values of a column that stand for its distribution, where there are more data
CELLS = 3e7  # numbers in all matrices C together
TERMS = 4
ROUNDING = 1e-4  # share of the variance that may be lost in quadratic forms in alpha

Factor = tuple[AbstractKernel, tuple[int, ...]]  # a kernel and the columns that it reads
Term = tuple[float, Mapping[int, tuple[Factor, ...]]]  # a number times the factors of each group


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
    if terms is None or len(terms) > TERMS:
        return None
    parts = [_Part(scale * alpha, factors, X, groups) for scale, factors in terms]
    return _indices(parts, groups)


def products(kernel: AbstractKernel, groups: Sequence[tuple[int, ...]]) -> list[Term] | None:
    """A kernel as a sum of products of kernels on one group of columns each; None where it is none.

    >>> products(SE([1.0, 2.0]) + SE().on(0), [(0,), (1,)])
    """
    group_of = {column: g for g, columns in enumerate(groups) for column in columns}
    columns = tuple(sorted(group_of))
    return _terms(kernel, columns, group_of)


def _terms(
    kernel: AbstractKernel, columns: tuple[int, ...], group_of: Mapping[int, int]
) -> list[Term] | None:
    together: dict[int, tuple[int, ...]] = {}
    for column in columns:
        g = group_of[column]
        together[g] = (*together.get(g, ()), column)
    if isinstance(kernel, Constant):
        return [(float(kernel.variance), {})]
    if len(together) == 1:
        return [(1.0, {next(iter(together)): ((kernel, columns),)})]
    if isinstance(kernel, Scale):
        inner = _terms(kernel.kernel, columns, group_of)
        return None if inner is None else [(float(kernel.variance) * s, f) for s, f in inner]
    if isinstance(kernel, On):
        return _terms(kernel.kernel, tuple(columns[int(c)] for c in kernel.columns), group_of)
    if isinstance(kernel, Sum | Product):
        parts = [_terms(part, columns, group_of) for part in kernel.parts]
        if any(part is None for part in parts):
            return None
        found: list[list[Term]] = [part for part in parts if part is not None]
        if isinstance(kernel, Sum):
            return [term for part in found for term in part]
        return [functools.reduce(_times, chosen) for chosen in itertools.product(*found)]
    if isinstance(kernel, SE) and kernel.loadings is None:
        return [
            (float(kernel.variance), _split(together, columns, lambda at: SE(_of(kernel.lengthscale, at))))
        ]
    if isinstance(kernel, Periodic):

        def part(at: list[int]) -> AbstractKernel:
            return Periodic(_of(kernel.period, at), _of(kernel.lengthscale, at))

        return [(float(kernel.variance), _split(together, columns, part))]
    return None


def _times(a: Term, b: Term) -> Term:
    factors = dict(a[1])
    for g, more in b[1].items():
        factors[g] = (*factors.get(g, ()), *more)
    return a[0] * b[0], factors


def _split(together: Mapping[int, tuple[int, ...]], columns: tuple[int, ...], part: Any) -> dict:
    """The factor of each group, `part` of the positions of its columns among `columns`."""
    return {g: ((part([columns.index(c) for c in own]), own),) for g, own in together.items()}


def _of(value: Any, at: list[int]) -> Any:
    return np.asarray(value)[at] if np.ndim(value) else float(value)


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
