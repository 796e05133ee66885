"""Models in plain sentences, and their predictions."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from typer.testing import CliRunner

import mercer as mc
from mercer import kernels as k
from mercer.estimators.told import turning_points
from mercer.inputs import InputError

N = 40
RNG = np.random.default_rng(0)
TABLE = pd.DataFrame(
    {
        "age": RNG.uniform(20, 70, N),
        "city": RNG.choice(["Ulm", "Bonn", "Kiel"], N),
        "dose": RNG.normal(size=N),
    },
    index=[f"p{i}" for i in range(N)],
)
TARGET = 0.1 * TABLE["age"] + 2.0 * (TABLE["city"] == "Ulm") - TABLE["dose"] + 0.2 * RNG.normal(size=N)


@pytest.fixture(scope="module")
def model():
    return mc.GPRegressor(max_evaluations=20).fit(TABLE, TARGET)


@pytest.fixture(scope="module")
def classifier():
    return mc.GPClassifier(max_evaluations=15).fit(TABLE, np.where(TARGET > 5, "high", "low"))


def test_columns_of_a_table_add_up_to_the_prediction(model):
    rows = TABLE.iloc[[3, 30]]
    found = model.explain(rows)
    np.testing.assert_allclose(found.base + found.values.sum(1), model.predict(rows), atol=1e-10)
    assert found.names == ("age", "city", "dose") and found.labels == ("row p3", "row p30")
    assert found.given[0][1] == TABLE["city"].iloc[3]
    assert found.std.shape == (2, 3) and (found.std > 0).all()
    assert (np.sign(found["dose"]) == -np.sign(rows["dose"] - TABLE["dose"].mean())).all()
    assert all(one.label.startswith("p") for each in found.influences for one in each)
    bars = mc.viz.explain(found, row=1).patches
    assert len(bars) == 3 and bars[0].get_x() == pytest.approx(found.base[1])
    assert bars[-1].get_x() + bars[-1].get_width() == pytest.approx(found.prediction[1])
    said = found.sentences(0)[0]
    assert said.startswith("row p3: the predicted y is") and "on average:" in said


def test_one_row_however_it_is_given(model):
    expected = model.explain(TABLE.iloc[[5]]).values
    row = TABLE.iloc[5]
    for one in (row, row.to_dict(), {name: [row[name]] for name in reversed(TABLE.columns)}):
        np.testing.assert_allclose(model.explain(one).values, expected, atol=1e-12)
    assert model.explain(row).labels == ("row p5",)
    beside = model.explain(row, background=TABLE.iloc[6])
    assert beside.base[0] == pytest.approx(model.predict(TABLE.iloc[[6]])[0])
    with pytest.raises(InputError, match="lacks the column 'city'"):
        model.explain({"age": 30.0, "dose": 0.0})
    with pytest.raises(
        InputError, match="one row of 2 values was given, but the model has 3 columns, age, city"
    ):
        model.explain([30.0, "Ulm"])
    with pytest.warns(mc.columns.ColumnWarning, match="ignored: weight"):
        model.explain(row.to_dict() | {"weight": 70.0})
    with pytest.raises(ValueError, match="background goes with rows"):
        model.explain(background=TABLE)
    with pytest.raises(NotFittedError):
        mc.GPRegressor().explain()


def test_a_model_in_sentences(model):
    found = model.explain()
    assert found["age"].share > 0.3 and found["age"].high - found["age"].low == pytest.approx(5.0, rel=0.4)
    text = str(found)
    assert text.startswith("y is predicted from age, city and dose.")
    assert "on average y rises from" in text and "on average y falls from" in text and " at Ulm" in text
    assert "The noise is Gaussian with standard deviation" in text and "nan" not in text
    frame = found.to_frame()
    assert set(frame["kind"]) <= {"column", "pair"} and frame["share"].iloc[0] == found.findings[0].share
    with pytest.raises(KeyError, match="nothing is said of 'weight'"):
        found["weight"]
    assert mc.viz.explain(found).patches[0].get_width() == pytest.approx(found.findings[0].share)


def test_classes_are_explained_by_their_latent_function(classifier, tmp_path):
    rows = TABLE.iloc[:2]
    found = classifier.explain(rows)
    latent, variance = classifier.latent(rows)
    np.testing.assert_allclose(found.base + found.values.sum(1), latent, atol=1e-10)
    np.testing.assert_allclose(found.prediction_std, np.sqrt(variance))
    assert "the likelier low is" in found.what[0]
    assert found.also[0] == f"The probability of low is {classifier.predict_proba(rows)[0, 1]:.3g}."
    assert {one.target for each in found.influences for one in each} <= {"high", "low"}
    classifier.save(tmp_path / "c.mercer")
    again = mc.load(tmp_path / "c.mercer").explain(rows)
    np.testing.assert_allclose(again.values, found.values, atol=1e-10)
    np.testing.assert_allclose(again.std, found.std, rtol=1e-6)


@pytest.mark.slow
def test_a_classifier_in_sentences(classifier):
    text = str(classifier.explain())
    assert (
        text.startswith("The probability of low is predicted from") and "the probability of low falls" in text
    )


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["probit", "one-vs-rest", "one-vs-one"])
def test_several_classes(scheme):
    labels = np.where(TARGET > 6, "high", np.where(TARGET > 4, "middle", "low"))
    clf = mc.GPClassifier(multi_class=scheme, max_evaluations=5).fit(TABLE, labels)
    found = clf.explain(TABLE.iloc[:3])
    np.testing.assert_allclose(found.base + found.values.sum(1), found.prediction, atol=1e-10)
    answers = clf.predict(TABLE.iloc[:3])
    assert all(answer in what for answer, what in zip(answers, found.what, strict=True))
    assert (found.std > 0).all()
    if scheme == "one-vs-rest":
        assert "the likeliest is" in str(clf.explain())


@pytest.mark.slow
def test_parts_of_a_sum_in_words():
    kernel = k.SE(20.0).on("age") + k.Linear().on("dose")
    model = mc.GPRegressor(kernel, max_evaluations=10).fit(TABLE[["age", "dose"]], TARGET)
    found = model.explain()
    parts = [one for one in found.findings if one.kind == "part"]
    assert len(parts) == 2 and sum(one.share for one in parts) == pytest.approx(1.0)
    assert "A smooth function of age, changing over about" in str(found)
    assert "A straight line of dose" in str(found)
    row = model.explain(TABLE[["age", "dose"]].iloc[0])
    np.testing.assert_allclose(row.part_values.sum(1), row.values.sum(1), atol=1e-9)


@pytest.mark.slow
def test_offsets_of_groups_and_noise_along_a_column_are_called_so():
    offsets = mc.GPRegressor(groups="city").fit(TABLE, TARGET).explain()
    assert "An offset for each level of city: between" in str(offsets)
    coloured = mc.GPRegressor(noise_along="age").fit(TABLE[["age", "dose"]], TARGET)
    assert "Noise along age, lasting about" in str(coloured.explain())


@pytest.mark.slow
@pytest.mark.parametrize("settings", [dict(likelihood="poisson"), dict(warp="log"), dict(inference="ccd")])
def test_other_scales_and_posteriors(settings):
    y = np.round(np.exp(0.3 * TARGET)) if "likelihood" in settings else np.exp(0.3 * TARGET)
    model = mc.GPRegressor(max_evaluations=10, **settings).fit(TABLE[["age", "dose"]], y)
    rows = TABLE[["age", "dose"]].iloc[:2]
    found = model.explain(rows)
    latent = model.posterior_.mean(model._inputs(rows), latent=True)
    np.testing.assert_allclose(found.base + found.values.sum(1), latent, atol=1e-10)
    if "inference" not in settings:
        assert (
            "on whose scale columns add up" in found.what[0] and "On the scale of y itself" in found.also[0]
        )


def test_a_prediction_that_does_not_vary():
    """Rounding is not told as an effect, and a curve that is flat not as one that rises."""
    x, noise = np.arange(30.0)[:, None], np.random.default_rng(3).normal(size=30)
    model = mc.GPRegressor(kernel="search", max_models=1).fit(x, 1e9 + noise)
    said = str(model.explain())
    assert "all along it" in said and "rises" not in said and "falls" not in said
    row = str(model.explain(x[:1]))
    assert "+0 ± " in row and "raises" not in row and "lowers" not in row and "-0)" not in row
    assert "chose a constant of 1 model (" in model.summary()


def test_turning_points():
    assert turning_points(np.array([0.0, 2.0, 1.9, 3.0, 1.0]), 0.5) == [0, 3, 4]
    assert turning_points(np.array([0.0, 1.0, 2.0]), 0.1) == [0, 2]
    assert turning_points(np.array([3.0, 1.0, 2.0, 0.0]), 0.5) == [0, 1, 2, 3]
    assert turning_points(np.zeros(4), 0.0) == [0, 3]


@pytest.mark.slow
def test_a_series_in_sentences():
    stamps = pd.date_range("2015-01-01", periods=48, freq="MS")
    months = np.arange(48)
    y = 10 + 0.05 * months + 2 * np.sin(2 * np.pi * months / 12) + 0.2 * RNG.normal(size=48)
    ts = mc.GPTimeSeries(trend="linear", irregular=False, max_evaluations=15, integrate=False)
    ts.fit(pd.Series(y, index=stamps))
    found = ts.explain()
    assert found["trend"].share + found["year"].share == pytest.approx(1.0)
    text = str(found)
    assert "The trend starts at" in text and "rises to" in text and "(2018-12-01)" in text
    assert "in October" in text and "in April" in text
    with pytest.raises(ValueError, match="explained as a whole"):
        ts.explanation(rows=1)


@pytest.mark.slow
def test_the_demo_says_what_the_readme_shows():
    """The words, and numbers to two digits: others depend on the last digits of the machine's arithmetic."""
    co2 = mc.datasets.load_co2()
    before = co2.X[:, 0] < 1982
    said = str(mc.GPTimeSeries().fit(co2.X[before, 0], co2.y[before]).explain())
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    shown = readme.split("```text\n", 1)[1].split("\n```", 1)[0]
    number = r"[-+]?\d+(?:\.\d+)?"
    assert re.sub(number, "#", said) == re.sub(number, "#", shown)
    pairs = zip(re.findall(number, said), re.findall(number, shown), strict=True)
    assert all(float(one) == pytest.approx(float(other), rel=0.05, abs=0.02) for one, other in pairs)


def test_command_line(model, tmp_path):
    path, rows, out = tmp_path / "m.mercer", tmp_path / "rows.csv", tmp_path / "out.csv"
    model.save(path)
    TABLE.iloc[:1].to_csv(rows, index=False)
    from mercer.app.cli import app

    picture = tmp_path / "row.png"
    asked = ["explain", str(path), "--row", str(rows), "--out", str(out), "--plot", str(picture)]
    answer = CliRunner().invoke(app, asked)
    assert answer.exit_code == 0, answer.output
    assert "row 0: the predicted y is" in answer.output and picture.exists()
    expected = model.explain(TABLE.iloc[[0]]).to_frame()
    written = pd.read_csv(out)
    np.testing.assert_allclose(written["value"], expected["value"], atol=1e-10)
    np.testing.assert_allclose(written["std"], expected["std"], rtol=1e-6)
