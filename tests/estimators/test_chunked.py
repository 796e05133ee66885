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


def test_intervals_and_quantiles_are_lazy_too(fitted):
    model, X = fitted
    lower, upper = model.predict_interval(X, 0.8)
    assert isinstance(lower, dd.Series)
    for lazy, here in zip((lower, upper), model.predict_interval(FRAME, 0.8), strict=True):
        np.testing.assert_allclose(lazy.compute(), here, rtol=1e-10)
    several = model.predict_quantile(X, [0.1, 0.5])
    assert list(several.columns) == ["q10", "q50"]
    np.testing.assert_allclose(several.compute(), model.predict_quantile(FRAME, [0.1, 0.5]), rtol=1e-10)
    np.testing.assert_allclose(
        model.predict_quantile(X, 0.1).compute(), model.predict_quantile(FRAME, 0.1), rtol=1e-10
    )
    everything = model.predict_columns(X)
    assert list(everything.columns) == ["mean", "std", "lower", "upper"]
    np.testing.assert_allclose(everything["upper"].compute(), model.predict_columns(FRAME)["upper"])
    with pytest.raises(ValueError, match="each row alone"):
        model.predict_quantile(X, 0.5, noise_variance=1.0)


# ------------------------------------------------------------------------------------------------- classes

LABELS = np.where(Y > 1.0, "high", "low")
NUMBERS = FRAME[["a", "b"]].fillna(0.0)


@pytest.mark.filterwarnings("ignore::mercer.learning.unconverged.UnconvergedWarning")  # few evaluations
@pytest.mark.parametrize("inference", ["ep", "label-regression"])
def test_two_classes_are_those_of_one_array(inference, tmp_path):
    kernel, Z = mc.kernels.SE([1.0, 1.0], 4.0), NUMBERS.to_numpy()[:15]
    settings = dict(inference=inference, solver=mc.solvers.FITC(inducing=Z), learn=False)
    whole = mc.GPClassifier(kernel, **settings).fit(NUMBERS, LABELS)
    ddf = dd.from_pandas(NUMBERS.assign(y=LABELS), npartitions=3)
    cut = mc.GPClassifier(kernel, **settings).fit(ddf[["a", "b"]], ddf["y"])
    assert cut.classes_.tolist() == ["high", "low"]
    assert cut.log_marginal_likelihood_ == pytest.approx(whole.log_marginal_likelihood_, rel=1e-8)
    p = whole.predict_proba(NUMBERS)
    np.testing.assert_allclose(cut.predict_proba(NUMBERS), p, rtol=1e-7)
    lazy = cut.predict_proba(ddf[["a", "b"]])
    assert list(lazy.columns) == ["p_high", "p_low"]
    np.testing.assert_allclose(lazy.compute(), p, rtol=1e-7)
    assert cut.predict(ddf[["a", "b"]]).compute().tolist() == whole.predict(NUMBERS).tolist()
    mc.save(cut, tmp_path / "m.mercer")
    np.testing.assert_allclose(mc.load(tmp_path / "m.mercer").predict_proba(NUMBERS), p, rtol=1e-7)
    assert "240 rows in 3 chunks" in cut.summary()


@pytest.mark.filterwarnings("ignore::mercer.learning.unconverged.UnconvergedWarning")  # few evaluations
def test_several_classes_and_what_is_refused():
    labels = np.digitize(Y, [0.0, 1.0])
    source = mc.inputs.chunks([(FRAME[a:b], labels[a:b]) for a, b in ((0, 100), (100, 100), (100, N))])
    settings = dict(solver=mc.solvers.VFE(m=12), max_evaluations=2, inference="label-regression")
    with pytest.raises(mc.inputs.InputError, match=r"3 classes.*multi_class='one-vs-rest'"):
        mc.GPClassifier(**settings).fit(source, None)
    model = mc.GPClassifier(multi_class="one-vs-rest", **settings).fit(source, None)
    assert model.classes_.tolist() == [0, 1, 2] and len(model.posterior_) == 3
    assert np.mean(model.predict(FRAME) == labels) > 0.6
    with pytest.raises(mc.inputs.InputError, match="do not go with objective"):
        mc.GPClassifier(objective="loo").fit(source, None)
    lost = labels.astype(object)
    lost[120] = None
    with pytest.raises(mc.inputs.InputError, match="partition 1 of 2: y has no label in row 20"):
        mc.GPClassifier().fit(mc.inputs.chunks([(FRAME[:100], lost[:100]), (FRAME[100:], lost[100:])]), None)
    with pytest.raises(mc.inputs.InputError, match="one class only"):
        mc.GPClassifier().fit(mc.inputs.chunks([(FRAME, np.ones(N))]), None)


@pytest.mark.filterwarnings("ignore::mercer.learning.unconverged.UnconvergedWarning")  # few evaluations
def test_fewer_rows_than_inducing_inputs():
    """All rows are inducing inputs: exact."""
    few = [(NUMBERS[a:b], Y[a:b]) for a, b in ((0, 30), (30, 50))]
    model = mc.GPRegressor(mc.kernels.SE([1.0, 1.0]), max_evaluations=2).fit(mc.inputs.chunks(few), None)
    exact = model.model_.condition(NUMBERS[:50], Y[:50])
    assert model.log_marginal_likelihood_ == pytest.approx(exact.log_evidence, abs=1e-3)
    with pytest.raises(mc.solvers.SolverError, match="ask for m=50 at most"):
        mc.fit(model.model_, mc.inputs.chunks(few), solver=mc.solvers.VFE(m=60))


@pytest.mark.filterwarnings("ignore::mercer.learning.unconverged.UnconvergedWarning")  # few evaluations
def test_batches_of_chunks_bring_their_own_solver():
    source = mc.inputs.chunks([(NUMBERS[:100], Y[:100]), (NUMBERS[100:], Y[100:])])
    rule = mc.inference.SVGP(m=10, epochs=1, batch=32)
    model = mc.GPRegressor(mc.kernels.SE([1.0, 1.0]), inference=rule, max_evaluations=2).fit(source, None)
    assert np.isfinite(model.predict(NUMBERS)).all()
