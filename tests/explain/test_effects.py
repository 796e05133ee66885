"""Effects of columns: averages over rows of the data, with the intervals of those averages."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import mercer as mc
from mercer import kernels as k
from mercer import likelihoods as lk
from mercer.explain import Effect, effects

RNG = np.random.default_rng(0)
X = RNG.uniform(-2, 2, (50, 3))
Y = np.sin(X[:, 0]) + 0.5 * X[:, 1]
POST = mc.GP(k.SE([1.0, 3.0, 30.0], 2.0)).condition(X, Y, noise_variance=0.01)


def at(column: int, value: float) -> np.ndarray:
    """The data with one column at one value."""
    rows = X.copy()
    rows[:, column] = value
    return rows


def test_the_average_and_its_interval_by_hand():
    """All 50 rows are averaged over; the variance is that of the average, from the joint covariance."""
    (found,) = effects(POST, ["x0"], level=0.9)
    assert isinstance(found, Effect) and found.rows == 50 and found.columns == ("x0",)
    axis = found.axes[0]
    np.testing.assert_allclose(axis.at[[0, -1]], np.quantile(X[:, 0], [0.01, 0.99]))
    for i in (0, 11, 23):
        rows = at(0, axis.at[i])
        std = np.sqrt(POST.covariance(rows, latent=True).mean())
        assert found.mean[i, 0] == pytest.approx(POST.mean(rows).mean(), rel=1e-9)
        assert found.upper[i, 0] - found.mean[i, 0] == pytest.approx(1.6448536 * std, rel=1e-6)
        assert found.mean[i, 0] - found.lower[i, 0] == pytest.approx(1.6448536 * std, rel=1e-6)
        assert std < 0.99 * np.sqrt(POST.variance(rows, latent=True).mean())  # not the mean of variances


def test_effects_of_an_additive_function_are_its_terms():
    found = {effect.columns[0]: effect for effect in effects(POST)}
    for name, term in (("x0", np.sin), ("x1", lambda x: 0.5 * x), ("x2", np.zeros_like)):
        effect = found[name]
        left = effect.mean[:, 0] - term(effect.axes[0].at)
        assert np.ptp(left) < 0.2


def test_the_most_important_columns_come_first():
    assert [effect.columns for effect in effects(POST, most=2)] == [("x0",), ("x1",)]


def test_two_columns_together():
    (found,) = effects(POST, [("x1", "x0")])
    assert found.mean.shape == (14, 14, 1) and found.lower is None and found.columns == ("x1", "x0")
    rows = at(1, found.axes[0].at[3])
    rows[:, 0] = found.axes[1].at[9]
    assert found.mean[3, 9, 0] == pytest.approx(POST.mean(rows).mean(), rel=1e-9)
    frame = found.to_frame()
    assert list(frame.columns) == ["x1", "x0", "mean"] and len(frame) == 196


def test_categories_and_numbers_with_few_values():
    city = np.array(["ulm", "bonn", "graz"], dtype=object)[RNG.integers(0, 3, 50)]
    floor = RNG.integers(0, 4, 50).astype(float)
    y = np.where(city == "bonn", 2.0, 0.0) + 0.3 * floor + 0.1 * RNG.standard_normal(50)
    kernel = k.Categorical().on("city") + k.SE(2.0).on("floor") + k.SE(1.0).on("age")
    table = {"city": city, "floor": floor, "age": X[:, 0]}
    post = mc.GP(kernel).condition(table, y, noise_variance=0.01)
    of_city, of_floor, of_age, both = effects(post, ["city", "floor", "age", ("city", "floor")])
    assert of_city.axes[0].discrete and list(of_city.axes[0].at) == ["bonn", "graz", "ulm"]
    np.testing.assert_allclose(of_city.mean[:, 0] - of_city.mean[1, 0], [2.0, 0.0, 0.0], atol=0.2)
    assert of_floor.axes[0].discrete and list(of_floor.axes[0].at) == [0.0, 1.0, 2.0, 3.0]
    assert not of_age.axes[0].discrete and len(of_age.axes[0].at) == 24
    assert both.mean.shape == (3, 4, 1)


def test_groups_of_inputs_are_one_column():
    """A category in columns of its own has the names of its levels, a date the days along its axis."""
    code = RNG.integers(0, 3, 50)
    table = {f"city={name}": 0.7 * (code == c) for c, name in enumerate(["ulm", "bonn", "graz"])}
    table |= {"day": X[:, 0], "day, sine": np.sin(X[:, 0])}
    post = mc.GP(k.SE(np.ones(5))).condition(table, Y, noise_variance=0.1)
    groups = {"city": (0, 1, 2), "day": (3, 4)}
    of_city, of_day = effects(post, ["city", "day"], groups)
    assert set(of_city.axes[0].at) == {"ulm", "bonn", "graz"} and of_city.axes[0].discrete
    assert np.all(np.diff(of_day.axes[0].at) >= 0) and of_day.mean.shape == (24, 1)


def test_few_values_of_a_column_with_empty_cells():
    """Numbers are numbers, empty is empty; several columns together are told in brackets."""
    number = np.array([1.5, 2.5, np.nan, 1.5, 2.5, 1.5, np.nan, 2.5])
    model = mc.GPRegressor(max_evaluations=3).fit(
        pd.DataFrame({"a": number, "b": np.arange(8.0)}), np.arange(8.0)
    )
    of_a, of_b = model.effects(["a", "b"])
    assert sorted(of_a.axes[0].at) == ["1.5", "2.5", "empty"] and of_a.axes[0].discrete
    assert of_b.axes[0].at.tolist() == list(range(8))
    assert "np." not in str(model.explain())
    together = effects(POST, ["xy"], {"xy": (0, 1), "z": (2,)})[0].axes[0]
    assert together.at.dtype == float  # many values: along the first
    few = mc.GP(k.SE(np.ones(2))).condition(np.round(X[:6, :2]), Y[:6], noise_variance=0.1)
    assert all(label.startswith("(") for label in effects(few, ["xy"], {"xy": (0, 1)})[0].axes[0].at)


@pytest.mark.parametrize("scheme", ["softmax", "one-vs-rest"])
def test_classes_have_a_curve_each(scheme):
    kernel = k.SE(mc.fixed([1.0, 2.0, 20.0]), mc.fixed(4.0))
    labels = np.array(["low", "middle", "high"])[np.digitize(X[:, 0], [-0.6, 0.6])]
    model = mc.GPClassifier(kernel, multi_class=scheme).fit(X, labels)
    (found,) = model.effects(["x0"])
    assert found.labels == ("high", "low", "middle") and found.mean.shape == (24, 3)
    np.testing.assert_allclose(found.mean.sum(1), 1.0)
    assert found.mean[0].argmax() == 1 and found.mean[-1].argmax() == 0
    rows = at(0, found.axes[0].at[5])
    np.testing.assert_allclose(found.mean[5], model.predict_proba(rows).mean(0), rtol=1e-9)
    if scheme == "softmax":
        assert found.lower is None  # several latent functions have no joint draws
    else:
        assert np.all((found.lower >= 0) & (found.lower < found.mean) & (found.mean < found.upper))
        assert "class" in found.to_frame()


def test_counts_are_rates():
    post = mc.Model(mc.GP(k.SE([1.0, 3.0, 30.0])), lk.Poisson()).condition(X, np.round(np.exp(Y)))
    (found,) = effects(post, ["x0"])
    assert found.mean.min() > 0 and np.all(found.lower < found.mean)


@pytest.mark.slow
def test_side_data_of_rows_stay_with_them():
    """Effects and shares are of one trial; left-out rows are judged by theirs."""
    trials = RNG.integers(2, 20, 50)
    won = RNG.binomial(trials, 1 / (1 + np.exp(-Y)))
    model = mc.GPRegressor(k.SE([1.0, 3.0, 30.0]), likelihood="binomial", learn=False)
    model.fit(X, won, trials=trials)
    (found,) = model.effects(["x0"])
    assert 0 < found.mean.min() < found.mean.max() < 1
    assert "x0" in str(model.importance(draws=2)) and "importance: x0" in model.summary()


def test_what_is_no_column():
    for wrong in (["x7"], [("x0", "x1", "x2")], [("x0", "x9")]):
        with pytest.raises(ValueError, match="columns are names, or pairs of two of them"):
            effects(POST, wrong)
    with pytest.raises(ValueError, match="level must lie strictly between 0 and 1"):
        effects(POST, level=95)


def test_work_is_bounded_by_fewer_rows():
    """Of 3,000 data only some are averaged over, and said so."""
    rng = np.random.default_rng(1)
    many = rng.uniform(-2, 2, (3000, 3))
    solver = mc.solvers.VFE(m=30)
    post = mc.GP(k.SE(np.ones(3))).condition(many, np.sin(many[:, 0]), noise_variance=0.01, solver=solver)
    (found,) = effects(post, ["x0"])
    assert 8 <= found.rows <= 512
    np.testing.assert_allclose(found.mean[:, 0], np.sin(found.axes[0].at), atol=0.2)


def test_columns_of_a_mixed_table_are_those_of_the_user():
    rng = np.random.default_rng(2)
    age = rng.uniform(20, 60, 60)
    city = np.array(["ulm", "bonn", "graz"], dtype=object)[rng.integers(0, 3, 60)]
    y = 0.05 * age + 2.0 * (city == "bonn") + 0.1 * rng.standard_normal(60)
    age[::12] = np.nan
    model = mc.GPRegressor().fit(pd.DataFrame({"age": age, "city": city}), y)
    found = model.importance()
    assert set(found.names) == {"age", "city"} and found.total.min() > 0.1
    of_age, of_city = model.effects(["age", "city"])
    assert set(of_city.axes[0].at) == {"bonn", "graz", "ulm"}
    bonn = list(of_city.axes[0].at).index("bonn")
    assert np.argmax(of_city.mean[:, 0]) == bonn
    assert np.all(np.diff(of_age.axes[0].at) >= 0) and of_age.mean[-1, 0] - of_age.mean[0, 0] > 1.0
