"""Markov chains of any order over symbols: counts, likelihood,
Fisher scores and their exact information (GPML exercise 4.5.12).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.em.emission import drawn, symbols
from mercer.em.mixture import shares, simplex
from mercer.em.scores import COORDINATES, choose, moving, possible
from mercer.kernels.text.base import codes
from mercer.registry import Saved

GROUPS = ("initial", "transition")


@Saved.register
@dataclass(frozen=True)
class MarkovChain:
    """p(x) = π(x_1 … x_m) Π_{t > m} θ(x_t | x_{t−m} … x_{t−1}) over L symbols 0 … L − 1, of order m.

    initial: (L^m,) π of the first m symbols, counted with the last symbol fastest; [1] for order 0
    transition: (L^m, L) θ, a row for each m symbols that came before
    alphabet: the symbols as characters; sequences may then be strings

    >>> chain = MarkovChain.of(["acgta", "ccgt"], order=1, alphabet="acgt")
    >>> chain.scores(["acg"]).shape              # initial 4, transitions 16
    (1, 20)
    """

    initial: np.ndarray
    transition: np.ndarray
    alphabet: str | None = None

    def __post_init__(self):
        given = np.asarray(self.transition, np.float64)
        if given.ndim != 2 or self._order(given.shape) is None:
            raise ValueError(
                f"transition must be (L^m, L) for L symbols and order m, got an array of shape {given.shape}."
            )
        object.__setattr__(self, "transition", simplex(given, "transition", given.shape))
        object.__setattr__(self, "initial", simplex(self.initial, "initial", given.shape[:1]))
        if self.alphabet is not None and not len(self.alphabet) == len(set(self.alphabet)) == given.shape[1]:
            raise ValueError(f"the alphabet {self.alphabet!r} must be {given.shape[1]} different symbols.")

    @classmethod
    def of(
        cls,
        sequences: Sequence[Any],
        n_symbols: int | None = None,
        order: int = 1,
        pseudo_count: float = 1.0,
        alphabet: str | None = None,
    ) -> MarkovChain:
        """The chain with the largest likelihood, `pseudo_count` added to each count (0:
        maximum likelihood).
        """
        L = len(alphabet) if alphabet is not None else n_symbols
        if L is None or order < 0:
            raise ValueError("a chain needs n_symbols or an alphabet, and an order of 0, 1, …")
        uniform = cls(np.full(L**order, L**-order), np.full((L**order, L), 1 / L), alphabet)
        first, counts = uniform.counts(sequences)
        first, counts = first.sum(0) + pseudo_count, counts.sum(0) + pseudo_count
        seen = counts.sum(1, keepdims=True) > 0
        return cls(shares(first), np.where(seen, shares(np.where(seen, counts, 1.0)), 1 / L), alphabet)

    @property
    def symbols(self) -> int:
        """Size of the alphabet L."""
        return self.transition.shape[1]

    @property
    def order(self) -> int:
        """How many symbols before decide on the next, m."""
        return int(self._order(self.transition.shape) or 0)

    @staticmethod
    def _order(shape: tuple[int, int]) -> int | None:
        contexts, L = shape
        return next((m for m in range(64) if L**m == contexts), None) if L > 1 or contexts == 1 else None

    # -- likelihood and scores -------------------------------------------------------------------------------

    def counts(self, sequences: Sequence[Any]) -> tuple[np.ndarray, np.ndarray]:
        """For each sequence, its first m symbols (n, L^m) as an indicator, and n_{t,s} (n, L^m, L):
        how often t came after s.
        """
        C, L, m = *self.transition.shape, self.order
        first, counts = np.zeros((len(sequences), C)), np.zeros((len(sequences), C, L))
        for i, sequence in enumerate(sequences):
            x = self._read(sequence, f"sequence {i}")
            windows = (
                np.lib.stride_tricks.sliding_window_view(x, m) if m else np.zeros((len(x) + 1, 0), np.intp)
            )
            context = windows @ L ** np.arange(m)[::-1] if m else np.zeros(len(x) + 1, np.intp)
            first[i, context[0]] = 1.0
            counts[i] = np.bincount(context[:-1] * L + x[m:], minlength=C * L).reshape(C, L)
        return first, counts

    def log_likelihood(self, sequences: Sequence[Any]) -> np.ndarray:
        """log p(x) of each sequence (n,); −inf for an impossible one."""
        return self._log_likelihood(*self.counts(sequences))

    def scores(
        self, sequences: Sequence[Any], parameters: Any = None, coordinates: str = "logits"
    ) -> np.ndarray:
        """Derivatives (n, p) of log p(x): n_{t,s} − n_s θ(t | s) by logits, n_{t,s}/θ(t | s) − n_s by
        "probabilities".

        The latter is by θ_{t,s} where θ(t | s) = θ_{t,s}/Σ_t' θ_{t',s} (exercise 4.5.12).
        parameters: "initial", "transition" or both.
        """
        if coordinates not in COORDINATES:
            raise ValueError(f"coordinates must be one of {COORDINATES}, got {coordinates!r}.")
        first, counts = self.counts(sequences)
        possible(self._log_likelihood(first, counts))
        out = {
            "initial": first - self.initial,
            "transition": counts - counts.sum(2, keepdims=True) * self.transition,
        }
        parts = []
        for group in choose(parameters, GROUPS):
            table = getattr(self, group)
            free = moving(table)
            parts.append(out[group][:, free] / (table[free] if coordinates == "probabilities" else 1.0))
        return np.hstack(parts)

    def information(self, length: int | None, parameters: Any = None) -> np.ndarray:
        """The exact Fisher information (p, p), E[φφᵀ] by logits, of sequences with `length` symbols."""
        if length is None or length < self.order:
            raise ValueError(
                "the information of a Markov chain is that of sequences with length= symbols, at least "
                f"{self.order}."
            )
        C = len(self.initial)
        now, visits = self.initial, np.zeros(C)
        for _ in range(length - self.order):
            visits += now
            now = (now[:, None] * self.transition).reshape(-1, C).sum(0)
        tables = {"initial": (self.initial[None], np.ones(1)), "transition": (self.transition, visits)}
        blocks = []
        for group in choose(parameters, GROUPS):
            for row, weight in zip(*tables[group], strict=True):
                free = moving(row)
                blocks.append((weight * (np.diag(row) - np.outer(row, row)))[np.ix_(free, free)])
        return _block_diagonal(blocks)

    def sample(self, length: int, rng: np.random.Generator) -> np.ndarray:
        """One sequence of symbols (length,)."""
        L, m = self.symbols, self.order
        context = int(drawn(self.initial[None], rng)[0])
        x = [context // L ** (m - 1 - i) % L for i in range(m)]
        for _ in range(length - m):
            t = int(drawn(self.transition[context][None], rng)[0])
            context = (context * L + t) % self.transition.shape[0]
            x.append(t)
        return np.array(x[:length], np.intp)

    def _log_likelihood(self, first: np.ndarray, counts: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            log_first, log_next = np.log(self.initial), np.log(self.transition)
        return np.where(first > 0, log_first, 0.0).sum(1) + (
            counts * np.where(counts > 0, log_next, 0.0)
        ).sum((1, 2))

    def _read(self, sequence: Any, where: str) -> np.ndarray:
        if isinstance(sequence, str):
            if self.alphabet is None:
                raise ValueError(f"{where} is a string, but the chain has no alphabet.")
            sequence = codes(sequence, self.alphabet, "the chain's alphabet")
        x = symbols(sequence, self.symbols, where)
        if x.min() < 0:
            raise ValueError(
                f"{where} misses a symbol at place {int(np.argmin(x))}: a Markov chain needs all of them."
            )
        if len(x) < self.order:
            raise ValueError(
                f"{where} has {len(x)} symbols; a chain of order {self.order} needs at least as many."
            )
        return x


def _block_diagonal(blocks: list[np.ndarray]) -> np.ndarray:
    out, at = np.zeros((sum(map(len, blocks)),) * 2), 0
    for block in blocks:
        out[at : at + len(block), at : at + len(block)] = block
        at += len(block)
    return out
