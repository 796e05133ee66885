"""Kernels on strings that compare every position of one string with every position of the other (GPML 4.4).

The inputs are a list of strings, or one column of text of a table. A string becomes a row of symbol codes, padded by -1: positions in
`alphabet` where that is given, else Unicode code points. Padding matches nothing, so that it never counts.
"""

from __future__ import annotations

import abc
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from mercer.inputs import InputError
from mercer.kernels.base import AbstractKernel
from mercer.kernels.suffix import matches_by_length, own_matches_by_length
from mercer.kernels.traits import Traits
from mercer.linalg.tiles import rows
from mercer.params import Hyper, ParameterError, hyper, positive, unit

PAIRS = 768  # pairs of strings that walk through their tables together: enough to hide the cost of a step, few enough for the cache


class AbstractText(AbstractKernel):
    """A kernel on one column of text: variance * compare(x, x'), with `normalise=True` divided by sqrt(compare(x, x) compare(x', x')).

    alphabet: the legal symbols, for example "acgt"; None: any. A string without anything to compare (the empty one) has variance 0.
    """

    variance: Hyper = hyper(1.0, positive, kw_only=True)
    alphabet: str | None = eqx.field(default=None, static=True, kw_only=True)
    normalise: bool = eqx.field(default=False, static=True, kw_only=True)

    def __check_init__(self):
        if self.alphabet is not None and not (isinstance(self.alphabet, str) and 0 < len(self.alphabet) == len(set(self.alphabet))):
            raise ParameterError(f"{type(self).__name__}.alphabet must be different symbols in one text, got {self.alphabet!r}.")
        if not isinstance(self.normalise, bool):
            raise ParameterError(f"{type(self).__name__}.normalise must be True or False, got {self.normalise!r}.")

    @abc.abstractmethod
    def compare(self, A, B):
        """What the strings have in common: (a, b) for encoded strings with a and b rows."""

    @abc.abstractmethod
    def compare_same(self, A):
        """compare(x, x) for every row: (a,)."""

    def encode(self, X):
        """Codes (n, width) padded by -1."""
        return padded([codes(text, self.alphabet, f"{type(self).__name__}.alphabet") for text in texts(X)])

    def reads_objects(self):
        return True

    def bind(self, d, names=None):
        if d != 1:
            raise ParameterError(f"{type(self).__name__} reads one column of text; there are {d}: choose one with .on(...).")
        return self

    def block(self, A, B):
        common = self.compare(A, B)
        if self.normalise:
            common = self._scale(A)[:, None] * common * self._scale(B)[None, :]
        return self.variance * common

    def diag(self, A):
        same = self.compare_same(A)
        return self.variance * (jnp.where(same > 0, 1.0, 0.0) if self.normalise else same)

    def _scale(self, A):
        same = self.compare_same(A)
        return jnp.where(same > 0, 1.0 / jnp.sqrt(jnp.where(same > 0, same, 1.0)), 0.0)

    def suggest(self, X, variance):
        """The variance that gives these strings the variance of the targets on average."""
        unit_variance = float(np.mean(np.asarray(self.diag(self.encode(X[:256])) / self.variance)))
        return self.with_values(variance=variance / (unit_variance or 1.0))

    def traits(self, d=1):
        return Traits(beyond="returns to the mean for a string that has little in common with them")


# ------------------------------------------------------------------------------------------------- encoding


def texts(X) -> list[str]:
    """The strings of a list or of a table with one column."""
    column = list(X) if isinstance(X, (list, tuple)) else list(np.asarray(X, dtype=object).reshape(-1))
    if not column:
        raise InputError("there are no strings: the list is empty.")
    for i, text in enumerate(column):
        if not isinstance(text, str):
            raise InputError(f"row {i} is {text!r}, of type {type(text).__name__}: a string kernel reads text.")
    return column


def codes(text: str, alphabet: str | None, who: str) -> np.ndarray:
    """The symbols of a text as numbers: places in the alphabet, or code points."""
    points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4").astype(np.int32)
    if alphabet is None:
        return points
    symbols = np.array([ord(symbol) for symbol in alphabet], dtype=np.int32)
    order = np.argsort(symbols)
    places = order[np.minimum(np.searchsorted(symbols, points, sorter=order), len(symbols) - 1)]
    unknown = np.flatnonzero(symbols[places] != points)
    if len(unknown):
        at = int(unknown[0])
        raise InputError(f"unknown symbol {text[at]!r} at position {at} of {_shortened(text)!r}: {who} is {alphabet!r}.")
    return places.astype(np.int32)


def padded(sequences: list[np.ndarray], fill: int = -1) -> np.ndarray:
    """Sequences of numbers as one table (n, width), filled up at the end; the width is one of few, so that new data reuse compiled code."""
    out = np.full((len(sequences), width(max(map(len, sequences)))), fill, dtype=sequences[0].dtype)
    for row, sequence in zip(out, sequences, strict=True):
        row[: len(sequence)] = sequence
    return out


def width(longest: int) -> int:
    """`longest` rounded up to a multiple of 16, of an eighth of the next power of two where that is more."""
    step = max(16, 2 ** ((longest - 1).bit_length() - 3)) if longest > 1 else 16
    return max(step, -(-longest // step) * step)


def _shortened(text: str) -> str:
    return text if len(text) <= 40 else text[:37] + "..."


# ------------------------------------------------------------------------------------------------- tables


def forward(function):
    """function(theta, *data) of one number theta, its derivative carried forward with the value: nothing is stored for the way back.

    So a recursion over many steps can be differentiated by `jax.grad` at about twice the cost of its value, and to any order.
    """

    def both(theta, *data):
        return jnp.stack(jax.jvp(lambda t: function(t, *data), (theta,), (jnp.ones_like(theta),)))

    @jax.custom_jvp
    def value(theta, *data):
        return function(theta, *data)

    @value.defjvp
    def tangent(primals, tangents):
        result, slope = forward(both)(*primals)
        return result, slope * tangents[0]

    return value


def walk(a, b, step, start):
    """Sum over all cells of the tables of pairs of strings: codes a (width, ...) and b (width, ...) with leading axes that broadcast.

    `step(match, before, above)` says for cell (i, j), from the states in `before` (its own, of cell (i, j-1)) and `above` (what was
    left in column j by row i-1): what to leave in column j, the next `before`, and the term to add. `start`: the states outside.
    """
    shape = jnp.broadcast_shapes(a.shape[1:], b.shape[1:])
    outside = tuple(jnp.full(shape, s) for s in start)

    def row(i, carry):
        symbol = lax.dynamic_index_in_dim(a, i, keepdims=False)

        def column(carry, cell):
            before, total = carry
            other, above = cell
            left, before, term = step(Cell(symbol, other), before, above)
            return (before, total + term), left

        columns, total = carry
        (_, total), columns = lax.scan(column, (outside, total), (b, columns))
        return columns, total

    columns = tuple(jnp.broadcast_to(s, (b.shape[0], *shape)) for s in outside)
    return lax.fori_loop(0, jnp.max(jnp.sum(a >= 0, 0)), row, (columns, jnp.zeros(shape)))[1]


class Cell:
    """Two symbols: whether both are real, whether they are equal."""

    def __init__(self, symbol, other):
        self.real = (symbol >= 0) & (other >= 0)
        self.match = (symbol == other) & (symbol >= 0)


def walk_all(A, B, step, start):
    """`walk` for all pairs of rows of A (a, width) and B (b, width), a few rows of A at a time: (a, b)."""
    n, m = rows(A), rows(B)
    few = max(r for r in range(1, n + 1) if n % r == 0 and r <= max(1, PAIRS // m))
    b = B.T[:, None, :]
    return lax.map(lambda a: walk(a.T[:, :, None], b, step, start), A.reshape(n // few, few, -1)).reshape(n, m)


class AbstractTable(AbstractText):
    """A kernel that is a sum over the cells of a table, with a state that moves along."""

    @abc.abstractmethod
    def recursion(self, decay):
        """The `step` and `start` of `walk`."""

    def compare(self, A, B):
        return forward(lambda decay, A, B: walk_all(A, B, *self.recursion(decay)))(self._decay(), A, B)

    def compare_same(self, A):
        return forward(lambda decay, a: walk(a, a, *self.recursion(decay)))(self._decay(), A.T)

    def _decay(self):
        return jnp.asarray(getattr(self, "decay", 1.0), float)


def check_decay(kernel) -> None:
    if not isinstance(kernel.decay, jax.core.Tracer) and not (np.ndim(kernel.decay) == 0 and kernel.decay > 0):
        raise ParameterError(f"{type(kernel).__name__}.decay must be one number above 0 and at most 1, got {kernel.decay}.")


def check_whole(kernel, field: str, least: int, most: int | None = None) -> None:
    value = getattr(kernel, field)
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not whole or value < least or (most is not None and value > most):
        limit = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise ParameterError(f"{type(kernel).__name__}.{field} must be a whole number {limit}, got {value!r}.")


class Substring(AbstractTable):
    """All substrings, weighted by their length: sum over s of decay^|s| (count of s in x) (count of s in x') (4.45).

    automaton=True compares by suffix automata on the host instead of by a table: time |x| + |x'| for a pair instead of |x| |x'|,
    worth it for strings of some thousand symbols.

    >>> GP(Substring(0.5, normalise=True)).condition(["acgt", "ggca", "acca"], y, noise_variance=0.1)
    """

    decay: Hyper = hyper(0.5, unit)
    automaton: bool = eqx.field(default=False, static=True)

    def __check_init__(self):
        check_decay(self)

    def recursion(self, decay):
        def step(cell, before, above):
            # the weighted number of common suffixes of x[..i] and x'[..j]
            here = jnp.where(cell.match, decay * (1.0 + before[0]), 0.0)
            return (here,), above, here

        return step, (0.0,)

    def compare(self, A, B):
        return forward(_by_automata)(self._decay(), A, B) if self.automaton else super().compare(A, B)

    def compare_same(self, A):
        return forward(_by_automata)(self._decay(), A) if self.automaton else super().compare_same(A)


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
    """All subsequences of `length` symbols, gaps allowed: each common one counts decay^(its extent in x + its extent in x').

    Lodhi et al.'s string subsequence kernel.

    >>> GapWeighted(4, decay=0.6, normalise=True)
    """

    length: int = eqx.field(default=2, static=True)
    decay: Hyper = hyper(0.5, unit)

    def __check_init__(self):
        check_whole(self, "length", 1)
        check_decay(self)

    def recursion(self, decay):
        """With M_l(i, j) the weight of common subsequences of length l that end in (i, j): `above` holds sum over i' < i of
        decay^(i-1-i') M_l(i', j), `before` its decayed sum over j' < j, and M_(l+1)(i, j) = decay^2 before_l where symbols match."""
        inner = self.length - 1

        def step(cell, before, above):
            weight = jnp.where(cell.match, decay * decay, 0.0)
            ending = [weight, *(weight * b for b in before)]
            left = tuple(e + decay * a for e, a in zip(ending, above, strict=False))
            return left, tuple(a + decay * b for a, b in zip(above, before, strict=True)), ending[-1]

        return step, (0.0,) * inner


class Mismatch(AbstractTable):
    """Words of k symbols, of which m may differ: the features of a string count, for each word, the k-symbol substrings that differ
    from it in at most m places (Leslie et al.). m = 0 is `Spectrum(k)`.

    alphabet: needed, because words with symbols of the alphabet that neither string contains count too.

    >>> Mismatch(5, 1, alphabet="acgt")
    """

    k: int = eqx.field(default=3, static=True)
    m: int = eqx.field(default=1, static=True)

    def __check_init__(self):
        check_whole(self, "k", 1, 24)
        check_whole(self, "m", 0, self.k)
        if self.alphabet is None:
            raise ParameterError("Mismatch.alphabet must be given: the legal symbols, for example alphabet='acgt'.")

    def recursion(self, decay):
        """The state is the matches of the last k symbols as bits, behind a leading one that says how many there are."""
        full = 1 << self.k
        shared = [neighbours(self.k, self.m, len(self.alphabet or ""), d) for d in range(self.k + 1)]

        def step(cell, before, above):
            bits = (before[0] << 1) | cell.match
            bits = jnp.where(bits >= 2 * full, bits & (full - 1) | full, bits)
            distance = self.k + 1 - lax.population_count(bits)
            term = sum(jnp.where(distance == d, float(count), 0.0) for d, count in enumerate(shared) if count)
            return (bits,), above, jnp.where(cell.real & (bits >= full), term, 0.0)

        return step, (jnp.int32(1),)


def neighbours(k: int, m: int, symbols: int, distance: int) -> int:
    """Number of words of length k within m differences of both of two words that differ in `distance` places."""
    total = 0
    for as_first in range(distance + 1):  # places among the differing ones where the word is as the first ...
        for as_second in range(distance + 1 - as_first):  # ... as the second; at the others it is a third symbol
            third = distance - as_first - as_second
            ways = math.comb(distance, as_first) * math.comb(distance - as_first, as_second) * (symbols - 2) ** third
            spare = m - max(as_first, as_second) - third
            total += ways * sum(math.comb(k - distance, s) * (symbols - 1) ** s for s in range(min(spare, k - distance) + 1))
    return total
