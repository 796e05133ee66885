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
from mercer.inference import chunked


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
