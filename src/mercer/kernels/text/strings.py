"""Kernels on strings that compare every position of one string with every position of the other (GPML
4.4).
"""

from __future__ import annotations

import abc
import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from mercer import compiled
from mercer.compiled import strings as loops
from mercer.compiled.strings import Loop
from mercer.kernels.text.base import AbstractText, check_whole
from mercer.kernels.text.pairs import Recursion, by_loops, forward, walk, walk_all
from mercer.kernels.text.suffix import matches_by_length, own_matches_by_length
from mercer.linalg.tiles import rows
from mercer.params import Hyper, ParameterError, hyper, unit

LOOPS_FROM = 1_000_000  # cells; XLA has compiled a scan and gone through fewer before numba is imported


class AbstractTable(AbstractText):
    """A sum over the cells of a table, with states that move along; a hyperparameter `decay`,
    where there is one, is learned.
    """

    @abc.abstractmethod
    def recursion(self, decay: jax.Array) -> Recursion:
        """The `step`, `start` and `zero` of `pairs.walk`."""

    @abc.abstractmethod
    def loop(self) -> Loop:
        """The same, compiled."""

    def compare(self, A: jax.Array, B: jax.Array) -> jax.Array:
        table = forward(lambda decay, A, B: walk_all(A, B, *self.recursion(decay)), analytic=True)
        if _many(rows(A) * A.shape[1] * rows(B) * B.shape[1]):
            table = by_loops(self.loop(), table)
        return table(self.decay_(), A, B)

    def compare_same(self, A: jax.Array) -> jax.Array:
        table = forward(lambda decay, A: walk(A.T, A.T, *self.recursion(decay)), analytic=True)
        if _many(rows(A) * A.shape[1] ** 2):
            table = by_loops(self.loop(), table)
        return table(self.decay_(), A)

    def decay_(self) -> jax.Array:
        return jnp.asarray(getattr(self, "decay", 1.0), float)


def _many(cells: int) -> bool:
    """Whether compiled loops go through so many cells of tables."""
    return cells >= LOOPS_FROM and compiled.ready()


def check_decay(kernel: Any) -> None:
    """A decay is one number above 0; its constraint says the rest."""
    if not isinstance(kernel.decay, jax.core.Tracer) and not (
        np.ndim(kernel.decay) == 0 and kernel.decay > 0
    ):
        raise ParameterError(
            f"{type(kernel).__name__}.decay must be one number above 0 and at most 1, got {kernel.decay}."
        )


class Substring(AbstractTable):
    """All substrings, weighted by their length: sum over s of decay^|s| (count of s in x) (count of s in x')
    (4.45).

    automaton=True compares by suffix automata on the host instead of by a table: time |x| + |x'| for a pair
    instead of |x| |x'|, worth it for strings of some thousand symbols.

    >>> GP(Substring(0.5, normalise=True)).condition(["acgt", "ggca", "acca"], y, noise_variance=0.1)
    """

    decay: Hyper = hyper(0.5, unit)
    automaton: bool = eqx.field(default=False, static=True)

    def __check_init__(self):
        check_decay(self)

    def recursion(self, decay: jax.Array) -> Recursion:
        def step(cell, before, above):
            # the weighted number of common suffixes of x[..i] and x'[..j]
            here = jnp.where(cell.match, decay * (1.0 + before[0]), 0.0)
            return (here,), above, here

        return step, (0.0 * decay,), 0.0 * decay

    def loop(self) -> Loop:
        return loops.substring()

    def compare(self, A: jax.Array, B: jax.Array) -> jax.Array:
        return forward(_by_automata)(self.decay_(), A, B) if self.automaton else super().compare(A, B)

    def compare_same(self, A: jax.Array) -> jax.Array:
        return forward(_by_automata)(self.decay_(), A) if self.automaton else super().compare_same(A)


def _by_automata(decay, *tables):
    """All pairs of rows of two tables of codes, or the rows of one with themselves."""
    return _weighted_matches(decay ** jnp.arange(1, tables[0].shape[1] + 1), *tables)


@jax.custom_jvp
def _weighted_matches(weights, *tables):
    shape = jax.ShapeDtypeStruct(tuple(map(rows, tables)), float)
    count = matches_by_length if len(tables) == 2 else own_matches_by_length
    return jax.pure_callback(count, shape, weights, *tables, vmap_method="sequential")


@_weighted_matches.defjvp
def _weighted_matches_jvp(primals, tangents):
    return _weighted_matches(*primals), _weighted_matches(tangents[0], *primals[1:])


class GapWeighted(AbstractTable):
    """All subsequences of `length` symbols, gaps allowed: each common one counts decay^(its extent in x + its
    extent in x').

    The string subsequence kernel of Lodhi et al.

    >>> GapWeighted(4, decay=0.6, normalise=True)
    """

    length: int = eqx.field(default=2, static=True)
    decay: Hyper = hyper(0.5, unit)

    def __check_init__(self):
        check_whole(self, "length", 1)
        check_decay(self)

    def recursion(self, decay: jax.Array) -> Recursion:
        """With M_l(i, j) the weight of common subsequences of length l that end in (i, j): `above` is the sum
        over i' < i of decay^(i-1-i') M_l(i', j), `before` its decayed sum over j' < j; where symbols match,
        M_(l+1)(i, j) = decay^2 before_l.
        """

        def step(cell, before, above):
            weight = jnp.where(cell.match, decay * decay, 0.0)
            ending = [weight, *(weight * b for b in before)]
            left = tuple(e + decay * a for e, a in zip(ending[:-1], above, strict=True))
            return left, tuple(a + decay * b for a, b in zip(above, before, strict=True)), ending[-1]

        return step, (0.0 * decay,) * (self.length - 1), 0.0 * decay

    def loop(self) -> Loop:
        return loops.gap_weighted(self.length)


class Mismatch(AbstractTable):
    """Words of k symbols, of which m may differ: the features of a string count, for each word, the k-symbol
    substrings that differ from it in at most m places (Leslie et al.). m = 0 is `Spectrum(k)`.

    alphabet: needed, because words with symbols of the alphabet that neither string contains count too.

    >>> Mismatch(5, 1, alphabet="acgt")
    """

    k: int = eqx.field(default=3, static=True)
    m: int = eqx.field(default=1, static=True)

    def __check_init__(self):
        check_whole(self, "k", 1, 24)
        check_whole(self, "m", 0, self.k)
        if self.alphabet is None:
            raise ParameterError(
                "Mismatch.alphabet must be given: the legal symbols, for example alphabet='acgt'."
            )

    def recursion(self, decay: jax.Array) -> Recursion:
        """The state is the matches of the last k symbols as bits,
        behind a leading one that says how many there are.
        """
        full, shared = 1 << self.k, self._shared()

        def step(cell, before, above):
            bits = (before[0] << 1) | cell.match
            bits = jnp.where(bits >= 2 * full, bits & (full - 1) | full, bits)
            distance = self.k + 1 - lax.population_count(bits)
            term = sum(jnp.where(distance == d, float(count), 0.0) for d, count in enumerate(shared) if count)
            return (bits,), above, jnp.where(cell.real & (bits >= full), term, 0.0)

        return step, (jnp.int32(1),), 0.0 * decay

    def loop(self) -> Loop:
        return loops.mismatch(self.k, self._shared())

    def _shared(self) -> list[int]:
        """What two words count that differ in 0 ... k places."""
        return [neighbours(self.k, self.m, len(self.alphabet or ""), d) for d in range(self.k + 1)]


def neighbours(k: int, m: int, symbols: int, distance: int) -> int:
    """Number of words of length k within m differences of both of two words that differ in `distance`
    places.
    """
    total = 0
    for as_first in range(distance + 1):  # differing places where the word is as the first of the two ...
        # ... as the second; at the others it is a third symbol
        for as_second in range(distance + 1 - as_first):
            third = distance - as_first - as_second
            ways = (
                math.comb(distance, as_first)
                * math.comb(distance - as_first, as_second)
                * (symbols - 2) ** third
            )
            spare = m - max(as_first, as_second) - third
            total += ways * sum(
                math.comb(k - distance, s) * (symbols - 1) ** s for s in range(min(spare, k - distance) + 1)
            )
    return total
