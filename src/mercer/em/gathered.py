"""What an E-step needs of forward and backward, in one sweep there and one back that stay in the cache:
emissions and posteriors of the states are made for some steps at a time and forgotten.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.compiled import hmm as loops
from mercer.em.forward import FAINT, Chunks, by_loops, guesses

SLOTS = 8192  # whose emissions are at hand at a time
SCRATCH = 2**16  # bytes of sums of pairs that a loop may carry along


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

    None where the recursions have to be run as a whole: few steps, many states, steps so improbable that they
    need logarithms, chains that do not forget.
    """
    (N, L, C), links = (len(initial), chunks.length, chunks.count), chunks.links
    if not by_loops(chunks.total) or 8 * N * N * C > SCRATCH:
        return None
    A = np.ascontiguousarray(transition)
    B, alpha, scale, tops = np.empty((N, L, C)), np.empty((N, L, C)), np.empty((L, C)), np.empty((L, C))
    p, steps = guesses(np.asarray(initial), chunks), max(SLOTS // C, 1)
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
    back, summary = loops.Backward(A, B, links, alpha, scale, chunks.inside), None
    for begin, end in reversed(parts):
        gamma = back.some(begin, end)
        if begin == 0:
            first = gamma[:, 0, chunks.first].sum(1)
        if (chunks.inside < end).any():
            gamma[:, np.arange(begin, end)[:, None] >= chunks.inside] = 0.0
        part = summarise(slice(begin * C, end * C), gamma.reshape(N, -1))
        summary = part if summary is None else summary + part
    if not back.right():
        return None
    steps_log = np.log(scale) + tops
    log_likelihood = np.bincount(chunks.sequence, steps_log.sum(0), len(chunks.lengths))
    return Gathered(first, A * back.pairs(), summary, log_likelihood)
