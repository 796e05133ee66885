"""Tables in files: what is read, what is written, and what is refused."""

from __future__ import annotations

import time

import numpy as np
import pytest

from mercer.app.tables import TableError, drop_missing, numeric, read_table, write_table


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def test_numbers_text_and_empty_cells(tmp_path):
    table = read_table(write(tmp_path / "a.csv", 'a,b,name\n1,2.5,"x, y"\n,NA,z\n-3e2,7,\n'))
    assert list(table) == ["a", "b", "name"]
    np.testing.assert_array_equal(table["a"], [1, np.nan, -300])
    np.testing.assert_array_equal(table["b"], [2.5, np.nan, 7])
    assert table["name"].tolist() == ["x, y", "z", ""]


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("a;b\n1,5;x\n-0,25;y\n3;z\n", [1.5, -0.25, 3.0]),  # as much of Europe writes them
        ("a;b\n1.234,5;x\n7,0;y\n;z\n", [1234.5, 7.0, np.nan]),
        ('a,b\n"1,234",x\n"12,345,678.5",y\n9.5,z\n', [1234.0, 12345678.5, 9.5]),
        ("a;b\n1,234;x\n5,678.5;y\n1.5;z\n", [1234.0, 5678.5, 1.5]),
    ],
)
def test_commas_in_numbers(tmp_path, text, numbers):
    (tmp_path / "t.csv").write_text(text)
    np.testing.assert_array_equal(read_table(tmp_path / "t.csv")["a"], numbers)


def test_commas_that_may_mean_either_and_labels_with_commas(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a;b\n1,234;x\n5,678;y\n")
    with pytest.raises(TableError, match="column 'a' has numbers such as 1,234, whose comma may stand for"):
        read_table(path)
    path.write_text('a,b\n"1,2",x\n"3,10",y\n')
    assert read_table(path)["a"].tolist() == ["1,2", "3,10"]


@pytest.mark.parametrize("text", ["\ufeffa;b\r\n1;2\r\n3;4\r\n", "a\tb\n1\t2\n\n3\t4\n"])
def test_other_separators_a_byte_order_mark_and_blank_lines(tmp_path, text):
    table = read_table(write(tmp_path / "a.csv", text))
    np.testing.assert_array_equal(table["a"], [1, 3])
    np.testing.assert_array_equal(table["b"], [2, 4])


def test_a_wide_table_takes_time_in_proportion_to_its_width(tmp_path):
    def seconds(width):
        header = ",".join(f"c{i}" for i in range(width))
        path = write(tmp_path / "wide.csv", header + "\n" + ",".join("1" * width) + "\n")
        times = []
        for _ in range(3):
            began = time.process_time()
            assert len(read_table(path)) == width
            times.append(time.process_time() - began)
        return min(times)

    assert seconds(32_000) < 8 * seconds(8_000)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_round_trip_keeps_every_bit(tmp_path, ending):
    rng = np.random.default_rng(0)
    table = {
        "x": rng.standard_normal(50) * 10.0 ** rng.integers(-30, 30, 50),
        "year": np.arange(1950.0, 2000.0),
    }
    table["gap"] = np.where(np.arange(50) % 7 == 0, np.nan, 0.1)
    table["name"] = np.array([f"row, {i}" for i in range(50)], object)
    path = tmp_path / f"t.{ending}"
    write_table(path, table)
    again = read_table(path)
    assert list(again) == list(table)
    for name in ("x", "year", "gap"):
        np.testing.assert_array_equal(again[name], table[name])
    assert again["name"].tolist() == table["name"].tolist()
    if ending == "csv":
        assert ",1950," in path.read_text(encoding="utf-8").splitlines()[1]


def test_parquet_integers_booleans_and_nulls(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as parquet

    columns = {
        "i": pa.array([1, None, 3]),
        "b": pa.array([True, False, None]),
        "s": pa.array(["a", None, "b"]),
    }
    parquet.write_table(pa.table(columns), tmp_path / "t.parquet")
    table = read_table(tmp_path / "t.parquet")
    np.testing.assert_array_equal(table["i"], [1, np.nan, 3])
    np.testing.assert_array_equal(table["b"], [1, 0, np.nan])
    assert table["s"].tolist() == ["a", None, "b"]
    np.testing.assert_array_equal(drop_missing(table, "s", "t")[1], [1, 3])


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "is empty"),
        ("a,b\n", "no rows"),
        ("a,a\n1,2\n", "more than one column called 'a'"),
        ("a,,\n1,2,3\n", "columns without a name"),
        ("1,2\n3,4\n", "must name the columns"),
        ("a,b\n1,2\n1,2,3\n", "line 3 has 3 cells, but the header has 2"),
    ],
)
def test_bad_files_are_refused_with_the_place(tmp_path, text, message):
    with pytest.raises(TableError, match=message):
        read_table(write(tmp_path / "a.csv", text))


def test_unknown_ending_missing_file_and_wrong_contents(tmp_path):
    with pytest.raises(TableError, match=r"use \.csv, \.tsv or \.parquet"):
        read_table(write(tmp_path / "a.xlsx", "a\n1\n"))
    with pytest.raises(TableError, match="no such file"):
        read_table(tmp_path / "none.csv")
    with pytest.raises(TableError, match="not a Parquet file"):
        read_table(write(tmp_path / "a.parquet", "a\n1\n"))
    (tmp_path / "b.csv").write_bytes(b"a\n\xff\xfe\n")
    with pytest.raises(TableError, match="UTF-8"):
        read_table(tmp_path / "b.csv")


def test_numeric_names_the_row_and_the_column():
    table = {
        "a": np.array([1.0, np.nan, np.nan]),
        "b": np.array(["1", "x"], object),
        "c": np.array([1.0, np.inf]),
    }
    with pytest.raises(TableError, match=r"t\.csv: column 'a' has no value in row 2 \(2 such in all\)"):
        numeric(table, ["a"], "t.csv")
    with pytest.raises(TableError, match=r"column 'b' is not numeric \(found 'x' in row 2\)"):
        numeric(table, ["b"], "t.csv")
    with pytest.raises(TableError, match=r"column 'a' has no value in row 12 "):
        numeric(table, ["a"], "t.csv", rows=np.array([10, 12, 15]))
    with pytest.raises(TableError, match="an infinite value in row 2"):
        numeric(table, ["c"], "t.csv")
    with pytest.raises(TableError, match="has no column 'd'; it has a, b, c"):
        numeric(table, ["d"], "t.csv")


def test_drop_missing():
    table = {"y": np.array([1.0, np.nan, 3.0]), "x": np.array([4.0, 5.0, 6.0])}
    kept, rows = drop_missing(table, "y", "t")
    np.testing.assert_array_equal(rows, [1, 3])
    np.testing.assert_array_equal(kept["x"], [4, 6])
    with pytest.raises(TableError, match="empty in every row"):
        drop_missing({"y": np.array([np.nan, np.nan])}, "y", "t")


def test_parquet_without_pyarrow_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(TableError, match=r'pip install "mercer\[parquet\]"'):
        write_table(tmp_path / "t.parquet", {"a": [1.0]})
