"""Mixed tables on the command line: text, dates, empty cells and outliers, by default."""

import numpy as np
import pytest
from typer.testing import CliRunner

import mercer as mc
from mercer.app.cli import app
from mercer.app.tables import read_table, write_table

from .test_fits import table


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def written(path, seed=0, n=60, **more):
    """The mixed table of the other tests as a file; returns its target."""
    frame, y = table(seed, n)
    columns = {name: frame[name].to_numpy() for name in frame}
    columns["day"] = np.array([str(day)[:10] for day in columns["day"]], object)
    columns["city"] = np.array(["" if i % 20 == 7 else c for i, c in enumerate(columns["city"])], object)
    write_table(path, columns | {"y": y} | more)
    return y


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mixed")
    written(folder / "data.csv")
    result = run("fit", folder / "data.csv", "--target", "y", "--out", folder / "m.mercer")
    assert result.exit_code == 0, result.output
    told = ("fitting", "note: model saved in ")  # how far it is, if it takes long, and where the model is
    assert all(line.startswith(told) for line in result.stderr.splitlines())
    return folder, result.stdout


def test_fit_takes_every_column_and_says_what_it_is(fitted):
    folder, said = fitted
    assert "age number, with empty cells" in said and "city category of 4 levels" in said
    assert "day date, in days since 2021" in said
    info = run("info", folder / "m.mercer")
    assert info.exit_code == 0 and "column city" in info.stdout and "60 rows, 4 columns" in info.stdout


@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet"])
def test_predict_beside_the_columns_of_the_file(fitted, tmp_path, ending):
    folder, _ = fitted
    y = written(tmp_path / f"new.{ending}", 1, 30)
    result = run(
        "predict", folder / "m.mercer", tmp_path / f"new.{ending}", "--out", tmp_path / f"p.{ending}"
    )
    assert result.exit_code == 0, result.output
    ignored, written_to = result.stderr.splitlines()
    assert "ignored: y" in ignored and "(30 rows) written to" in written_to
    found = read_table(tmp_path / f"p.{ending}")
    assert np.mean((found["lower"] <= y) & (y <= found["upper"])) > 0.8
    assert np.sqrt(np.mean((found["mean"] - y) ** 2)) < 0.5 * np.std(y)


def test_labels_that_are_new_and_columns_that_are_not_there(fitted, tmp_path):
    folder, _ = fitted
    written(tmp_path / "new.csv", 1, 30)
    new = read_table(tmp_path / "new.csv")
    del new["y"]
    write_table(tmp_path / "rome.csv", new | {"city": np.array(["Rom"] * 30, object)})
    result = run("predict", folder / "m.mercer", tmp_path / "rome.csv", "--out", tmp_path / "p.csv")
    assert result.exit_code == 0 and "labels that were not seen in training" in result.stderr
    del new["age"]
    write_table(tmp_path / "short.csv", new)
    result = run("predict", folder / "m.mercer", tmp_path / "short.csv", "--out", tmp_path / "p.csv")
    assert result.exit_code == 1 and "has no column 'age'; it has city, day, ok" in result.stderr
    bad = new | {"age": np.array(["old"] * 30, object)}
    write_table(tmp_path / "bad.csv", bad)
    result = run("predict", folder / "m.mercer", tmp_path / "bad.csv", "--out", tmp_path / "p.csv")
    assert result.exit_code == 1 and "column 'age' is not numeric (found 'old' in row 1)" in result.stderr
    gap = new | {"age": np.full(30, 40.0), "day": np.array(["2021-01-01", "", *["2021-01-03"] * 28], object)}
    write_table(tmp_path / "gap.csv", gap)
    result = run("predict", folder / "m.mercer", tmp_path / "gap.csv", "--out", tmp_path / "p.csv")
    assert result.exit_code == 1 and "column 'day' has no value in row 2" in result.stderr


def test_outliers_beside_empty_cells(tmp_path):
    frame, y = table(0, 60)
    y[[3, 50]] += 40.0
    columns = {name: frame[name].to_numpy() for name in frame if name != "day"}
    write_table(tmp_path / "d.csv", columns | {"y": y})
    result = run(
        "fit", tmp_path / "d.csv", "--target", "y", "--out", tmp_path / "m.mercer", "--robust", "student-t"
    )
    assert result.exit_code == 0, result.output
    rows = mc.load(tmp_path / "m.mercer").outliers_
    assert {rows.name(int(i)) for i in rows.rows[:2]} == {"4", "51"}


def test_a_kernel_that_reads_numbers_leaves_text_out(tmp_path):
    frame, y = table(0, 40)
    day = np.array([str(day)[:10] for day in frame["day"].to_numpy()], object)
    city = frame["city"].to_numpy()
    write_table(tmp_path / "d.csv", {"day": day, "city": city, "y": y})
    out = ("--target", "y", "--out", tmp_path / "m.mercer")
    result = run("fit", tmp_path / "d.csv", *out, "--kernel", "SE(100)")
    assert result.exit_code == 0, result.output
    assert "left out columns of text, which the kernel cannot read: city" in result.stderr
    assert mc.load(tmp_path / "m.mercer").columns_.names == ("day",)
    mixed = "SE(day, l=100) * Categorical(city)"
    result = run("fit", tmp_path / "d.csv", *out, "--kernel", mixed, "--quiet")
    assert result.exit_code == 0 and mc.load(tmp_path / "m.mercer").columns_.names == ("day", "city")
