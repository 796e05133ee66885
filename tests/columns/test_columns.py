"""Tables as people have them, in numbers: what a column is, empty cells, dates, labels, frames of three
libraries.
"""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mercer.columns import Category, Columns, Date, LeftOut, Number, as_table
from mercer.inputs import InputError
from mercer.persist import from_json, to_json

DAYS = np.array(["2024-01-01", "2024-02-01", "2024-03-01", "2024-04-01"], "datetime64[us]")
TABLE = {
    "age": [31.0, np.nan, 45.0, 20.0],
    "city": ["Ulm", "Bonn", None, "Ulm"],
    "day": DAYS,
    "ok": [True, False, True, True],
}
FRAMES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table, "dict": dict}
each = pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)


@each
def test_every_library_gives_the_same_columns(make):
    columns = Columns.learn(make(TABLE))
    expected = (
        Number("age", 32.0),
        Category("city", ("Bonn", "Ulm", None)),
        Date("day", "2024-01-01T00:00:00.000000", ("week",)),
        Number("ok"),
    )
    assert columns.columns == expected and columns.notes == ()
    assert columns.groups == {"age": (0, 1), "city": (2, 3, 4, 5), "day": (6, 7, 8), "ok": (9,)}
    assert columns.sharing == (0, 1, 2, 2, 2, 2, 3, 4, 4, 5)
    assert columns.lengthscales == ("age", "age empty", "city", "day (days)", "day, week", "ok")
    found = columns.encode(make(TABLE))
    assert found.notes == () and found.inputs.names == columns.encoded_names
    h = np.sqrt(0.5)
    np.testing.assert_allclose(
        found.inputs.values[:, :7],
        [
            [31.0, 0, 0, h, 0, 0, 0],
            [32.0, 1, h, 0, 0, 0, 31],
            [45.0, 0, 0, 0, h, 0, 60],
            [20.0, 0, 0, h, 0, 0, 91],
        ],
    )
    np.testing.assert_allclose(np.hypot(*found.inputs.values[:, 7:9].T), 1.0)


@each
def test_numbers_are_as_they_were(make):
    """A table of numbers without empty cells is not touched."""
    X = np.random.default_rng(0).normal(size=(5, 2))
    columns = Columns.learn(make({"a": X[:, 0], "b": X[:, 1]}))
    assert columns.plain and columns.sharing == (0, 1) and columns.encoded_names == ("a", "b")
    np.testing.assert_array_equal(columns.encode(make({"b": X[:, 1], "a": X[:, 0]})).inputs.values, X)


def test_an_array_of_numbers_is_not_even_copied():
    X = np.random.default_rng(0).normal(size=(5, 2))
    columns = Columns.learn(X)
    assert columns.encode(X).inputs.values is X and columns.encoded_names is None
    assert columns.groups == {"x0": (0,), "x1": (1,)}


@settings(max_examples=40, deadline=None)
@given(st.permutations(list(TABLE)), st.sampled_from(sorted(FRAMES)), st.sampled_from(sorted(FRAMES)))
def test_columns_are_taken_by_name_in_any_order(order, first, second):
    columns = Columns.learn(FRAMES[first](TABLE))
    shuffled = FRAMES[second]({name: TABLE[name] for name in order})
    np.testing.assert_array_equal(
        columns.encode(shuffled).inputs.values, columns.encode(FRAMES[first](TABLE)).inputs.values
    )


NUMBERS = {
    "integers": [1, 2, 4],
    "objects": np.array([1, 2.0, True], object),
    "text": ["1", " 2.5", "3e2"],
    "true and false": ["True", "false", ""],
    "decimals": pl.Series([1, 2, 4], dtype=pl.Decimal(10, 2)),
    "nullable": pd.Series([1, None, 4], dtype="Int64"),
    "nullable booleans": pd.Series([True, None, False], dtype="boolean"),
    "null": pl.Series([1, None, 4]),
    "arrow": pa.chunked_array([[True, None], [False]]),
    "words for nothing": ["1", "NA", "n/a"],
    "durations": np.array([1, 2, 3], "timedelta64[h]"),
    "times of day": [datetime.time(6), datetime.time(12, 30), None],
}


@pytest.mark.parametrize("column", NUMBERS.values(), ids=NUMBERS)
def test_what_is_a_number(column):
    (cells,) = as_table({"a": column}).columns
    assert cells.kind == "number" and cells.values.shape == (3,)
    assert isinstance(Columns.learn({"a": column}).columns[0], Number)


DATES = {
    "pandas": pd.Series(pd.to_datetime(["2024-01-31", "2024-02-01", None])),
    "pandas with a zone": pd.Series(pd.to_datetime(["2024-01-31", "2024-02-01", None])).dt.tz_localize("UTC"),
    "polars": pl.Series([datetime.date(2024, 1, 31), datetime.date(2024, 2, 1), None]),
    "polars with a zone": pl.Series(
        [
            datetime.datetime(2024, 1, 31, tzinfo=datetime.UTC),
            datetime.datetime(2024, 2, 1, tzinfo=datetime.UTC),
            None,
        ]
    ).dt.convert_time_zone("Europe/Berlin"),
    "objects": np.array([datetime.date(2024, 1, 31), datetime.date(2024, 2, 1), None], object),
    "text": ["2024-01-31", "2024-02-01", ""],
    "text with a zone": ["2024-01-31T00:00Z", "2024-02-01 02:00+02:00", None],
    "days": np.array(["2024-01-31", "2024-02-01", "NaT"], "datetime64[D]"),
}


@pytest.mark.parametrize("column", DATES.values(), ids=DATES)
def test_what_is_a_date(column):
    (cells,) = as_table({"a": column}).columns
    assert cells.kind == "date"
    expected = np.array(["2024-01-31", "2024-02-01", "NaT"], "datetime64[us]")
    np.testing.assert_array_equal(cells.values, expected)
    columns = Columns.learn({"a": column})
    np.testing.assert_array_equal(columns.encode({"a": column}).inputs.values, [[0, 0], [1, 0], [0.5, 1]])


LABELS = {
    "text": ["u", "v", "u"],
    "almost numbers": ["1", "?", "1"],
    "almost dates": ["2024-01-31", "2024-01-32", "2024-01-31"],
    "pandas": pd.Series([1, 2, 1], dtype="category"),
    "polars": pl.Series(["1", "2", "1"], dtype=pl.Categorical),
    "arrow": pa.chunked_array([pa.array(["1", "2", "1"]).dictionary_encode()]),
    "enum": pl.Series(["a", "b", "a"], dtype=pl.Enum(["a", "b", "c"])),
}


@pytest.mark.parametrize("column", LABELS.values(), ids=LABELS)
def test_what_is_a_category(column):
    (found,) = Columns.learn({"a": column, "b": [1.0, 2.0, 3.0]}).columns[:1]
    assert isinstance(found, Category) and len(found.levels) in (2, 3) and not found.rare


def test_whole_numbers_are_the_same_label_however_they_are_written():
    columns = Columns.learn({"a": pd.Series([1, 2, 1], dtype="category")})
    written = [pd.Series([1.0, 2.0]), ["1", "2"], [1, 2], np.array(["1", 2], object)]
    for column in written:
        found = columns.encode({"a": column})
        np.testing.assert_allclose(found.inputs.values, np.eye(3)[:2] * np.sqrt(0.5))
        assert found.notes == ()


def test_rows_of_different_levels_are_one_apart_and_new_levels_too():
    columns = Columns.learn({"a": ["u", "v", "w", "u"]})
    found = columns.encode({"a": ["u", "v", "w", "x", "y", None]})
    X = found.inputs.values
    apart = ((X[:, None] - X[None]) ** 2).sum(-1)
    np.testing.assert_allclose(apart[:4, :4], 1.0 - np.eye(4))
    (note,) = found.notes
    assert "column 'a'" in note and "in 3 rows" in note and "'x' (1)" in note and "(empty) (1)" in note


def test_many_levels():
    """The frequent ones are told apart, the others are one; a label that never came is none of them."""
    often, seldom = [f"o{i}" for i in range(40)], [f"s{i}" for i in range(30)]
    columns = Columns.learn({"a": often * 2 + seldom})
    (category,) = columns.columns
    assert len(category.levels) == 32 and len(category.rare) == 38 and category.levels[0] == "o0"
    X = columns.encode({"a": ["s0", "s1", "o0"]}).inputs.values
    np.testing.assert_array_equal(X[0], X[1])
    new = columns.encode({"a": ["never"]})
    assert new.inputs.values[0, -1] > 0 and X[0, -1] == 0 and len(new.notes) == 1
    ids = Columns.learn({"id": seldom, "x": np.arange(30.0)})
    assert ids.columns[0] == LeftOut("id", "has a different value in every row")
    assert ids.encode({"x": [1.0]}).inputs.values.shape == (1, 1)
    assert "'id' has a different value in every row, and is left out" in ids.notes[0]


def test_seasons_are_those_that_the_dates_cover():
    hour, day = np.timedelta64(1, "h"), np.timedelta64(1, "D")
    start = np.datetime64("2020-01-01", "us")

    def seasons(stamps):
        (found,) = Columns.learn({"t": stamps}).columns
        return found.seasons

    assert seasons(start + np.arange(900) * day) == ("year", "week")
    assert seasons(start + np.arange(100) * hour) == ("day",)
    assert seasons(start + np.arange(10) * day) == ()
    assert seasons(np.array([f"{year}-01-01" for year in range(2000, 2020)], "datetime64[D]")) == ("week",)
    assert seasons(start + np.arange(20000) * hour) == ("year", "week", "day")


def test_what_is_odd_in_the_columns_is_noted():
    columns = Columns.learn(
        {"a": [1.0, 2.0], "one": [3.0, 3.0], "b": [1.0, 2.0], "nothing": [None, None], "s": ["u", "u"]}
    )
    assert columns.notes == (
        "column 'nothing' is empty in every row, and is left out",
        "column 'one' does not vary",
        "column 'b' equals column 'a'",
        "column 's' does not vary",
    )
    assert columns.encode({"z": [0], **{n: [1.0] for n in "ab"}, "one": [3.0], "s": ["u"]}).notes == (
        "columns that the model was not fitted to are ignored: z.",
    )


@pytest.mark.parametrize(
    ("train", "new", "message"),
    [
        ({"a": [1.0], "b": [2.0], "c": [1.0]}, {"a": [1.0]}, "X lacks the columns 'b', 'c' .*; it has 'a'"),
        ({"a": [1.0, 2.0]}, {"a": [1.0, None, None]}, "'a' has 2 cells without a value, the first in row 1"),
        ({"a": [1.0, 2.0]}, {"a": ["1", "two"]}, "'a' held numbers in training.*in row 1: 'two'"),
        ({"a": [1.0, 2.0]}, {"a": [1.0, np.inf]}, "X contains infinity in column 'a', in row 1"),
        ({"a": DAYS}, {"a": ["2024-01-01", "soon"]}, "'a' held dates in training.*in row 1: 'soon'"),
        ({"a": DAYS}, {"a": [None]}, "'a' has 1 cell without a value, in row 0"),
    ],
)
def test_what_cannot_be_encoded_is_named(train, new, message):
    with pytest.raises(InputError, match=message):
        Columns.learn(train).encode(new)


def test_empty_cells_may_be_refused_all_at_once():
    with pytest.raises(InputError, match=r"empty cells: 'age' \(1\), 'city' \(1\)"):
        Columns.learn(TABLE, missing="error")
    with pytest.raises(ValueError, match="missing must be one of 'indicator', 'error'"):
        Columns.learn(TABLE, missing="zero")
    with pytest.raises(InputError, match="no column to learn from: column 'a' has a different value"):
        Columns.learn({"a": ["u", "v", "w"]})
    with pytest.raises(
        InputError, match=r"column 'a' of X is complex \(row 1 holds 1j\).*real and imaginary part"
    ):
        Columns.learn({"a": np.array([1.0, 1j], object)})
    with pytest.raises(TypeError, match=r"must be a string, a number or a date.*row 1 holds a dict"):
        Columns.learn({"a": np.array(["u", {}], object)})


def test_columns_are_saved_as_they_are():
    columns = Columns.learn(TABLE | {"id": list("abcd"), "c": [1.0] * 4})
    assert from_json(to_json(columns)) == columns
    raw = Columns.raw(["a"], 1, objects=True)
    assert from_json(to_json(raw)) == raw
    header, rows = columns.table()
    assert header == ["column", "read as"] and rows[0] == ["age", "number, with empty cells"]
    assert rows[1] == ["city", "category of 3 levels"]
    assert rows[2] == ["day", "date, in days since 2024-01-01, seasons: week"]
