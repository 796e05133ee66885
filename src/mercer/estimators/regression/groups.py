"""Columns whose groups have an offset, or a function, of their own: random effects.

The default kernel is that of the other columns, which all groups have in common. An offset of each group adds
variance * [g = g'], a function of each group [g = g'] * k(x, x'), with k the default kernel of the other
columns once more. In indicator columns [g = g'] is a linear kernel.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from mercer.columns import Category, Columns
from mercer.estimators import defaults
from mercer.kernels import AbstractKernel, Linear, Scale, Sum
from mercer.params import fixed, param
from mercer.posteriors import AbstractPosterior
from mercer.registry import unknown

KINDS = ("offset", "function")
SHARE = 0.2  # of the variance of y: where that of groups starts


@dataclasses.dataclass(frozen=True, eq=False)
class GroupEffects:
    """What the groups of one column add to the function that they have in common.

    name: the column
    labels: what its groups are called (G)
    mean, std: of the offset of each, (G,), in units of y
    rows: how many training rows each has (G,)
    variance: of the offsets, learned

    >>> print(model.group_effects()["school"])
    """

    name: str
    labels: tuple[str, ...]
    mean: np.ndarray
    std: np.ndarray
    rows: np.ndarray
    variance: float

    def __str__(self) -> str:
        from mercer.tables import text_table

        rows = [
            [label, f"{m:.4g}", f"{s:.2g}", str(n)]
            for label, m, s, n in zip(self.labels, self.mean, self.std, self.rows, strict=True)
        ]
        lines = text_table([self.name, "offset", "std", "rows"], rows)
        return "\n".join([*lines, f"variance of the offsets: {self.variance:.4g}"])


def kinds_of(groups: Any) -> dict[Any, str]:
    """{column: "offset" or "function"}, as people give it: one column is an offset."""
    if groups is None:
        return {}
    found = dict(groups) if isinstance(groups, Mapping) else {groups: KINDS[0]}
    for column, kind in found.items():
        if isinstance(column, bool) or not isinstance(column, str | int | np.integer):
            raise TypeError(f"groups names columns, or gives their positions, got {column!r}.")
        if kind not in KINDS:
            raise ValueError(unknown("kind of groups", kind, KINDS))
    return found


def default_kernel(X: np.ndarray, scale: float, columns: Columns | None, groups: Any) -> AbstractKernel:
    """The default kernel of encoded columns X (n, d), with what groups have of their own."""
    if not (kinds := kinds_of(groups)):
        return defaults.default_kernel(X, scale, columns=columns)
    assert columns is not None
    grouping = {columns.name_of(column): kind for column, kind in kinds.items()}
    others = Columns(tuple(c for c in columns.columns if c.name not in grouping and c.width), columns.named)
    where = [j for c in others.columns for j in columns.groups[c.name]]
    prior = defaults.variance_prior(scale)

    def common() -> AbstractKernel:
        return defaults.default_kernel(X[:, where], scale, columns=others).on(*where)

    terms = [common()] if where else []
    for name, kind in grouping.items():
        same = Linear(fixed(2.0)).on(*columns.groups[name])  # indicators are 0 and sqrt 1/2
        if kind == "function" and not where:
            raise ValueError(f"groups: {name!r} is the only column, so there is nothing to be a function of.")
        terms.append(
            same * common() if kind == "function" else Scale(param(SHARE * scale**2, prior=prior), same)
        )
    return terms[0] if len(terms) == 1 else Sum(tuple(terms))


def effects(posterior: AbstractPosterior, columns: Columns, groups: Any) -> dict[str, GroupEffects]:
    """The offsets of groups, by column."""
    kernel: Any = posterior.model.kernels[0]
    terms: tuple[Any, ...] = kernel.terms if isinstance(kernel, Sum) else (kernel,)
    first = len(terms) - len(kinds_of(groups))
    found, X = {}, posterior.inputs.values
    for i, (column, kind) in enumerate(kinds_of(groups).items(), first):
        if kind != "offset":
            continue
        name = columns.name_of(column)
        where = list(columns.groups[name])
        labels = _labels(columns, name)
        rows = np.tile(X[0], (len(labels), 1))
        rows[:, where] = np.sqrt(0.5) * np.eye(len(labels), len(where))
        part = posterior.components(rows)[i]
        counts = (X[:, where] > 0).sum(0)[: len(labels)]
        found[name] = GroupEffects(name, labels, part.mean, part.std, counts, float(terms[i].variance))
    return found


def _labels(columns: Columns, name: str) -> tuple[str, ...]:
    (column,) = (c for c in columns.columns if c.name == name)
    assert isinstance(column, Category)
    return tuple("(empty)" if level is None else level for level in column.levels)
