"""Greedy selection (GPML Algorithm 8.1): from the empty set, include the best of a working set J, again and
again.
"""

from __future__ import annotations

import abc

import numpy as np


class AbstractActiveSet(abc.ABC):
    """What the scores of candidates are made of, built up datum by datum. `active`: those included so far."""

    active: list[int]

    @abc.abstractmethod
    def usable(self) -> np.ndarray:
        """Which of the data may still be included, besides those that are: (n,), bool."""

    @abc.abstractmethod
    def scores(self, J: np.ndarray) -> np.ndarray:
        """What including each of the data J would gain (|J|,)."""

    @abc.abstractmethod
    def include(self, j: int) -> None:
        """Take datum j in."""


def greedy(
    state: AbstractActiveSet, n: int, m: int, rng: np.random.Generator, candidates: int | None = None
) -> np.ndarray:
    """Indices of at most m of n data in the order of their inclusion; `candidates` random ones are scored in
    each step, or all (None).
    """
    rest = np.ones(n, bool)
    for _ in range(m):
        J = np.flatnonzero(rest & state.usable())
        if not J.size:
            break
        if candidates is not None and J.size > candidates:
            J = rng.choice(J, candidates, replace=False)
        j = int(J[np.argmax(state.scores(J))])
        state.include(j)
        rest[j] = False
    return np.array(state.active, int)
