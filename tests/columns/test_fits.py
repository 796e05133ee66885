"""Fits to mixed tables by default: what is learned of categories, dates and empty cells, on new rows, from
files.
"""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import mercer as mc
from mercer import kernels as k
from mercer.columns import ColumnWarning
from mercer.estimators import defaults
from mercer.inputs import InputError

N = 80


def table(seed: int = 0, n: int = N) -> tuple[pd.DataFrame, np.ndarray]:
    """Numbers, labels, booleans, dates, empty cells; the mean of y depends on all of them."""
    rng = np.random.default_rng(seed)
    age = rng.uniform(20, 60, n)
    city = rng.choice(np.array(["Ulm", "Bonn", "Kiel"], object), n)
    day = np.datetime64("2021-01-01", "us") + rng.integers(0, 1100, n) * np.timedelta64(1, "D")
    ok = rng.random(n) < 0.5
    phase = (day - np.datetime64("2021-01-01")) / np.timedelta64(1, "D") / 365.2425
    y = 0.05 * age + 2.0 * (city == "Ulm") + np.sin(2 * np.pi * phase) + 0.5 * ok
    gone = rng.random(n) < 0.15
    y = y + 1.5 * gone + 0.1 * rng.standard_normal(n)
    age[gone] = np.nan
    return pd.DataFrame({"age": age, "city": city, "day": day, "ok": ok}), y


TRAIN, Y = table()
TEST, YS = table(1, 40)


@pytest.fixture(scope="module")
def fitted():
    return mc.GPRegressor().fit(TRAIN, Y)


def test_a_mixed_table_is_learned(fitted):
    """Left-out rows are predicted nearly to the noise, and intervals hold them."""
    mean, std = fitted.predict(TEST, return_std=True)
    assert np.sqrt(np.mean((mean - YS) ** 2)) < 0.35
    assert np.mean(np.abs(mean - YS) < 2 * std) > 0.85
    assert isinstance(fitted.kernel_, k.Shared)
    assert fitted.n_features_in_ == 4 and list(fitted.feature_names_in_) == ["age", "city", "day", "ok"]
    text = fitted.summary()
    assert "city category of 3 levels" in text and "seasons: year" in text
    assert "free    age empty" in text and "free    city" in text


def test_a_label_that_was_not_seen_widens_the_interval(fitted):
    new = TEST.head(5).assign(city="Rom")
    with pytest.warns(ColumnWarning, match=r"'city' has labels that were not seen.*'Rom' \(5\)"):
        _, wide = fitted.predict(new, return_std=True)
    _, std = fitted.predict(TEST.head(5), return_std=True)
    assert (wide > 2 * std).all()


def test_columns_by_name_others_ignored_missing_ones_named(fitted):
    expected = fitted.predict(TEST)
    np.testing.assert_array_equal(fitted.predict(TEST[["ok", "day", "city", "age"]]), expected)
    with pytest.warns(ColumnWarning, match="ignored: y, id"):
        np.testing.assert_array_equal(fitted.predict(TEST.assign(y=YS, id="p")), expected)
    with pytest.raises(ValueError, match="X lacks the columns 'city', 'ok' that the model was fitted with"):
        fitted.predict(TEST[["age", "day"]])


@pytest.mark.parametrize(
    "make", [pl.from_pandas, pa.Table.from_pandas, lambda f: {c: f[c].tolist() for c in f}]
)
def test_other_libraries_give_the_same_model(fitted, make):
    np.testing.assert_array_equal(fitted.predict(make(TEST)), fitted.predict(TEST))


def test_saved_and_loaded(fitted, tmp_path):
    fitted.save(tmp_path / "m.mercer")
    again = mc.load(tmp_path / "m.mercer")
    assert again.columns_ == fitted.columns_ and again.n_features_in_ == 4
    np.testing.assert_allclose(again.predict(TEST), fitted.predict(TEST), rtol=1e-9)
    assert again.summary() == fitted.summary()


def test_classes_from_a_mixed_table(tmp_path):
    labels = np.where(np.median(Y) < Y, "high", "low")
    model = mc.GPClassifier().fit(TRAIN, labels)
    assert np.mean(model.predict(TEST) == np.where(np.median(Y) < YS, "high", "low")) > 0.8
    model.save(tmp_path / "m.mercer")
    np.testing.assert_allclose(
        mc.load(tmp_path / "m.mercer").predict_proba(TEST), model.predict_proba(TEST), rtol=1e-7
    )
    assert "city category of 3 levels" in model.summary()


@pytest.mark.slow
def test_outliers_and_empty_cells_together():
    y = Y.copy()
    y[[3, 50]] += 40.0
    model = mc.GPRegressor(likelihood="student-t").fit(TRAIN, y)
    assert set(model.outliers_.rows[:2]) == {3, 50} and len(model.outliers_) <= 4
    assert np.sqrt(np.mean((model.predict(TEST) - YS) ** 2)) < 0.4


def test_numbers_give_the_plain_kernel():
    """Arrays and frames of numbers: the model is that of before, to the last bit."""
    X = np.random.default_rng(3).normal(size=(30, 2))
    y = np.sin(X[:, 0])
    model = mc.GPRegressor().fit(X, y)
    given = mc.GPRegressor(
        defaults.default_kernel(X, defaults.target_scale(y)),
        noise_variance=defaults.default_noise(defaults.target_scale(y)),
    ).fit(X, y)
    assert isinstance(model.kernel_, k.Matern)
    np.testing.assert_array_equal(model.kernel_.lengthscale, given.kernel_.lengthscale)
    framed = mc.GPRegressor().fit(pd.DataFrame(X, columns=["a", "b"]), y)
    np.testing.assert_array_equal(framed.predict(pd.DataFrame(X, columns=["a", "b"])), model.predict(X))


def test_arrays_with_gaps_and_objects():
    X = np.random.default_rng(3).normal(size=(30, 2))
    y = np.sin(X[:, 0])
    X[::7, 1] = np.nan
    model = mc.GPRegressor().fit(X, y)
    assert model.n_features_in_ == 2 and model.columns_.groups == {"x0": (0,), "x1": (1, 2)}
    assert np.abs(model.predict(X) - y).max() < 0.1
    mixed = np.column_stack([X[:, 0].astype(object), np.where(X[:, 0] > 0, "up", "down").astype(object)])
    model = mc.GPRegressor().fit(mixed, y)
    assert model.columns_.groups == {"x0": (0,), "x1": (1, 2, 3)}
    assert np.abs(model.predict(mixed.tolist()) - y).max() < 0.1


def test_a_kernel_that_is_given_reads_the_columns_as_they_are():
    frame = TRAIN.drop(columns="age")
    kernel = k.SE(300.0).on("day") * k.Categorical().on("city")
    model = mc.GPRegressor(kernel).fit(frame, Y)
    assert model.columns_.names == ("city", "day", "ok") and model.columns_.plain
    np.testing.assert_array_equal(model.predict(frame[["ok", "day", "city"]]), model.predict(frame))
    dated = mc.GPRegressor(k.SE(300.0)).fit(frame[["day"]], Y)
    days = (frame["day"].to_numpy() - np.datetime64("1970-01-01")) / np.timedelta64(1, "D")
    np.testing.assert_array_equal(dated.posterior_.inputs.values[:, 0], days)
    with pytest.raises(ValueError, match=r"column 'city' of X is not numeric.*kernels\.Categorical\(\)"):
        mc.GPRegressor(k.SE()).fit(frame, Y)


def test_the_data_driven_start_is_the_default_one(fitted):
    """For shared length-scales too, so that learning does not climb twice."""
    X = fitted.posterior_.inputs.values
    kernel = defaults.default_kernel(X, 1.0, columns=fitted.columns_)
    suggested = kernel.suggest(X, 1.0)
    np.testing.assert_allclose(suggested.kernel.lengthscale, kernel.kernel.lengthscale, rtol=1e-12)


def test_names_that_stand_twice_are_named():
    with pytest.raises(InputError, match=r"X has duplicated columns \['a'\]: rename or drop them"):
        mc.GPRegressor().fit(pd.DataFrame(np.ones((5, 2)), columns=["a", "a"]), np.arange(5.0))
