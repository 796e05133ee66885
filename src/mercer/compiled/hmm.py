"""Forward, backward and the best path of a hidden Markov model (Bilmes, section 4.1) as loops.

A step waits for the one before it, and a processor could do many in that time. So sequences come as chunks of
one length that go side by side, each from a guess of what was before it. A chain forgets where it began: then
every chunk is begun anew from what the one before truly hands on, until that makes no difference, which most
often is soon. The result is that of the plain recursions.

Arrays are (N, L, C): states, steps of a chunk, chunks. `links` are the chunks that the next one continues.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from mercer.compiled import compiled

SAME = 1e-15  # relative difference of two runs that are one from there on
WARM, AGREES = 256, 1e-13  # steps from a guess of what a chunk says to the one before it; how well it must do


def forward(
    starts: np.ndarray, transition: np.ndarray, B: np.ndarray, links: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Scaled alpha (N, L, C), p(q_t | o_1 ... o_t), and the scales (L, C), p(o_t | o_1 ... o_t-1).

    starts: (N, C) of the first states; those of chunks that continue another are guesses
    B: probabilities of the observations in each state, up to a factor for each step
    """
    alpha, scale = np.empty(B.shape), np.empty(B.shape[1:])
    some_forward(starts.copy(), transition, B, alpha, scale, 0, B.shape[1])
    forward_again(transition, B, links, alpha, scale)
    return alpha, scale


def some_forward(
    p: np.ndarray, transition: np.ndarray, B: np.ndarray, alpha: np.ndarray, scale: np.ndarray,
    begin: int, end: int,
) -> None:  # fmt: skip
    """Steps begin ... end - 1 of `forward`, from and to what is known of the next state, p (N, C)."""
    _lanes(len(B)).forward(p, transition, B, alpha, scale, begin, end)


def forward_again(
    transition: np.ndarray, B: np.ndarray, links: np.ndarray, alpha: np.ndarray, scale: np.ndarray
) -> None:
    """Chunks that continue another, begun anew from what it truly hands on."""
    _forward_again(transition, B, links, alpha, scale)


def backward(
    transition: np.ndarray, B: np.ndarray, links: np.ndarray, alpha: np.ndarray, scale: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Posterior gamma (N, L, C) of the states, and what each step says to the one before it: transitions i to
    j between t and t + 1 have probability alpha_i(t) a_ij ahead_j(t + 1).
    """
    (N, L, C), loops = B.shape, _lanes(len(B))
    gamma, ahead = np.empty((2, N, L, C))
    loops.backward(np.ones((N, C)), transition, B, alpha, scale, gamma, ahead, 0, L)
    _backward_again(transition, B, links, alpha, scale, gamma, ahead)
    return gamma, ahead


class Backward:
    """The backward procedure, some steps at a time: every chunk goes on from what some steps of the next one
    say from a guess. Whether that was what they say in the end is `right` when all is done.

    B: overwritten by `ahead`, see `backward`
    most: steps at a time
    """

    def __init__(
        self, transition: np.ndarray, B: np.ndarray, links: np.ndarray, alpha: np.ndarray, scale: np.ndarray,
        most: int,
    ):  # fmt: skip
        self.A, self.B, self.links, self.alpha, self.scale = transition, B, links, alpha, scale
        N, L, C = B.shape
        self.loops, self.beta, self.gamma = _lanes(N), np.ones((N, C)), np.empty((N, min(most, L), C))
        if len(links):
            self.guess = self.loops.warm(transition, B[:, : min(WARM, L)])[:, links + 1]
            self.beta[:, links] = transition @ self.guess

    def some(self, begin: int, end: int) -> np.ndarray:
        """gamma (N, end - begin, C) of steps begin ... end - 1, which come before those asked for last; the
        next call overwrites it.
        """
        self.loops.backward(self.beta, self.A, self.B, self.alpha, self.scale, self.gamma, self.B, begin, end)
        return self.gamma[:, : end - begin]

    def right(self) -> bool:
        """After all steps."""
        if not len(self.links):
            return True
        said = self.B[:, 0, self.links + 1]
        said, guess = said / said.sum(0), self.guess / self.guess.sum(0)
        return bool((np.abs(said - guess) <= AGREES * said).all())


def viterbi(
    log_initial: np.ndarray, log_transition: np.ndarray, log_b: np.ndarray, first: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The most probable paths (T,), one after the other, and log p(O, q) of each sequence (E,).

    log_b: (T, N). first: (T,) whether a sequence begins
    """
    path, values = np.empty(len(first), np.intp), np.empty(int(first.sum()))
    _viterbi(log_initial, log_transition, log_b, first, np.empty(log_b.shape, np.int32), path, values)
    return path, values


class Lanes(NamedTuple):
    """The loops over chunks side by side, for one number of states."""

    forward: Any
    backward: Any
    warm: Any


@functools.cache
def _lanes(N: int) -> Lanes:
    """The number of states is known to what is compiled, so that its products stay in registers."""

    def forward(p, A, B, alpha, scale, begin, end):
        C = B.shape[2]
        a, share = np.empty((N, C)), np.empty(C)
        for t in range(begin, end):
            for c in range(C):
                total = 0.0
                for i in range(N):
                    total += p[i, c] * B[i, t, c]
                scale[t, c] = total
                share[c] = 1.0 / total
            for i in range(N):
                for c in range(C):
                    a[i, c] = p[i, c] * B[i, t, c] * share[c]
                    alpha[i, t, c] = a[i, c]
            for j in range(N):
                for c in range(C):
                    total = 0.0
                    for i in range(N):
                        total += A[i, j] * a[i, c]
                    p[j, c] = total

    def backward(beta, A, B, alpha, scale, gamma, ahead, begin, end):
        C = B.shape[2]
        w, share = np.empty((N, C)), np.empty(C)
        for t in range(end - 1, begin - 1, -1):
            for c in range(C):
                total = 0.0
                for i in range(N):
                    total += alpha[i, t, c] * beta[i, c]
                share[c] = 1.0 / total
            for i in range(N):
                for c in range(C):
                    gamma[i, t - begin, c] = alpha[i, t, c] * beta[i, c] * share[c]
            for c in range(C):
                share[c] /= scale[t, c]
            for i in range(N):
                for c in range(C):
                    w[i, c] = B[i, t, c] * beta[i, c] * share[c]
            for i in range(N):
                for c in range(C):
                    ahead[i, t, c] = w[i, c]
                    total = 0.0
                    for j in range(N):
                        total += A[i, j] * w[j, c]
                    beta[i, c] = total

    def warm(A, B):
        """What the first of these steps says to the one before it, up to a factor, if nothing is known of
        what follows the last.
        """
        _, L, C = B.shape
        beta, w = np.ones((N, C)), np.empty((N, C))
        share = np.empty(C)
        for t in range(L - 1, -1, -1):
            for c in range(C):
                total = 0.0
                for i in range(N):
                    total += beta[i, c]
                share[c] = 1.0 / total
            for i in range(N):
                for c in range(C):
                    w[i, c] = B[i, t, c] * beta[i, c] * share[c]
            for i in range(N):
                for c in range(C):
                    total = 0.0
                    for j in range(N):
                        total += A[i, j] * w[j, c]
                    beta[i, c] = total
        return w

    return Lanes(*(compiled(loop) for loop in (forward, backward, warm)))


@compiled
def _forward_again(A, B, links, alpha, scale):
    N, L, _ = B.shape
    before, now = np.empty(N), np.empty(N)
    for link in links:
        c = link + 1
        before[:] = alpha[:, L - 1, link]
        for t in range(L):
            total = 0.0
            for j in range(N):
                p = 0.0
                for i in range(N):
                    p += A[i, j] * before[i]
                now[j] = p * B[j, t, c]
                total += now[j]
            scale[t, c], moved = total, False
            for j in range(N):
                before[j] = now[j] / total
                if not abs(before[j] - alpha[j, t, c]) <= SAME * before[j]:
                    moved = True
                alpha[j, t, c] = before[j]
            if not moved:
                break


@compiled
def _backward_again(A, B, links, alpha, scale, gamma, ahead):
    N, L, _ = B.shape
    beta, later = np.empty(N), np.empty(N)
    for k in range(len(links) - 1, -1, -1):
        c = links[k]
        later[:] = ahead[:, 0, c + 1]
        for t in range(L - 1, -1, -1):
            total, moved = 0.0, False
            for i in range(N):
                beta[i] = 0.0
                for j in range(N):
                    beta[i] += A[i, j] * later[j]
                total += alpha[i, t, c] * beta[i]
            for i in range(N):
                later[i] = B[i, t, c] * beta[i] / (total * scale[t, c])
                if not abs(later[i] - ahead[i, t, c]) <= SAME * later[i]:
                    moved = True
                gamma[i, t, c], ahead[i, t, c] = alpha[i, t, c] * beta[i] / total, later[i]
            if not moved:
                break


@compiled
def _viterbi(log_initial, log_A, log_b, first, back, path, values):
    T, N = log_b.shape
    best, reach, sequence = np.empty(N), np.empty(N), -1
    for t in range(T):
        if first[t]:
            sequence += 1
        for j in range(N):
            top, at = -np.inf, 0
            if first[t]:
                top = log_initial[j]
            else:
                for i in range(N):
                    value = best[i] + log_A[i, j]
                    if value > top:
                        top, at = value, i
            reach[j], back[t, j] = top + log_b[t, j], at
        top, at = -np.inf, 0
        for j in range(N):
            best[j] = reach[j]
            if best[j] > top:
                top, at = best[j], j
        values[sequence], path[t] = top, at  # where the path ends, if this is the last step
    for t in range(T - 2, -1, -1):
        if not first[t + 1]:
            path[t] = back[t + 1, path[t + 1]]
