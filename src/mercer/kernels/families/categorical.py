"""Kernels on categories: a column of text or of codes, where only equality means something.

With `.on(...)` they stand beside numeric kernels on one table: `SE().on("age") *
Categorical().on("species")`.
"""

from __future__ import annotations

import hashlib
import math
import numbers
from typing import Any, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from mercer.inputs import Array, InputError
from mercer.kernels.base import AbstractKernel
from mercer.kernels.traits import Traits
from mercer.params import Hyper, ParameterError, hyper, positive, real, unit


class AbstractCategorical(AbstractKernel):
    """Reads one column. A label is text, a number (1 and 1.0 are the same) or another value with a stable
    `repr`.

    Labels outside `levels` are legal, in training and in prediction: each is a level of its own, independent
    of all others.
    """

    levels: eqx.AbstractVar[tuple | None]

    def reads_objects(self) -> bool:
        return True

    def bind(self, d: int, names: tuple[str, ...] | None = None) -> Self:
        if d != 1:
            raise ParameterError(
                f"{type(self).__name__} reads one column of categories; there are {d}: choose one with "
                ".on(...)."
            )
        return self

    def encode(self, X: Array) -> Array:
        """Codes (n,): the position of a level,
        and beyond the positions a number that only equal labels share.
        """
        if isinstance(X, jax.core.Tracer):
            return X[:, 0]
        column = np.asarray(X)[:, 0]
        kinds, inverse = distinct_labels(column)
        known = {label: float(i) for i, label in enumerate(map(label_of, self.levels or ()))}
        codes = np.array([known.get(label, len(known) + _code(label)) for label in kinds])
        return codes[inverse]


class Categorical(AbstractCategorical):
    """variance for equal labels, variance * correlation for different ones: a common part and a part of each
    level's own.

    correlation: between 0 (levels have nothing in common) and 1; `fixed(0.0)` is the equality kernel. levels:
    the labels that are correlated; without them all labels are. A label outside `levels` is a new level,
    independent of the others; without `levels` a new label is one more of the same kind.

    >>> SE().on("age") * Categorical(["cat", "dog"]).on("species")
    """

    levels: tuple | None = eqx.field(
        default=None, static=True, converter=lambda levels: _levels("Categorical", levels)
    )
    correlation: Hyper = hyper(0.5, unit)
    variance: Hyper = hyper(1.0, positive)

    def block(self, A: jax.Array, B: jax.Array) -> jax.Array:
        same = A[:, None] == B[None, :]
        other = self.correlation
        if self.levels is not None:
            m = len(self.levels)
            related = (m > A)[:, None] & (m > B)[None, :]
            other = jnp.where(related, other, 0.0)
        return self.variance * jnp.where(same, 1.0, other)

    def traits(self, d: int = 1) -> Traits:
        shared = "gives a new category what the others have in common"
        return Traits(beyond=shared if self.levels is None else "knows nothing of a new category")


class CategoricalCovariance(AbstractCategorical):
    """Any covariance between levels: loadings loadings' + diag(variances), of low rank where the loadings
    have few columns.

    levels: m labels. loadings: (m, k): levels with similar rows behave alike. variances: of each level's own
    part, one number or m. A label outside `levels` is a new level, independent of the others, with the
    levels' average variance.

    >>> CategoricalCovariance(["cat", "dog", "eel"], loadings=[[1.0], [0.8], [-0.5]], variances=0.1)
    """

    levels: tuple = eqx.field(static=True, converter=lambda levels: _levels("CategoricalCovariance", levels))
    loadings: Hyper = hyper(constraint=real)
    variances: Hyper = hyper(1.0, positive)

    def __check_init__(self):
        m = len(self.levels or ())
        if m == 0:
            raise ParameterError("CategoricalCovariance.levels must name the levels.")
        if np.ndim(self.loadings) != 2 or np.shape(self.loadings)[0] != m:
            shape = np.shape(self.loadings)
            raise ParameterError(
                f"CategoricalCovariance.loadings must be ({m}, k), one row for each level; got {shape}."
            )
        if np.ndim(self.variances) and np.shape(self.variances) != (m,):
            raise ParameterError(
                f"CategoricalCovariance.variances must be one number or {m}, one for each level."
            )

    def covariance(self) -> jax.Array:
        """The covariance (m, m) between the levels."""
        return self.loadings @ self.loadings.T + jnp.diag(
            jnp.broadcast_to(self.variances, (len(self.levels),))
        )

    def suggest(self, X: np.ndarray, variance: float) -> CategoricalCovariance:
        scale = math.sqrt(variance / (float(np.mean(np.diag(np.asarray(self.covariance())))) or 1.0))
        return self.with_values(loadings=self.loadings * scale, variances=self.variances * scale**2)

    def block(self, A: jax.Array, B: jax.Array) -> jax.Array:
        m, S = len(self.levels), self.covariance()
        known = [m > Z for Z in (A, B)]
        a, b = (jnp.where(k, Z, 0).astype(int) for k, Z in zip(known, (A, B), strict=True))
        related = known[0][:, None] & known[1][None, :]
        new = jnp.where(A[:, None] == B[None, :], jnp.mean(jnp.diag(S)), 0.0)
        return jnp.where(related, S[a][:, b], new)

    def traits(self, d: int = 1) -> Traits:
        return Traits(beyond="knows nothing of a new category")


def _levels(who: str, levels) -> tuple | None:
    if levels is None:
        return None
    if isinstance(levels, str):
        raise ParameterError(f"{who}.levels must be a list of labels, got the text {levels!r}.")
    plain = tuple(v.item() if isinstance(v, np.generic) else v for v in levels)
    labels = list(map(label_of, plain))
    if len(set(labels)) != len(labels):
        raise ParameterError(f"{who}.levels has a label twice: {list(plain)}.")
    return plain


def label_of(value: Any) -> tuple[str, Any]:
    """What makes labels equal: numbers by value, text by its characters, others by type and repr."""
    if isinstance(value, numbers.Real):
        return ("number", float(value))
    return ("text", value) if isinstance(value, str) else (type(value).__name__, repr(value))


def _code(label) -> int:
    """A whole number below 2^52 that depends on nothing but the label."""
    return int.from_bytes(hashlib.blake2b(repr(label).encode(), digest_size=8).digest(), "big") >> 12


def distinct_labels(column: np.ndarray) -> tuple[list, np.ndarray]:
    """Different labels of a column, and for each row which one it is."""
    seen: dict[Any, int] = {}
    rows = np.empty(len(column), dtype=int)
    for i, value in enumerate(column):
        if value is None or value != value:
            raise InputError(
                f"a category is missing in row {i} ({value!r}): fill it in, for example with a level "
                "'unknown'."
            )
        rows[i] = seen.setdefault(label_of(value), len(seen))
    return list(seen), rows
