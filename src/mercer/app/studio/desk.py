"""The workbench behind the page: tables that were brought, and runs that are queued, watched and stopped.

Every job has a process of its own (`worker`): it can be ended at once, and what it does to memory is not done
to the studio. Names of files are made here; those that people bring are only shown.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import secrets
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from mercer.app.studio.script import command_line, script

__all__ = ["Desk", "JobError", "Order"]

ENDINGS = (".csv", ".tsv", ".parquet")
TABLES, RUNS = 50, 200  # at most
CURVE = 400  # values of the evidence that a page is told of
PATIENCE = 600.0  # seconds that looking at a table, or predicting one, may take

Status = Literal["queued", "running", "done", "failed", "cancelled"]
Name = Field(min_length=1, max_length=500)


class JobError(ValueError):
    """What a job was ended by, in words for people."""


class Order(BaseModel):
    """What to fit to which table, as the page says it.

    table: the id of a table
    task: "regression", "classification" or "series"
    target, features: columns; None takes all others. time: of a series
    kernel: a formula, "auto", "search" (within `budget`), or None, the default
    noise: "student-t", "poisson" ... or None, Gaussian
    solver: its name, or None, the one that suits
    seasonal, horizon: of a series, as `mercer forecast` reads them
    """

    model_config = ConfigDict(extra="forbid")

    table: str = Field(max_length=40)
    name: str = Field(default="", max_length=100)
    task: Literal["regression", "classification", "series"] = "regression"
    target: str = Name
    features: list[str] | None = Field(default=None, max_length=2000)
    time: str | None = Field(default=None, max_length=500)
    kernel: str | None = Field(default=None, max_length=2000)
    budget: Literal["20s", "60s", "5min"] | None = None
    noise: str | None = Field(default=None, max_length=40)
    solver: str | None = Field(default=None, max_length=40)
    seasonal: str = Field(default="auto", max_length=200)
    horizon: int = Field(default=24, ge=1, le=10_000)
    restarts: int = Field(default=0, ge=0, le=20)
    seed: int = Field(default=0, ge=0, lt=2**31)


@dataclasses.dataclass
class Table:
    """A file that was brought; `name` is what its owner calls it."""

    id: str
    name: str
    path: Path
    found: dict[str, Any] = dataclasses.field(default_factory=dict)

    def told(self) -> dict[str, Any]:
        """For the page: what was found, without the file."""
        return {"id": self.id, "name": self.name} | self.found


@dataclasses.dataclass
class Run:
    """A fit, from the queue to its end. `version` counts its changes."""

    id: str
    number: int
    order: Order
    table: Table
    folder: Path
    status: Status = "queued"
    text: str = "waiting for its turn"
    share: float | None = None
    count: int = 0
    curve: list[float] = dataclasses.field(default_factory=list)
    result: dict[str, Any] | None = None
    began: float | None = None
    seconds: float = 0.0
    version: int = 0
    process: subprocess.Popen[str] | None = None

    @property
    def name(self) -> str:
        return self.order.name or f"run {self.number}"

    def told(self) -> dict[str, Any]:
        """For the page; without files and processes."""
        now = time.monotonic()
        under_way = self.status == "running" and self.began is not None
        seconds = now - self.began if under_way and self.began is not None else self.seconds
        return {
            "id": self.id, "number": self.number, "name": self.name, "status": self.status, "text": self.text,
            "share": self.share, "count": self.count, "curve": self.curve[-CURVE:],
            "seconds": round(seconds, 2), "table": self.table.name, "order": self.order.model_dump(),
            "result": self.result,
        }  # fmt: skip


class Desk:
    """Tables, and a queue of runs of which `at_once` are under way."""

    def __init__(self, at_once: int = 1):
        self.folder = Path(tempfile.mkdtemp(prefix="mercer-studio-"))
        self.tables: dict[str, Table] = {}
        self.runs: dict[str, Run] = {}
        self.leaving: Callable[[], bool] = lambda: False  # whether the studio is being closed
        self._lock, self._turn = threading.RLock(), threading.Semaphore(0)
        self._queue: list[Run] = []
        self._closed, self._others = False, set[subprocess.Popen[str]]()
        self._numbers = 0
        self._ahead, self._spare = False, None  # type: tuple[bool, subprocess.Popen[str] | None]
        self._at_once = at_once
        for _ in range(at_once):
            threading.Thread(target=self._work, daemon=True).start()

    def hire_ahead(self) -> None:
        """From now on one process more is there than is needed, so that a job begins without delay."""
        with self._lock:
            if not (self._ahead or self._closed):
                self._ahead, self._spare = True, self._hired()

    # -- tables ----------------------------------------------------------------------------------------------

    def place(self, name: str) -> Table:
        """Where a file that is about to arrive will be; its name decides nothing but the format."""
        shown = PureWindowsPath(PurePosixPath(name).name).name.strip()[:200] or "table.csv"
        ending = Path(shown).suffix.lower()
        if ending not in ENDINGS:
            raise JobError(f"{shown}: the name must end in .csv, .tsv or .parquet.")
        with self._lock:
            if len(self.tables) >= TABLES:
                raise JobError(f"{TABLES} tables are the most: remove one first.")
        made = secrets.token_hex(8)
        return Table(made, shown, self.folder / f"{made}{ending}")

    def look(self, table: Table) -> Table:
        """What is in a table that has arrived; it is kept if it can be read."""
        try:
            table.found = self._answer({"kind": "look"}, table)
        except BaseException:
            table.path.unlink(missing_ok=True)
            raise
        with self._lock:
            self.tables[table.id] = table
        return table

    def remove_table(self, id_: str) -> None:
        """Forget a table and its file."""
        with self._lock:
            if any(r.table.id == id_ and r.status in ("queued", "running") for r in self.runs.values()):
                raise JobError("a run uses this table: cancel it first.")
            self.tables.pop(id_).path.unlink(missing_ok=True)

    # -- runs ------------------------------------------------------------------------------------------------

    def start(self, order: Order) -> Run:
        """Put a fit into the queue."""
        with self._lock:
            if order.table not in self.tables:
                raise JobError("there is no such table: bring it again.")
            if len(self.runs) >= RUNS:
                raise JobError(f"{RUNS} runs are the most: remove one first.")
            table = self.tables[order.table]
            _check(order, [column["name"] for column in table.found["columns"]])
            self._numbers += 1
            id_ = secrets.token_hex(8)
            run = Run(id_, self._numbers, order, table, self.folder / id_)
            self.runs[run.id] = run
            self._queue.append(run)
        self._turn.release()
        return run

    def cancel(self, id_: str) -> Run:
        """End a run at once."""
        with self._lock:
            run = self.runs[id_]
            if run.status in ("queued", "running"):
                self._end(run, "cancelled", "cancelled")
                if run in self._queue:
                    self._queue.remove(run)
                if run.process is not None:
                    run.process.kill()
        return run

    def remove(self, id_: str) -> None:
        """Forget a run and its files."""
        self.cancel(id_)
        with self._lock:
            run = self.runs.pop(id_)
        if run.process is not None:
            run.process.wait()
        shutil.rmtree(run.folder, ignore_errors=True)

    def file(self, id_: str, what: str) -> Path:
        """A file that a run has written."""
        names = {"model": "model.mercer", "report": "report.html"}
        path = self.runs[id_].folder / names.get(what, f"{what}.csv")
        if not path.is_file():
            raise JobError("this run has no such file.")
        return path

    def code(self, id_: str) -> str:
        """Python code that does the same as a run."""
        run = self.runs[id_]
        order, name = run.order.model_dump(), run.table.name
        return script(order, name, command_line(order, name))

    def predict(self, id_: str, table_id: str) -> dict[str, Any]:
        """Predict the rows of another table with the model of a run, into its file `told["file"]`."""
        model = self.file(id_, "model")
        if self.runs[id_].order.task == "series":
            raise JobError("a time series is forecast, not predicted from a table.")
        with self._lock:
            if table_id not in self.tables:
                raise JobError("there is no such table: bring it again.")
            table = self.tables[table_id]
        what = f"predicted-{table_id}"
        out = model.parent / f"{what}.csv"
        return self._answer({"kind": "predict", "model": str(model), "out": str(out)}, table) | {"file": what}

    def close(self) -> None:
        """End every process and remove every file."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            for _ in range(self._at_once):
                self._turn.release()
            processes = [r.process for r in self.runs.values() if r.process is not None]
            processes += [*self._others, *([self._spare] if self._spare is not None else [])]
            self._queue.clear()
        for process in processes:
            process.kill()
            process.wait()
        if self._spare is not None:
            _shut(self._spare)
        shutil.rmtree(self.folder, ignore_errors=True)

    # -- processes -------------------------------------------------------------------------------------------

    def _work(self) -> None:
        while True:
            self._turn.acquire()
            with self._lock:
                if self._closed:
                    return
                if not self._queue:
                    continue  # it was cancelled
                run = self._queue.pop(0)
                run.status, run.text, run.began = "running", "starting", time.monotonic()
                run.version += 1
                job = {"kind": "fit", "folder": str(run.folder)} | run.order.model_dump() | _of(run.table)
                try:
                    run.folder.mkdir()
                    run.process = self._started(job)
                except OSError as error:
                    self._end(run, "failed", f"its process could not be started: {error.strerror}.")
                    continue
            self._watch(run)

    def _watch(self, run: Run) -> None:
        """Hear what the process tells, to its end."""
        process = run.process
        assert process is not None and process.stdout is not None
        for line in process.stdout:
            with self._lock:
                if run.status == "running":
                    self._hear(run, _read(line))
        code = process.wait()
        _shut(process)
        with self._lock:
            if run.status == "running":
                self._end(run, "failed", _died(code))
        if run.status != "done":
            shutil.rmtree(run.folder, ignore_errors=True)

    def _hear(self, run: Run, told: dict[str, Any]) -> None:
        event = told.pop("event")
        run.version += 1
        if event == "stage":
            run.text, run.share = told["text"], None
        elif event == "progress":
            run.text, run.share, run.count = told["text"], told["share"], told["count"]
            run.curve += told["values"]
        elif event == "result":
            run.result, run.count = told, told["evaluations"]
            self._end(run, "done", "done")
        elif event == "error":
            self._end(run, "failed", told["message"])

    def _end(self, run: Run, status: Status, text: str) -> None:
        run.status, run.text, run.share = status, text, None
        run.seconds = 0.0 if run.began is None else time.monotonic() - run.began
        run.version += 1

    def _started(self, job: dict[str, Any]) -> subprocess.Popen[str]:
        """A process that has its job: the spare one, which has imported what takes long."""
        if self._closed:
            raise JobError("the studio is being closed.")
        process = self._spare or self._hired()
        self._spare = self._hired() if self._ahead else None
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(json.dumps(job) + "\n")
            process.stdin.flush()
        return process

    def _hired(self) -> subprocess.Popen[str]:
        """A process that waits for a job. It ends when its input does: with us."""
        with open(self.folder / "log.txt", "ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "mercer.app.studio.worker"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, encoding="utf-8",
            )  # fmt: skip

    def _answer(self, job: dict[str, Any], table: Table) -> dict[str, Any]:
        """What a short job answers, waited for."""
        with self._lock:
            process = self._started(job | _of(table))
            self._others.add(process)
        timer = threading.Timer(PATIENCE, process.kill)
        timer.start()
        try:
            assert process.stdout is not None
            told: dict[str, Any] = {}
            for line in process.stdout:
                told = _read(line)
            code = process.wait()
        finally:
            timer.cancel()
            process.kill()
            _shut(process)
            with self._lock:
                self._others.discard(process)
        event = told.pop("event", None)
        if event == "result":
            return told
        raise JobError(told["message"] if event == "error" else _died(code))


def _check(order: Order, columns: list[str]) -> None:
    """Refuse what the table does not have."""
    named = [order.target, *(order.features or []), *([order.time] if order.time else [])]
    if unknown := [name for name in named if name not in columns]:
        raise JobError(f"the table has no column {unknown[0]!r}.")
    if order.task == "series":
        if order.time is None or order.time == order.target:
            raise JobError("a time series needs a column of times besides its values.")
    elif order.features == [] or columns == [order.target]:
        raise JobError("choose at least one column to predict from.")
    elif order.target in (order.features or []):
        raise JobError(f"the target {order.target!r} cannot be predicted from itself.")


def _read(line: str) -> dict[str, Any]:
    """What a process tells; numbers that are none are missing."""
    told: dict[str, Any] = json.loads(line, parse_constant=lambda _: None)
    return told


def _of(table: Table) -> dict[str, str]:
    return {"path": str(table.path), "name": table.name}


def _shut(process: subprocess.Popen[str]) -> None:
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()


def _died(code: int) -> str:
    if code == -9:
        return "its process was killed, by time or by a lack of memory: take fewer rows, or another solver."
    return f"its process ended without a result (exit code {code})."
