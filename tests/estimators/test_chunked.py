"""Estimators on Dask frames: columns learned from all chunks, fits where they are, lazy predictions."""

import itertools
import warnings

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import mercer as mc
from mercer.columns import Columns
from mercer.columns.chunked import learn, look
from mercer.distributed.chunks import Here
from mercer.learning.unconverged import UnconvergedWarning

RNG = np.random.default_rng(4)
N = 240
FRAME = pd.DataFrame(
    {
        "a": RNG.normal(size=N),
        "city": RNG.choice(["Ulm", "Bonn", "Kiel"], N, p=[0.5, 0.4, 0.1]),
        "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(RNG.integers(0, 1200, N), "D"),
        "b": RNG.normal(size=N),
    }
)
FRAME.loc[[5, 200], "b"] = np.nan
FRAME.loc[7, "city"] = None
Y = np.sin(2 * FRAME["a"]) + (FRAME["city"] == "Ulm") + 0.1 * RNG.normal(size=N)
SETTINGS = dict(solver=mc.solvers.VFE(m=15), max_evaluations=3)


@pytest.fixture(scope="module")
def fitted():
    ddf = dd.from_pandas(FRAME.assign(y=Y), npartitions=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnconvergedWarning)
        model = mc.GPRegressor(**SETTINGS).fit(ddf[list(FRAME)], ddf["y"])
    return model, ddf[list(FRAME)]


def chunks(*frames):
    return mc.inputs.chunks([(frame, np.zeros(len(frame))) for frame in frames])


@pytest.mark.parametrize("cuts", [[0, 240], [0, 6, 6, 190, 240]])
def test_columns_are_those_of_one_table(cuts):
    source = chunks(*(FRAME[a:b] for a, b in itertools.pairwise(cuts)))
    found, whole = learn(Here().map(look, source)), Columns.learn(FRAME)
    assert found.encoded_names == whole.encoded_names and found.sharing == whole.sharing
    assert found.columns[1:3] == whole.columns[1:3]
    np.testing.assert_allclose(
        found.encode(FRAME).inputs.values, whole.encode(FRAME).inputs.values, rtol=1e-12
    )


def test_a_chunk_of_another_kind_is_named():
    text = FRAME.assign(a=["x", "y"] * (N // 2))
    with pytest.raises(
        mc.inputs.InputError, match=r"'a' holds numbers in partition 0 of 2 and text in partition 1"
    ):
        learn(Here().map(look, chunks(FRAME, text)))
    with pytest.raises(mc.inputs.InputError, match="partition 1 of 2 has 3 columns, a, city, day, where"):
        learn(Here().map(look, chunks(FRAME, FRAME[["a", "city", "day"]])))
    with pytest.raises(mc.inputs.InputError, match="partition 0 of 1: column 'city' has empty cells"):
        learn(Here().map(look, chunks(FRAME)), missing="error")


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # dask's own, in to_parquet
def test_predictions_are_lazy_and_those_of_the_rows(fitted, tmp_path):
    model, X = fitted
    lazy = model.predict(X)
    assert isinstance(lazy, dd.Series) and lazy.npartitions == 3 and lazy.dtype == float
    here = model.predict(FRAME)
    np.testing.assert_allclose(lazy.compute(), here, rtol=1e-10, atol=1e-12)
    lazy.to_frame("y").to_parquet(tmp_path / "out")
    np.testing.assert_allclose(pd.read_parquet(tmp_path / "out")["y"], here, rtol=1e-10, atol=1e-12)
    _, std = model.predict(X, return_std=True)
    np.testing.assert_allclose(std.compute(), model.predict(FRAME, return_std=True)[1], rtol=1e-10)
    with pytest.raises(ValueError, match="each row alone"):
        model.predict(X, return_cov=True)
    assert "240 rows in 3 chunks" in model.summary() and "every row counts" in model.summary()


def test_it_is_saved_with_what_all_rows_said(fitted, tmp_path):
    model, _ = fitted
    mc.save(model, tmp_path / "m.mercer")
    again = mc.load(tmp_path / "m.mercer")
    for ours, theirs in zip(again.predict(FRAME, True), model.predict(FRAME, True), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-10)
    assert again.log_marginal_likelihood_ == model.log_marginal_likelihood_


@pytest.mark.filterwarnings("ignore::mercer.learning.unconverged.UnconvergedWarning")  # few evaluations
def test_arrays_and_files_with_a_kernel(tmp_path):
    values = FRAME[["a", "b"]].fillna(0.0).to_numpy()
    X, y = da.from_array(values, chunks=(100, 1)), da.from_array(Y.to_numpy(), chunks=100)
    kernel = mc.kernels.SE([1.0, 1.0])
    model = mc.GPRegressor(kernel, **SETTINGS).fit(X, y)
    lazy = model.predict(X)
    assert lazy.shape == (N,) and lazy.chunks == ((100, 100, 40),)
    np.testing.assert_allclose(lazy.compute(), model.predict(values), rtol=1e-10)
    pq.write_table(
        pa.table({"b": values[:, 1], "a": values[:, 0], "y": Y.to_numpy()}), tmp_path / "t.parquet"
    )
    source = mc.inputs.parquet(tmp_path, target="y", features=["a", "b"])
    other = mc.GPRegressor(kernel, **SETTINGS).fit(source, None)
    assert list(other.feature_names_in_) == ["a", "b"]
    np.testing.assert_allclose(
        other.predict(pd.DataFrame(values, columns=["a", "b"])), model.predict(values), atol=0.05
    )
    for setting in (dict(noise_by=0), dict(likelihood="auto"), dict(kernel="auto"), dict(objective="loo")):
        with pytest.raises(mc.inputs.InputError, match="data in chunks do not go with"):
            mc.GPRegressor(**setting).fit(X, y)
    with pytest.raises(mc.inputs.InputError, match="do not go with sample_weight"):
        mc.GPRegressor(kernel).fit(X, y, sample_weight=y)
