"""What a worker finds in tables, what it refuses, and code that is written from names of people."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytest.importorskip("pydantic", reason='needs the extra: pip install "mercer[studio]"')

from mercer.app.studio import worker
from mercer.app.studio.desk import Desk, JobError, Order
from mercer.app.studio.script import command_line, script
from mercer.app.tables import TableError


def looked(path):
    return worker.look({"path": str(path), "name": "t.csv"}, lambda *_, **__: None)


def test_numbers_dates_and_text(tmp_path):
    file = tmp_path / "t.csv"
    file.write_text("x,d,c\n1,2024-01-01,a\n,2024-02-01,b\n3,,<b>\n3,2024-03-01,a\n")
    x, d, c = looked(file)["columns"]
    assert (x["kind"], x["missing"], x["distinct"], x["low"], x["high"]) == ("number", 1, 2, 1.0, 3.0)
    assert (d["kind"], d["missing"], d["low"][:10], d["high"][:10]) == ("date", 1, "2024-01-01", "2024-03-01")
    assert (c["kind"], c["missing"], c["top"]) == ("text", 0, [["a", 2], ["<b>", 1], ["b", 1]])
    assert looked(file)["first"]["x"] == [1.0, None, 3.0, 3.0]
    json.dumps(looked(file), allow_nan=False)


def test_columns_of_nothing_and_of_one_value(tmp_path):
    file = tmp_path / "t.csv"
    file.write_text("empty,same,text\n,5,\n,5,\n")
    empty, same, _ = looked(file)["columns"]
    assert empty["missing"] == 2 and "counts" not in empty
    assert sum(same["counts"]) == 2 and same["distinct"] == 1


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("t.csv", b"", "empty"),
        ("t.csv", b"a,b\n1\n", "line 2 has 1 cells"),
        ("t.csv", b"a,a\n1,2\n", "more than one column"),
        ("t.csv", b"\xff\xfe\x00", "UTF-8"),
        ("t.parquet", b"PK\x03\x04 a zip, not a table", "not a Parquet file"),
        ("t.parquet", b"PAR1" + b"\0" * 100 + b"PAR1", "."),
    ],
)
def test_what_cannot_be_read_is_refused(tmp_path, name, content, says):
    (tmp_path / name).write_bytes(content)
    with pytest.raises((TableError, OSError, ValueError), match=says):
        looked(tmp_path / name)


LIGHT = [sys.executable, "-c", "import mercer.app.studio.worker as w; w.HEAVY = 'json'; w.main()"]


def test_what_goes_wrong_is_told_without_paths(tmp_path):
    file = tmp_path / "0123.csv"
    file.write_text("a,b\n1\n")
    job = {"kind": "look", "path": str(file), "name": "mine.csv"}
    with subprocess.Popen(LIGHT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        process.stdin.write(json.dumps(job) + "\n")
        process.stdin.flush()
        told = json.loads(process.stdout.readline())
    assert told["event"] == "error" and told["message"].startswith("mine.csv: line 2 has 1 cells")


def test_a_worker_ends_with_the_studio():
    """Its standard input ends, and so does it: nothing is left behind by a studio that was killed."""
    assert subprocess.run(LIGHT, stdin=subprocess.DEVNULL, timeout=120).returncode == 0


@pytest.fixture
def desk():
    made = Desk()
    yield made
    made.close()
    assert not made.folder.exists()


@pytest.mark.parametrize("name", ["../../etc/passwd", "model.mercer", "x.pkl", "", "t.csv.exe"])
def test_only_tables_have_a_place(desk, name):
    if name == "":
        assert desk.place(name).name == "table.csv"
        return
    with pytest.raises(JobError, match="must end in"):
        desk.place(name)


@pytest.mark.parametrize("name", ["../../x.csv", "/etc/x.csv", r"..\..\x.csv", "a/../../x.csv"])
def test_names_of_people_name_no_files(desk, name):
    made = desk.place(name)
    assert made.path.parent == desk.folder and made.name == "x.csv" and "x.csv" not in str(made.path)


def test_names_in_code_stay_names():
    order = Order(table="t", target="y'); import os #", features=['"""', "a\nb"], kernel="auto").model_dump()
    code = script(order, "x\n'.csv", command_line(order, "x\n'.csv"))
    compiled = compile(code, "script.py", "exec")
    assert "os" not in compiled.co_names and repr("y'); import os #") in code and "# mercer" not in code
    series = Order(table="t", target="v", time="d", task="series", seasonal="week,12", noise="student-t")
    assert "GPTimeSeries({'week': 'week', 'season 12': 12.0}, likelihood='student-t')" in script(
        series.model_dump(), "s.parquet", None
    )
