"""Sums over the table of all pairs of positions of two strings, as loops, for kernels on strings (GPML 4.4).

LANES pairs of strings go side by side, so that a step of the loop is a vector instruction and what it keeps
of a row of the table stays in the cache; threads share the pairs.

Codes come as (groups, places, LANES), padded by negative numbers, with the number of places (groups,) that
each group needs. With slopes a loop carries along the derivative of everything with respect to the decay.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from mercer.compiled import compiled

LANES = 64
MANY = 2048  # pairs that a thread takes at a time


class Loop(NamedTuple):
    """run(a, rows, b, columns, decay, total) adds to total (groups, LANES); with_slopes(..., total, slope)
    also to the derivatives.
    """

    run: Callable[..., None]
    with_slopes: Callable[..., None]


def gap_weighted(length: int) -> Loop:
    """The loop of common subsequences of `length` symbols, gaps allowed."""
    return _gap_weighted(length)


def substring() -> Loop:
    """The loop of all common substrings."""
    return Loop(_substring, _substring_with_slopes)


def mismatch(k: int, shared: Sequence[float]) -> Loop:
    """The loop of words of k symbols; shared: what two words count that differ in 0 ... k places."""
    counts = np.trim_zeros(np.asarray(shared, float), "b")

    def run(a, rows, b, columns, decay, total):
        _mismatch(a, rows, b, columns, k, counts, total)

    def with_slopes(a, rows, b, columns, decay, total, slope):
        run(a, rows, b, columns, decay, total)

    return Loop(run, with_slopes)


def over_pairs(
    loop: Loop, decay: float, A: np.ndarray, B: np.ndarray, pairs: tuple[np.ndarray, np.ndarray],
    threads: int, slopes: bool = False,
) -> np.ndarray:  # fmt: skip
    """What `loop` sums for pairs of rows (K,) of codes A (n, width) and B (m, width), padded by -1: (K,), or
    (2, K) with the derivatives with respect to the decay.
    """
    K = len(pairs[0])
    out = np.zeros((1 + slopes, -(-K // LANES), LANES))
    run = loop.with_slopes if slopes else loop.run

    def work(first: int) -> None:
        sides = (
            _side_by_side(codes[which[first : first + MANY]])
            for codes, which in zip((A, B), pairs, strict=True)
        )
        (a, rows), (b, columns) = sides
        begin = first // LANES
        run(a, rows, b, columns, decay, *(part[begin : begin + len(rows)] for part in out))

    firsts = range(0, K, MANY)
    if threads == 1 or len(firsts) == 1:
        for first in firsts:
            work(first)
    else:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(work, firsts))
    found = out.reshape(1 + slopes, -1)[:, :K]
    return found if slopes else found[0]


def _side_by_side(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(groups, places, LANES): the same place of all strings of a group is contiguous."""
    groups = -(-len(codes) // LANES)
    padded = np.full((groups * LANES, codes.shape[1]), -1.0)
    padded[: len(codes)] = codes
    longest = (padded >= 0).sum(1).reshape(groups, LANES).max(1)
    return np.ascontiguousarray(padded.reshape(groups, LANES, -1).transpose(0, 2, 1)), longest


@functools.cache
def _gap_weighted(length: int) -> Loop:
    """With M_l(i, j) the weight of common subsequences of l symbols that end in (i, j): `above` is its
    decayed sum over the rows before, `before` that over the columns before; where symbols match,
    M_(l+1)(i, j) = decay^2 before_l, where before_0 is one.
    """
    top = length - 1

    def run(a, rows, b, columns, decay, total):
        above, before = np.empty((b.shape[1], length, LANES)), np.empty((length, LANES))
        for g in range(a.shape[0]):
            above[:] = 0.0
            for i in range(rows[g]):
                before[:], before[0] = 0.0, 1.0
                for j in range(columns[g]):
                    symbol, other, sums = a[g, i], b[g, j], total[g]
                    for c in range(LANES):
                        ends = decay * decay if symbol[c] == other[c] and symbol[c] >= 0.0 else 0.0
                        here = before[top, c]
                        sums[c] += ends * here
                        for l in range(top, 0, -1):
                            ended, lower = above[j, l, c], before[l - 1, c]
                            above[j, l, c] = ends * lower + decay * ended
                            before[l, c] = ended + decay * here
                            here = lower

    def with_slopes(a, rows, b, columns, decay, total, slope):
        shape = (b.shape[1], length, LANES)
        above, before = np.empty(shape), np.empty((length, LANES))
        above_d, before_d = np.empty(shape), np.empty((length, LANES))
        for g in range(a.shape[0]):
            above[:] = 0.0
            above_d[:] = 0.0
            for i in range(rows[g]):
                before[:], before[0], before_d[:] = 0.0, 1.0, 0.0
                for j in range(columns[g]):
                    symbol, other, sums, slopes = a[g, i], b[g, j], total[g], slope[g]
                    for c in range(LANES):
                        match = symbol[c] == other[c] and symbol[c] >= 0.0
                        ends, ends_d = decay * decay if match else 0.0, 2.0 * decay if match else 0.0
                        here, here_d = before[top, c], before_d[top, c]
                        sums[c] += ends * here
                        slopes[c] += ends_d * here + ends * here_d
                        for l in range(top, 0, -1):
                            ended, lower = above[j, l, c], before[l - 1, c]
                            ended_d, lower_d = above_d[j, l, c], before_d[l - 1, c]
                            above[j, l, c] = ends * lower + decay * ended
                            above_d[j, l, c] = ends_d * lower + ends * lower_d + ended + decay * ended_d
                            before[l, c] = ended + decay * here
                            before_d[l, c] = ended_d + here + decay * here_d
                            here, here_d = lower, lower_d

    return Loop(compiled(run), compiled(with_slopes))


@compiled
def _substring(a, rows, b, columns, decay, total):
    """The weighted number of common suffixes of x[..i] and x'[..j], from that of the cell before both."""
    width = b.shape[1]
    last, now = np.empty((width + 1, LANES)), np.empty((width + 1, LANES))  # column 0 is outside
    for g in range(a.shape[0]):
        last[:] = 0.0
        now[:] = 0.0
        for i in range(rows[g]):
            for j in range(columns[g]):
                for c in range(LANES):
                    match = a[g, i, c] == b[g, j, c] and a[g, i, c] >= 0.0
                    now[j + 1, c] = decay * (1.0 + last[j, c]) if match else 0.0
                    total[g, c] += now[j + 1, c]
            last, now = now, last


@compiled
def _substring_with_slopes(a, rows, b, columns, decay, total, slope):
    width = b.shape[1]
    last, now = np.empty((width + 1, LANES)), np.empty((width + 1, LANES))
    last_d, now_d = np.empty((width + 1, LANES)), np.empty((width + 1, LANES))
    for g in range(a.shape[0]):
        for room in (last, now, last_d, now_d):
            room[:] = 0.0
        for i in range(rows[g]):
            for j in range(columns[g]):
                for c in range(LANES):
                    match = a[g, i, c] == b[g, j, c] and a[g, i, c] >= 0.0
                    now[j + 1, c] = decay * (1.0 + last[j, c]) if match else 0.0
                    now_d[j + 1, c] = 1.0 + last[j, c] + decay * last_d[j, c] if match else 0.0
                    total[g, c] += now[j + 1, c]
                    slope[g, c] += now_d[j + 1, c]
            last, now = now, last
            last_d, now_d = now_d, last_d


@compiled
def _mismatch(a, rows, b, columns, k, shared, total):
    """In how many of the last k places the two differ, from that of the cell before both."""
    width = b.shape[1]
    last, now = np.empty((width + 1, LANES)), np.empty((width + 1, LANES))
    for g in range(a.shape[0]):
        last[:] = 0.0
        now[:] = 0.0
        for i in range(rows[g]):
            for j in range(columns[g]):
                for c in range(LANES):
                    now[j + 1, c] = last[j, c] + (1.0 if a[g, i, c] != b[g, j, c] else 0.0)
                if i >= k and j >= k:
                    for c in range(LANES):
                        now[j + 1, c] -= 1.0 if a[g, i - k, c] != b[g, j - k, c] else 0.0
                if i >= k - 1 and j >= k - 1:
                    for places in range(len(shared)):
                        count, there = shared[places], float(places)
                        for c in range(LANES):  # neither string has ended
                            counts = now[j + 1, c] == there and min(a[g, i, c], b[g, j, c]) >= 0.0
                            total[g, c] += count if counts else 0.0
            last, now = now, last
