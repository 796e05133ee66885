"""`mercer forecast`: from a table of dates to a table of forecasts."""

from __future__ import annotations

import numpy as np
import pytest
from typer.testing import CliRunner

import mercer as mc
from mercer.app.cli import app
from mercer.app.forecast import seasons_of
from mercer.app.tables import read_table, write_table

N = 48


def run(*arguments):
    return CliRunner().invoke(app, ["forecast", *map(str, arguments)], env={"COLUMNS": "120"})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Days in any order, one value missing, one that does not fit."""
    folder = tmp_path_factory.mktemp("forecast")
    rng = np.random.default_rng(0)
    day = np.datetime64("2024-02-20") + np.arange(N)
    y = 10.0 + 0.1 * rng.standard_normal(N)
    y[[5, 31]] = [np.nan, 15.0]
    order = rng.permutation(N)
    write_table(folder / "data.csv", {"day": [str(d) for d in day[order]], "y": y[order]})
    return folder


def test_forecast_to_a_file(folder):
    out, plot, model = folder / "next.csv", folder / "next.png", folder / "ts.mercer"
    options = (
        "--seasonal",
        "none",
        "--horizon",
        14,
        "--level",
        0.8,
        "--out",
        out,
        "--plot",
        plot,
        "--save",
        model,
    )
    result = run(folder / "data.csv", "--time", "day", "--target", "y", *options)
    assert result.exit_code == 0, result.output
    for words in (
        "47 values from 2024-02-20 to 2024-04-07, every day; 1 missing",
        "the rows were not in the order of time",
        "Values that do not fit",
        "2024-03-22",
        "What comes next, with 80% intervals",
        "2024-04-08",
        "... and 2 more",
    ):
        assert words in result.output
    table = read_table(out)
    assert (
        list(table) == ["day", "mean", "std", "lower", "upper"]
        and table["day"][0] == "2024-04-08"
        and len(table["day"]) == 14
    )
    ahead = mc.load(model).forecast(14, level=0.8)
    np.testing.assert_allclose(table["upper"], ahead["upper"], rtol=1e-9)
    assert plot.stat().st_size > 5000
    said = CliRunner().invoke(app, ["info", str(model)], env={"COLUMNS": "120"})
    assert said.exit_code == 0 and "GPTimeSeries" in said.output and "Hyperparameters" in said.output
    predicted = folder / "p.csv"
    write_table(folder / "days.csv", {"day": table["day"][::-1]})
    asked = [str(model), str(folder / "days.csv"), "--out", str(predicted), "--level", "0.8"]
    assert CliRunner().invoke(app, ["predict", *asked]).exit_code == 0
    np.testing.assert_allclose(read_table(predicted)["upper"], table["upper"][::-1], rtol=1e-9)
    write_table(folder / "other.csv", {"x": [1.0]})
    refused = CliRunner().invoke(
        app, ["predict", str(model), str(folder / "other.csv"), "--out", str(predicted)]
    )
    assert refused.exit_code == 1 and "mercer forecast MODEL --horizon" in refused.output


def test_forecast_from_a_saved_model(folder, tmp_path):
    """All tables of the series, from the file alone; the date is that of 3 weeks."""
    saved, names = folder / "saved.mercer", ("next", "missing", "parts", "odd")
    ts = mc.GPTimeSeries(None).fit(read_table(folder / "data.csv"), time="day", value="y")
    ts.save(saved)
    files = [tmp_path / f"{name}.csv" for name in names]
    options = ["--out", files[0], "--impute", files[1], "--components", files[2], "--anomalies", files[3]]
    result = run(saved, "--horizon", "3w", *options)
    assert result.exit_code == 0, result.output
    ahead, missing, parts, odd = map(read_table, files)
    assert len(ahead["day"]) == 21 and ahead["day"][-1] == "2024-04-28"
    np.testing.assert_allclose(ahead["lower"], ts.forecast(21)["lower"], rtol=1e-9)
    assert list(missing["day"]) == ["2024-02-25"] and list(odd["day"]) == ["2024-03-22"]
    assert len(parts["day"]) == N + 21 and {"trend", "trend_std", "irregular"} <= set(parts)
    again = run(saved, "--until", "2024-04-28", "--out", tmp_path / "until.csv")
    assert again.exit_code == 0 and (tmp_path / "until.csv").read_text() == files[0].read_text()
    for options, message in (
        (("--time", "day"), "has learned already: leave --time out"),
        (("--horizon", "2024-05-01"), "a date goes with --until"),
        (("--horizon", "3m"), "months or minutes"),
        (("--horizon", "3", "--until", "2024-05-01"), "give one of them"),
    ):
        refused = run(saved, *options)
        assert refused.exit_code == 1 and message in refused.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--time", "when", "--target", "y"), "no column 'when'; it has day, y"),
        (("--time", "day"), "--target, one of day, y"),
        (("--time", "day", "--target", "y", "--level", "90"), "--level must lie strictly between 0 and 1"),
        (("--time", "day", "--target", "y", "--likelihood", "cauchy"), "'poisson', 'student-t', 'uniform'"),
        (("--time", "day", "--target", "day"), "is '2024-"),
        (("--time", "day", "--target", "y", "--out", "nowhere/x.csv"), "there is no folder"),
        (
            ("--time", "day", "--target", "y", "--seasonal", "moon"),
            "cannot tell the period of the season 'moon'",
        ),
    ],
)
def test_errors_are_one_line(folder, arguments, message):
    result = run(folder / "data.csv", *arguments)
    assert result.exit_code == 1 and message in result.output and len(result.output.strip().splitlines()) == 1


def test_regressors_and_events(folder, tmp_path):
    """Columns beside the time and a table of dates; what is known ahead comes from a file."""
    rng, day = np.random.default_rng(1), np.datetime64("2024-02-20") + np.arange(N + 2)
    price = rng.standard_normal(N + 2)
    y = 10.0 + 2.0 * price + 0.1 * rng.standard_normal(N + 2) + 3.0 * (day == np.datetime64("2024-03-08"))
    table = {"day": [str(d) for d in day], "y": y, "price": price}
    write_table(tmp_path / "data.csv", {name: column[:N] for name, column in table.items()})
    write_table(tmp_path / "next.csv", {name: table[name][N:] for name in ("day", "price")})
    write_table(tmp_path / "events.csv", {"name": ["fair"], "date": ["03-08"]})
    options = ("--regressor", "price", "--events", tmp_path / "events.csv", "--future", tmp_path / "next.csv")
    options = (*options, "--seasonal", "none", "--horizon", 2, "--out", tmp_path / "out.csv")
    model = tmp_path / "ts.mercer"
    result = run(tmp_path / "data.csv", "--time", "day", "--target", "y", *options, "--save", model)
    assert result.exit_code == 0, result.output
    assert "price" in result.output and "fair" in result.output and "for each unit" in result.output
    assert np.abs(read_table(tmp_path / "out.csv")["mean"] - y[N:]).max() < 1.0
    again = run(model, "--horizon", 2, "--future", tmp_path / "next.csv", "--out", tmp_path / "again.csv")
    assert again.exit_code == 0, again.output
    assert read_table(tmp_path / "again.csv")["mean"] == pytest.approx(
        read_table(tmp_path / "out.csv")["mean"]
    )
    refused = run(model, "--regressor", "price")
    assert refused.exit_code and "leave --regressor out" in refused.output
    refused = run(model, "--future", tmp_path / "events.csv")
    assert refused.exit_code and "has no column 'day'" in refused.output


def testseasons_of_as_text():
    assert seasons_of("auto") == "auto" and seasons_of("none") is None
    assert seasons_of("12") == {"season 12": 12.0}
    assert seasons_of("week, cycle=11.5") == {"week": "week", "cycle": 11.5}
    with pytest.raises(ValueError, match="period of 'cycle' is not a number"):
        seasons_of("cycle=long")


def test_changes_of_level_are_kept(tmp_path):
    rng = np.random.default_rng(3)
    day = np.datetime64("2024-01-01") + np.arange(60)
    y = 10.0 + 5.0 * (np.arange(60) >= 30) + 0.2 * rng.standard_normal(60)
    write_table(tmp_path / "data.csv", {"day": [str(d) for d in day], "y": y})
    given = ("--time", "day", "--target", "y", "--seasonal", "none", "--horizon", 3)
    model, out = tmp_path / "ts.mercer", tmp_path / "next.csv"
    result = run(tmp_path / "data.csv", *given, "--changes", "--save", model, "--out", out)
    assert result.exit_code == 0, result.output
    assert [str(time)[:10] for time in mc.load(model).changes_.index] == ["2024-01-31"]
    np.testing.assert_allclose(read_table(out)["mean"], 15.0, atol=0.5)
