"""Forward and backward procedures of a hidden Markov model (Bilmes, section 4.1), for many sequences of any
length at once.

Sequences are cut into chunks of one length that are run side by side, states by chunks at each step. A chunk
in the middle of a sequence is first run from every state it could begin in, which tells what every chunk
passes on to the next; then all of them run once from what they truly begin with. (Most chains forget where
they began long before the end of a chunk, and most of the first run is then the second one already.) The
result is that of the plain recursions, scaled at each step. Steps so improbable that scaled numbers could
underflow are found, and everything is computed in logarithms instead.

Where there are many steps and numba is at hand, the recursions run as compiled loops over few chunks.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from mercer import compiled
from mercer.compiled import hmm as loops

FAINT = 1e-30  # probability of a step, relative to its best emission, below which logarithms are used
EVERY = 8  # steps between normalisations of the runs from every state
SAME = 1e-14  # relative difference below which two runs are one
BLOCK = 2048  # steps whose products are summed at a time
LOOPS_FROM = 2000  # steps; fewer end before numba is imported


class Chunks:
    """Sequences cut into chunks of `length` steps, stored step by step: (length, chunks) slots, the last ones
    of a sequence empty.

    An empty slot counts as a step without observation, with a log emission of zero in every state, which
    changes nothing.

    lengths: (E,) of the sequences
    index: (length·chunks,) the datum in each slot, counted through all sequences; their total number where
        the slot is empty
    back: (T,) the slot of each datum
    first: (E,) the first chunk of each sequence, which is also the slot of its first step
    links: chunks that are continued by the next one
    inside: (chunks,) how many slots of each are not empty
    """

    def __init__(self, lengths: ArrayLike, states: int, length: int | None = None):
        self.lengths = lengths = np.asarray(lengths, np.intp)
        self.length = length = length or chunk_length(lengths, states)
        self.total, per = int(lengths.sum()), -(-lengths // length)
        self.count = int(per.sum())
        self.sequence = np.repeat(np.arange(len(lengths)), per)
        self.first = np.concatenate([[0], np.cumsum(per)[:-1]])
        self.links = np.flatnonzero(self.sequence[1:] == self.sequence[:-1])
        begin = np.concatenate([[0], np.cumsum(lengths)[:-1]])
        position = (np.arange(self.count) - self.first[self.sequence]) * length + np.arange(length)[:, None]
        inside = position < lengths[self.sequence]
        self.index = np.where(inside, begin[self.sequence] + position, self.total).ravel()
        self.empty, self.inside = np.flatnonzero(~inside.ravel()), inside.sum(0)
        back = np.empty(self.total + 1, np.intp)
        back[self.index] = np.arange(self.index.size)
        self.back = back[: self.total]


def by_loops(steps: int) -> bool:
    """Whether compiled loops run over so many steps."""
    return steps >= LOOPS_FROM and compiled.ready()


def chunk_length(lengths: np.ndarray, states: int) -> int:
    """The length of chunks with the least estimated cost: calls for each step, arithmetic for each state,
    links of chunks.
    """
    total, longest = int(lengths.sum()), int(lengths.max())
    if by_loops(total):  # in units of the arithmetic of a step; a link runs some steps again
        call, link, work, again = 10.0, 500.0, 1.0, 0.0
        tries = {-(-total // lanes) for lanes in (16, 32)}
    else:
        call, link, work, again = 15e-6, 12e-6, 0.25e-9 * states**2, states
        tries = {max(1, int(total**0.5 * f)) for f in (0.25, 0.5, 1.0, 2.0, 4.0)}

    def cost(length: int) -> float:
        chunks = int((-(-lengths // length)).sum())
        steps = chunks * length
        if length >= longest:
            return 2 * length * call + 4 * steps * work
        return 3 * length * call + (4 + again) * steps * work + 2 * chunks * link

    return min([longest, *(t for t in tries if t < longest)], key=cost)


@dataclass(frozen=True)
class Smoothed:
    """Posterior of the states given the observations, in the slots of `Chunks`.

    alpha: (N, slots) p(q_t | o_1 … o_t): the scaled α
    gamma: (N, slots) p(q_t | all of the sequence)
    transitions: (N, N) expected numbers of transitions, Σ_t ξ_ij(t), within sequences
    log_likelihood: (E,) of each sequence; −inf where it is impossible, and then nothing else has a meaning
    """

    alpha: np.ndarray
    gamma: np.ndarray
    transitions: np.ndarray
    log_likelihood: np.ndarray


def smooth(initial: np.ndarray, transition: np.ndarray, log_b: np.ndarray, chunks: Chunks) -> Smoothed:
    """Forward and backward. log_b: (N, slots) log b_i(o_t)."""
    run = (_Loops if by_loops(chunks.total) else _Run)(initial, transition, log_b, chunks)
    if not run.forward():
        from mercer.em.logspace import smooth as exact

        return exact(initial, transition, log_b, chunks)
    return run.backward()


def filtered(
    initial: np.ndarray, transition: np.ndarray, log_b: np.ndarray, chunks: Chunks
) -> tuple[np.ndarray, np.ndarray]:
    """The forward procedure alone: scaled α (N, slots) and log-likelihoods (E,)."""
    run = (_Loops if by_loops(chunks.total) else _Run)(initial, transition, log_b, chunks)
    if not run.forward():
        from mercer.em.logspace import filtered as exact

        return exact(initial, transition, log_b, chunks)
    return run.alpha.reshape(log_b.shape), run.log_likelihood()


def guesses(initial: np.ndarray, chunks: Chunks) -> np.ndarray:
    """Distributions (N, chunks) of the first states of chunks, guessed where they continue another."""
    starts = np.full((len(initial), chunks.count), 1.0 / len(initial))
    starts[:, chunks.first] = initial[:, None]
    return starts


class _AbstractRun(abc.ABC):
    """The recursions in scaled numbers."""

    alpha: np.ndarray  # (N, length, chunks)
    scale: np.ndarray  # (length, chunks)

    def __init__(self, initial, transition, log_b, chunks: Chunks):
        self.chunks, self.N = chunks, len(initial)
        self.initial, self.A = np.asarray(initial), np.ascontiguousarray(transition)
        self.top, B = np.empty(log_b.shape[1]), np.empty(log_b.shape)
        with np.errstate(invalid="ignore"):
            for begin in range(0, B.shape[1], BLOCK):
                block = slice(begin, begin + BLOCK)
                top = np.maximum.reduce(log_b[:, block], 0, out=self.top[block])
                b = np.subtract(log_b[:, block], top, out=B[:, block])
                np.exp(b, out=b)
        self.possible = bool(np.isfinite(self.top).all())
        self.B = B.reshape(self.N, chunks.length, chunks.count)

    @abc.abstractmethod
    def forward(self) -> bool:
        """Filtered distributions and scales; False where logarithms are needed."""

    @abc.abstractmethod
    def posterior(self) -> tuple[np.ndarray, np.ndarray]:
        """gamma (N, length, chunks), and the sums (N, N) over steps of alpha_i(t) ahead_j(t + 1), where
        `ahead` is what each step says to the one before it. May overwrite the emissions.
        """

    def log_likelihood(self) -> np.ndarray:
        steps = np.log(self.scale)
        steps += self.top.reshape(steps.shape)
        return np.bincount(self.chunks.sequence, steps.sum(0), len(self.chunks.lengths))

    def backward(self) -> Smoothed:
        """After `forward`."""
        gamma, pairs = self.posterior()
        alpha, gamma = (a.reshape(self.N, -1) for a in (self.alpha, gamma))
        return Smoothed(alpha, gamma, self.A * pairs, self.log_likelihood())

    def pairs(self, ahead: np.ndarray) -> np.ndarray:
        """Those sums, from `ahead` (N, length, chunks)."""
        C, links = self.chunks.count, self.chunks.links
        ahead, alpha = ahead.reshape(self.N, -1), self.alpha.reshape(self.N, -1)
        ahead[:, self.chunks.empty] = 0.0
        last = alpha.shape[1] - C
        pairs = alpha[:, last + links] @ ahead[:, links + 1].T
        for begin in range(0, last, BLOCK):
            end = min(begin + BLOCK, last)
            pairs += alpha[:, begin:end] @ ahead[:, begin + C : end + C].T
        return pairs


class _Loops(_AbstractRun):
    """By compiled loops."""

    def forward(self) -> bool:
        if not self.possible:
            return False
        starts = guesses(self.initial, self.chunks)
        self.alpha, self.scale = loops.forward(starts, self.A, self.B, self.chunks.links)
        return bool(self.scale.min() > FAINT)

    def posterior(self) -> tuple[np.ndarray, np.ndarray]:
        gamma, ahead = loops.backward(self.A, self.B, self.chunks.links, self.alpha, self.scale)
        return gamma, self.pairs(ahead)


class _Run(_AbstractRun):
    """By steps of NumPy."""

    def forward(self) -> bool:
        if not self.possible:
            return False
        self.A_T = self.A.T.copy()
        self.alpha, self.scale = np.empty_like(self.B), np.empty(self.B.shape[1:])
        # p(first state of a chunk | all before the chunk)
        self.starts = np.empty((self.N, self.chunks.count))
        self.starts[:, self.chunks.first] = self.initial[:, None]
        first, links = self.chunks.length, self.chunks.links
        if len(links):
            first = self._from_every_state()
            if self.merged:
                self.starts[:, links + 1] = self._filter(self.run[:, 0], first, self.chunks.length)[:, links]
            elif not self._link():
                return False
        self._filter(self.starts, 0, first)
        return bool(self.scale.min() > FAINT)

    def posterior(self) -> tuple[np.ndarray, np.ndarray]:
        w, gamma, B = self._ends(), np.empty_like(self.alpha), self.B
        for t in reversed(range(self.chunks.length)):
            b = self.A @ w
            np.multiply(self.alpha[:, t], b, out=gamma[:, t])
            w = B[:, t]
            b /= self.scale[t]
            w *= b
        return gamma, self.pairs(B)

    def _filter(self, p: np.ndarray, begin: int, end: int) -> np.ndarray:
        """Steps begin … end − 1 of all chunks, from and to what is known of the next state (N, chunks)."""
        with np.errstate(invalid="ignore"):
            for t in range(begin, end):
                a = self.alpha[:, t]
                np.multiply(p, self.B[:, t], out=a)
                a /= np.add.reduce(a, 0, out=self.scale[t])
                p = self.A_T @ a
        return p

    def _from_every_state(self) -> int:
        """Set `run`, p(state after some steps of a chunk | state at first), (now, at first, chunk), and
        `weight`, the probability of the data of these steps (at first, chunk), up to a factor for each chunk.
        Returns how many steps.

        A chain forgets where it began. Once the runs from all states agree in every chunk, they are `merged`:
        what comes after these steps does not depend on what was before them. Else the steps are those of the
        whole chunk.
        """
        N, length = self.N, self.chunks.length
        run: np.ndarray = np.repeat(np.eye(N)[:, :, None], self.chunks.count, axis=2)
        log_weight = np.zeros(run.shape[1:])
        for t in range(length):
            run *= self.B[:, t, None]
            run = (self.A_T @ run.reshape(N, -1)).reshape(run.shape)
            if t % EVERY == EVERY - 1 or t == length - 1:
                total = run.sum(0)
                with np.errstate(divide="ignore"):
                    log_weight += np.log(total)
                run /= np.where(total > 0, total, 1.0)
                if (np.abs(run - run[:, :1]) <= SAME * run[:, :1]).all():
                    break
        best = log_weight.max(0)
        self.run, self.merged = run, t < length - 1
        self.weight = np.exp(log_weight - np.where(np.isfinite(best), best, 0.0))
        return t + 1

    def _link(self) -> bool:
        """Chunk after chunk, what each passes on to the next; False if that underflows."""
        self.onward = np.ascontiguousarray((self.run * self.weight).transpose(2, 0, 1))
        for c in self.chunks.links:
            p = self.onward[c] @ self.starts[:, c]
            total = p.sum()
            if not total > 0:
                return False
            self.starts[:, c + 1] = p / total
        return True

    def _ends(self) -> np.ndarray:
        """(N, chunks): the probability of all that follows a chunk, for each state that follows it,
        scaled by `starts`.
        """
        w, links = np.ones((self.N, self.chunks.count)), self.chunks.links
        if len(links) and self.merged:
            w[:, links] = self.weight[:, links + 1] / (self.weight * self.starts).sum(0)[links + 1]
            return w
        for c in links[::-1]:
            ahead = w[:, c + 1] @ self.onward[c + 1]
            w[:, c] = ahead / (ahead @ self.starts[:, c + 1])
        return w
