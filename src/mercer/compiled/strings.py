"""Sums over the table of all pairs of positions of two strings, as loops, for kernels on strings (GPML 4.4).

Some pairs of strings go side by side, so that a step of the loop is a vector instruction; threads share the
pairs. A complex decay carries its derivative along as the imaginary part of the sums.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from mercer.compiled import compiled

LANES, SCRATCH = 64, 2**18  # pairs side by side, at most; bytes of what they keep of a row


def gap_weighted(length: int) -> Loop:
    """The loop of common subsequences of `length` symbols, gaps allowed."""
    return Loop(_gap_weighted(length), length)


def substring() -> Loop:
    """The loop of all common substrings."""
    return Loop(_substring, 1)


def mismatch(k: int, shared: Sequence[float]) -> Loop:
    """The loop of words of k symbols; shared: what two words count that differ in 0 ... k places."""
    counts = np.trim_zeros(np.asarray(shared, float), "b")
    return Loop(lambda a, b, decay, total: _mismatch(a, b, k, counts, total), 1)


class Loop(NamedTuple):
    """Adds to `total` (C,) the sums of pairs side by side, and how many numbers it keeps of a column."""

    run: Callable[[np.ndarray, np.ndarray, Any, np.ndarray], None]
    keeps: int


def over_pairs(
    loop: Loop, decay: Any, A: np.ndarray, B: np.ndarray, pairs: tuple[np.ndarray, np.ndarray], threads: int
) -> np.ndarray:
    """What `loop` sums for pairs of rows (K,) of codes A (n, width) and B (m, width), padded by -1: (K,)."""
    K = len(pairs[0])
    lanes = int(np.clip(SCRATCH // (8 * loop.keeps * max(B.shape[1], 1)), 8, LANES))
    out = np.zeros(K, np.result_type(decay, float))

    def work(first: int) -> None:
        some = slice(first, first + lanes)
        a, b = (_side_by_side(codes[which[some]]) for codes, which in zip((A, B), pairs, strict=True))
        loop.run(a, b, decay, out[some])

    firsts = range(0, K, lanes)
    if threads == 1 or len(firsts) == 1:
        for first in firsts:
            work(first)
    else:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(work, firsts))
    return out


def _side_by_side(codes: np.ndarray) -> np.ndarray:
    """(longest, pairs): the same place of all strings is contiguous."""
    longest = int((codes >= 0).sum(1).max(initial=0))
    return np.ascontiguousarray(codes[:, :longest].T, float)


@functools.cache
def _gap_weighted(length: int) -> Callable[..., Any]:
    """With M_l(i, j) the weight of common subsequences of l symbols that end in (i, j): `above` is its
    decayed sum over the rows before, `before` that over the columns before; where symbols match,
    M_(l+1)(i, j) = decay^2 before_l.
    """
    top = length - 1

    def loop(a, b, decay, total):
        (rows, C), columns = a.shape, b.shape[0]
        zero, square = 0.0 * decay, decay * decay
        above, before = np.full((columns, length, C), zero), np.full((length, C), zero)
        weight = np.full(C, zero)
        for i in range(rows):
            before[:] = zero
            for j in range(columns):
                symbol, other = a[i], b[j]
                for c in range(C):
                    weight[c] = square if symbol[c] == other[c] and symbol[c] >= 0.0 else zero
                if top == 0:
                    for c in range(C):
                        total[c] += weight[c]
                else:
                    shorter = before[top - 1]
                    for c in range(C):
                        total[c] += weight[c] * shorter[c]
                for down in range(top - 1):
                    l = top - 1 - down
                    over, left, shorter = above[j, l], before[l], before[l - 1]
                    for c in range(C):
                        ended = over[c]
                        over[c] = weight[c] * shorter[c] + decay * ended
                        left[c] = ended + decay * left[c]
                over, left = above[j, 0], before[0]
                for c in range(C):
                    ended = over[c]
                    over[c] = weight[c] + decay * ended
                    left[c] = ended + decay * left[c]

    return compiled(loop)


@compiled
def _substring(a, b, decay, total):
    """The weighted number of common suffixes of x[..i] and x'[..j], from that of the cell before both."""
    (rows, C), columns = a.shape, b.shape[0]
    zero = 0.0 * decay
    last, now = np.full((columns + 1, C), zero), np.full((columns + 1, C), zero)  # column 0 is outside
    for i in range(rows):
        for j in range(columns):
            symbol, other, here, diagonal = a[i], b[j], now[j + 1], last[j]
            for c in range(C):
                matched = symbol[c] == other[c] and symbol[c] >= 0.0
                here[c] = decay * (1.0 + diagonal[c]) if matched else zero
            for c in range(C):
                total[c] += here[c]
        last, now = now, last


@compiled
def _mismatch(a, b, k, shared, total):
    """In how many of the last k places the two differ, from that of the cell before both."""
    (rows, C), columns = a.shape, b.shape[0]
    last, now, counted = np.zeros((columns + 1, C)), np.zeros((columns + 1, C)), np.zeros(C)
    for i in range(rows):
        for j in range(columns):
            symbol, other, here, diagonal = a[i], b[j], now[j + 1], last[j]
            for c in range(C):
                here[c] = diagonal[c] + (1.0 if symbol[c] != other[c] else 0.0)
            if i >= k and j >= k:
                old, older = a[i - k], b[j - k]
                for c in range(C):
                    here[c] -= 1.0 if old[c] != older[c] else 0.0
            if i >= k - 1 and j >= k - 1:
                counted[:] = 0.0
                for places in range(len(shared)):
                    count, there = shared[places], float(places)
                    for c in range(C):
                        counted[c] += count if here[c] == there else 0.0
                for c in range(C):  # neither string has ended
                    total[c] += counted[c] if min(symbol[c], other[c]) >= 0.0 else 0.0
        last, now = now, last
