"""What an E-step needs of forward and backward, in one sweep there and one back that stay in the cache:
emissions and posteriors of the states are made for some steps at a time and forgotten.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.compiled import hmm as loops
from mercer.em.forward import FAINT, Chunks, by_loops, guesses
from mercer.linalg.lapack import one_thread

SLOTS = 8192  # whose emissions are at hand at a time


@dataclass(frozen=True)
class Gathered:
    """first: (N,) expected numbers of first states; transitions (N, N); summary: of the emissions, by the
    function given; log_likelihood: (E,).
    """

    first: np.ndarray
    transitions: np.ndarray
    summary: Any
    log_likelihood: np.ndarray


def gathered(
    initial: np.ndarray,
    transition: np.ndarray,
    log_b: Callable[[slice], np.ndarray],
    summarise: Callable[[slice, np.ndarray], Any],
    chunks: Chunks,
) -> Gathered | None:
    """log_b: log emissions (N, k) of some slots; summarise: what the M-step needs of them and the posterior
    gamma (N, k) of their states, which can be added up.

    None where the recursions have to be run as a whole: few steps, steps so improbable that they
    need logarithms, chains that do not forget.
    """
    if not by_loops(chunks.total):
        return None
    # products are small: a second BLAS thread would only wait
    with one_thread(), _room(chunks, 2 * len(initial) + 2) as room:
        return _gathered(
            np.asarray(initial), np.ascontiguousarray(transition), log_b, summarise, chunks, room
        )


def _gathered(initial, A, log_b, summarise, chunks: Chunks, room: np.ndarray) -> Gathered | None:
    (N, L, C), links = (len(initial), chunks.length, chunks.count), chunks.links
    B, alpha, scale, tops = room[:N], room[N : 2 * N], room[-2], room[-1]
    p, steps = guesses(initial, chunks), max(SLOTS // C, 1)
    parts = [(begin, min(begin + steps, L)) for begin in range(0, L, steps)]
    for begin, end in parts:
        b = log_b(slice(begin * C, end * C)).reshape(N, end - begin, C)
        top = np.maximum.reduce(b, 0, out=tops[begin:end])
        if not np.isfinite(top).all():
            return None
        b -= top
        np.exp(b, out=B[:, begin:end])
        loops.some_forward(p, A, B, alpha, scale, begin, end)
    loops.forward_again(A, B, links, alpha, scale)
    if not scale.min() > FAINT:
        return None
    back, summary, pairs = loops.Backward(A, B, links, alpha, scale, steps), None, np.zeros((N, N))
    before, ahead = alpha.reshape(N, -1), B.reshape(N, -1)
    for begin, end in reversed(parts):
        gamma = back.some(begin, end)
        if begin == 0:
            first = gamma[:, 0, chunks.first].sum(1)
        if (chunks.inside < end).any():
            empty = np.arange(begin, end)[:, None] >= chunks.inside
            gamma[:, empty] = B[:, begin:end][:, empty] = 0.0
        part = summarise(slice(begin * C, end * C), gamma.reshape(N, -1))
        summary = part if summary is None else summary + part
        start = max(begin, 1)  # a first step has none before it
        pairs += before[:, (start - 1) * C : (end - 1) * C] @ ahead[:, start * C : end * C].T
    if not back.right():
        return None
    pairs += alpha[:, -1, links] @ B[:, 0, links + 1].T
    steps_log = np.log(scale) + tops
    log_likelihood = np.bincount(chunks.sequence, steps_log.sum(0), len(chunks.lengths))
    return Gathered(first, A * pairs, summary, log_likelihood)


@contextlib.contextmanager
def _room(chunks: Chunks, rows: int) -> Iterator[np.ndarray]:
    """Memory (rows, length, chunks), kept for the next E-step over the same sequences: that the system hands
    it out afresh takes as long as the recursions. Who runs over them at the same time has his own.
    """
    kept = _rooms.setdefault(chunks, [])
    room = kept.pop() if kept else np.empty(0)
    shape = (rows, chunks.length, chunks.count)
    room = room if room.shape == shape else np.empty(shape)
    try:
        yield room
    finally:
        kept[:] = [room]


_rooms: weakref.WeakKeyDictionary[Chunks, list[np.ndarray]] = weakref.WeakKeyDictionary()
