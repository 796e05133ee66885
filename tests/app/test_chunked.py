"""`mercer fit` and `mercer predict` of several files, here and on a cluster."""

import numpy as np
import pytest
from typer.testing import CliRunner

import mercer as mc
from mercer.app.cli import app

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(0)
    for i, n in enumerate((330, 190)):
        x = rng.uniform(-3, 3, n)
        part = {"x": x, "y": np.sin(x) + 0.1 * rng.normal(size=n)}
        pq.write_table(pa.table(part), tmp_path / f"data{i}.parquet")
    return sorted(tmp_path.glob("data*.parquet"))


def test_files_are_predicted_in_chunks(files, tmp_path):
    x, model, out = np.linspace(-3, 3, 30), tmp_path / "m.mercer", tmp_path / "predicted"
    mc.GPRegressor(mc.kernels.SE(), noise_variance=0.01, learn=False).fit({"x": x}, np.sin(x)).save(model)
    found = run("predict", model, *files, "--out", out)
    assert found.exit_code == 0, found.stderr
    assert "(520 rows) written to" in found.stderr
    table = pq.read_table(out).to_pydict()
    expected = mc.load(model).predict_columns({"x": np.array(table["x"])})
    np.testing.assert_allclose(table["upper"], expected["upper"], rtol=1e-10)
    again = run("predict", model, *files, "--out", out)
    assert again.exit_code == 1 and "is there already" in again.stderr


def test_what_does_not_go_together_is_said(files, tmp_path):
    model = tmp_path / "m.mercer"
    for words, said in (
        (["--error", "x"], "--error goes with one file"),
        (["--dask", "local:none"], "tcp://host:8786, or local:2"),
        (["--dask", "nowhere"], "tcp://host:8786, or local:2"),
    ):
        found = run("fit", *files, "--target", "y", "--out", model, *words)
        assert found.exit_code == 1 and said in found.stderr
    model.write_bytes(b"")
    found = run("predict", model, *files, "--out", tmp_path / "all.csv")
    assert found.exit_code == 1 and "go to a folder" in found.stderr
    found = run("fit", files[0], "-", "--target", "y", "--out", model)
    assert found.exit_code == 1 and "standard input" in found.stderr


def test_few_rows_of_classes(tmp_path):
    rng, model = np.random.default_rng(0), tmp_path / "m.mercer"
    for i, n in enumerate((25, 20)):
        x = rng.uniform(-3, 3, n)
        kind = np.where(x > 0, "right", "left")
        pq.write_table(pa.table({"x": x, "kind": kind}), tmp_path / f"few{i}.parquet")
    few = sorted(tmp_path.glob("few*.parquet"))
    words = ["fit", *few, "--target", "kind", "--out", model, "--classify"]
    found = run(*words, "--noise", 0.1)
    assert found.exit_code == 1 and "--noise is for numbers" in found.stderr
    found = run(*words, "--kernel", "SE(1.0)")
    assert found.exit_code == 0, found.stderr
    assert mc.load(model).predict({"x": [-2.0, 2.0]}).tolist() == ["left", "right"]


@pytest.mark.slow
def test_on_a_cluster_the_same(files, tmp_path):
    """Two processes are started: the dashboard is said, and the model is that of one process."""
    here, there = tmp_path / "here.mercer", tmp_path / "there.mercer"
    plain = ["fit", *files, "--target", "y", "--kernel", "SE()", "--out"]
    said = run(*plain, here)
    assert said.exit_code == 0 and "next: mercer predict" in said.stdout
    found = run(*plain, there, "--dask", "local:2")
    assert found.exit_code == 0, found.stderr
    assert "dashboard: http" in found.stderr
    a, b = (mc.load(path) for path in (here, there))
    assert a.log_marginal_likelihood_ == pytest.approx(b.log_marginal_likelihood_, rel=1e-8)
    found = run("predict", there, *files, "--out", tmp_path / "out", "--dask", "local:2")
    assert found.exit_code == 0 and pq.read_table(tmp_path / "out").num_rows == 520
