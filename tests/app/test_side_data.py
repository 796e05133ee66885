"""What is known of rows, and what the target is, on the command line."""

from __future__ import annotations

import numpy as np
import pytest
from typer.testing import CliRunner

import mercer as mc
from mercer.app.cli import app
from mercer.app.tables import read_table, write_table

N = 30


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments], env={"COLUMNS": "120"})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("side"), np.random.default_rng(0)
    x = np.sort(rng.uniform(0, 3, N))
    p, tries, days = 1 / (1 + np.exp(-2 * np.sin(2 * x))), rng.integers(3, 20, N), rng.integers(1, 9, N)
    time, y = np.exp(np.sin(2 * x)) * rng.weibull(2.0, N), np.sin(2 * x) + 0.1 * rng.normal(size=N)
    columns = {
        "x": x,
        "hits": rng.binomial(tries, p),
        "tries": tries,
        "faults": rng.poisson(days * np.exp(np.sin(2 * x))),
        "days": days,
        "time": np.minimum(time, 1.5),
        "over": (time < 1.5).astype(int),
        "y": np.where(y < -0.3, np.nan, y),  # "< -0.3": the cell is empty, the limit is known
        "below": np.where(y < -0.3, -0.3, np.nan),
        "price": np.exp(y),
        "school": rng.integers(0, 4, N),
    }
    write_table(folder / "data.csv", columns)
    write_table(folder / "new.csv", {"x": [0.5, 2.5], "school": [1, 1]})
    return folder


CASES = {
    "binomial": ("hits", ("--likelihood", "binomial", "--trials", "tries"), {"trials": "tries"}),
    "poisson": ("faults", ("--likelihood", "poisson", "--exposure", "days"), {"exposure": "days"}),
    "weibull": ("time", ("--likelihood", "weibull", "--event", "over"), {"event": "over"}),
    "censored": ("y", ("--upper", "below"), {"upper": "below"}),
}


@pytest.mark.parametrize("name", CASES)
def test_as_in_python(folder, name):
    target, options, side = CASES[name]
    model, out = folder / f"{name}.mercer", folder / f"{name}.csv"
    given = ("--target", target, "--features", "x", "--kernel", "SE(1)", "--out", model, *options)
    result = run("fit", folder / "data.csv", *given)
    assert result.exit_code == 0, result.output
    table = read_table(folder / "data.csv")
    ours = mc.GPRegressor("SE(1)", likelihood=None if name == "censored" else name).fit(
        {"x": table["x"]}, table[target], **{keyword: table[column] for keyword, column in side.items()}
    )
    assert run("predict", model, folder / "new.csv", "--out", out).exit_code == 0
    predicted = read_table(out)
    np.testing.assert_allclose(predicted["mean"], ours.predict({"x": [0.5, 2.5]}), rtol=1e-6)
    _, upper = ours.predict_interval({"x": [0.5, 2.5]})
    np.testing.assert_allclose(predicted["upper"], upper, rtol=1e-6)
    if name == "censored":
        seen = int(np.isnan(table["below"]).sum())
        assert (
            f"of {seen} data lie in their 95 % interval" in result.stdout and "left out" not in result.stdout
        )


def test_warps_limits_from_below_and_groups(folder):
    out = folder / "w.mercer"
    given = ("--features", "x", "--kernel", "SE(1)", "--out", out)
    result = run("fit", folder / "data.csv", "--target", "price", "--warp", "log", *given)
    assert result.exit_code == 0 and "noise: Gaussian with standard deviation" in result.stdout
    assert "of log y" in result.stdout
    result = run("fit", folder / "data.csv", "--target", "price", "--lower", "below", *given)
    assert result.exit_code == 0, result.output
    given = ("--features", "x,school", "--groups", "school", "--out", out)
    result = run("fit", folder / "data.csv", "--target", "price", *given)
    assert result.exit_code == 0 and "school category of 4 levels" in result.stdout


@pytest.mark.parametrize(
    ("options", "words"),
    {
        "of another likelihood": (
            ("--target", "hits", "--trials", "tries"),
            "trials goes with likelihood='binomial'",
        ),
        "the target itself": (
            ("--target", "hits", "--trials", "hits"),
            "are columns of their own: hits, hits",
        ),
        "a feature": (
            ("--target", "hits", "--trials", "tries", "--features", "x,tries"),
            "--features names 'tries', which is the trials of a row",
        ),
        "robust": (
            ("--target", "y", "--robust", "student-t", "--likelihood", "poisson"),
            "--likelihood and --robust both say what the noise is",
        ),
        "classes": (("--target", "over", "--classify", "--exposure", "days"), "are for numeric targets"),
        "not counts": (("--target", "y", "--likelihood", "poisson"), "y must hold counts"),
        "no column": (("--target", "hits", "--trials", "try"), "has no column 'try'"),
    }.values(),
)
def test_errors_of_one_line(folder, options, words):
    result = run("fit", folder / "data.csv", "--out", folder / "never.mercer", *options)
    assert result.exit_code == 1 and words in " ".join(result.output.split())
    assert not (folder / "never.mercer").exists()
