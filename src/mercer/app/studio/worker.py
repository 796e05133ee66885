"""The process that looks at a table, fits a model to it or predicts with one: one job, then it ends.

The studio starts it as `python -m mercer.app.studio.worker` and writes one line of JSON to it, the job. It
answers with lines of JSON: how far it is, what is worth knowing, and at last the result or an error. When the
studio is gone, so is the process: its standard input ends.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from mercer.app.studio.script import ROBUST
from mercer.app.tables import read_table, write_table

Tell = Callable[..., None]

HEAVY = "mercer.app.work"  # what a job imports
BINS = 24  # of a histogram
TOP = 6  # categories that are counted by name
SHOWN = 6  # rows of a table that are shown
DOTS = 400  # points of a picture
PAUSE = 0.1  # seconds between two lines on progress


def main() -> None:
    """One job from standard input, told of on standard output."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what anything else prints goes to the log
    lock = threading.Lock()

    def tell(event: str, **what: Any) -> None:
        with lock:
            out.write(json.dumps({"event": event} | what) + "\n")
            out.flush()

    with contextlib.suppress(AttributeError, OSError):
        os.nice(5)  # the page comes first
    importlib.import_module(HEAVY)  # takes long, and is done while nobody waits

    line = sys.stdin.readline()
    if not line:
        return
    job = json.loads(line)
    threading.Thread(target=_end_with_the_studio, daemon=True).start()
    try:
        result = {"look": look, "fit": fit, "predict": predict}[job["kind"]](job, tell)
        tell("result", **result)
    except MemoryError:
        tell("error", message="there is not enough memory for this: take fewer rows or columns.")
    except Exception as error:
        message = " ".join(str(error).split()) or type(error).__name__
        tell("error", message=message.replace(job["path"], job["name"]))


def _end_with_the_studio() -> None:
    sys.stdin.read()
    os._exit(1)


# ------------------------------------------------------------------------------------------------- looking


def look(job: dict[str, Any], tell: Tell) -> dict[str, Any]:
    """What is in each column of a table."""
    table = read_table(job["path"])
    rows = len(next(iter(table.values())))
    first = {name: [_cell(v) for v in column[:SHOWN]] for name, column in table.items()}
    return {"rows": rows, "columns": [_column(n, c) for n, c in table.items()], "first": first}


def _column(name: str, column: np.ndarray) -> dict[str, Any]:
    """Its kind (number, date, text), what is missing, and a small picture: a histogram, or counts."""
    from mercer.columns.table import cells_of

    values = cells_of(column, f"column {name!r}").values
    told: dict[str, Any] = {"name": name}
    if values.dtype.kind == "M":
        there = values[~np.isnat(values)]
        told |= {"kind": "date", "missing": len(values) - len(there), "distinct": len(np.unique(there))}
        if len(there):
            told |= {"low": str(there.min()), "high": str(there.max())}
            told["counts"] = np.histogram(there.astype("int64"), BINS)[0].tolist()
        return told
    if values.dtype.kind == "f":
        there = values[np.isfinite(values)]
        told |= {"kind": "number", "missing": len(values) - len(there), "distinct": len(np.unique(there))}
        if len(there):
            told |= {"low": float(there.min()), "high": float(there.max()), "mean": float(there.mean())}
            told["counts"] = np.histogram(there, min(BINS, max(told["distinct"], 2)))[0].tolist()
        return told
    texts = [str(v) for v in values if v is not None and str(v).strip()]
    names, counts = np.unique(np.array(texts, object).astype(str), return_counts=True)
    order = np.argsort(-counts, kind="stable")[:TOP]
    told |= {"kind": "text", "missing": len(values) - len(texts), "distinct": len(names)}
    return told | {"top": [[str(names[i])[:80], int(counts[i])] for i in order]}


def _cell(value: Any) -> str | float | None:
    if value is None or (isinstance(value, float) and not np.isfinite(value)):
        return None
    return float(value) if isinstance(value, float) else str(value)[:80]


# ------------------------------------------------------------------------------------------------- fitting


def fit(job: dict[str, Any], tell: Tell) -> dict[str, Any]:
    """A model of the table, its files in the folder of the job, and how well it predicts what it was not
    told.
    """
    from mercer.progress import followed, shown

    began, folder, report = time.perf_counter(), Path(job["folder"]), _Reporter(tell)
    notes: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tell("stage", text="reading the table")
        learn = _learn_series if job["task"] == "series" else _learn_table
        with shown("fitting", report.hear), followed(report.follow):
            model, judged, said = learn(job, tell)
        report.flush()
        seconds = time.perf_counter() - began
        tell("stage", text="writing model, predictions and report")
        model.save(folder / "model.mercer")
        notes += said + _predictions(job, model, folder)
        model.report(folder / "report.html")
    notes += list(dict.fromkeys(" ".join(str(w.message).split()) for w in caught))
    evidence = model.log_marginal_likelihood_
    return {
        "seconds": seconds,
        "evidence": None if evidence is None else float(evidence),
        "evaluations": report.count,
        "summary": model.summary(),
        "notes": notes,
    } | judged


class _Reporter:
    """Hands on how far the work is, not more often than a person can see."""

    def __init__(self, tell: Tell):
        self._tell, self._next, self.count = tell, 0.0, 0
        self._values: list[float] = []

    def hear(self, done: float, total: float | None, text: str) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + PAUSE
            self.flush(text, None if not total else min(done / total, 1.0))

    def flush(self, text: str = "learned", share: float | None = None) -> None:
        values, self._values = self._values, []
        self._tell("progress", text=text, share=share, count=self.count, values=values)

    def follow(self, value: float) -> None:
        self.count += 1
        if np.isfinite(value):
            self._values.append(float(value))


def _learn_table(job: dict[str, Any], tell: Tell) -> tuple[Any, dict[str, Any], list[str]]:
    from mercer.app import work

    kernel, classify = job["kernel"], job["task"] == "classification"
    X, y, rows, notes, known = work.training_data(
        Path(job["path"]), job["target"], job["features"], classify, kernel
    )
    if y.dtype == object and not classify:
        raise ValueError(f"the target {job['target']!r} is text: take it as classes.")
    notes = [n for n in notes if "--classify" not in n]
    how = {"solver": job["solver"]} | work.search_settings(kernel, job["budget"], None)
    robust = job["noise"] if job["noise"] in ROBUST else "none"
    likelihood = job["noise"] if robust == "none" else None
    tell("stage", text=f"learning from {len(y):,} rows and {len(X)} column{'s' * (len(X) != 1)}")
    model = work.fit_model(
        X, y, kernel, job["restarts"], None, job["seed"], classify, robust, rows, how, None, known,
        {"likelihood": likelihood},
    ).name_target(job["target"])  # fmt: skip
    tell("stage", text="leaving out each row once")
    measures = work.quality(model, y, job["target"])[2]
    return model, {"rows": len(y)} | (_of_classes if classify else _of_numbers)(model, y, measures), notes


def _of_numbers(model: Any, y: np.ndarray, measures: dict[str, float]) -> dict[str, Any]:
    """How well each row is predicted by the others, and some of them for a picture."""
    mean = model.loo().mean
    chosen = np.unique(np.linspace(0, len(y) - 1, min(len(y), DOTS)).astype(int))
    return {
        "nlpd": measures["nlpd"],
        "rmse": float(measures["rmse"]),
        "coverage": measures["coverage_95"],
        "baseline": float(np.std(y)),
        "dots": [[float(mean[i]), float(y[i])] for i in chosen],
    }


def _of_classes(model: Any, y: np.ndarray, measures: dict[str, float]) -> dict[str, Any]:
    counts = np.unique(y, return_counts=True)[1]
    return {
        "nlpd": float(measures["nlp"]),
        "error": measures["error_rate"],
        "baseline": float(1 - counts.max() / len(y)),
    }


def _learn_series(job: dict[str, Any], tell: Tell) -> tuple[Any, dict[str, Any], list[str]]:
    from mercer.app.forecast import learned

    tell("stage", text="learning trend, seasons and irregularities")
    noise = job["noise"] or "gaussian"
    model = learned(Path(job["path"]), job["time"], job["target"], job["seasonal"], noise)
    judged: dict[str, Any] = {"rows": len(model.posterior_.y)}
    if not model.logarithmic_:
        loo, y = model.posterior_.loo(), model.posterior_.y
        judged["nlpd"] = float(-np.mean(loo.log_density))
        judged["rmse"] = float(np.sqrt(np.mean((y - loo.mean) ** 2)))
    return model, judged, list(model.notes_)


def _predictions(job: dict[str, Any], model: Any, folder: Path) -> list[str]:
    """Write what the model says of every row of the table, or of what comes next; what could not be said."""
    from mercer.app import work

    warnings.simplefilter("ignore")  # on columns of the table that it was not to use
    out = folder / "predictions.csv"
    if job["task"] == "series":
        from mercer.app.forecast import as_table

        write_table(out, as_table(model, *model.forecast_columns(job["horizon"], 0.95, None)))
        return []
    try:
        table, predicted = work.predict(folder / "model.mercer", Path(job["path"]), 0.95, False)
        write_table(out, table | predicted)
    except ValueError as error:
        return [f"no predictions of all rows: {error}".replace(job["path"], job["name"])]
    return []


# ------------------------------------------------------------------------------------------------- predicting


def predict(job: dict[str, Any], tell: Tell) -> dict[str, Any]:
    """A table with the predictions of a model that was fitted here."""
    from mercer.app import work

    table, predicted = work.predict(Path(job["model"]), Path(job["path"]), 0.95, False)
    write_table(Path(job["out"]), table | predicted)
    return {"rows": len(next(iter(predicted.values())))}


if __name__ == "__main__":
    main()
