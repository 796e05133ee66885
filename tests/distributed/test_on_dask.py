"""Chunks on the workers of a Dask cluster say what they say in this process."""

import itertools

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

import mercer as mc
from mercer import inputs
from mercer.columns import Reader
from mercer.distributed.chunks import Here
from mercer.distributed.on_dask import Partitions, Workers
from mercer.distributed.parcel import Parcel
from mercer.inference import by_name as by_name_of
from mercer.inference import chunked
from mercer.learning import chunked as learning


def test_sums_are_those_of_one_process_bit_for_bit(client, work):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(101, 2)), rng.normal(size=101)
    cuts = [0, 3, 50, 50, 77, 78, 90, 101]
    source = inputs.chunks([(X[a:b], y[a:b]) for a, b in itertools.pairwise(cuts)])
    here, there = (e.sum(work, source, [0.1]) for e in (Here(), Workers(client)))
    assert here["n"] == there["n"] == 101 and here["sum"] == there["sum"]
    parts = [float(i) for i in range(len(source))]
    assert Workers(client).map(len_of, source, parts=parts) == [
        (i, b - a) for i, (a, b) in enumerate(itertools.pairwise(cuts))
    ]


CUTS = {1: [0, 60], 2: [0, 7, 60], 3: [0, 40, 40, 60], 7: [0, 1, 20, 20, 21, 44, 58, 60]}


# sites in the client take many small passes
CASES = [
    pytest.param(name, chunks, marks=[pytest.mark.slow] * (name == "student-t" and chunks != 3))
    for name, chunks in itertools.product(("gaussian", "bernoulli", "student-t"), CUTS)
]


@pytest.mark.parametrize(("likelihood", "chunks"), CASES)
def test_evidence_gradient_and_predictions_are_those_of_one_machine(client, likelihood, chunks):
    rng = np.random.default_rng(4)
    X, XS = rng.normal(size=(60, 2)), rng.normal(size=(5, 2))
    y = np.sin(2 * X[:, 0]) + 0.2 * rng.normal(size=60)
    likelihood, rule = {
        "gaussian": (mc.likelihoods.Gaussian(0.05), None),
        "bernoulli": (mc.likelihoods.Bernoulli(), mc.inference.EP(tol=1e-10)),
        "student-t": (mc.likelihoods.StudentT(0.3), mc.inference.Laplace()),
    }[likelihood]
    if likelihood.categorical:
        y = np.where(y > 0, 1.0, -1.0)
    model, solver = mc.Model(mc.GP(mc.kernels.SE([1.0, 2.0])), likelihood), mc.solvers.VFE(inducing=X[:8])
    value, by_name = mc.log_evidence_and_gradient(model, X, y, inference=rule, solver=solver)
    source = inputs.chunks([(X[a:b], y[a:b]) for a, b in itertools.pairwise(CUTS[chunks])])
    seen = learning.survey(source, Workers(client))
    rule = by_name_of(rule, likelihood)
    problem = learning.ChunkedProblem(model.bind(seen.inputs), seen, rule, solver, part=None)
    found, gradient = problem._evidence(problem.model)
    assert found == pytest.approx(value, rel=1e-8)
    assert set(gradient) == set(by_name)
    for name, bar in by_name.items():
        np.testing.assert_allclose(gradient[name], bar, rtol=1e-8, atol=1e-8 * np.abs(bar).max())
    post, whole = problem.posterior(problem.model, rule), model.condition(X, y, rule, solver=solver)
    np.testing.assert_allclose(post.mean(XS), whole.mean(XS), rtol=1e-8)
    np.testing.assert_allclose(post.std(XS), whole.std(XS), rtol=1e-8)


def test_partitions(client, work):
    frame = pd.DataFrame({"a": np.arange(20.0), "b": np.ones(20), "y": np.arange(20.0) ** 2})
    ddf = dd.from_pandas(frame, npartitions=3)
    source = Partitions(ddf[["a", "b"]], ddf["y"])
    assert source.load(1).numbers()[0].names == ("a", "b")
    assert Workers(client).sum(work, source, [1.0]) == {"n": 20, "sum": frame["y"].sum()}
    X = da.from_array(frame[["a", "b"]].to_numpy(), chunks=(7, 1))
    y = da.from_array(frame["y"].to_numpy(), chunks=7)
    assert Workers(client).sum(work, Partitions(X, y), [1.0]) == {"n": 20, "sum": frame["y"].sum()}
    with pytest.raises(inputs.InputError, match="3 partitions and y has 2"):
        Partitions(X, y.rechunk(10))
    with pytest.raises(inputs.InputError, match="y is a Series in memory: take both from one Dask frame"):
        Partitions(ddf[["a", "b"]], frame["y"])
    with pytest.raises(inputs.InputError, match=r"partition \d of 3: y is missing: give it after X"):
        mc.GPRegressor().fit(ddf[["a", "b"]], None)
    with pytest.raises(inputs.InputError, match=r"partition 2 of 3: y contains NaN in row 5"):
        Workers(client).sum(work, Partitions(X, da.where(y == 361, np.nan, y)))


def len_of(chunk, part):
    return int(part), len(chunk.numbers()[1])


def test_what_cannot_be_sent_is_said_before_it_is(client):
    def level(X):
        return X[:, 0]

    model = mc.Model(mc.GP(mc.kernels.SE(), level))
    source = inputs.chunks([(np.zeros((3, 1)), np.zeros(3))])
    with pytest.raises(ValueError, match=r"your functions .*level.* no code is sent"):
        Workers(client).sum(chunked.summarise, source, [Parcel(Reader(None, 1), model, mc.solvers.VFE())])
