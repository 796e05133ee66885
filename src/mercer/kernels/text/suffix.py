"""The substrings of a string in linear space: its suffix automaton,
and the substrings that two strings share in linear time.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike


class SuffixAutomaton:
    """The smallest automaton that accepts the suffixes of a sequence; built in time proportional to its
    length.

    A state stands for all substrings that end at the same places: lengths in (longest[link], longest], seen
    `count` times.
    """

    def __init__(self, sequence: Iterable[int]):
        self.moves: list[dict[int, int]] = [{}]
        self.link, self.longest, self.count = [-1], [0], [0]
        last = 0
        for symbol in sequence:
            last = self._extend(last, symbol)
        for state in sorted(range(1, len(self.link)), key=self.longest.__getitem__, reverse=True):
            self.count[self.link[state]] += self.count[state]
        self.count[0] = 0

    def _state(self, longest: int, link: int, moves: dict[int, int], count: int) -> int:
        self.moves.append(moves)
        self.longest.append(longest)
        self.link.append(link)
        self.count.append(count)
        return len(self.link) - 1

    def _extend(self, last: int, symbol: int) -> int:
        new = self._state(self.longest[last] + 1, 0, {}, 1)
        state = last
        while state >= 0 and symbol not in self.moves[state]:
            self.moves[state][symbol] = new
            state = self.link[state]
        if state < 0:
            return new
        target = self.moves[state][symbol]
        if self.longest[target] == self.longest[state] + 1:
            self.link[new] = target
            return new
        twin = self._state(self.longest[state] + 1, self.link[target], dict(self.moves[target]), 0)
        self.link[target] = self.link[new] = twin
        while state >= 0 and self.moves[state].get(symbol) == target:
            self.moves[state][symbol] = twin
            state = self.link[state]
        return new

    def shorter(self, cumulative: list[float]) -> list[float]:
        """For each state the weight of all suffixes of its longest string,
        each as often as it occurs (Vishwanathan and Smola).
        """
        total = [0.0] * len(self.link)
        for state in sorted(range(1, len(self.link)), key=self.longest.__getitem__):
            link = self.link[state]
            step = cumulative[self.longest[state]] - cumulative[self.longest[link]]
            total[state] = total[link] + self.count[state] * step
        return total

    def shared(self, other: Iterable[int], cumulative: list[float], shorter: list[float]) -> float:
        """Weight of all pairs of equal substrings of the two sequences: for each place of `other`,
        the suffixes that match.
        """
        total, state, length = 0.0, 0, 0
        for symbol in other:
            while state and symbol not in self.moves[state]:
                state = self.link[state]
                length = self.longest[state]
            if symbol in self.moves[state]:
                state = self.moves[state][symbol]
                length += 1
                link = self.link[state]
                total += shorter[link] + self.count[state] * (
                    cumulative[length] - cumulative[self.longest[link]]
                )
        return total


def matches_by_length(weights: ArrayLike, A: ArrayLike, B: ArrayLike) -> np.ndarray:
    """sum over s of weights[|s| - 1] (count of s in x) (count of s in x') for the rows of two tables padded
    by -1: (a, b).
    """
    (left, rows), (right, columns) = _sequences(A), _sequences(B)
    found = np.array([[shared(other) for other in right] for shared in _comparers(weights, left)])
    return found[np.ix_(rows, columns)]


def own_matches_by_length(weights: ArrayLike, A: ArrayLike) -> np.ndarray:
    """The same of every row with itself: (a,)."""
    left, rows = _sequences(A)
    return np.array([shared(own) for shared, own in zip(_comparers(weights, left), left, strict=True)])[rows]


def _sequences(A) -> tuple[list[list[int]], np.ndarray]:
    """The different sequences of a table, and which one stands in each row."""
    different, place = np.unique(np.asarray(A), axis=0, return_inverse=True)
    return [row[row >= 0].tolist() for row in different], place.reshape(-1)


def _comparers(weights, sequences):
    """For each sequence the function that compares others with it."""
    cumulative = np.concatenate([[0.0], np.cumsum(np.asarray(weights, float))]).tolist()
    for sequence in sequences:
        automaton = SuffixAutomaton(sequence)
        yield functools.partial(
            automaton.shared, cumulative=cumulative, shorter=automaton.shorter(cumulative)
        )
