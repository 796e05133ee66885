"""The command line with outliers in the data: fit --robust, info, predict."""

from __future__ import annotations

import numpy as np
import pytest
from typer.testing import CliRunner

import mercer as mc
from mercer.app.cli import app
from mercer.app.tables import read_table, write_table


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments], env={"COLUMNS": "120"})


def table(n=30) -> dict:
    rng = np.random.default_rng(0)
    a = rng.uniform(0, 3, n)
    y = np.sin(2 * a) + 0.05 * rng.standard_normal(n)
    y[[9, 20]] += [4.0, -3.0]
    y[4] = np.nan
    return {"a": a, "y": y}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("robust")
    write_table(folder / "data.csv", table())
    return folder


@pytest.mark.slow
def test_auto_says_why_and_which_rows_of_the_file_are_outliers(folder):
    model, out = folder / "auto.mercer", folder / "p.csv"
    fit = run(
        "fit",
        folder / "data.csv",
        "--target",
        "y",
        "--robust",
        "auto",
        "--out",
        model,
        "--plot",
        folder / "fit.png",
    )
    assert fit.exit_code == 0, fit.output
    for word in (
        "Kept",
        "held-out rows",
        "gaussian",
        "student-t",
        "laplace",
        "mixture",
        "noise:",
        "of 29 rows are outliers",
        "MAE",
    ):
        assert word in fit.stdout
    assert (folder / "fit.png").read_bytes().startswith(b"\x89PNG")

    info = run("info", model)
    assert info.exit_code == 0, info.output
    loaded = mc.load(model)
    assert loaded.robust_comparison_.best in ("student-t", "mixture")
    for said in (fit.stdout, info.stdout):
        lines = [line.split() for line in said.splitlines()]
        # the tenth row of the file
        assert any(line[:1] == ["10"] and line[-1] in ("0.000", "1.000") for line in lines)
        assert any(line[:1] == ["21"] for line in lines)
        assert "Kept" in said

    predict = run("predict", model, folder / "data.csv", "--out", out, "--level", 0.8)
    assert predict.exit_code == 0, predict.output
    after = read_table(out)
    lower, upper = loaded.predict_interval({"a": table()["a"]}, 0.8)
    np.testing.assert_allclose(after["lower"], lower, rtol=1e-9)
    np.testing.assert_allclose(after["upper"], upper, rtol=1e-9)
    half = 1.2815515655446004 * after["std"]
    # std is half the 68 % interval: heavier tails than a Gaussian of that std
    assert np.all(after["upper"] - after["mean"] > half)
    latent = run("predict", model, folder / "data.csv", "--out", out, "--level", 0.8, "--latent")
    assert latent.exit_code == 0, latent.output
    np.testing.assert_allclose(
        read_table(out)["upper"] - after["mean"], 1.2815515655446004 * read_table(out)["std"], rtol=1e-9
    )


def test_a_named_noise_model(folder, tmp_path):
    out = tmp_path / "m.mercer"
    result = run("fit", folder / "data.csv", "--target", "y", "--robust", "student-t", "--out", out)
    assert result.exit_code == 0, result.output
    assert "Student-t with scale" in result.stdout and "Kept" not in result.stdout
    assert "coverage" in result.stdout


@pytest.mark.parametrize(
    "arguments, code, message",
    [
        (("--robust", "auto", "--noise", "0.1"), 1, "--noise is the variance of Gaussian noise"),
        (("--robust", "auto", "--classify"), 1, "--robust is for numeric targets"),
        (("--robust", "studentt"), 1, "did you mean 'student-t'?"),
    ],
)
def test_wrong_options(folder, tmp_path, arguments, code, message):
    result = run("fit", folder / "data.csv", "--target", "y", "--out", tmp_path / "m.mercer", *arguments)
    assert result.exit_code == code
    assert message in result.stderr


def test_without_robust_nothing_changes(folder, tmp_path):
    result = run("fit", folder / "data.csv", "--target", "y", "--out", tmp_path / "m.mercer")
    assert result.exit_code == 0, result.output
    assert "outliers:" not in result.stdout and "Kept" not in result.stdout
    assert "try likelihood='auto' (--robust auto)" in result.stdout
    assert "noise: Gaussian with standard deviation" in result.stdout
