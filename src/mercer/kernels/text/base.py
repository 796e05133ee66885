"""What kernels on strings (and trees) share: the column they read, the codes of a text, the scale, the
normalisation.

The inputs are a list of strings, or one column of text of a table. A string becomes a row of symbol codes,
padded by -1: places in `alphabet` where that is given, else Unicode code points.
"""

from __future__ import annotations

import abc
from typing import Any, ClassVar, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from mercer.inputs import InputError
from mercer.kernels.base import AbstractKernel, Encoded
from mercer.kernels.traits import Traits
from mercer.params import Hyper, ParameterError, hyper, positive


class AbstractComparison(AbstractKernel):
    """A kernel on one column of objects: variance * compare(x, x').

    normalise=True divides by sqrt(compare(x, x) compare(x', x')). An input with nothing to compare, such as
    the empty string, has variance 0.
    """

    variance: Hyper = hyper(1.0, positive, kw_only=True)
    normalise: bool = eqx.field(default=False, static=True, kw_only=True)

    what: ClassVar[str] = "text"

    def __check_init__(self):
        if not isinstance(self.normalise, bool):
            raise ParameterError(
                f"{type(self).__name__}.normalise must be True or False, got {self.normalise!r}."
            )

    @abc.abstractmethod
    def compare(self, A: Encoded, B: Encoded) -> jax.Array:
        """What the inputs have in common: (a, b) for encoded inputs with a and b rows."""

    @abc.abstractmethod
    def compare_same(self, A: Encoded) -> jax.Array:
        """compare(x, x) for every row: (a,)."""

    def reads_objects(self) -> bool:
        return True

    def bind(self, d: int, names: tuple[str, ...] | None = None) -> Self:
        if d != 1:
            raise ParameterError(
                f"{type(self).__name__} reads one column of {self.what}; there are {d}: choose one with "
                ".on(...)."
            )
        return self

    def block(self, A: Encoded, B: Encoded) -> jax.Array:
        common = self.compare(A, B)
        if self.normalise:
            common = self.scale(A)[:, None] * common * self.scale(B)[None, :]
        return self.variance * common

    def diag(self, A: Encoded) -> jax.Array:
        same = self.compare_same(A)
        return self.variance * (jnp.where(same > 0, 1.0, 0.0) if self.normalise else same)

    def scale(self, A: Encoded) -> jax.Array:
        """1 / sqrt(compare(x, x)), or 0 where that is 0: (a,)."""
        same = self.compare_same(A)
        return jnp.where(same > 0, 1.0 / jnp.sqrt(jnp.where(same > 0, same, 1.0)), 0.0)

    def suggest(self, X: np.ndarray, variance: float) -> Self:
        """The variance that gives these inputs the variance of the targets on average."""
        of_one = float(np.mean(np.asarray(self.diag(self.encode(X[:256])) / self.variance)))
        return self.with_values(variance=variance / (of_one or 1.0))

    def traits(self, d: int = 1) -> Traits:
        return Traits(beyond="returns to the mean for an input that has little in common with them")


class AbstractText(AbstractComparison):
    """A kernel on one column of text. alphabet: the legal symbols, for example "acgt"; None: any."""

    alphabet: str | None = eqx.field(default=None, static=True, kw_only=True)

    def __check_init__(self):
        given = self.alphabet
        if given is not None and not (isinstance(given, str) and 0 < len(given) == len(set(given))):
            raise ParameterError(
                f"{type(self).__name__}.alphabet must be different symbols in one text, got {given!r}."
            )

    def encode(self, X: Any) -> Encoded:
        """Codes (n, width) padded by -1."""
        return padded([codes(text, self.alphabet, f"{type(self).__name__}.alphabet") for text in texts(X)])


def check_whole(kernel: AbstractKernel, field: str, least: int, most: int | None = None) -> None:
    """A structural field must be a whole number in this range."""
    value = getattr(kernel, field)
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not whole or value < least or (most is not None and value > most):
        limit = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise ParameterError(
            f"{type(kernel).__name__}.{field} must be a whole number {limit}, got {value!r}."
        )


def texts(X: Any) -> list[str]:
    """The strings of a list or of a table with one column."""
    column = entries(X, "strings")
    for i, text in enumerate(column):
        if not isinstance(text, str):
            raise InputError(
                f"row {i} is {text!r}, of type {type(text).__name__}: a string kernel reads text."
            )
    return column


def entries(X: Any, what: str) -> list[Any]:
    """The objects of a list or of a table with one column."""
    column = list(X) if isinstance(X, (list, tuple)) else list(X.reshape(-1))
    if not column:
        raise InputError(f"there are no {what}: the list is empty.")
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
        shown = text if len(text) <= 40 else text[:37] + "..."
        raise InputError(f"unknown symbol {text[at]!r} at position {at} of {shown!r}: {who} is {alphabet!r}.")
    return places.astype(np.int32)


def padded(sequences: list[np.ndarray], fill: int = -1) -> np.ndarray:
    """Sequences of numbers as one table (n, width), filled up at the end."""
    out = np.full((len(sequences), width(max(map(len, sequences)))), fill, dtype=sequences[0].dtype)
    for row, sequence in zip(out, sequences, strict=True):
        row[: len(sequence)] = sequence
    return out


def width(longest: int) -> int:
    """`longest` rounded up to one of few widths, so that new data reuse compiled code:
    at most 16 or a quarter more.
    """
    step = max(16, 2 ** ((longest - 1).bit_length() - 3)) if longest > 1 else 16
    return max(step, -(-longest // step) * step)
