"""Shapley values: what each player adds to a game, averaged over all orders in which the players may come.

    phi_g = sum over S without g of |S|! (G - |S| - 1)! / G!  (v(S with g) - v(S))

They sum to v(all) - v(none). Here a player is a column of a table, and v(S) the average of a function over
rows of a background in which the columns in S have the values of the row that is explained (interventional
values). That is a weighted sum of values of the function, so that whatever is linear in the function, and of
a Gaussian process its covariances, too, can be had by the same weights (`Coalitions`).

Games that are products over the players, v(S) = prod_(g in S) p_g prod_(g not in S) q_g, need no sum over
coalitions (Owen 1972): phi_g is the integral over t from 0 to 1 of (p_g - q_g) prod_(h != g) (t p_h + (1 - t)
q_h), a polynomial in t of degree G - 1, for which Gauss' rule of ceil(G / 2) points is exact.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence

import numpy as np

ENUMERATED = 10  # players up to which all coalitions are looked at
REPLICATES = 8  # independent sets of orders: their spread is the standard error
ROWS = 100  # of the background, at most


@dataclasses.dataclass(frozen=True, eq=False)
class Shapley:
    """What each of G columns adds to a function at one row. Made by `shapley_values`.

    values (G,), error (G,): with the standard errors of sampled orders, zero where all coalitions were taken
    base: the average over the background, from which the values lead to the function at the row
    points: rows at which the function was evaluated
    """

    values: np.ndarray
    error: np.ndarray
    base: float
    points: int


@dataclasses.dataclass(frozen=True, eq=False)
class Coalitions:
    """Rows (N, d), mixed of the row that is explained and those of the background, and weights (R, G, N):
    weights @ f(rows) are R estimates of the Shapley values; one, where all coalitions are among the rows.

    Whatever the function is, the values of each estimate sum to f(row) - the average over the background.
    """

    rows: np.ndarray
    weights: np.ndarray

    @classmethod
    def of(
        cls,
        row: np.ndarray,
        background: np.ndarray,
        groups: Sequence[tuple[int, ...]],
        enumerated: bool,
        seed: int = 0,
    ) -> Coalitions:
        """All coalitions of the groups of columns, or some orders in which they come."""
        return (
            _all_coalitions(row, background, groups)
            if enumerated
            else _some_orders(row, background, groups, seed)
        )

    def values(self, f: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Shapley values (G,) and standard errors (G,) of a function that is f (N,) at the rows."""
        each = self.weights @ f
        return each.mean(0), self.error_of(each)

    def error_of(self, each: np.ndarray) -> np.ndarray:
        """Standard errors of the average of R estimates (R, ...)."""
        R = len(each)
        return each.std(0, ddof=1) / np.sqrt(R) if R > 1 else np.zeros(each.shape[1:])


def shapley_values(
    function: Callable[[np.ndarray], np.ndarray],
    row: np.ndarray,
    background: np.ndarray,
    groups: Sequence[tuple[int, ...]] | None = None,
    enumerated: int = ENUMERATED,
    seed: int = 0,
) -> Shapley:
    """Shapley values of any `function`, rows (m, d) -> (m,), at `row` (d,), beside the rows of a
    `background` (B, d).

    groups: positions of the columns that are one player; default: each column for itself
    enumerated: up to so many players all coalitions are looked at, 2^G B rows; of more, random orders, each
        with its reverse and each row of the background equally often, 16 (G - 1) B rows; the values then
        have a standard error, and sum up all the same

    >>> X = np.random.default_rng(0).random((50, 2))
    >>> explain.shapley_values(lambda x: x[:, 0] + 2 * x[:, 1], X[0], X).values
    """
    row, background = np.asarray(row), np.asarray(background)
    if background.ndim != 2 or not len(background) or row.shape != background.shape[1:]:
        raise ValueError(
            f"row must be (d,) and background (B, d), of one number of columns; got {row.shape} and "
            f"{background.shape}."
        )
    groups = [(j,) for j in range(len(row))] if groups is None else list(groups)
    found = Coalitions.of(row, background, groups, len(groups) <= enumerated, seed)
    values, error = found.values(np.asarray(function(found.rows), float).reshape(-1))
    base = float(np.mean(function(background)))
    return Shapley(values, error, base, len(found.rows))


def _all_coalitions(row: np.ndarray, background: np.ndarray, groups: Sequence[tuple[int, ...]]) -> Coalitions:
    G, B = len(groups), len(background)
    inside = (np.arange(2**G)[:, None] >> np.arange(G)) & 1 == 1  # (2^G, G)
    size = inside.sum(1)
    joins = np.array([1.0 / (G * math.comb(G - 1, s)) for s in range(G)])  # |S|! (G - |S| - 1)! / G!
    weights = np.where(
        inside, joins[np.maximum(size - 1, 0)][:, None], -joins[np.minimum(size, G - 1)][:, None]
    )
    rows = np.repeat(background[None], 2**G, 0)
    for g, group in enumerate(groups):
        for column in group:
            rows[inside[:, g], :, column] = row[column]
    return Coalitions(rows.reshape(-1, len(row)), np.repeat(weights.T / B, B, 1)[None])


def _some_orders(
    row: np.ndarray, background: np.ndarray, groups: Sequence[tuple[int, ...]], seed: int
) -> Coalitions:
    """From each row of the background the columns become those of `row`, one after the other: in a random
    order, and in its reverse.
    """
    G, B, R = len(groups), len(background), REPLICATES
    rng = np.random.default_rng(seed)
    orders = rng.permuted(np.tile(np.arange(G), (R, B, 1)), axis=2)
    orders = np.stack([orders, orders[..., ::-1]], 2)  # (R, B, 2, G)
    steps = 2 * B * (G - 1)  # rows strictly between, of one replicate
    rows = np.empty((1 + B + R * steps, len(row)), background.dtype)
    rows[0], rows[1 : B + 1] = row, background
    weights, at = np.zeros((R, G, len(rows))), B + 1
    share = 0.5 / B
    for r in range(R):
        for b in range(B):
            for order in orders[r, b]:
                mixed, before = background[b].copy(), b + 1
                for k, g in enumerate(order):
                    mixed[list(groups[g])] = row[list(groups[g])]
                    after = 0 if k == G - 1 else at
                    rows[after] = mixed
                    at += after > 0
                    weights[r, g, after] += share
                    weights[r, g, before] -= share
                    before = after
    return Coalitions(rows, weights)


# ---------------------------------------------------------------------------------------------- products


def product_values(inside: np.ndarray, outside: np.ndarray) -> np.ndarray:
    """Shapley values (G, ...) of games that are products over the players: p = `inside` and q = `outside`,
    both (G, ...).

    >>> product_values(np.array([2.0, 3.0]), np.array([1.0, 1.0]))   # 2 and 3, sum 6 - 1
    """
    apart = inside - outside
    if len(apart) == 1:
        return apart
    total = np.zeros_like(apart)
    for t, weight in zip(*_rule(len(apart)), strict=True):
        total += weight * _others(outside + t * apart)
    return apart * total


def product_variances(own: np.ndarray, across: np.ndarray, among: np.ndarray) -> np.ndarray:
    """Prior variances (G,) of the Shapley values of a function whose covariance is a product over the
    players, averaged over a background of B rows.

    own (G,): covariances of the row with itself; across (G, B): with the background; among (G, B, B): of the
    background. The double integral over t and s of the mixed covariances, by the same rule.
    """
    one, other = across[:, None, :], across[:, :, None]
    apart = own[:, None, None] - one - other + among
    if len(own) == 1:
        return apart.mean((1, 2))
    total, nodes = np.zeros_like(apart), list(zip(*_rule(len(own)), strict=True))
    for i, (t, u) in enumerate(nodes):
        for s, v in nodes[: i + 1]:  # the sum over the background is symmetric in t and s
            mixed = t * s * own[:, None, None] + t * (1 - s) * one + s * (1 - t) * other
            mixed += (1 - t) * (1 - s) * among
            total += (u * v if t == s else 2 * u * v) * _others(mixed)
    return (apart * total).mean((1, 2))


def _rule(G: int) -> tuple[np.ndarray, np.ndarray]:
    """Points and weights on (0, 1) by which polynomials of degree G - 1 are integrated exactly."""
    x, w = np.polynomial.legendre.leggauss(-(-G // 2))
    return 0.5 * (x + 1.0), 0.5 * w


def _others(factors: np.ndarray) -> np.ndarray:
    """For each of (G, ...) the product of all others; zeros are no exception."""
    out = np.ones_like(factors)
    for g in range(1, len(factors)):
        out[g] = out[g - 1] * factors[g - 1]
    after = factors[-1]
    for g in range(len(factors) - 2, -1, -1):
        out[g] *= after
        after = after * factors[g]
    return out
