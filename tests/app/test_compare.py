"""`mercer compare`: evidences and densities are those of the models, differences those of pairs of rows."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import mercer as mc
from mercer.app.cli import app
from mercer.app.tables import read_table, write_table
from mercer.posteriors.loo import folds

X = np.linspace(0.0, 3.0, 16)
Y = np.sin(2 * X) + 0.1 * np.random.default_rng(0).standard_normal(16)
SMOOTH, ROUGH = "SE(fixed(0.7))", "Matern(fixed(0.7), nu=0.5)"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compare")
    write_table(folder / "data.csv", {"x": X, "y": Y})
    new = X[:-1] + 0.07
    write_table(folder / "new.csv", {"x": new, "y": np.sin(2 * new)})
    for name, kernel in (("a", SMOOTH), ("b", ROUGH)):
        mc.GPRegressor(kernel=kernel).fit({"x": X}, Y).save(folder / f"{name}.mercer")
    return folder


def compared(*words) -> dict:
    result = CliRunner().invoke(app, ["compare", *map(str, words), "--target", "y", "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def agrees(row: dict, model, density, best) -> None:
    lost, close = best - density, {"rel": 1e-4, "abs": 1e-9}
    assert row["log_evidence"] == pytest.approx(model.log_marginal_likelihood_, rel=1e-6)
    assert row["nlpd"] == pytest.approx(-np.mean(density), rel=1e-5)
    assert row["worse_by"] == pytest.approx(np.mean(lost), **close)
    assert row["standard_error"] == pytest.approx(
        np.std(lost, ddof=1) / np.sqrt(len(lost)), rel=1e-4, abs=1e-9
    )


def test_kernels_by_leaving_out_each_row(folder):
    found = compared(folder / "data.csv", "--kernel", SMOOTH, "--kernel", ROUGH)["result"]
    models = {name: mc.GPRegressor(kernel=name).fit({"x": X}, Y) for name in (SMOOTH, ROUGH)}
    density = {name: model.loo().log_density for name, model in models.items()}
    assert [row["model"] for row in found["models"]] == [SMOOTH, ROUGH] and found["best"] == SMOOTH
    for row in found["models"]:
        agrees(row, models[row["model"]], density[row["model"]], density[SMOOTH])


def test_kernels_by_rows_held_out_of_learning(folder):
    found = compared(folder / "data.csv", "--kernel", SMOOTH, "--kernel", ROUGH, "--folds", 3)["result"]
    density = {name: np.empty(16) for name in (SMOOTH, ROUGH)}
    for name, values in density.items():
        for rows in folds(16, 3, 0):
            others = np.setdiff1d(np.arange(16), rows)
            model = mc.GPRegressor(kernel=name).fit({"x": X[others]}, Y[others])
            values[rows] = model.log_density({"x": X[rows]}, Y[rows])
    for row in found["models"]:
        model = mc.GPRegressor(kernel=row["model"]).fit({"x": X}, Y)
        agrees(row, model, density[row["model"]], density[found["best"]])
    assert found["judged_by"] == "rows held out in 3 parts"


def test_saved_models_by_rows_that_they_have_not_seen_or_by_their_own(folder):
    a, b = (mc.load(folder / f"{name}.mercer") for name in "ab")
    models = ("--model", folder / "a.mercer", "--model", folder / "b.mercer")
    own = compared(folder / "data.csv", *models)
    assert own["result"]["judged_by"] == "each row left out" and own["notes"] == []
    agrees(own["result"]["models"][0], a, a.loo().log_density, a.loo().log_density)
    new = read_table(folder / "new.csv")
    unseen = compared(folder / "new.csv", *models)
    named = {str(folder / "a.mercer"): a, str(folder / "b.mercer"): b}
    density = {name: model.log_density({"x": new["x"]}, new["y"]) for name, model in named.items()}
    for row in unseen["result"]["models"]:
        assert row["nlpd"] == pytest.approx(-np.mean(density[row["model"]]), rel=1e-9)
    write_table(folder / "some.csv", {"x": np.append(X[:3], 9.0), "y": np.zeros(4)})
    (first, *_) = compared(folder / "some.csv", *models)["notes"]
    assert "has learned from 3 of these 4 rows" in first


def test_classes(tmp_path):
    rng = np.random.default_rng(1)
    x = rng.uniform(0, 3, 24)
    kind = np.where(x + 0.4 * rng.standard_normal(24) > 1.5, "rose", "aster").astype(object)
    write_table(tmp_path / "d.csv", {"x": x, "y": kind})
    out = tmp_path / "table.csv"
    found = compared(tmp_path / "d.csv", "--kernel", SMOOTH, "--out", out)["result"]
    model = mc.GPClassifier(kernel=SMOOTH).fit({"x": x}, kind)
    p = model.loo().probability
    chosen = p[np.arange(24), (kind == "rose").astype(int)]
    assert found["models"][0]["nlpd"] == pytest.approx(-np.mean(np.log(chosen)), rel=1e-5)
    assert found["models"][0]["error"] == np.mean(model.classes_[p.argmax(1)] != kind)
    assert read_table(out)["nlpd"][0] == pytest.approx(found["models"][0]["nlpd"])


def test_what_is_said_and_refused(folder):
    words = ["compare", str(folder / "data.csv"), "--target", "y"]
    told = CliRunner().invoke(app, [*words, "--kernel", SMOOTH, "--kernel", ROUGH])
    assert f"{SMOOTH} predicts best" in told.stdout and "worse by" in told.stdout
    mixed = CliRunner().invoke(app, [*words, "--kernel", SMOOTH, "--model", str(folder / "a.mercer")])
    assert mixed.exit_code == 1 and "--model compares saved models" in mixed.stderr
    wrong = CliRunner().invoke(app, [*words, "--likelihood", "student"])
    assert wrong.exit_code == 1 and "did you mean 'student-t'" in wrong.stderr
