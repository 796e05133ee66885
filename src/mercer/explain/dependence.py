"""How a column matters: the prediction along it, averaged over the other columns as they are in the data."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np

from mercer.explain.function import AbstractFitted
from mercer.explain.shares import Groups, as_function, checked_groups, importance
from mercer.inputs import Inputs
from mercer.progress import tell

POINTS, SIDE = 24, 14  # values of a column along one axis, and along each of two
LEVELS = 12  # a column with at most so many different values is shown at each of them
ROWS = 8, 512  # fewest and most rows that are averaged over
CURVE = 1e9  # covariances times columns that averages of one effect may take
BAND = 1e10  # operations that variances may take
JOINT = 64  # most rows of probabilities, and of one band

Column = str | tuple[str, str]
"""One column, or a pair of them."""


@dataclasses.dataclass(frozen=True, eq=False)
class Axis:
    """Values of a column: `at` (V,), numbers or labels; `discrete`: only these occur, or they have no order;
    `data`: what the training rows have, of a column of numbers.
    """

    name: str
    at: np.ndarray
    discrete: bool
    data: np.ndarray | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class Effect:
    """The prediction along one column, or two, averaged over what the other columns are in the data (partial
    dependence). Made by `model.effects()` or `explain.effects`.

    axes: the column, or the two, with the values at which the average is taken
    mean (V, q), or (V1, V2, q): q = 1, or one for each of the `labels` of classes
    lower, upper: the interval of probability `level` of the averaged function, from the joint posterior of f
    at
        all rows that are averaged over; None for two columns, and where there are no joint draws
    what, rows: what is predicted, and how many rows were averaged over

    >>> found = model.effects()[0]; found.axes[0].at, found.mean[:, 0], found.lower, found.upper
    """

    axes: tuple[Axis, ...]
    mean: np.ndarray
    lower: np.ndarray | None
    upper: np.ndarray | None
    labels: tuple[str, ...]
    what: str
    level: float
    rows: int

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the column, or the two."""
        return tuple(axis.name for axis in self.axes)

    def to_frame(self) -> Any:
        """One row for each value (or pair of values), and class; a dict of arrays without pandas."""
        where = np.meshgrid(*(axis.at for axis in self.axes), indexing="ij")
        q = self.mean.shape[-1]
        table: dict[str, np.ndarray] = {
            axis.name: np.repeat(at.ravel(), q) for axis, at in zip(self.axes, where, strict=True)
        }
        if self.labels:
            table["class"] = np.tile(np.array(self.labels, dtype=object), self.mean.size // q)
        table["mean"] = self.mean.ravel()
        if self.lower is not None and self.upper is not None:
            table |= {"lower": self.lower.ravel(), "upper": self.upper.ravel()}
        try:
            import pandas as pd
        except ImportError:
            return table
        return pd.DataFrame(table)


def effects(
    model: Any,
    columns: Sequence[Column] | None = None,
    groups: Groups | None = None,
    most: int = 6,
    level: float = 0.95,
    seed: int = 0,
) -> tuple[Effect, ...]:
    """How columns matter to what a posterior, a fit or a fitted estimator predicts.

    For each of `columns` (a name, or a pair of names; default: the `most` important ones) the prediction
    where that column has one value in all rows, averaged over rows of the training data: up to 512 of them
    chosen at random (64 for classes and counts), fewer where there are many data. The interval is that of the
    averaged function.

    groups: the positions of the inputs that belong together, by name; default: each column for itself

    >>> explain.effects(post)[0].mean
    """
    function = as_function(model)
    if not 0 < level < 1:
        raise ValueError(f"level must lie strictly between 0 and 1, got {level}.")
    groups = checked_groups(groups, function.inputs)
    if columns is None:
        columns = importance(function, groups, permutation=False, draws=0, seed=seed).names[:most]
    pairs = [(column,) if isinstance(column, str) else tuple(column) for column in columns]
    unknown = [name for pair in pairs for name in pair if name not in groups]
    if unknown or any(len(set(pair)) not in (1, 2) for pair in pairs):
        raise ValueError(f"columns are names, or pairs of two of them, among {list(groups)}; got {columns}.")
    found = []
    for done, pair in enumerate(pairs, 1):
        found.append(_effect(function, {name: groups[name] for name in pair}, level, seed))
        tell(done, len(pairs), "columns")
    return tuple(found)


def _effect(function: AbstractFitted, groups: Mapping[str, Sequence[int]], level: float, seed: int) -> Effect:
    inputs = function.inputs
    n, d = inputs.values.shape
    both = [
        _axis(name, list(group), inputs, POINTS if len(groups) == 1 else SIDE)
        for name, group in groups.items()
    ]
    axes, settings = [axis for axis, _ in both], [values for _, values in both]
    shape = tuple(len(values) for values in settings)
    cells = int(np.prod(shape))
    few = int(np.clip(BAND / (n * n * cells), ROWS[0], JOINT))
    # probabilities and rates need variances
    count = int(np.clip(CURVE / (n * max(d, 4) * cells), *ROWS)) if function.is_latent else few
    rows = inputs.values[np.random.default_rng(seed).permutation(n)[: min(n, count)]]
    mean = function.expected(_set(rows, groups, settings)).reshape(*shape, len(rows), -1).mean(-2)
    lower = upper = None
    if len(groups) == 1 and function.why_no_draws is None:
        joint = rows[:few]
        blocks = _set(joint, groups, settings).reshape(cells, len(joint), d)
        lower, upper = mean + np.stack([function.around(block, level, seed) for block in blocks], 1)
        if function.labels:
            lower, upper = np.maximum(lower, 0.0), np.minimum(upper, 1.0)
    return Effect(tuple(axes), mean, lower, upper, function.labels, function.what, level, len(rows))


def _set(rows: np.ndarray, groups: Mapping[str, Sequence[int]], settings: list[np.ndarray]) -> np.ndarray:
    """The rows, one block for each setting of the chosen columns after the other."""
    shape = [len(values) for values in settings]
    out = np.repeat(rows[None], int(np.prod(shape)), 0)
    which = np.indices(shape).reshape(len(shape), -1)
    for group, values, i in zip(groups.values(), settings, which, strict=True):
        out[:, :, list(group)] = values[i][:, None]
    return out.reshape(-1, rows.shape[1])


def _axis(name: str, group: list[int], inputs: Inputs, points: int) -> tuple[Axis, np.ndarray]:
    """The values along a column and the inputs (V, width) that they stand for.

    One column of numbers: evenly between its first and last hundredth. Few different values, categories and
    objects: each of them, the most frequent ones of many. Several columns of numbers that are one (a date and
    its seasons, a number and where it is missing): rows at quantiles of the first.
    """
    block = _as_numbers(inputs.values[:, group])
    names = [f"{name}=" for _ in group] if inputs.names is None else [inputs.names[j] for j in group]
    levels = inputs.names is not None and len(group) > 1 and all(one.startswith(f"{name}=") for one in names)
    rows, counts = _distinct(block)
    if levels or block.dtype == object or len(rows) <= LEVELS:
        kept = np.sort(np.argsort(-counts, kind="stable")[:LEVELS])
        rows = rows[kept]
        if levels:
            at: Any = [names[j].removeprefix(f"{name}=") for j in np.argmax(rows, 1)]
        else:
            at = [_label(name, names, row) for row in rows]
        numbers = not levels and block.dtype != object and not any(isinstance(label, str) for label in at)
        labels = np.array(at, float) if numbers else np.array([str(label) for label in at], dtype=object)
        return Axis(name, labels, True, block[:, 0].astype(float) if numbers else None), rows
    data = block[:, 0].astype(float)
    if len(group) == 1:
        low, high = np.quantile(data, [0.01, 0.99])
        at = np.linspace(low, high, points)
        return Axis(name, at, False, data), at[:, None]
    flags = [j for j in range(1, len(group)) if np.unique(block[:, j]).size <= 2]  # of empty cells
    block = block[~block[:, flags].any(1)]
    order = np.argsort(block[:, 0], kind="stable")
    rows = block[order[np.linspace(0, len(block) - 1, points).astype(int)]]
    return Axis(name, rows[:, 0].astype(float), False, data), rows


def _label(name: str, names: list[str], row: np.ndarray) -> Any:
    """What a row of the inputs of a column is called: its number, or that it is empty; of several columns all
    of them.
    """
    if len(row) == 1:
        return row[0]
    if all(one == name or one.startswith((f"{name} ", f"{name}, ")) for one in names):
        return "empty" if row[[one == f"{name} empty" for one in names]].any() else row[0]
    return f"({', '.join(f'{v:.4g}' if isinstance(v, Real) else str(v) for v in row.tolist())})"


def _as_numbers(block: np.ndarray) -> np.ndarray:
    """Columns of a table of objects that are numbers, as such."""
    if block.dtype == object and all(isinstance(value, Real) for value in block.ravel().tolist()):
        return block.astype(float)
    return block


def _distinct(block: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The different rows in ascending order (of text, if they are objects), and how often they come."""
    if block.dtype != object:
        rows, counts = np.unique(block, axis=0, return_counts=True)
        return rows, counts
    keys = [tuple(map(str, row)) for row in block]
    different = sorted(set(keys))
    first = {key: i for i, key in reversed(list(enumerate(keys)))}
    return block[[first[key] for key in different]], np.array([keys.count(key) for key in different])
