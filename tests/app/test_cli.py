"""The command line: fit, predict, info, demo, and errors of one line."""

from __future__ import annotations

import subprocess
import sys

import matplotlib.pyplot as plt
import numpy as np
import pytest
from typer.testing import CliRunner

import mercer as mc
from mercer.app.cli import app
from mercer.app.features import perhaps_classes
from mercer.app.tables import read_table, write_table

PNG = b"\x89PNG"


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def table(n=25) -> dict:
    rng = np.random.default_rng(0)
    a, b = rng.uniform(0, 3, n), rng.uniform(0, 3, n)
    y = np.sin(2 * a) + 0.05 * rng.standard_normal(n)
    y[4] = np.nan
    return {"a": a, "b": b, "city": np.array([f"town {i}" for i in range(n)], object), "y": y}


@pytest.fixture
def data(tmp_path):
    write_table(tmp_path / "data.csv", table())
    return tmp_path / "data.csv"


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A model fitted by the command line, and its data."""
    folder = tmp_path_factory.mktemp("saved")
    write_table(folder / "data.csv", table())
    result = run(
        "fit",
        folder / "data.csv",
        "--target",
        "y",
        "--features",
        "a",
        "--kernel",
        "SE(1)",
        "--out",
        folder / "m.mercer",
    )
    assert result.exit_code == 0, result.output
    return folder / "m.mercer", folder / "data.csv"


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_fit_predict_info_round_trip(tmp_path, ending):
    data, model, out = (tmp_path / name for name in (f"d.{ending}", "m.mercer", f"p.{ending}"))
    write_table(data, table())
    fit = run("fit", data, "--target", "y", "--out", model, "--plot", tmp_path / "fit.png", "--noise", 0.01)
    assert fit.exit_code == 0, fit.output
    assert "left out 1 row without a value of 'y'" in fit.stderr
    assert "column 'city' has a different value in every row, and is left out" in fit.stdout
    for word in ("kernel.lengthscale[1]", "log evidence", "RMSE", "NLPD", "coverage", "of 24 data"):
        assert word in fit.stdout
    assert (tmp_path / "fit.png").read_bytes().startswith(PNG)

    predict = run("predict", model, data, "--out", out, "--level", 0.5)
    assert predict.exit_code == 0, predict.output
    assert "predictions (25 rows) written to" in predict.stderr
    before, after = table(), read_table(out)
    assert list(after) == [*before, "mean", "std", "lower", "upper"]
    assert after["city"].tolist() == before["city"].tolist()
    np.testing.assert_array_equal(after["a"], before["a"])
    loaded = mc.load(model)
    mean, std = loaded.posterior_.mean(np.column_stack([before["a"], before["b"]])), after["std"]
    np.testing.assert_allclose(after["mean"], mean, rtol=1e-12)
    np.testing.assert_allclose(after["upper"] - after["mean"], 0.6744897501960817 * std, rtol=1e-9)
    np.testing.assert_allclose(after["mean"] - after["lower"], 0.6744897501960817 * std, rtol=1e-9)

    info = run("info", model)
    assert info.exit_code == 0, info.output
    for word in (
        "GPRegressor",
        "column city",
        "24 rows",
        "Matern",
        "likelihood.noise_variance",
        f"{mc.__version__}",
        "python",
    ):
        assert word in info.stdout


def test_quality_is_that_of_leaving_one_out(saved):
    from mercer.app.work import quality

    model = mc.load(saved[0])
    y = model.posterior_.y
    columns, rows, measures = quality(model, y, "y")
    assert columns == ("measure", "value", "meaning")
    errors = []
    for i in range(len(y)):
        others = np.arange(len(y)) != i
        X = model.posterior_.inputs.values
        left = model.model_.condition(X[others], y[others])
        errors.append(y[i] - left.mean(X[i : i + 1])[0])
    assert measures["rmse"] == pytest.approx(np.sqrt(np.mean(np.square(errors))), rel=1e-9)
    assert float(rows[0][1]) == pytest.approx(measures["rmse"], rel=1e-3)


def flowers(n=30) -> dict:
    rng = np.random.default_rng(1)
    a, b = rng.uniform(0, 3, n), rng.uniform(0, 3, n)
    kind = np.where(a + 0.3 * rng.standard_normal(n) > 1.5, "rose", "aster").astype(object)
    return {"a": a, "b": b, "kind": kind, "code": (kind == "rose").astype(float)}


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_classes_fit_predict_info_round_trip(tmp_path, ending):
    data, model, out = (tmp_path / name for name in (f"d.{ending}", "m.mercer", f"p.{ending}"))
    write_table(data, flowers())
    options = ("--features", "a,b", "--kernel", "SE(1)", "--out", model, "--plot", tmp_path / "fit.png")
    fit = run("fit", data, "--target", "kind", *options)
    assert fit.exit_code == 0, fit.output
    for word in (
        "classes: aster (",
        "log evidence",
        "error",
        "of 30; always guessing",
        "information",
        "NLP",
        "bits on kind",
    ):
        assert word in fit.stdout
    assert (tmp_path / "fit.png").read_bytes().startswith(PNG)
    left = mc.load(model).loo().probability
    wrong = np.sum(np.array(["aster", "rose"])[left.argmax(1)] != flowers()["kind"])
    assert f"{100 * wrong / 30:.1f} %   {wrong} of 30" in fit.stdout

    predict = run("predict", model, data, "--out", out)
    assert predict.exit_code == 0, predict.output
    before, after = flowers(), read_table(out)
    assert list(after) == [*before, "class", "p_aster", "p_rose"]
    loaded = mc.load(model)
    table = {name: before[name] for name in "ab"}
    np.testing.assert_allclose(after["p_rose"], loaded.predict_proba(table)[:, 1], rtol=1e-12)
    np.testing.assert_array_equal(after["class"], loaded.predict(table))
    assert np.mean(after["class"] == before["kind"]) > 0.8

    info = run("info", model)
    assert info.exit_code == 0, info.output
    for word in ("GPClassifier", "classes", "aster, rose", "30 rows", "SE", "kernel.variance"):
        assert word in info.stdout
    latent = run("predict", model, data, "--out", out, "--latent")
    assert latent.exit_code == 1 and "(--latent) is for models of numeric targets" in latent.stderr


@pytest.mark.representative("a,b,c")
@pytest.mark.parametrize("columns", ["a", "a,b", "a,b,c"])
def test_classes_without_an_error_are_drawn(tmp_path, columns):
    """The picture is never blank."""
    data, picture = tmp_path / "d.csv", tmp_path / "f.png"
    rng = np.random.default_rng(0)
    code = np.arange(30) % 3
    cells = {name: 4.0 * (code == c) + 0.3 * rng.standard_normal(30) for c, name in enumerate("abc")}
    cells["a"] = 4.0 * code + 0.3 * rng.standard_normal(30)
    write_table(data, cells | {"kind": np.array(["ant", "bee", "cat"], dtype=object)[code]})
    options = ("--features", columns, "--kernel", "SE(fixed(2))", "--out", tmp_path / "m.mercer")
    fit = run("fit", data, "--target", "kind", *options, "--plot", picture)
    assert fit.exit_code == 0, fit.output
    assert "0 of 30; always guessing" in fit.stdout
    assert ("that each column" in fit.stdout) == (columns != "a")
    drawn = plt.imread(picture)[..., :3]
    assert np.mean(drawn.max(2) - drawn.min(2) > 0.2) > 0.004  # coloured


def test_numbers_are_classes_where_asked(tmp_path):
    data, model = tmp_path / "d.csv", tmp_path / "m.mercer"
    write_table(data, flowers())
    options = ("--features", "a", "--kernel", "SE(1)", "--out", model)
    fit = run(
        "fit", data, "--target", "code", "--classify", *options, "--plot", tmp_path / "f.png", "--quiet"
    )
    assert (fit.exit_code, fit.output) == (0, "")
    assert (tmp_path / "f.png").read_bytes().startswith(PNG)
    assert mc.load(model).classes_.tolist() == [0, 1]
    assert run("predict", model, data, "--out", tmp_path / "p.csv").exit_code == 0
    assert list(read_table(tmp_path / "p.csv"))[-3:] == ["class", "p_0", "p_1"]
    for arguments, message in (
        (
            ("--target", "a", "--features", "b", "--classify", "--out", model),
            "Unknown label type: continuous",
        ),
        (("--target", "kind", "--noise", 0.1, *options), "--noise is for numeric targets"),
    ):
        result = run("fit", data, *arguments)
        assert result.exit_code == 1 and message in result.stderr and len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([0, 1, 2, 2, 1, 0], "0 to 2"),
        ([1.0, 2.0, 1.0, 2.0], "1 and 2"),
        ([0, 1, 2, 3], None),  # each once
        ([0.0, 0.5, 0.0, 0.5], None),
        ([0, 2, 0, 2], None),
        ([7, 8, 7, 8], None),
        (list(range(12)) * 2, None),  # so many are amounts
    ],
)
def test_whole_numbers_that_look_like_labels_are_told(values, said):
    found = perhaps_classes(np.array(values), "grade")
    if said is None:
        assert found == []
    else:
        assert (
            f"the whole numbers {said}, which are taken as amounts" in found[0] and "--classify" in found[0]
        )


def test_one_feature_is_drawn_as_a_ribbon_and_quiet_is_quiet(data, tmp_path):
    options = (
        "--features",
        "a",
        "--kernel",
        "SE(1)",
        "--out",
        tmp_path / "m.mercer",
        "--plot",
        tmp_path / "f.png",
        "--quiet",
    )
    result = run("fit", data, "--target", "y", *options)
    assert (result.exit_code, result.output) == (0, "")
    assert (tmp_path / "f.png").read_bytes().startswith(PNG)


def test_latent_predictions_leave_out_the_noise(saved, tmp_path):
    model, data = saved
    for name, extra in (("y.csv", ()), ("f.csv", ("--latent",))):
        assert run("predict", model, data, "--out", tmp_path / name, *extra).exit_code == 0
    y, f = read_table(tmp_path / "y.csv"), read_table(tmp_path / "f.csv")
    np.testing.assert_allclose(y["std"] ** 2 - f["std"] ** 2, mc.load(model).noise_variance_, rtol=1e-8)


def test_columns_that_have_our_names_are_kept(saved, tmp_path):
    model, _ = saved
    write_table(tmp_path / "new.csv", {"mean": [7.0, 8.0], "a": [0.5, 1.5]})
    assert run("predict", model, tmp_path / "new.csv", "--out", tmp_path / "p.csv").exit_code == 0
    found = read_table(tmp_path / "p.csv")
    assert list(found) == [
        "mean",
        "a",
        "predicted_mean",
        "predicted_std",
        "predicted_lower",
        "predicted_upper",
    ]
    np.testing.assert_array_equal(found["mean"], [7, 8])


def test_a_model_fitted_without_names_takes_columns_in_their_order(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(12, 2))
    model = mc.GPRegressor().fit(X, X[:, 0] + 0.1 * rng.standard_normal(12))
    model.save(tmp_path / "m.mercer")
    write_table(tmp_path / "new.csv", {"u": X[:3, 0], "v": X[:3, 1]})
    assert (
        run("predict", tmp_path / "m.mercer", tmp_path / "new.csv", "--out", tmp_path / "p.csv").exit_code
        == 0
    )
    np.testing.assert_allclose(read_table(tmp_path / "p.csv")["mean"], model.predict(X[:3]), rtol=1e-9)
    write_table(tmp_path / "one.csv", {"u": X[:3, 0]})
    result = run("predict", tmp_path / "m.mercer", tmp_path / "one.csv", "--out", tmp_path / "p.csv")
    assert result.exit_code == 1
    assert "2 columns without names" in result.stderr


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("--target", "z"), "has no column 'z'; it has a, b, city, y"),
        (("--target", "city"), "column 'city' is not numeric (found 'town 0' in row 1)"),
        (("--target", "y", "--features", "a,city", "--kernel", "SE()"), "column 'city' is not numeric"),
        (("--target", "y", "--features", "a,nothing"), "has no column 'nothing'"),
        (("--target", "y", "--features", "a,y"), "names the target"),
        (("--target", "y", "--features", "a,a"), "names a column twice"),
        (("--target", "y", "--kernel", "SEE()"), "unknown kernel 'SEE'"),
        (("--target", "y", "--noise", "-1"), "noise_variance must be"),
        (("--target", "y", "--out", "no/such/folder/m.mercer"), "there is no folder no/such/folder"),
    ],
)
def test_errors_of_fit_are_one_line(data, tmp_path, arguments, message):
    result = run("fit", data, "--out", tmp_path / "m.mercer", *arguments)
    assert result.exit_code == 1
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert result.stdout == ""
    assert not (tmp_path / "m.mercer").exists()


def test_a_missing_feature_is_named_by_its_row_in_the_file(tmp_path):
    columns = table()
    columns["a"][9] = np.nan
    write_table(tmp_path / "d.csv", columns)
    columns["b"][6] = np.inf
    write_table(tmp_path / "e.csv", columns)
    out = ("--target", "y", "--out", tmp_path / "m.mercer")
    result = run("fit", tmp_path / "d.csv", *out, "--kernel", "SE()")
    assert result.exit_code == 1
    assert "column 'a' has no value in row 10 (1 such in all)" in result.stderr
    result = run("fit", tmp_path / "e.csv", *out)
    assert result.exit_code == 1 and "column 'b' has an infinite value in row 7" in result.stderr


def test_errors_of_predict_and_info_are_one_line(saved, tmp_path):
    model, data = saved
    write_table(tmp_path / "gap.csv", {"a": [1.0, np.nan]})
    write_table(tmp_path / "other.csv", {"b": [1.0]})
    cases = [
        (("predict", model, tmp_path / "none.csv", "--out", tmp_path / "p.csv"), "there is no such file"),
        (
            ("predict", model, tmp_path / "gap.csv", "--out", tmp_path / "p.csv"),
            "column 'a' has no value in row 2",
        ),
        (
            ("predict", model, tmp_path / "other.csv", "--out", tmp_path / "p.csv"),
            "has no column 'a'; it has b",
        ),
        (("predict", model, data, "--out", tmp_path / "p.xlsx"), "use .csv, .tsv or .parquet"),
        (
            ("predict", model, data, "--out", tmp_path / "p.csv", "--level", 95),
            "--level must lie strictly between 0 and 1",
        ),
        (("predict", model, data, "--out", tmp_path), "is a folder"),
        (("info", data), "not a saved model"),
        (("info", tmp_path / "none.mercer"), "there is no such file"),
    ]
    for arguments, message in cases:
        result = run(*arguments)
        assert result.exit_code == 1, arguments
        assert message in result.stderr
        assert len(result.stderr.splitlines()) == 1


def test_unexpected_errors_say_how_to_see_more(saved, monkeypatch):
    def broken(path):
        raise KeyError("surprise")

    monkeypatch.setattr("mercer.app.describe.describe", broken)
    result = run("info", saved[0])
    assert result.exit_code == 1
    assert "unexpected KeyError" in result.stderr
    assert "MERCER_TRACEBACK=1" in result.stderr
    monkeypatch.setenv("MERCER_TRACEBACK", "1")
    assert isinstance(run("info", saved[0]).exception, KeyError)


def test_a_table_that_cannot_be_written_leaves_the_old_one(tmp_path):
    path = tmp_path / "table.csv"
    write_table(path, {"a": np.arange(3.0)})
    before = path.read_bytes()
    with pytest.raises(ValueError):  # columns of different lengths
        write_table(path, {"a": np.arange(3.0), "b": np.arange(2.0)})
    assert path.read_bytes() == before and [p.name for p in tmp_path.iterdir()] == ["table.csv"]


@pytest.mark.parametrize(
    ("model", "says", "instead"),
    [(mc.GaussianMixture(2), "components", "mercer cluster"), (mc.HMM(2), "states", "mercer hmm")],
    ids=["mixture", "hmm"],
)
def test_models_fitted_by_em_are_described_and_not_predicted_with(model, says, instead, tmp_path):
    X = np.random.default_rng(0).normal(size=(30, 2)) + np.repeat([[0.0], [4.0]], 15, 0)
    path, table = tmp_path / "m.mercer", tmp_path / "t.csv"
    model.fit(X).save(path)
    write_table(table, {"a": X[:, 0], "b": X[:, 1]})
    told = CliRunner().invoke(app, ["info", str(path)])
    assert told.exit_code == 0 and says in told.output and "log-likelihood" in told.output
    refused = CliRunner().invoke(app, ["predict", str(path), str(table), "--out", str(tmp_path / "o.csv")])
    assert refused.exit_code == 1 and instead in refused.output


def test_help_tells_what_each_command_does():
    for command in ("demo", "fit", "predict", "info"):
        result = run(command, "--help")
        assert result.exit_code == 0
        assert len(result.stdout.splitlines()) > 6
    assert all(command in run("--help").stdout for command in ("demo", "fit", "predict", "info"))


def test_the_installed_command_says_its_version():
    result = subprocess.run(
        [sys.executable, "-m", "mercer.app.cli", "--version"], capture_output=True, text=True
    )
    assert (result.returncode, result.stdout.strip()) == (0, f"mercer {mc.__version__}")


@pytest.mark.slow
def test_demo_learns_tells_and_draws(tmp_path):
    command = [sys.executable, "-m", "mercer.app.cli", "demo", "--quick", "--out", str(tmp_path / "demo.png")]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    for word in (
        "kept back",
        "trend",
        "season",
        "noise",
        "measured",
        "2001",
        "of the 80 months that came lie in",
    ):
        assert word in result.stdout
    for word in ("made at other times", "all together", "What the model cannot know"):
        assert word in result.stdout
    assert (tmp_path / "demo.png").read_bytes().startswith(PNG)
