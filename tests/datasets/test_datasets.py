import importlib.util
import os
from pathlib import Path

import numpy as np
import pytest

from mercer import datasets
from mercer.datasets import _loaders

needs_data = pytest.mark.skipif(
    not os.environ.get("MERCER_DATA"),
    reason="needs the environment variable MERCER_DATA: a folder with the data files",
)
REQUIRED = {
    "co2_gpml",
    "co2_noaa",
    "sarcos",
    "robot_arm",
    "boston",
    "mcycle",
    "snelson",
    "kin40k",
    "protein",
    "kin8nm",
}


def test_co2_is_shipped():
    co2 = datasets.load_co2()
    assert co2.X.shape == (521, 1) and co2.y.shape == (521,)
    assert co2.X.dtype == co2.y.dtype == np.float64
    assert co2.X[0, 0] == pytest.approx(1958 + 2.5 / 12, abs=1e-9) and co2.X[-1, 0] == pytest.approx(
        2001 + 11.5 / 12
    )
    assert co2.y[0] == 316.1  # a single weekly value in March 1958
    assert co2.y[1] == pytest.approx(np.mean([317.3, 317.6, 317.5, 316.4]))
    assert np.all(np.diff(co2.X[:, 0]) > 1 / 12 - 1e-9)
    assert co2.units[co2.target] == "ppm" and co2.columns == ("decimal_year",)


def test_shipped_co2_is_what_the_derivation_script_writes():
    pytest.importorskip("statsmodels", reason="the weekly record is in statsmodels")
    script = Path(__file__).parents[2] / "tools" / "make_co2.py"
    spec = importlib.util.spec_from_file_location("make_co2", script)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.monthly_csv() == module.TARGET.read_text(encoding="utf-8")


def test_ebden_reproduces_the_published_prediction():
    """Published: mean 0.95, variance 0.21 at x = 0.2. More digits: 0.95239,
    0.20701 at the maximum of the evidence.
    """
    data = datasets.ebden()
    x, y = data.X[:, 0], data.y - data.y.mean()

    def k(a, b):
        return 1.267896**2 * np.exp(-0.5 * np.subtract.outer(a, b) ** 2 / 0.990308**2)

    Ky, ks = k(x, x) + 0.09 * np.eye(6), k(x, 0.2)
    assert ks @ np.linalg.solve(Ky, y) + data.y.mean() == pytest.approx(0.95239, abs=1e-5)
    assert 1.267896**2 + 0.09 - ks @ np.linalg.solve(Ky, ks) == pytest.approx(0.20701, abs=1e-5)


def test_names_and_shipped_sets(monkeypatch):
    assert {"co2", "ebden"} | REQUIRED <= set(datasets.names())
    monkeypatch.delenv("MERCER_DATA", raising=False)
    assert datasets.names(available=True) == ["co2", "ebden"]
    np.testing.assert_array_equal(datasets.load("co2").y, datasets.load_co2().y)
    assert "X=(6, 1)" in repr(datasets.load("ebden"))


def test_dataset_is_frozen():
    with pytest.raises(AttributeError):
        datasets.ebden().y = np.zeros(6)


@pytest.mark.parametrize("name", sorted(REQUIRED))
def test_missing_file_is_explained(name, monkeypatch, tmp_path):
    file = next(iter(_loaders._TABLE[name].files))
    monkeypatch.delenv("MERCER_DATA", raising=False)
    with pytest.raises(
        FileNotFoundError, match=rf"{name}.*{file}.*MERCER_DATA is not set.*Set it.*Source: \w+"
    ):
        datasets.load(name)
    monkeypatch.setenv("MERCER_DATA", str(tmp_path))
    with pytest.raises(
        FileNotFoundError, match=rf"{file}.*not in the folder MERCER_DATA={tmp_path}.*It holds .*\w+"
    ):
        datasets.load(name)


def test_checksum_part_split_and_name_are_checked(monkeypatch, tmp_path):
    monkeypatch.setenv("MERCER_DATA", str(tmp_path))
    (tmp_path / "mcycle.csv").write_text("times,accel\n1.5,-2\n3,4\n")
    with pytest.raises(ValueError, match=r"SHA-256 is not fd0bf003.*verify=False"):
        datasets.load("mcycle")
    altered = datasets.load("mcycle", verify=False)
    np.testing.assert_array_equal(altered.X, [[1.5], [3.0]])
    np.testing.assert_array_equal(altered.y, [-2.0, 4.0])
    assert datasets.names(available=True) == ["co2", "ebden", "mcycle"]
    with pytest.raises(ValueError, match="'mcycle' has no part 'test'; it has: all"):
        datasets.load("mcycle", part="test")
    with pytest.raises(ValueError, match=r"20 published division.*0 to 19"):
        datasets.load("kin8nm", split=20)
    with pytest.raises(ValueError, match=r"no data set called 'co3'. Known: .*co2_gpml"):
        datasets.load("co3")


@needs_data
@pytest.mark.parametrize("name", datasets.names())
def test_every_file_loads_and_matches_its_entry(name):
    data = datasets.load(name)
    targets = (data.target,) if isinstance(data.target, str) else data.target
    assert len(data.X) == len(data.y) > 0
    assert set(data.units) <= {*data.columns, *targets}
    assert data.source and data.description
    if data.X.ndim == 2:
        assert data.X.dtype == np.float64 and data.X.shape[1] == len(data.columns)
        assert np.isfinite(data.X).all()
    else:
        assert data.X.dtype.kind == "U"
    if data.y.dtype.kind == "f":
        assert np.isfinite(data.y).all()


@needs_data
@pytest.mark.parametrize(
    ("name", "part", "shape"),
    [
        ("co2_gpml", "all", (545, 1)),
        ("sarcos", "train", (9489, 21)),
        ("sarcos", "test", (4449, 21)),
        ("robot_arm", "test", (200, 6)),
        ("boston", "all", (506, 13)),
        ("boston_split", "test", (51, 13)),
        ("kin40k", "train", (10000, 8)),
        ("kin40k", "test", (30000, 8)),
        ("kin8nm", "test", (819, 8)),
        ("kin8nm", "train", (7373, 8)),
        ("protein", "test", (4573, 9)),
        ("ripley", "test", (1000, 2)),
        ("pima_ripley", "test", (332, 7)),
        ("breast_cancer", "all", (683, 9)),
        ("oil_flow", "val", (1000, 12)),
    ],
)
def test_shapes_the_texts_state(name, part, shape):
    assert datasets.load(name, part).X.shape == shape


@needs_data
def test_facts_the_texts_state():
    gpml = datasets.load("co2_gpml")
    assert gpml.y.mean() == pytest.approx(341, abs=0.5)
    assert gpml.X[0, 0] == pytest.approx(1958 + 2 / 12, abs=1e-7) and gpml.X[-1, 0] == pytest.approx(
        2003 + 11 / 12
    )
    assert datasets.load("sarcos", "test").y.var() == pytest.approx(414.178, abs=5e-4)
    digits = datasets.load("usps")
    assert (
        np.isin(digits.y, [3, 5]).sum() == 767
        and np.isin(datasets.load("usps", "test").y, [3, 5]).sum() == 773
    )
    boston = datasets.load("boston")
    assert (boston.y == 50).sum() == 16 and boston.y.std() == pytest.approx(9.188, abs=5e-4)


@needs_data
def test_sarcos_training_rows_are_not_test_rows():
    train, test = datasets.load("sarcos"), datasets.load("sarcos", "test")
    assert not {row.tobytes() for row in train.X} & {row.tobytes() for row in np.ascontiguousarray(test.X)}


@needs_data
def test_divisions_differ_and_partition():
    whole = datasets.load("kin8nm")
    train, test = (datasets.load("kin8nm", part, split=3) for part in ("train", "test"))
    assert sorted([*train.y, *test.y]) == sorted(whole.y)
    assert not np.array_equal(test.y, datasets.load("kin8nm", "test", split=4).y)


@needs_data
def test_shipped_co2_agrees_with_the_monthly_record():
    shipped, gpml = datasets.load_co2(), datasets.load("co2_gpml")
    month = {round(12 * x): y for x, y in zip(gpml.X[:, 0], gpml.y, strict=True)}
    difference = np.array(
        [y - month[round(12 * x - 0.5)] for x, y in zip(shipped.X[:, 0], shipped.y, strict=True)]
    )
    assert difference.std() < 0.1 and np.abs(difference).max() < 0.5
