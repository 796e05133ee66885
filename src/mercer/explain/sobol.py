"""Sobol indices of any function of independent columns, by quasi-Monte Carlo.

With rows A and B drawn independently, AB_i is A with column i taken from B, and BA_i the other way round. B
and AB_i have column i alone in common, A and AB_i all but column i, BA_i and AB_j the columns i and j, so
that for f less its mean

    V_i  = E[f(B) f(AB_i)]                 the variance of the mean of f given column i
    T_i  = 1/2 E[(f(A) - f(AB_i))^2]       the variance that is left if all columns but i are known
    V_ij = E[f(BA_i) f(AB_j)]              the variance of the mean of f given the columns i and j

(Sobol 1993, Saltelli 2002, Jansen 1999), and as much again with A and B exchanged. E[f(A) f(B)] = 0 is a
control variate of the products, with weights 1 - T_i that make small indices precise. A column is drawn from
its empirical distribution, so nothing is assumed of it but that it does not depend on the others.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from mercer.progress import tell

ROUNDING = 1e-14  # relative to the function's values: less than this is no variation
REPLICATES = 8  # independent scramblings: their spread is the standard error


@dataclasses.dataclass(frozen=True, eq=False)
class Indices:
    """Shares of the variance of a function of G columns, and their standard errors.

    first (G,): what a column explains alone; total (G,): with all its interactions; second (G, G): what a
    pair explains beyond its columns. variance: that of the function, summed over its values. points: rows at
    which it was evaluated.
    """

    first: np.ndarray
    first_error: np.ndarray
    total: np.ndarray
    total_error: np.ndarray
    second: np.ndarray
    second_error: np.ndarray
    variance: float
    points: int

    @classmethod
    def nothing(cls, G: int, points: int = 0) -> Indices:
        """Those of a function that does not vary."""
        one, two = np.zeros(G), np.zeros((G, G))
        return cls(one, one, one, one, two, two, 0.0, points)


@dataclasses.dataclass(frozen=True, eq=False)
class Marginals:
    """Rows whose groups of columns are drawn independently, each from the rows of a table (n, d); `orders`
    are the rows in ascending order of each group, so that numbers between 0 and 1 stand for quantiles.
    """

    values: np.ndarray
    groups: Sequence[list[int]]
    orders: Sequence[np.ndarray]

    @classmethod
    def of(cls, values: np.ndarray, groups: Sequence[tuple[int, ...]]) -> Marginals:
        """Those of a table."""
        columns = [list(group) for group in groups]
        return cls(values, columns, [_order(values[:, group]) for group in columns])

    def at(self, shares: np.ndarray) -> np.ndarray:
        """Rows (m, d) at numbers (m, G) between 0 and 1."""
        n = self.values.shape[0]
        rows = np.empty((len(shares), self.values.shape[1]), self.values.dtype)
        for group, order, share in zip(self.groups, self.orders, shares.T, strict=True):
            chosen = order[np.minimum((share * n).astype(int), n - 1)]
            rows[:, group] = self.values[np.ix_(chosen, group)]
        return rows


def sobol_indices(
    function: Callable[[np.ndarray], np.ndarray],
    values: np.ndarray,
    groups: Sequence[tuple[int, ...]] | None = None,
    points: int = 128,
    seed: int = 0,
) -> Indices:
    """Sobol indices of `function`, rows (m, d) -> (m,) or (m, q), whose groups of columns are independent and
    distributed as in the table `values` (n, d).

    Of a function with several values it is the sum of their variances that is shared out. `points` is a power
    of two: the function is evaluated at 8 points (2 G + 2) rows.

    >>> X = np.random.default_rng(0).random((500, 2))
    >>> explain.sobol_indices(lambda x: x[:, 0] + 2 * x[:, 1], X).first  # about 0.2 and 0.8
    """
    groups = [(j,) for j in range(values.shape[1])] if groups is None else list(groups)
    G, marginals = len(groups), Marginals.of(values, groups)
    F = []
    for r in range(REPLICATES):
        rows = np.concatenate(_blocks(marginals, points, (seed, r)))
        F.append(np.asarray(function(rows), float).reshape(2 * G + 2, points, -1))
        tell(r + 1, REPLICATES, "points")
    return shares_of(np.stack(F))


def shares_of(F: np.ndarray) -> Indices:
    """The indices of a function from its values (replicates, 2 G + 2, size, q) at A, B, AB_1 ..., BA_1 ..."""
    R, blocks, size, _ = F.shape
    G = blocks // 2 - 1
    rounding = (ROUNDING * np.abs(F).max(initial=0.0)) ** 2
    F = F - F.mean((0, 1, 2))
    A, B, AB, BA = F[:, 0], F[:, 1], F[:, 2 : G + 2], F[:, G + 2 :]
    variance = np.einsum("rbnq,rbnq->r", F, F) / (blocks * size)
    V = float(variance.mean())
    if rounding >= V:
        return Indices.nothing(G, F[..., 0].size)
    total = (_square(A[:, None] - AB) + _square(B[:, None] - BA)) / (4 * size)  # (R, G)
    rest = np.maximum(1.0 - total.mean(0) / V, 0.0)
    nothing = np.einsum("rnq,rnq->r", A, B)[:, None] / size  # averages to zero
    first = (
        0.5 * (np.einsum("rnq,rgnq->rg", B, AB) + np.einsum("rnq,rgnq->rg", A, BA)) / size - rest * nothing
    )
    both = np.einsum("rgnq,rhnq->rgh", BA, AB) / size - (rest[:, None] * rest) * nothing[:, :, None]
    second = 0.5 * (both + np.swapaxes(both, 1, 2)) - first[:, :, None] - first[:, None, :]
    second[:, np.arange(G), np.arange(G)] = 0.0

    def share(part: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The share of the variance and its standard error, from the replicates."""
        found = part.mean(0) / V
        spread = (part - found * variance.reshape(-1, *[1] * found.ndim)) / V
        return np.maximum(found, 0.0), spread.std(0, ddof=1) / np.sqrt(R) if R > 1 else np.zeros_like(found)

    return Indices(*share(first), *share(total), *share(second), V, F[..., 0].size)


def _square(e: np.ndarray) -> np.ndarray:
    """Sums of squares (R, G) of (R, G, size, q)."""
    return np.einsum("rgnq,rgnq->rg", e, e)


def independent_halves(marginals: Marginals, size: int, seed: tuple[int, ...]) -> np.ndarray:
    """For two groups: the rows of A, B, AB_1 and BA_1, one block after the other; AB_2 is BA_1."""
    A, B, AB, BA = (part for k, part in enumerate(_blocks(marginals, size, seed)) if k in (0, 1, 2, 4))
    return np.concatenate([A, B, AB, BA])


def _blocks(marginals: Marginals, size: int, seed: tuple[int, ...]) -> list[np.ndarray]:
    """The rows (size, d) of A, B, AB_1 ... AB_G, BA_1 ... BA_G."""
    from scipy.stats import qmc

    G = len(marginals.groups)
    u = qmc.Sobol(2 * G, seed=np.random.default_rng(seed)).random(size)
    A, B = marginals.at(u[:, :G]), marginals.at(u[:, G:])
    blocks = [A, B]
    for one, other in ((A, B), (B, A)):
        for group in marginals.groups:
            mixed = one.copy()
            mixed[:, group] = other[:, group]
            blocks.append(mixed)
    return blocks


def _order(columns: np.ndarray) -> np.ndarray:
    """Positions of the rows in ascending order, where they are numbers: quasi-random numbers then stand for
    quantiles.
    """
    if columns.dtype == object:
        return np.arange(columns.shape[0])
    return np.lexsort(columns.T[::-1])
