"""Recursions over the states in logarithms, which cannot underflow: the best path (Viterbi), and
forward-backward for hard cases.

All sequences are one long scan that begins anew at the first step of each.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp

from mercer.compiled import hmm as loops
from mercer.em.forward import Chunks, Smoothed, by_loops


def viterbi(
    initial: np.ndarray, transition: np.ndarray, log_b: np.ndarray, chunks: Chunks
) -> tuple[np.ndarray, np.ndarray]:
    """The most probable paths (T,), one after the other, and their log p(O, q) (E,)."""
    if by_loops(chunks.total):
        with np.errstate(divide="ignore"):
            logs = np.log(initial), np.log(transition)
        first = np.zeros(chunks.total, bool)
        first[np.cumsum(chunks.lengths) - chunks.lengths] = True
        return loops.viterbi(*logs, np.ascontiguousarray(log_b[:, chunks.back].T), first)
    best, back = _viterbi(*_arguments(initial, transition, log_b, chunks))
    best, back = np.asarray(best), np.asarray(back)
    ends = np.cumsum(chunks.lengths) - 1
    path, at = np.empty(chunks.total, np.intp), set(ends.tolist())
    state = 0
    for t in range(chunks.total - 1, -1, -1):
        state = int(best[t].argmax()) if t in at else int(back[t + 1, state])
        path[t] = state
    return path, best[ends].max(1)


def filtered(
    initial: np.ndarray, transition: np.ndarray, log_b: np.ndarray, chunks: Chunks
) -> tuple[np.ndarray, np.ndarray]:
    """As `forward.filtered`."""
    alpha, scale = _forward(*_arguments(initial, transition, log_b, chunks))
    return _slots(np.exp(alpha), chunks, 1.0 / len(initial)), _per_sequence(scale, chunks)


def smooth(initial: np.ndarray, transition: np.ndarray, log_b: np.ndarray, chunks: Chunks) -> Smoothed:
    """As `forward.smooth`."""
    arguments = _arguments(initial, transition, log_b, chunks)
    alpha, scale = _forward(*arguments)
    gamma, pairs = _backward(*arguments[1:], alpha, scale)
    fill = 1.0 / len(initial)
    return Smoothed(
        _slots(np.exp(alpha), chunks, fill),
        _slots(gamma, chunks, fill),
        np.asarray(pairs),
        _per_sequence(scale, chunks),
    )


def _arguments(initial, transition, log_b, chunks: Chunks):
    """Logarithms, data in order (padded to a power of two, so that few lengths are compiled),
    and where sequences begin.
    """
    T = chunks.total
    size = 1 << max(4, int(T).bit_length())
    rows, begin = np.zeros((size, len(initial))), np.zeros(size, bool)
    rows[:T] = log_b[:, chunks.back].T
    begin[np.concatenate([[0], np.cumsum(chunks.lengths)])] = True
    with np.errstate(divide="ignore"):
        return np.log(initial), np.log(transition), rows, begin


@jax.jit
def _forward(log_pi, log_A, log_b, begin):
    def step(before, now):
        b, first = now
        a = jnp.where(first, log_pi, logsumexp(before[:, None] + log_A, axis=0)) + b
        c = logsumexp(a)
        a = jnp.where(jnp.isfinite(c), a - c, a)
        return a, (a, c)

    return jax.lax.scan(step, log_pi, (log_b, begin))[1]


@jax.jit
def _backward(log_A, log_b, begin, alpha, scale):
    def step(carry, now):
        ahead, pairs, restart = carry
        a, b, c, first = now
        joint = log_A + ahead
        pairs = pairs + jnp.where(restart, 0.0, jnp.exp(a[:, None] + joint))
        beta = jnp.where(restart, 0.0, logsumexp(joint, axis=1))
        return (b + beta - c, pairs, first), jnp.exp(a + beta)

    N = log_A.shape[0]
    start = (jnp.zeros(N), jnp.zeros((N, N)), jnp.array(True))
    junk = jnp.cumsum(begin[::-1])[::-1] == 0
    (_, pairs, _), gamma = jax.lax.scan(step, start, (alpha, log_b, scale, begin | junk), reverse=True)
    return gamma, pairs


@jax.jit
def _viterbi(log_pi, log_A, log_b, begin):
    def step(before, now):
        b, first = now
        reach = before[:, None] + log_A
        best = jnp.where(first, log_pi, reach.max(0)) + b
        return best, (best, reach.argmax(0))

    return jax.lax.scan(step, log_pi, (log_b, begin))[1]


def _slots(values, chunks: Chunks, fill: float) -> np.ndarray:
    out = np.full((values.shape[1], chunks.index.size), fill)
    out[:, chunks.back] = np.asarray(values)[: chunks.total].T
    return out


def _per_sequence(scale, chunks: Chunks) -> np.ndarray:
    begins = np.concatenate([[0], np.cumsum(chunks.lengths)[:-1]])
    return np.add.reduceat(np.asarray(scale)[: chunks.total], begins)
