"""Data in chunks: what a source loads, how it names what is wrong, and sums by a tree of fixed order."""

import itertools
import pickle

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from mercer import inputs
from mercer.distributed.chunks import Here, tree_sum


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    return {"a": rng.normal(size=40), "b": rng.normal(size=40), "y": rng.normal(size=40)}


def write(folder, table, cuts):
    for i, (first, last) in enumerate(itertools.pairwise(cuts)):
        part = pa.table({name: column[first:last] for name, column in table.items()})
        pq.write_table(part, folder / f"part-{i}.parquet")


def together(source):
    pairs = [source.load(i).numbers() for i in range(len(source))]
    return np.concatenate([X.values for X, _ in pairs]), np.concatenate([y for _, y in pairs])


def test_parquet_files_are_read_by_row_groups_also_in_another_process(tmp_path, table, monkeypatch):
    write(tmp_path, table, [0, 13, 13, 40])
    X, y = np.stack([table["a"], table["b"]], 1), table["y"]
    for paths in (tmp_path, str(tmp_path / "*.parquet"), sorted(tmp_path.iterdir())):
        source = inputs.parquet(paths, target="y")
        assert len(source) == 3 and source.load(1).numbers()[1].size == 0
        for this in (source, pickle.loads(pickle.dumps(source))):
            np.testing.assert_array_equal(together(this)[0], X)
            np.testing.assert_array_equal(together(this)[1], y)
    chosen = inputs.parquet(tmp_path, target="y", features=["b"]).load(0).numbers()[0]
    assert chosen.names == ("b",) and chosen.values.shape == (13, 1)
    monkeypatch.setattr("mercer.inputs.sources.ROWS", 10)
    pq.write_table(pa.table(table), tmp_path / "part-0.parquet", row_group_size=4)
    assert len(inputs.parquet(tmp_path / "part-0.parquet", target="y")) == 5  # two groups of four each


def test_files_and_pairs(tmp_path, table):
    pyarrow.csv.write_csv(pa.table(table), tmp_path / "t.csv")
    X, y = together(inputs.files(tmp_path / "t.csv", target="y"))
    np.testing.assert_allclose(X[:, 1], table["b"])
    pairs = [(X[:3], y[:3]), (X[3:], y[3:])]
    for given in (pairs, iter(pairs)):
        source = inputs.chunks(given)
        assert np.array_equal(together(source)[0], X) and np.array_equal(together(source)[0], X)


def test_what_is_wrong_is_named_by_partition_and_row(tmp_path, table):
    table["b"][30] = np.nan
    write(tmp_path, table, [0, 20, 40])
    source = inputs.parquet(tmp_path, target="y")
    with pytest.raises(inputs.InputError, match=r"partition 1 of 2 \(.*part-1.parquet\).*row 10, column 'b'"):
        source.load(1).numbers()
    with pytest.raises(inputs.InputError, match=r"partition 0 of 2 .*no column 'z'; it has a, b, y"):
        inputs.parquet(tmp_path, target="z").load(0)
    with pytest.raises(inputs.InputError, match="no file"):
        inputs.parquet(tmp_path / "nothing.parquet")
    words = inputs.chunks([(np.zeros((2, 2)), [0.0, 1.0]), ({"a": ["x", "y"]}, [0.0, 1.0])])
    with pytest.raises(inputs.InputError, match="partition 1 of 2: column 'a' of X is not numeric"):
        words.load(1).numbers()
    with pytest.raises(inputs.InputError, match="partition 0 of 2: X has 2 columns, where the first chunk"):
        words.load(0).numbers(columns=3)


@pytest.mark.parametrize("n", range(1, 12))
def test_the_tree_pairs_neighbours(n):
    def levels(items):
        while len(items) > 1:
            items = ["(" + "".join(items[i : i + 2]) + ")" if i + 1 < len(items) else items[i]
                     for i in range(0, len(items), 2)]  # fmt: skip
        return items[0]

    class Word(str):
        def __add__(self, other):
            return Word(f"({self!s}{other!s})")

    names = [chr(97 + i) for i in range(n)]
    assert str(tree_sum({"x": Word(name)} for name in names)["x"]) == levels(names)


def _size(chunk, factor=1.0):
    _, y = chunk.numbers()
    return {"n": y.size, "sum": factor * y.sum()}


def test_here():
    source = inputs.chunks([(np.zeros((n, 1)), np.arange(n) + 0.0) for n in (3, 0, 4)])
    assert [s["n"] for s in Here().map(_size, source)] == [3, 0, 4]
    assert Here().sum(_size, source, [2.0]) == {"n": 7, "sum": 18.0}
