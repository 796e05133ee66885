"""The face of linear observations: what people write down of a function, added up."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mercer.inputs import InputError, Inputs, as_inputs, as_targets
from mercer.observe import rows as layout
from mercer.registry import unknown

__all__ = ["Observations", "derivatives", "integrals", "signs", "values"]

ORDINALS = {1: "", 2: "second ", 3: "third "}


@dataclasses.dataclass(frozen=True, eq=False)
class Observations:
    """Linear observations of a function of d columns; `+` puts them together. Made by `values`,
    `derivatives`, `integrals` and `signs`. Without y they are places to predict at.

    rows: (n, ...), what each row is of (see `mercer.observe.rows`)
    columns: d
    names: of the columns, where they have names
    y: (n,), what was observed, or None
    error: (n,), known standard deviation of its error, in the units of y
    sign: (n,), whether y is only the sign, +1 or -1, of what was observed

    >>> data = values(X, y) + derivatives(X2, dy, column="time", y_error=0.1)
    >>> len(data), data.kinds
    """

    rows: np.ndarray
    columns: int
    names: tuple[str, ...] | None
    y: np.ndarray | None
    error: np.ndarray
    sign: np.ndarray

    def __len__(self) -> int:
        return len(self.rows)

    def __add__(self, other: Observations) -> Observations:
        if not isinstance(other, Observations):
            return NotImplemented
        if self.columns != other.columns:
            raise InputError(
                f"observations of {self.columns} and of {other.columns} columns are not of one function."
            )
        if self.names != other.names and None not in (self.names, other.names):
            raise InputError(f"observations of the columns {self.names} and {other.names} differ in names.")
        if (self.y is None) != (other.y is None):
            raise InputError("some of these observations have no y: places to predict at are kept apart.")
        y = None if self.y is None or other.y is None else np.concatenate([self.y, other.y])
        room = max(layout.order_of(part.rows.shape[1], self.columns) for part in (self, other))
        return Observations(
            np.concatenate([layout.padded(part.rows, self.columns, room) for part in (self, other)]),
            self.columns,
            self.names or other.names,
            y,
            np.concatenate([self.error, other.error]),
            np.concatenate([self.sign, other.sign]),
        )

    @property
    def kind(self) -> np.ndarray:
        """What each row is, as a number (n,); rows of one number share a unit, and a noise."""
        return self.rows[:, 2 * self.columns + 1].astype(int)

    @property
    def kinds(self) -> dict[int, str]:
        """The kinds that there are, and what they are called."""
        return {int(code): self._called(int(code)) for code in np.unique(self.kind)}

    @property
    def orders(self) -> np.ndarray:
        """How many times each row is differentiated (n,)."""
        d = self.columns
        factors = self.rows[:, 2 * d + 2 :].reshape(len(self.rows), -1, 1 + d)
        return np.any(factors[:, :, 1:] != 0.0, 2).sum(1)

    @property
    def points(self) -> np.ndarray:
        """Where each row is (n, d): of an integral the lower corner of its box."""
        return self.rows[:, : self.columns]

    def _called(self, code: int) -> str:
        if code in (layout.VALUE, layout.INTEGRAL):
            return "values" if code == layout.VALUE else "integrals"
        column, order = divmod(code, layout.COLUMN)
        where = (
            "along a direction"
            if not column
            else f"in {self.names[column - 1]}"
            if self.names
            else (f"in column {column - 1}")
        )
        return f"{ORDINALS.get(order, f'{order}th ')}derivatives {where}"


def values(X: Any, y: ArrayLike | None = None, y_error: ArrayLike | None = None) -> Observations:
    """f at X (n, d), observed as y (n,).

    y_error: known standard deviation of the error of y, beside the noise of the model: one number or (n,)

    >>> values(X, y) + values(X2, y2, y_error=0.5)
    """
    inputs = as_inputs(X)
    along = np.zeros((len(inputs.values), 0, inputs.values.shape[1]))
    return _observations(inputs, None, 1.0, layout.VALUE, along, y, y_error)


def derivatives(
    X: Any,
    dy: ArrayLike | None = None,
    *,
    column: int | str | Sequence[int | str] | None = None,
    direction: ArrayLike | None = None,
    order: int = 1,
    y_error: ArrayLike | None = None,
) -> Observations:
    """A derivative of f at X (n, d), observed as dy (n,), in units of f over those of the columns.

    column: the column that f is differentiated in, by position or name; several for a mixed derivative, such
        as column=(0, 1) for d2f / dx0 dx1
    direction: instead of a column, v (d,) or (n, d): v . grad f, with v as long as it is given
    order: how many times; with several columns it is their number
    y_error: as in `values`

    >>> derivatives(X, dy, column="time")
    >>> derivatives(X, column=0, order=2)                     # places to predict a second derivative at
    """
    inputs = as_inputs(X)
    along, kind = _along(inputs, column, direction, order)
    return _observations(inputs, None, 1.0, kind, along, dy, y_error)


def integrals(
    lower: Any, upper: Any, z: ArrayLike | None = None, y_error: ArrayLike | None = None
) -> Observations:
    """The integral of f over the box from lower (n, d) to upper (n, d), observed as z (n,), in units of f
    times those of the columns. A column in which both are equal is not integrated over, but held there; an
    average over the box is the integral divided by its volume.

    y_error: as in `values`; of the integral

    SE kernels, their sums, and products of kernels on different columns are integrated in closed form;
    others by 24 Gauss-Legendre nodes in one column, 10 x 10 in two, 6 x 6 x 6 in three.

    >>> integrals(start, end, rainfall)                       # days (n, 1): totals between two times
    """
    low = as_inputs(lower, "lower")
    high = as_inputs(upper, "upper", low.names)
    if low.values.shape != high.values.shape:
        raise InputError(
            f"lower has shape {low.values.shape} and upper {high.values.shape}: two corners of each box."
        )
    width = high.values - low.values
    if (width < 0).any():
        row, column = (int(i) for i in np.argwhere(width < 0)[0])
        raise InputError(f"lower is above upper in row {row}, column {column}: a box has none of these.")
    if (flat := ~width.any(1)).any():
        row = int(np.argmax(flat))
        raise InputError(f"the box of row {row} has no width in any column: use mercer.observe.values.")
    volume = np.prod(np.where(width > 0, width, 1.0), 1)
    along = np.zeros((len(width), 0, width.shape[1]))
    return _observations(low, width, volume, layout.INTEGRAL, along, z, y_error)


def signs(
    X: Any,
    sign: ArrayLike = 1,
    *,
    column: int | str | Sequence[int | str] | None = None,
    direction: ArrayLike | None = None,
    order: int = 1,
    y_error: ArrayLike | None = None,
) -> Observations:
    """That a derivative of f at X (n, d) is positive (+1) or negative (-1): one sign, or (n,). With order=2 f
    is convex (+1) or concave (-1) there.

    column, direction, order: as in `derivatives`
    y_error: s in P(sign) = Phi(sign f' / s), in the units of the derivative; None is the step: sure

    >>> data = values(X, y) + signs(grid, +1, column="dose")
    >>> mercer.GP(kernels.SE()).condition(data, noise_variance=0.1)
    """
    inputs = as_inputs(X)
    n = len(inputs.values)
    given = np.asarray(sign)
    if given.shape not in ((), (n,)) or not np.isin(given, (-1, 1)).all():
        raise InputError(f"sign must be +1 or -1, or (n,) of them for {n} rows, got {sign!r}.")
    along, kind = _along(inputs, column, direction, order)
    y = np.broadcast_to(given, n).astype(float)
    made = _observations(inputs, None, 1.0, kind, along, y, y_error)
    return dataclasses.replace(made, sign=np.ones(n, bool))


def _observations(
    inputs: Inputs,
    width: np.ndarray | None,
    weight: np.ndarray | float,
    kind: int,
    along: np.ndarray,
    y: Any,
    y_error: Any,
) -> Observations:
    x = inputs.values
    n, d = x.shape
    rows = layout.make(
        x, np.zeros((n, d)) if width is None else width, np.broadcast_to(weight, n), kind, along
    )
    error = np.zeros(()) if y_error is None else np.asarray(y_error, float)
    if error.shape not in ((), (n,)) or not (np.isfinite(error) & (error >= 0)).all():
        raise InputError(f"y_error must be one number, or one for each of {n} rows, and not negative.")
    targets = None if y is None else as_targets(y, n)
    return Observations(rows, d, inputs.names, targets, np.broadcast_to(error, n), np.zeros(n, bool))


def _along(inputs: Inputs, column: Any, direction: Any, order: int) -> tuple[np.ndarray, int]:
    """The directions (n, M, d) of a derivative, and its kind."""
    n, d = inputs.values.shape
    if (column is None) == (direction is None):
        if column is None and d == 1:
            column = 0
        else:
            raise InputError("a derivative is in a column or along a direction: give column= or direction=.")
    if isinstance(order, bool) or not isinstance(order, int | np.integer) or not 1 <= order < layout.COLUMN:
        raise InputError(f"order must be a whole number of at least 1, got {order!r}.")
    if direction is not None:
        v = np.asarray(direction, float)
        if v.shape not in ((d,), (n, d)) or not np.isfinite(v).all() or not np.any(v, -1).all():
            raise InputError(f"direction must be ({d},) or ({n}, {d}), finite and not zero, got {v.shape}.")
        return np.repeat(np.broadcast_to(v, (n, d))[:, None], order, 1), int(order)
    if isinstance(column, int | str | np.integer):
        at = [position(column, d, inputs.names)] * order
    else:
        at = [position(each, d, inputs.names) for each in column]
        if not at or order not in (1, len(at)):
            raise InputError(f"order={order} does not go with the columns {tuple(column)}: leave it out.")
    along = np.broadcast_to(np.eye(d)[at], (n, len(at), d))
    return along, len(at) + (layout.COLUMN * (at[0] + 1) if len(set(at)) == 1 else 0)


def position(column: int | str | np.integer, d: int, names: tuple[str, ...] | None) -> int:
    """Of a column, given by position or name; an error where there is none."""
    if isinstance(column, str):
        if names is None:
            raise InputError(
                f"there is no column {column!r}: X has no names, give a position from 0 to {d - 1}."
            )
        if column not in names:
            raise InputError(unknown("column", column, names))
        return names.index(column)
    if isinstance(column, bool) or not -d <= column < d:
        raise InputError(f"there is no column {column!r}: X has the columns 0 to {d - 1}.")
    return int(column) % d
