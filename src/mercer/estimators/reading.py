"""Tables as people hand them to an estimator, in `fit` and after it: scikit-learn's checks of shapes and
names, and the columns as the model reads them.

Without a kernel the columns are learned (`Columns.learn`): numbers, categories, dates, empty cells. A kernel
that is given reads them as they are: numbers, booleans and dates as numbers; text and other objects where it
says so.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from narwhals.dependencies import is_polars_lazyframe
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.validation import validate_data

from mercer.columns import Columns, ColumnWarning, as_table
from mercer.inputs import InputError, Inputs, as_inputs, is_table, named_columns
from mercer.kernels import AbstractKernel
from mercer.processes import check_fork

if TYPE_CHECKING:
    from mercer.estimators.base import AbstractEstimator


def training_data(
    estimator: AbstractEstimator, X: Any, y: Any, kernels: Sequence[AbstractKernel | None]
) -> tuple[Inputs, np.ndarray]:
    """Inputs and targets, checked; sets `columns_`, `n_features_in_`, `feature_names_in_`, `target_name_`."""
    check_fork()
    if y is None:
        raise ValueError(f"{type(estimator).__name__} requires y to be passed, but the target y is None.")
    estimator.target_name_ = _name(y)
    y = _one_column(y)
    given = [kernel for kernel in kernels if kernel is not None]
    objects = any(kernel.reads_objects() for kernel in given)
    named = is_table(X)
    if named and not isinstance(X, dict):
        named_columns(X)  # says which names stand there twice
        validate_data(estimator, X, skip_check_array=True)
        named = "feature_names_in_" in vars(estimator)  # numbers are no names
    elif not named and not objects:
        plain: Any = _plain(X)
        X, y = validate_data(
            estimator,
            plain,
            y,
            dtype=_dtype(plain),
            y_numeric=estimator.numeric_targets,
            ensure_all_finite=False,
        )
    if given:
        inputs = as_inputs(X, objects=objects)
        columns = Columns.raw(inputs.names if named else None, inputs.values.shape[1], objects)
    else:
        table = as_table(X)
        _some_rows(table.rows)
        columns = Columns.learn(table, estimator.missing, named, estimator._grouping)
        inputs = columns.encode(table).inputs
    _some_rows(inputs.values.shape[0])
    y = estimator._targets(y, inputs.values.shape[0])
    name_features(estimator, columns)
    return inputs, y


def new_inputs(estimator: AbstractEstimator, X: Any) -> np.ndarray:
    """X (m, d) as the fitted model reads it. What is new in its columns is warned of."""
    check_fork()
    columns = estimator.columns_
    assert columns is not None
    if not is_table(X):
        if not columns.objects:
            plain: Any = _plain(X)
            X = validate_data(estimator, plain, reset=False, dtype=_dtype(plain), ensure_all_finite=False)
    elif not columns.named and not columns.objects:
        if isinstance(X, dict):
            raise InputError(
                "the model was fitted without column names: predict from an array, not from named columns."
            )
        validate_data(estimator, X, reset=False, skip_check_array=True)
    encoded = columns.encode(X)
    _some_rows(encoded.inputs.values.shape[0])
    for note in encoded.notes:
        warnings.warn(note, ColumnWarning, stacklevel=4)
    return encoded.inputs.values


def name_features(estimator: AbstractEstimator, columns: Columns) -> None:
    """Set what scikit-learn and people ask of the columns."""
    estimator.columns_, estimator.n_features_in_ = columns, len(columns.columns)
    if columns.named:
        estimator.feature_names_in_ = np.array(columns.names, dtype=object)
    elif "feature_names_in_" in vars(estimator):
        del estimator.feature_names_in_


def several_outputs(Y: Any) -> dict[str, np.ndarray] | None:
    """The columns of a table of targets, by name, NaN where a cell is empty; None where there is but one."""
    if is_table(Y):
        columns = {name: one_output(column, name) for name, column in named_columns(Y, "y").items()}
        return columns if len(columns) > 1 else None
    if isinstance(Y, list | tuple) and not (Y and np.ndim(Y[0]) == 1):
        return None
    array = np.asarray(Y) if isinstance(Y, np.ndarray | list | tuple) else np.zeros(0)
    if array.ndim != 2 or array.shape[1] < 2:
        return None
    return {f"y{j}": one_output(column, f"y{j}") for j, column in enumerate(array.T)}


def one_output(column: Any, name: str) -> np.ndarray:
    """The values of an output, NaN where a cell is empty."""
    try:
        values = np.asarray(column, dtype=float).copy()
    except (TypeError, ValueError):
        raise InputError(f"output {name!r} is not numeric.") from None
    if np.isinf(values).any():
        raise InputError(f"output {name!r} contains infinity in row {int(np.argmax(np.isinf(values)))}.")
    if np.isnan(values).all():
        raise InputError(f"all cells of output {name!r} are empty: leave it out.")
    return values


def _one_column(y: Any) -> Any:
    """Targets (n,): one column is taken for them, as in scikit-learn with a warning."""
    try:
        array = np.asarray(y)
    except ValueError:
        return y  # of different lengths: an error further down says so
    if array.ndim != 2:
        return y
    if array.shape[1] != 1:
        raise InputError(
            f"y has {array.shape[1]} columns, and one is learned at a time: y should be a 1d array. Fit a "
            "model to each, as sklearn.multioutput.MultiOutputRegressor (or MultiOutputClassifier) does."
        )
    warnings.warn(
        "A column-vector y was passed when a 1d array was expected: y.ravel() is one.",
        DataConversionWarning,
        stacklevel=4,
    )
    return array[:, 0]


def _name(y: Any) -> str | None:
    """What a series of targets is called."""
    name = getattr(y, "name", None)
    return name if isinstance(name, str) and name else None


def _some_rows(n: int) -> None:
    if n == 0:
        raise InputError("X has no rows.")


def _plain(X: Any) -> Any:
    """Rows of text and numbers as an array of objects, in which numbers stay numbers; else X as it is."""
    if isinstance(X, np.ndarray):
        return X.astype(object) if X.dtype.kind in "US" else X
    if is_polars_lazyframe(X):
        raise InputError("X is a lazy frame, which has no rows yet: collect it first, X.collect().")
    if not isinstance(X, list | tuple):
        return X
    if X and all(isinstance(row, dict) for row in X):
        raise InputError("X is a list of dicts: make a frame of it, pandas.DataFrame(X).")
    try:
        return np.array(X, dtype=object) if np.asarray(X).dtype.kind in "US" else X
    except ValueError:
        return X  # rows of different lengths: scikit-learn says so


def _dtype(X: Any) -> Any:
    """What scikit-learn is to make of an array: nothing, where it holds objects or dates."""
    return None if isinstance(X, np.ndarray) and X.dtype.kind in "OmM" else np.float64


def some_rows(X: Any, seen: np.ndarray) -> Any:
    """Some of the rows of what people hand in."""
    if seen.all():
        return X
    if not is_table(X):
        return (
            [x for x, keep in zip(X, seen, strict=True) if keep]
            if isinstance(X, list)
            else np.asarray(X)[seen]
        )
    import narwhals.stable.v2 as nw
    from narwhals.stable.v2.dependencies import is_into_series

    return {
        name: nw.from_native(column, series_only=True).filter(seen.tolist()).to_native()
        if is_into_series(column)
        else np.asarray(column)[seen]
        for name, column in named_columns(X).items()
    }
