"""Tables and runs, with processes of their own: what is told, stopped and left behind."""

from __future__ import annotations

import csv
import time

import numpy as np
import pytest

pytest.importorskip("pydantic", reason='needs the extra: pip install "mercer[studio]"')

from mercer.app.studio.desk import Desk, JobError, Order

pytestmark = pytest.mark.slow  # each job has a process, which takes seconds to start

rng = np.random.default_rng(0)
EVIL = "<img src=x onerror=alert(1)>"
n = 30
COLUMNS = {
    "size, m2": rng.uniform(20, 200, n).round(1),
    EVIL: rng.choice(["a", "b", "</script><script>alert(1)</script>"], n),
    "day": [f"2024-01-{i + 1:02d}" for i in range(n)],
}
COLUMNS["price"] = (3 * COLUMNS["size, m2"] + 20 * (COLUMNS[EVIL] == "a") + rng.normal(0, 5, n)).round(2)
COLUMNS["dear"] = np.where(COLUMNS["price"] > 300, "yes", "no")
COLUMNS["price"] = [*COLUMNS["price"][:-1], ""]


@pytest.fixture(scope="module")
def desk():
    made = Desk()
    made.hire_ahead()
    yield made
    made.close()
    assert not made.folder.exists()
    assert all(run.process is None or run.process.poll() is not None for run in made.runs.values())


@pytest.fixture(scope="module")
def table(desk):
    made = desk.place(r"C:\data\..\homes.csv")
    with made.path.open("w", newline="") as file:
        csv.writer(file).writerows([list(COLUMNS), *zip(*COLUMNS.values(), strict=True)])
    return desk.look(made)


def finished(run, seconds=120.0):
    end = time.monotonic() + seconds
    while run.status in ("queued", "running"):
        assert time.monotonic() < end
        time.sleep(0.02)
    return run


def test_a_table_that_cannot_be_read_is_removed(desk):
    made = desk.place("t.csv")
    made.path.write_bytes(b"a,b\n1\n")
    with pytest.raises(JobError, match=r"^t\.csv: line 2 has 1 cells"):
        desk.look(made)
    assert not made.path.exists() and made.id not in desk.tables


def test_what_is_in_a_table(table):
    assert table.name == "homes.csv" and table.found["rows"] == n
    told = {column["name"]: column for column in table.found["columns"]}
    assert [told[name]["kind"] for name in COLUMNS] == ["number", "text", "date", "number", "text"]
    assert told["price"]["missing"] == 1 and sum(told["price"]["counts"]) == n - 1
    assert told["size, m2"]["low"] == min(COLUMNS["size, m2"])
    assert sum(count for _, count in told[EVIL]["top"]) == n
    assert table.found["first"]["day"][0] == "2024-01-01"


@pytest.mark.parametrize(
    ("order", "says"),
    [
        ({"target": "nothing"}, "no column 'nothing'"),
        ({"target": "price", "features": ["price"]}, "from itself"),
        ({"target": "price", "features": []}, "at least one column"),
        ({"target": "price", "task": "series"}, "column of times"),
        ({"target": "price", "table": "0123"}, "no such table"),
        ({"target": "price", "table": "../../etc/passwd"}, "no such table"),
    ],
)
def test_orders_that_make_no_sense(desk, table, order, says):
    with pytest.raises(JobError, match=says):
        desk.start(Order(**({"table": table.id} | order)))


@pytest.fixture(scope="module")
def run(desk, table):
    order = Order(table=table.id, target="price", features=["size, m2", EVIL], name="plain")
    return finished(desk.start(order))


def test_a_run_is_what_the_library_does(desk, run):
    import mercer

    assert run.status == "done", run.text
    X = {"size, m2": COLUMNS["size, m2"][:-1], EVIL: COLUMNS[EVIL][:-1].astype(object)}
    model = mercer.GPRegressor().fit(X, np.array(COLUMNS["price"][:-1], float))
    assert run.result["evidence"] == pytest.approx(model.log_marginal_likelihood_, rel=1e-6)
    loo = model.loo()
    assert run.result["nlpd"] == pytest.approx(-np.mean(loo.log_density), rel=1e-5)
    assert run.result["rows"] == n - 1 and len(run.result["dots"]) == n - 1
    assert len(run.curve) == run.count == run.result["evaluations"] > 1
    np.testing.assert_allclose(run.curve, [e.value for e in model.fit_.history], rtol=1e-5)
    saved = mercer.load(desk.file(run.id, "model"))
    np.testing.assert_allclose(saved.predict(X), model.predict(X), rtol=1e-6)


def test_predictions_are_of_every_row(desk, run, table):
    from mercer.app.tables import read_table

    written = read_table(desk.file(run.id, "predictions"))
    assert len(written["mean"]) == n and np.isfinite(written["mean"]).all()
    told = desk.predict(run.id, table.id)
    assert told["rows"] == n
    np.testing.assert_allclose(
        read_table(desk.file(run.id, told["file"]))["mean"], written["mean"], rtol=1e-9
    )


def test_the_report_is_whole_and_its_names_are_text(desk, run):
    page = desk.file(run.id, "report").read_text()
    assert page.startswith("<!DOCTYPE html>") and EVIL not in page and "<script>alert(1)" not in page


def test_the_code_does_the_same(desk, run, tmp_path, monkeypatch):
    pytest.importorskip("pandas")
    (tmp_path / "homes.csv").write_bytes(run.table.path.read_bytes())
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    exec(compile(desk.code(run.id), "script.py", "exec"), names)
    assert names["model"].log_marginal_likelihood_ == pytest.approx(run.result["evidence"], rel=1e-6)
    assert (tmp_path / "report.html").is_file()


def test_classes_and_series(desk, table):
    classes = desk.start(Order(table=table.id, target="dear", task="classification", features=["size, m2"]))
    series = desk.start(
        Order(table=table.id, target="size, m2", time="day", task="series", seasonal="none", horizon=5)
    )
    text = desk.start(Order(table=table.id, target="dear", features=["size, m2"]))
    assert finished(classes).status == "done", classes.text
    assert 0 <= classes.result["error"] < classes.result["baseline"]
    assert finished(series).status == "done", series.text
    assert len(desk.file(series.id, "predictions").read_text().splitlines()) == 6
    for run in (classes, series):
        assert desk.file(run.id, "report").read_text().startswith("<!DOCTYPE html>")
    assert finished(text).status == "failed" and "take it as classes" in text.text
    with pytest.raises(JobError, match="no such file"):
        desk.file(text.id, "model")


def test_one_at_a_time_and_cancelled_at_once(desk, table):
    order = Order(table=table.id, target="price", restarts=20, kernel="search", budget="5min")
    first, second, third = desk.start(order), desk.start(order), desk.start(order)
    end = time.monotonic() + 60
    while not (first.status == "running" and first.process is not None):
        assert time.monotonic() < end
        time.sleep(0.01)
    assert second.status == third.status == "queued"
    desk.cancel(third.id)
    began = time.monotonic()
    desk.cancel(first.id)
    assert first.status == "cancelled"
    assert first.process.wait(5) == -9 and time.monotonic() - began < 5
    while second.status == "queued":
        assert time.monotonic() < end
        time.sleep(0.01)
    assert third.status == "cancelled" and second.status == "running"
    with pytest.raises(JobError, match="a run uses this table"):
        desk.remove_table(table.id)
    desk.remove(second.id)
    assert second.id not in desk.runs and not second.folder.exists()
    desk.cancel(first.id)  # again: nothing happens
    assert first.text == "cancelled"


def test_a_process_that_dies_is_told_of(desk, table):
    run = desk.start(Order(table=table.id, target="price", kernel="search", budget="5min"))
    while run.process is None:
        time.sleep(0.01)
    run.process.kill()
    assert finished(run).status == "failed" and "lack of memory" in run.text
