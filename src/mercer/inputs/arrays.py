"""What people hand in, checked once: arrays, data frames (pandas, polars, pyarrow ...) or a dict of columns
-> one float64 array.

Kernels on strings, categories or other Python objects take them as they are: an object array, one column of
text or a mixed table, a list of sequences (T, d) of any lengths.
"""

from __future__ import annotations

import dataclasses
from typing import Any, TypeAlias

import jax
import numpy as np

from mercer.processes import check_fork

__all__ = [
    "Array",
    "InputError",
    "Inputs",
    "as_inputs",
    "as_table",
    "as_targets",
    "chosen",
    "is_table",
    "named_columns",
    "numeric",
]

# numbers on the host, or inside code that JAX compiles or differentiates
Array: TypeAlias = np.ndarray | jax.Array
EPOCH = np.datetime64("1970-01-01")
DAY = np.timedelta64(1, "D")


class InputError(ValueError):
    """Data that cannot be used, with what is wrong, where, and what to do."""


@dataclasses.dataclass(frozen=True, eq=False)
class Inputs:
    """Inputs: values (n, d), float64 or (for kernels on objects) object,
    and the d column names where they came with names.
    """

    values: np.ndarray
    names: tuple[str, ...] | None = None

    def at(self, rows: np.ndarray) -> Inputs:
        """Some of the rows."""
        return Inputs(self.values[rows], self.names)


@dataclasses.dataclass(frozen=True, eq=False)
class Targets:
    """Targets that were checked by `as_targets`: values (n,), float64. They are not looked at again."""

    values: np.ndarray


def as_inputs(
    X: Any, name: str = "X", columns: tuple[str, ...] | None = None, objects: bool = False
) -> Inputs:
    """X as (n, d) float64 with all entries finite; dates are days since 1970-01-01. `columns`: the names
    expected, which are taken from a frame in this order; its other columns are not read.

    `objects=True`: columns that are not numeric are kept as they are, and a list of strings (or other
    objects) is one column.
    """
    if isinstance(X, Inputs):
        return X
    check_fork()
    values, names = _table(X, name, columns, objects)
    if values.ndim != 2:
        hint = f" Use {name}.reshape(-1, 1) for a single column." if values.ndim == 1 else ""
        raise InputError(
            f"{name} must be a table with rows and columns, got an array of shape {values.shape}.{hint}"
        )
    if values.shape[1] == 0:
        raise InputError(f"{name} has no columns.")
    if values.dtype != object:
        _finite(values, name, names)
    return Inputs(values, names)


def as_table(
    X: Any, columns: tuple[str, ...] | None = None, name: str = "X"
) -> tuple[np.ndarray, tuple[str, ...] | None]:
    """X as (n, d) float64 with NaN where a value is missing, and its names; of an array (n,), one column.
    Infinity is refused.
    """
    check_fork()
    X = X[:, None] if isinstance(X, np.ndarray) and X.ndim == 1 else X
    values, names = _table(X, name, columns)
    if values.ndim != 2:
        raise InputError(f"{name} must be a table with rows and columns, got shape {values.shape}.")
    if np.isinf(values).any():
        row, column = (int(i) for i in np.argwhere(np.isinf(values))[0])
        raise InputError(
            f"{name} contains infinity in row {row}, column {names[column] if names else column}."
        )
    return values, names


def numeric(X: np.ndarray, name: str = "X") -> np.ndarray:
    """Columns of an object array that a numeric kernel reads, as float64;
    a float array is returned as it is.
    """
    if X.dtype != object:
        return X
    values = _float(X, name)
    _finite(values, name, None)
    return values


def as_targets(y: Any, n: int, name: str = "y") -> np.ndarray:
    """y as (n,) float64 with all entries finite; a single column is taken as a vector."""
    if isinstance(y, Targets) and y.values.shape == (n,):
        return y.values
    if not isinstance(y, np.ndarray) and hasattr(y, "to_numpy"):
        y = y.to_numpy()
    array = _array(y, name)
    if array.dtype.kind in "mM":
        raise InputError(f"{name} holds dates: convert them to a number first, for example days.")
    labels = ", or give labels to GPClassifier" if name == "y" else ""
    array = _float(array, name, f"encode it as numbers{labels}.")
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise InputError(f"{name} must be one column of numbers, got shape {array.shape}.")
    if array.shape[0] != n:
        raise InputError(f"{name} has {array.shape[0]} entries but there are {n} rows of inputs.")
    _finite(array, name)
    return array


def is_table(X: Any) -> bool:
    """Whether X is a dict of columns or a data frame: columns with names."""
    from narwhals.stable.v2.dependencies import is_into_dataframe

    return isinstance(X, dict) or is_into_dataframe(X)


def named_columns(X: Any, name: str = "X") -> dict[str, Any]:
    """The columns of a dict or a frame by name, as they are."""
    if isinstance(X, dict):
        return dict(zip(_unique(X, name), X.values(), strict=True))
    import narwhals.stable.v2 as nw

    names = _unique(getattr(X, "column_names", getattr(X, "columns", ())), name)
    try:
        frame = nw.from_native(X, eager_only=True)
    except TypeError:
        raise InputError(f"{name} must be an array or a data frame, got {type(X).__name__}.") from None
    return {key: column.to_native() for key, column in zip(names, frame.iter_columns(), strict=True)}


def chosen(given: dict[str, Any], columns: tuple[str, ...], name: str = "X") -> dict[str, Any]:
    """The columns of these names, in this order; an error names those that are not there."""
    missing = [column for column in columns if column not in given]
    if missing:
        what = f"the column{'s' if len(missing) > 1 else ''} {', '.join(map(repr, missing))}"
        raise InputError(
            f"{name} lacks {what} that the model was fitted with; it has {', '.join(map(repr, given))}."
        )
    return {column: given[column] for column in columns}


def _table(
    X: Any, name: str, columns: tuple[str, ...] | None = None, objects: bool = False
) -> tuple[np.ndarray, tuple[str, ...] | None]:
    if objects and isinstance(X, (list, tuple)) and len(X) == 0:
        raise InputError(f"{name} is empty: give at least one row.")
    if objects and _objects(X):
        column = np.empty((len(X), 1), dtype=object)
        for i, x in enumerate(X):
            column[i, 0] = x
        return column, None
    if objects and isinstance(X, np.ndarray) and X.dtype.kind in "OUS":
        return (X[:, None] if X.ndim == 1 else X).astype(object), None
    if isinstance(X, (np.ndarray, list, tuple)) or type(X).__module__.startswith("jax"):
        return _float(_array(X, name), name), None
    if hasattr(X, "__array__") and not hasattr(X, "columns") and not hasattr(X, "column_names"):
        return _float(np.asarray(X), name), None
    given = named_columns(X, name)
    given = given if columns is None else chosen(given, columns, name)
    arrays = [_column(values, f"column {key!r} of {name}") for key, values in given.items()]
    return _stack(arrays, tuple(given), name, objects), tuple(given)


def _column(values: Any, where: str) -> np.ndarray:
    """A column of a frame or a dict as it is."""
    import narwhals.stable.v2 as nw
    from narwhals.stable.v2.dependencies import is_into_series

    if is_into_series(values):
        return nw.from_native(values, series_only=True).to_numpy()
    return _array(values, where)


def _objects(X: Any) -> bool:
    """Whether X is one column of objects: anything but numbers and rows of equal length.
    A list of arrays is one of sequences.
    """
    if isinstance(X, np.ndarray):
        return X.ndim == 3
    if not isinstance(X, (list, tuple)):
        return False
    if not all(isinstance(x, (int, float, np.ndarray, list)) for x in X):
        return True
    if any(isinstance(x, np.ndarray) and x.ndim > 0 and x.dtype != object for x in X):
        return True
    return len({len(x) if isinstance(x, list) else -1 for x in X}) > 1


def _stack(arrays: list[np.ndarray], names: tuple[str, ...], name: str, objects: bool) -> np.ndarray:
    n = arrays[0].shape[0] if arrays and arrays[0].ndim else 0
    for array, column in zip(arrays, names, strict=True):
        if array.ndim != 1:
            raise InputError(
                f"column {column!r} of {name} must be one column of numbers, got shape {array.shape}."
            )
        if array.shape[0] != n:
            raise InputError(
                f"column {column!r} of {name} has {array.shape[0]} entries but column {names[0]!r} has {n}."
            )
    if objects and any(a.dtype.kind not in "biufmM" for a in arrays):
        mixed = np.empty((n, len(arrays)), dtype=object)
        for j, array in enumerate(arrays):
            mixed[:, j] = _float(array, names[j]) if array.dtype.kind in "mM" else array
        return mixed
    out = np.empty((n, len(arrays)))
    for j, array in enumerate(arrays):
        out[:, j] = _float(array, f"column {names[j]!r} of {name}")
    return out


def _unique(names: Any, name: str) -> tuple[str, ...]:
    out = tuple(map(str, names))
    if len(set(out)) != len(out):
        raise InputError(
            f"{name} has duplicated columns {sorted({n for n in out if out.count(n) > 1})}: rename or drop "
            "them."
        )
    return out


def _array(X: Any, name: str) -> np.ndarray:
    try:
        return np.asarray(X)
    except ValueError:
        raise InputError(f"{name} has rows of different lengths.") from None


TEXT = (
    "encode it as numbers or leave it out, read it by a kernel such as kernels.Categorical().on(...), or "
    "give no kernel: without one, GPRegressor and GPClassifier take text and categories as they are."
)


def _float(array: np.ndarray, name: str, remedy: str = TEXT) -> np.ndarray:
    if np.iscomplexobj(array):
        raise InputError(f"{name} is complex: Complex data not supported.")
    if array.dtype.kind in "mM":
        array = (array - EPOCH if array.dtype.kind == "M" else array) / DAY
    try:
        return np.asarray(array, dtype=np.float64, order="C")
    except (TypeError, ValueError):
        example = next((v for v in array.ravel().tolist() if not _is_number(v)), None)
        if isinstance(example, dict | list | set | tuple):
            raise TypeError(
                f"{name}: the argument must be a string or a number, found {example!r}."
            ) from None
        raise InputError(f"{name} is not numeric (found {example!r}): {remedy}") from None


def _is_number(v) -> bool:
    try:
        float(v)
    except (TypeError, ValueError):
        return False
    return True


def _finite(values: np.ndarray, name: str, names: tuple[str, ...] | None = None) -> None:
    """Refuses NaN and infinity; the error names the first: its row and, in a table, its column."""
    if np.isfinite(values).all():
        return
    bad = ~np.isfinite(values)
    nan, many = np.isnan(values[bad]), int(bad.sum())
    what = "NaN" if nan.all() else "NaN and infinity" if nan.any() else "infinity"
    row, *column = (int(i) for i in np.argwhere(bad)[0])
    where = f"row {row}" + "".join(f", column {names[j]!r}" if names else f", column {j}" for j in column)
    places = f"in {where}" if many == 1 else f"in {many} places, the first in {where}"
    advice = (
        "; or give no kernel: without one, GPRegressor and GPClassifier take empty cells as they are"
        if column and nan.any()
        else ""
    )
    them = "it" if many == 1 else "them"
    raise InputError(f"{name} contains {what} {places}. Remove or impute {them} first{advice}.")
