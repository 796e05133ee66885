"""Predictions of files into files."""

import numpy as np
import pytest

import mercer as mc
from mercer.inputs import InputError

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(1)
    table = {"a": rng.normal(size=30), "b": rng.normal(size=30)}
    return mc.GPRegressor(mc.kernels.SE(), learn=False).fit(table, np.sin(table["a"]) + table["b"])


@pytest.fixture
def new(tmp_path):
    """Three files of uneven sizes, one of them empty, with a column that the model does not know."""
    rng, parts = np.random.default_rng(2), []
    for i, n in enumerate((5, 0, 3)):
        part = {"b": rng.normal(size=n), "id": np.arange(n), "a": rng.normal(size=n)}
        pq.write_table(pa.table(part), tmp_path / f"{i}.parquet")
        parts.append(part)
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def test_files_hold_what_the_model_says(model, new, tmp_path):
    told = []
    rows = mc.predict_files(
        model, tmp_path / "*.parquet", tmp_path / "out", level=0.8, progress=lambda *said: told.append(said)
    )
    assert rows == 8
    found = pq.read_table(tmp_path / "out").to_pydict()
    expected = new | model.predict_columns({"a": new["a"], "b": new["b"]}, level=0.8)
    assert list(found) == list(expected)
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-12)
    assert [t for t in told if t[2] == "chunks"][-1] == (told[-1][1], told[-1][1], "chunks")
    assert sorted(p.name for p in tmp_path.iterdir() if p.is_dir()) == ["out"]
    with pytest.raises(FileExistsError, match="name another folder"):
        mc.predict_files(model, tmp_path / "*.parquet", tmp_path / "out")


def test_interrupted_it_goes_on(model, new, tmp_path):
    def press(done, total, text):
        if text == "chunks" and done == 1:
            raise KeyboardInterrupt

    data, out = str(tmp_path / "*.parquet"), tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        mc.predict_files(model, data, out, progress=press)
    assert not out.exists()
    kept = tmp_path / ".out.part" / "part-00000.parquet"
    before = kept.stat().st_mtime_ns
    assert mc.predict_files(model, data, out) == 8
    assert (out / kept.name).stat().st_mtime_ns == before  # not computed again
    with pytest.raises(KeyboardInterrupt):
        mc.predict_files(model, data, tmp_path / "other", progress=press)
    mc.predict_files(model, data, tmp_path / "other", level=0.5)  # of other predictions nothing is kept
    wide, narrow = (pq.read_table(tmp_path / name).to_pydict() for name in ("out", "other"))
    assert np.all(np.greater(wide["upper"], narrow["upper"]))


def test_names_that_are_taken_and_chunks_that_are_wrong(model, tmp_path):
    pq.write_table(pa.table({"a": [0.0], "b": [1.0], "mean": [7.0]}), tmp_path / "0.parquet")
    mc.predict_files(model, tmp_path / "0.parquet", tmp_path / "out")
    found = pq.read_table(tmp_path / "out").to_pydict()
    assert found["mean"] == [7.0] and {"predicted_mean", "predicted_std"} < set(found)
    pq.write_table(pa.table({"a": [0.0], "c": [1.0]}), tmp_path / "1.parquet")
    with pytest.raises(InputError, match=r"partition 1 of 2.*lacks the column 'b'"):
        mc.predict_files(model, tmp_path / "*.parquet", tmp_path / "again")


def test_classes(tmp_path):
    X = {"x": np.linspace(-2, 2, 20)}
    labels = np.where(X["x"] > 0, "up", "down")
    model = mc.GPClassifier(mc.kernels.SE(), learn=False).fit(X, labels)
    pq.write_table(pa.table(X), tmp_path / "0.parquet")
    mc.predict_files(model, tmp_path / "0.parquet", tmp_path / "out")
    found = pq.read_table(tmp_path / "out").to_pydict()
    assert found["class"] == labels.tolist()
    np.testing.assert_allclose(np.add(found["p_up"], found["p_down"]), 1.0, atol=1e-9)
