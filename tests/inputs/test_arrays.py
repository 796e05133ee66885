"""What people hand in: arrays, frames of three libraries, dicts of columns;
and what is said when it cannot be used.
"""

import datetime

import jax.numpy as jnp
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import mercer as mc
from mercer import kernels as k
from mercer.inputs import InputError, Inputs, as_inputs, as_targets

COLUMNS = {"a": [1.0, 2.0, 3.0], "b": [4, 5, 6]}
VALUES = np.array([[1.0, 4.0], [2.0, 5.0], [3.0, 6.0]])
FRAMES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table, "dict": dict}
each = pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES.keys())


# ------------------------------------------------------------------------------------------------- what is
# taken


@each
def test_frames_keep_their_names(make):
    """Columns become float64 and keep their names; expected columns are brought into order,
    others dropped.
    """
    found = as_inputs(make(COLUMNS))
    np.testing.assert_array_equal(found.values, VALUES)
    assert found.values.dtype == np.float64 and found.values.flags.c_contiguous and found.names == ("a", "b")
    ordered = as_inputs(make({"c": [0, 0, 0], **COLUMNS}), columns=("b", "a"))
    np.testing.assert_array_equal(ordered.values, VALUES[:, ::-1])
    assert ordered.names == ("b", "a")


@pytest.mark.parametrize(
    "X",
    [
        VALUES,
        VALUES.tolist(),
        VALUES.astype(int),
        VALUES.astype(np.float32),
        jnp.asarray(VALUES),
        VALUES.astype(object),
        np.asfortranarray(VALUES),
    ],
    ids=["float64", "list", "int", "float32", "jax", "object", "fortran"],
)
def test_arrays(X):
    """Anything array-like without names."""
    found = as_inputs(X)
    np.testing.assert_array_equal(found.values, VALUES)
    assert found.values.dtype == np.float64 and found.values.flags.c_contiguous and found.names is None


def test_inputs_pass_through():
    """What was checked once is not checked again."""
    checked = Inputs(VALUES, ("a", "b"))
    assert as_inputs(checked) is checked


@given(
    arrays.arrays(
        np.float64, arrays.array_shapes(min_dims=2, max_dims=2, max_side=5), elements=st.floats(-1e300, 1e300)
    )
)
def test_any_finite_table(X):
    """Every finite table is taken as it is, at any scale."""
    np.testing.assert_array_equal(as_inputs(X).values, X)


@pytest.mark.parametrize(
    "y",
    [
        [1, 2, 3],
        np.array([[1.0], [2.0], [3.0]]),
        pd.Series([1.0, 2.0, 3.0]),
        pd.DataFrame({"y": [1.0, 2.0, 3.0]}),
        pl.Series([1, 2, 3]),
        pa.chunked_array([[1.0, 2.0], [3.0]]),
        jnp.arange(1.0, 4.0),
    ],
    ids=["list", "column", "pandas", "frame", "polars", "pyarrow", "jax"],
)
def test_targets(y):
    """One column of numbers from anywhere."""
    found = as_targets(y, 3)
    assert found.shape == (3,) and found.dtype == np.float64
    np.testing.assert_array_equal(found, [1.0, 2.0, 3.0])


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table, dict])
def test_dates_are_days_and_booleans_numbers(make):
    days = [datetime.datetime(1970, 1, 2), datetime.datetime(1970, 1, 4, 12)]
    found = as_inputs(make({"t": np.array(days, "datetime64[us]"), "b": np.array([True, False])}))
    np.testing.assert_array_equal(found.values, [[1.0, 1.0], [3.5, 0.0]])
    mixed = as_inputs(make({"t": np.array(days, "datetime64[us]"), "s": ["u", "v"]}), objects=True)
    assert mixed.values.tolist() == [[1.0, "u"], [3.5, "v"]]


def test_columns_that_are_not_asked_for_are_not_read():
    found = as_inputs({"s": ["u"], "b": [2.0], "a": [1.0]}, columns=("a", "b"))
    assert found.names == ("a", "b") and found.values.tolist() == [[1.0, 2.0]]


@each
def test_a_frame_runs_through(make):
    """Condition on one kind of frame, predict with another whose columns are in another order."""
    y = np.array([0.3, -0.2, 0.5])
    post = mc.GP(k.SE([1.0, 2.0]) + k.Linear().on("b")).condition(make(COLUMNS), y, noise_variance=0.1)
    expected = mc.GP(k.SE([1.0, 2.0]) + k.Linear().on(1)).condition(VALUES, y, noise_variance=0.1)
    Xs = np.array([[1.5, 4.5], [2.5, 5.0]])
    shuffled = pd.DataFrame({"b": Xs[:, 1], "other": [0.0, 0.0], "a": Xs[:, 0]})
    np.testing.assert_allclose(post.mean(shuffled), expected.mean(Xs), rtol=1e-13)
    np.testing.assert_allclose(post.variance(Xs), expected.variance(Xs), rtol=1e-13)
    with pytest.raises(InputError, match=r"Xs lacks the column 'b' that the model .*; it has 'a'"):
        post.mean(pd.DataFrame({"a": [1.0]}))


# ------------------------------------------------------------------------------------------------- what is
# refused


class Duck:
    """Not an array, not a frame."""


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (
            np.arange(3.0),
            r"X must be a table with rows and columns, got an array of shape \(3,\). Use X.reshape\(-1, 1\)",
        ),
        (pd.Series([1.0, 2.0]), r"shape \(2,\)"),
        (5.0, "X must be an array or a data frame, got float"),
        (np.float64(5.0), r"got an array of shape \(\)"),
        (np.zeros((2, 2, 2)), r"got an array of shape \(2, 2, 2\)"),
        (np.zeros((3, 0)), "X has no columns"),
        ({}, "X has no columns"),
        (
            [[1.0, np.nan], [np.inf, 2.0]],
            "X contains NaN and infinity in 2 places, the first in row 0, column 1. Remove or impute them",
        ),
        (
            pd.DataFrame({"a": [1.0, 2.0], "b": [0.0, -np.inf]}),
            "X contains infinity in row 1, column 'b'. Remove or impute it first.$",
        ),
        (pd.DataFrame({"a": [1.0, None]}), "contains NaN in row 1, column 'a'"),
        (pl.DataFrame({"a": [1, None]}), "contains NaN in row 1, column 'a'"),
        (pd.DataFrame({"a": pd.array([1, None], dtype="Int64")}), "contains NaN in row 1, column 'a'"),
        (pa.table({"a": [1, None]}), "contains NaN in row 1, column 'a'"),
        (
            {"a": [1.0, 2.0], "b": ["x", "y"]},
            r"column 'b' of X is not numeric \(found '?.*x.*\): encode it .*kernels.Categorical",
        ),
        (pd.DataFrame({"a": ["u", "v"]}), r"column 'a' of X is not numeric \(found 'u'\)"),
        (pl.DataFrame({"a": ["u", "v"]}), r"column 'a' of X is not numeric \(found 'u'\)"),
        ([["a", "b"]], "X is not numeric"),
        (np.array([[1 + 2j]]), "X is complex"),
        (
            pd.DataFrame([[1.0, 2.0]], columns=["a", "a"]),
            r"X has duplicated columns \['a'\]: rename or drop them",
        ),
        ({"a": [1.0, 2.0], "b": [1.0]}, r"column 'b' of X has 1 entries but column 'a' has 2"),
        ({"a": [[1.0, 2.0]]}, "column 'a' of X must be one column of numbers"),
        ({"a": 1.0}, "column 'a' of X must be one column of numbers"),
        ([[1.0, 2.0], [3.0]], "X has rows of different lengths"),
        (Duck(), "X must be an array or a data frame, got Duck"),
        (None, "X must be an array or a data frame, got NoneType"),
        ("text", "X must be an array or a data frame, got str"),
    ],
)
def test_bad_inputs(X, message):
    """One clear error: what, where, what to do."""
    with pytest.raises(InputError, match=message):
        as_inputs(X)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([1.0, 2.0], "y has 2 entries but there are 3 rows of inputs"),
        (np.zeros((3, 2)), r"y must be one column of numbers, got shape \(3, 2\)"),
        (5.0, r"y must be one column of numbers, got shape \(\)"),
        (None, r"y must be one column of numbers"),
        ([1.0, np.nan, 2.0], "y contains NaN in row 1. Remove or impute it first.$"),
        (["a", "b", "c"], "y is not numeric .*labels to GPClassifier.$"),
        (np.array(["2024-01-01", "2024-01-02", "2024-01-03"], "datetime64[D]"), "y holds dates"),
        (np.array([1j, 2, 3]), "y is complex"),
        ([[1.0], [2.0, 3.0], [4.0]], "y has rows of different lengths"),
    ],
)
def test_bad_targets(y, message):
    """The same for targets."""
    with pytest.raises(InputError, match=message):
        as_targets(y, 3)


def test_conditioning_checks():
    """Bad data stop at the door of `condition` and of predictions."""
    gp = mc.GP(k.SE())
    with pytest.raises(ValueError, match="X has no rows"):
        gp.condition(np.zeros((0, 1)), [], noise_variance=0.1)
    with pytest.raises(InputError, match="2 entries but there are 3 rows"):
        gp.condition(VALUES, [1.0, 2.0], noise_variance=0.1)
    post = gp.condition(VALUES, [1.0, 2.0, 3.0], noise_variance=0.1)
    with pytest.raises(ValueError, match="Xs has 3 columns but the model was conditioned on 2"):
        post.mean(np.zeros((2, 3)))
    with pytest.raises(InputError, match="Xs contains NaN"):
        post.mean([[np.nan, 1.0]])
    with pytest.raises(InputError, match="ys has 1 entries but there are 2 rows"):
        post.log_density(VALUES[:2], [1.0])
