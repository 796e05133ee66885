"""A report for every kind of model: complete, valid, its axes named, and right where it says numbers."""

import re

import numpy as np
import pytest

import mercer
from mercer import kernels as k
from mercer.decide import Real
from mercer.report import AbstractReported, Facts, Table
from tests.report.test_page import headings, valid

pytestmark = pytest.mark.filterwarnings("ignore::mercer.learning.unconverged.UnconvergedWarning")


def checked(report, *labels):
    """The text of a report that is valid and names these on its axes."""
    text = report.html()
    valid(text)
    assert headings(text)[0] == 1
    assert len(text.encode()) < 1_000_000
    seen = re.findall(r'<text class="label mid"[^>]*>([^<]+)</text>', text)
    for label in labels:
        assert label in seen, (label, sorted(set(seen)))
    assert "nan" not in re.sub(r"<script.*?</script>", "", text, flags=re.S).replace("dominan", "")
    return text


def part(report, section, kind):
    """The parts of this kind in a section."""
    (found,) = [s for s in report.sections if s.id == section]
    return [p for p in found.parts if isinstance(p, kind)]


@pytest.mark.slow
def test_robust_regression_names_its_outliers():
    rng = np.random.default_rng(0)
    x = np.linspace(0.0, 6.0, 40)
    y = np.sin(x) + 0.05 * rng.normal(size=40)
    y[[5, 20]] += 5.0
    model = mercer.GPRegressor(likelihood="student-t", max_evaluations=30).fit({"depth": x}, y)
    report = model.name_target("signal").report(budget=0.1)
    checked(report, "depth", "signal")
    (table,) = part(report, "outliers", Table)
    assert [row[0] for row in table.rows] == ["5", "20"] or [row[0] for row in table.rows] == ["20", "5"]


def test_several_outputs_have_a_heading_each():
    rng = np.random.default_rng(1)
    X = {"a": rng.normal(size=30), "b": rng.normal(size=30)}
    Y = {"height": X["a"] + 0.1 * rng.normal(size=30), "weight": X["b"] + 0.1 * rng.normal(size=30)}
    model = mercer.GPRegressor(max_evaluations=5).fit(X, Y)
    text = checked(model.report(), "height", "weight", "a")
    assert text.count("<h3>height</h3>") == text.count("<h3>weight</h3>") >= 6
    together = mercer.GPRegressor(outputs="coregional", max_evaluations=3).fit(X, Y)
    assert "Correlation of the functions" in checked(together.report(), "height predicted")


@pytest.mark.slow
def test_classes_are_counted_as_they_are_left_out():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(40, 2))
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=40) > 0, "yes", "no")
    model = mercer.GPClassifier(max_evaluations=5).fit({"one": X[:, 0], "two": X[:, 1]}, y)
    report = model.name_target("answer").report(budget=0.1)
    checked(report, "one", "probability of yes")
    wrong = np.mean(model.classes_[model.loo().probability.argmax(1)] != y)
    (facts,) = part(report, "words", Facts)
    assert facts.facts[0][1] == f"{100 * (1 - wrong):.1f} %"


@pytest.mark.slow
def test_a_series_has_its_forecast():
    rng = np.random.default_rng(3)
    t = np.datetime64("2020-01", "M") + np.arange(48)
    y = 10 + 0.1 * np.arange(48) + 2 * np.sin(2 * np.pi * np.arange(48) / 12) + 0.2 * rng.normal(size=48)
    ts = mercer.GPTimeSeries(max_evaluations=5, integrate=False, trend="linear").fit(t, y)
    report = ts.report(budget=0.01)
    text = checked(report, "trend")
    stamps, found = ts.forecast_columns(ts._some())
    figure = report.sections[1].parts[0]
    assert len(figure.table.rows) == len(stamps)
    assert figure.table.rows[0][0] == "2024-01-01" and figure.table.rows[0][1].startswith(
        f"{found['mean'][0]:.3g}"
    )
    assert "longer than the budget" in text


def test_mixtures_and_hidden_markov_models_show_rows_that_are_given():
    rng = np.random.default_rng(4)
    X = np.concatenate([rng.normal(0, 1, (40, 2)), rng.normal(5, 1, (20, 2))])
    mixture = mercer.GaussianMixture(n_components=2).fit(X)
    text = checked(mixture.report(), "x0", "x1")
    assert "does not keep the rows" in text
    report = mixture.report(X=X)
    (table, _) = part(report, "rows", Table)
    assert sorted(int(row[1]) for row in table.rows) == sorted(np.bincount(mixture.predict(X)).tolist())
    chain = mercer.HMM(n_states=2).fit(X)
    text = checked(chain.report(X=X), "step", "observed")
    assert "state 1" in text and "does not keep" in checked(chain.report())


def test_an_optimisation_tells_its_best_row():
    opt = mercer.Optimiser({"rate": Real(1e-4, 1e-1, log=True), "kind": ["a", "b"]}, initial=4)
    rng = np.random.default_rng(5)
    for rate, kind in zip(10 ** rng.uniform(-4, -1, 8), "abababab", strict=True):
        opt.tell({"rate": rate, "kind": kind}, (np.log10(rate) + 2) ** 2 + (kind == "a"))
    opt.tell({"rate": 0.05, "kind": "a"}, failed=True, note="<b>broken</b>")
    report = opt.report()
    text = checked(report, "evaluation", "log10 of rate", "kind")
    assert "&lt;b&gt;broken" in text and "<b>broken" not in text
    assert f"{opt.best().value:.6g}" in text
    with pytest.raises(ValueError, match="nothing to report"):
        mercer.Optimiser({"x": (0.0, 1.0)}).report()


def small_series():
    t = np.arange(36)
    months = np.datetime64("2020-01") + t
    table = {"month": months, "north": 5 + np.sin(t / 2), "south": 50 + 9 * np.sin(t / 2)}
    settings = dict(seasonal=None, trend="level", irregular=False, transform=None, max_evaluations=3)
    return mercer.GPPanel(**settings).fit(table, "month")


def two_lines(columns=1):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (30, columns))
    y = np.where(X[:, 0] > 0, 2.0, -2.0) * X[:, 0] + 0.05 * rng.normal(size=30)
    return mercer.GPMixture(2, k.SE(1.0), restarts=0, max_evaluations=2, tol=0).fit(X, y)


def folded(cls, **settings):
    t = np.linspace(-1, 1, 24)
    return cls(2, **settings).fit(np.c_[t, t**2, np.sin(3 * t)])


def scattered(cls, columns):
    points = np.random.default_rng(0).uniform(0, 1, (40, columns))
    cells = 16 if columns == 1 else (6,) * columns
    return cls(k.SE(0.3), [(0.0, 1.0)] * columns, cells, max_evaluations=3).fit(points)


OTHERS = {
    "panel": (small_series, ("north", "south", "month"), "2 series"),
    "experts": (two_lines, ("x0", "y"), "Expert 1"),
    "experts of columns": (lambda: two_lines(2), ("predicted y", "y"), "Expert 1"),
    "gplvm": (lambda: folded(mercer.GPLVM, max_evaluations=3), ("dimension 0", "dimension 1"), "relevance"),
    "gtm": (lambda: folded(mercer.GTM, max_evaluations=3), ("dimension 0", "dimension 1"), "magnification"),
    "intensity": (lambda: scattered(mercer.GPIntensity, 1), ("x0", "intensity"), "40 points"),
    "density": (lambda: scattered(mercer.GPDensity, 2), ("x0", "x1"), "40 points"),
}


@pytest.mark.filterwarnings("ignore")  # hardly fitted
@pytest.mark.parametrize("name", OTHERS)
def test_others_have_a_plain_report(name, tmp_path):
    """In words, the data, what was learned and a picture; the same once saved and loaded."""
    make, labels, says = OTHERS[name]
    model = make()
    report = model.report()
    text = checked(report, *labels)
    assert says in text and "&lt;wbr" not in text and "random_<wbr>state" in text
    assert [s.id for s in report.sections][:3] == ["words", "data", "hyperparameters"]
    with pytest.raises(ValueError, match="keeps the rows"):
        model.report(X=[[0.0]])
    model.save(tmp_path / "m.mercer")
    assert mercer.load(tmp_path / "m.mercer").report().title == report.title


def test_models_that_keep_their_rows_refuse_others(model):
    with pytest.raises(ValueError, match="leave out X"):
        model.report(X=np.zeros((3, 4)))


def test_approximations_say_what_they_are():
    rng = np.random.default_rng(6)
    X = rng.uniform(size=(60, 1))
    y = np.sin(6 * X[:, 0]) + 0.1 * rng.normal(size=60)
    small = mercer.solvers.VFE(m=10)
    model = mercer.GPRegressor(k.SE(0.3), noise_variance=0.01, learn=False, solver=small).fit(X, y)
    text = checked(model.report(), "x0")
    bounds = model.posterior_.evidence_bounds()
    assert f"loses at most {bounds.gap:.3g} nats" in text and "VFE" in text


def test_every_estimator_of_the_issue_has_a_report():
    kinds = [mercer.GPRegressor, mercer.GPClassifier, mercer.GPTimeSeries, mercer.GaussianMixture]
    kinds += [mercer.BayesianGaussianMixture, mercer.HMM, mercer.BayesianHMM, mercer.Optimiser]
    assert all(issubclass(kind, AbstractReported) for kind in kinds)


def test_the_command_writes_it(model, tmp_path):
    from typer.testing import CliRunner

    from mercer.app.cli import app

    model.save(tmp_path / "m.mercer")
    done = CliRunner().invoke(app, ["report", str(tmp_path / "m.mercer"), "--out", str(tmp_path / "r.html")])
    assert done.exit_code == 0, done.output
    assert (tmp_path / "r.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
