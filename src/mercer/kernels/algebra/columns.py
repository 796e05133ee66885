"""The choice of columns."""

from __future__ import annotations

import dataclasses
import keyword

import equinox as eqx
import jax
import numpy as np

from mercer.inputs import Array, numeric
from mercer.kernels.algebra.sums import AbstractComposite
from mercer.kernels.base import AbstractKernel, Encoded
from mercer.kernels.traits import Traits
from mercer.kernels.words.names import CALL, bracketed, simple
from mercer.params import ParameterError


class On(AbstractComposite):
    """A kernel that reads only some input columns, given by position or by name.

    Bound to inputs, `columns` are positions and `names` is how they were given.
    """

    kernel: AbstractKernel
    columns: tuple[int | str, ...] = eqx.field(static=True, converter=tuple)
    names: tuple[int | str, ...] | None = eqx.field(static=True, default=None)

    def __check_init__(self):
        if not self.columns or len(set(self.columns)) != len(self.columns):
            raise ParameterError(
                f".on(...) needs at least one column and no column twice, got {self.columns}."
            )
        if not all(isinstance(c, (int, np.integer, str)) and not isinstance(c, bool) for c in self.columns):
            raise ParameterError(f".on(...) takes column positions or names, got {self.columns}.")

    @property
    def parts(self) -> tuple[AbstractKernel, ...]:
        """The kernels it is made of."""
        return (self.kernel,)

    def rebuild(self, parts: tuple[AbstractKernel, ...]) -> On:
        return On(parts[0], self.columns, self.names)

    def bind(self, d: int, names: tuple[str, ...] | None = None) -> On:
        given = self.names if names and self.names else self.columns
        positions = tuple(position(c, d, names) for c in given)
        inner = self.kernel.bind(len(positions), tuple(names[i] for i in positions) if names else None)
        named = any(isinstance(c, str) for c in given)
        return On(inner, positions, tuple(given) if named else self.names)

    def encode(self, X: Array) -> Encoded:
        return self.kernel.encode(X[:, self._positions()])

    def suggest(self, X: np.ndarray, variance: float) -> On:
        columns = X[:, self._positions()]
        return self.rebuild(
            (self.kernel.suggest(columns if self.kernel.reads_objects() else numeric(columns), variance),)
        )

    def _positions(self) -> list[int]:
        if any(isinstance(c, str) for c in self.columns):
            raise ParameterError(
                f".on{self.columns} is not bound to inputs yet: condition on a data frame with those columns."
            )
        return [int(c) for c in self.columns]

    def block(self, A: Encoded, B: Encoded) -> jax.Array:
        return self.kernel.block(A, B)

    def rank(self, d: int) -> int | None:
        return self.kernel.rank(len(self.columns))

    def features(self, A: Encoded) -> jax.Array:
        return self.kernel.features(A)

    def traits(self, d: int = 1) -> Traits:
        inner = self.kernel.traits(len(self.columns))
        whole = len(self.columns) == d
        return dataclasses.replace(
            inner,
            isotropic=inner.isotropic and whole,
            dot_product=inner.dot_product and whole,
            max_dimension=None,
        )

    def amplitude(self) -> tuple[str, ...]:
        return tuple(f"kernel.{name}" for name in self.kernel.amplitude())

    def leads(self, digits: int = 6) -> bool:
        return self.kernel.leads(digits)

    def formula(self, digits: int = 6) -> str:
        """`SE(age, l=0.3)` where the columns have names that can stand there, else `SE(l=0.3).on(0)`."""
        given = self.names or self.columns
        chosen = f".on({', '.join(map(repr, given))})"
        if type(self.kernel).formula is not AbstractKernel.formula:
            return bracketed(self.kernel, digits, CALL) + chosen
        names = tuple(
            c
            for c in given
            if isinstance(c, str) and c.isidentifier() and not keyword.iskeyword(c) and c != "inf"
        )
        return (
            simple(self.kernel, digits, names)
            if len(names) == len(given)
            else simple(self.kernel, digits, chosen=chosen)
        )


def position(column: int | str, d: int, names: tuple[str, ...] | None, what: str = ".on") -> int:
    """The position of a column given by position or name, among d columns of these names;
    `what` is said in errors.
    """
    if isinstance(column, str):
        if names is None:
            raise ParameterError(
                f"{what}({column!r}) needs inputs with column names (a data frame); these have none."
            )
        if column not in names:
            raise ParameterError(f"{what}({column!r}): no such column; the inputs have {list(names)}.")
        return names.index(column)
    if not -d <= column < d:
        raise ParameterError(f"{what}({column}): the inputs have only {d} columns.")
    return int(column) % d
