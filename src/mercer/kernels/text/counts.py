"""Kernels on strings by their counts of symbols, words or k-symbol substrings: linear in the length of the
strings (GPML 4.4).

A string becomes the sorted numbers of what occurs in it and how often. Where the alphabet or vocabulary is
given, the numbers are places in it and the kernel is a linear model in the counts (of finite rank); otherwise
they are 64-bit fingerprints.
"""

from __future__ import annotations

import abc
import collections
import dataclasses
import functools
import hashlib
import itertools
import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from mercer.kernels.text.base import AbstractText, check_whole, codes, padded, texts
from mercer.linalg.tiles import rows
from mercer.params import ParameterError

DENSE = 4096  # kernels of at most this rank multiply full rows of counts
_NOTHING = np.iinfo(np.int64).max  # behind the last number of a row


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Counts:
    """What occurs in each string: sorted numbers (n, width) and how often or how much (n, width)."""

    numbers: Any
    amounts: Any


class AbstractCounts(AbstractText):
    """The dot product of counts."""

    @abc.abstractmethod
    def occurrences(self, text: str) -> np.ndarray:
        """A number (int64) for everything that occurs in the text, as often as it does."""

    @abc.abstractmethod
    def size(self) -> int | None:
        """How many different numbers there can be: 0 ... size - 1; None: any."""

    def amounts(self, numbers: np.ndarray, times: np.ndarray) -> np.ndarray:
        """The feature for a number that occurs so many times."""
        return times.astype(float)

    def encode(self, X: Any) -> Counts:
        pairs = [np.unique(self.occurrences(text), return_counts=True) for text in texts(X)]
        numbers = padded([numbers.astype(np.int64) for numbers, _ in pairs], _NOTHING)
        amounts = np.zeros(numbers.shape)
        for row, (found, times) in zip(amounts, pairs, strict=True):
            row[: len(found)] = self.amounts(found, times)
        return Counts(numbers, amounts)

    def rank(self, d: int) -> int | None:
        return self.size()

    def features(self, A: Counts) -> jax.Array:
        """Counts (a, rank), scaled so that they multiply to the kernel."""
        if self.size() is None:
            return super().features(A)
        dense = self._dense(A)
        if self.normalise:
            dense = self.scale(A)[:, None] * dense
        return jnp.sqrt(self.variance) * dense

    def _dense(self, A):
        row = jnp.arange(rows(A))[:, None]
        return jnp.zeros((rows(A), self.size())).at[row, A.numbers].add(A.amounts, mode="drop")

    def compare(self, A: Counts, B: Counts) -> jax.Array:
        size = self.size()
        return (
            self._dense(A) @ self._dense(B).T if size is not None and size <= DENSE else _sparse_product(A, B)
        )

    def compare_same(self, A: Counts) -> jax.Array:
        return jnp.sum(A.amounts**2, -1)


def _sparse_product(A: Counts, B: Counts):
    """Dot products of all rows: the numbers of B are looked up in one row of A after the other."""

    def one(row):
        at = jnp.searchsorted(row.numbers, B.numbers.ravel()).reshape(B.numbers.shape)
        at = jnp.minimum(at, row.numbers.shape[0] - 1)
        return jnp.sum(jnp.where(row.numbers[at] == B.numbers, row.amounts[at], 0.0) * B.amounts, -1)

    return lax.map(one, A)


class Spectrum(AbstractCounts):
    """Substrings of k symbols: the dot product of their counts (4.45 with weights on |s| = k only).

    >>> Spectrum(3, alphabet="acgt", normalise=True)
    """

    k: int = eqx.field(default=3, static=True)

    def __check_init__(self):
        check_whole(self, "k", 1)

    def size(self) -> int | None:
        size = None if self.alphabet is None else len(self.alphabet) ** self.k
        return size if size is not None and size < 2**31 else None

    def occurrences(self, text: str) -> np.ndarray:
        symbols = codes(text, self.alphabet, "Spectrum.alphabet")
        if len(symbols) < self.k:
            return np.zeros(0, np.int64)
        known = len(self.alphabet) if self.alphabet is not None and self.size() is not None else None
        return _numbers(np.lib.stride_tricks.sliding_window_view(symbols, self.k), known)


class BagOfCharacters(AbstractCounts):
    """Single symbols: the dot product of their counts.

    >>> BagOfCharacters(alphabet="acgt")
    """

    def size(self) -> int | None:
        return None if self.alphabet is None else len(self.alphabet)

    def occurrences(self, text: str) -> np.ndarray:
        return codes(text, self.alphabet, "BagOfCharacters.alphabet").astype(np.int64)


class BagOfWords(AbstractCounts):
    """Words between white space: the dot product of their counts, each times its weight.

    vocabulary: the words that count; None: every word. weights: one for each word of the vocabulary; None: 1.
    `BagOfWords.of(texts)` finds both.

    >>> BagOfWords.of(texts, tf_idf=True, normalise=True)
    """

    vocabulary: tuple[str, ...] | None = eqx.field(
        default=None, static=True, converter=lambda v: None if v is None else tuple(v)
    )
    weights: tuple[float, ...] | None = eqx.field(
        default=None, static=True, converter=lambda w: None if w is None else tuple(map(float, w))
    )

    def __check_init__(self):
        if self.alphabet is not None:
            raise ParameterError("BagOfWords.alphabet: words have no alphabet; give a vocabulary.")
        words = self.vocabulary
        if words is not None and not (
            words and len(set(words)) == len(words) and all(isinstance(w, str) for w in words)
        ):
            raise ParameterError("BagOfWords.vocabulary must be different words, at least one.")
        if self.weights is not None and (words is None or len(self.weights) != len(words)):
            raise ParameterError("BagOfWords.weights must be one number for each word of the vocabulary.")
        if self.weights is not None and not all(math.isfinite(w) and w >= 0 for w in self.weights):
            raise ParameterError("BagOfWords.weights must be finite and not negative.")

    @classmethod
    def of(cls, X: Any, tf_idf: bool = False, **fields: Any) -> BagOfWords:
        """The kernel whose vocabulary is the words of these texts.

        tf_idf: a word weighs log(number of texts / number of texts with the word): counts become TF-IDF
        scores.
        """
        documents = [set(text.split()) for text in texts(X)]
        seen = collections.Counter(itertools.chain.from_iterable(documents))
        words = tuple(sorted(seen))
        weights = tuple(math.log(len(documents) / seen[word]) for word in words) if tf_idf else None
        return cls(vocabulary=words, weights=weights, **fields)

    def size(self) -> int | None:
        return None if self.vocabulary is None else len(self.vocabulary)

    def occurrences(self, text: str) -> np.ndarray:
        words = text.split()
        if self.vocabulary is None:
            return np.array([_fingerprint(word) for word in words], dtype=np.int64)
        places = _places(self.vocabulary)
        return np.array([places[word] for word in words if word in places], dtype=np.int64)

    def amounts(self, numbers: np.ndarray, times: np.ndarray) -> np.ndarray:
        return times.astype(float) if self.weights is None else times * np.asarray(self.weights)[numbers]


@functools.lru_cache(maxsize=16)
def _places(vocabulary: tuple[str, ...]) -> dict[str, int]:
    return {word: i for i, word in enumerate(vocabulary)}


def _numbers(windows: np.ndarray, symbols: int | None) -> np.ndarray:
    """A number for each window of symbols (n, k): its place in the list of all words, or a fingerprint."""
    if symbols is not None:
        return windows.astype(np.int64) @ (np.int64(symbols) ** np.arange(windows.shape[1], dtype=np.int64))
    out = np.zeros(len(windows), dtype=np.uint64)
    for column in windows.T:  # splitmix64 after each symbol
        out = (out ^ column.astype(np.uint64)) + np.uint64(0x9E3779B97F4A7C15)
        out = (out ^ (out >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        out = (out ^ (out >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        out = out ^ (out >> np.uint64(31))
    return (out >> np.uint64(1)).astype(np.int64)


def _fingerprint(word: str) -> int:
    return (
        int.from_bytes(hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")
        >> 1
    )
