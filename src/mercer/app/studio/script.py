"""The Python code, and the command, that do the same as a run of the workbench."""

from __future__ import annotations

import shlex
from typing import Any

from mercer.app.forecast import seasons_of

__all__ = ["command_line", "script"]

ROBUST = ("student-t", "laplace", "mixture", "auto")  # noise that outliers cannot spoil


def script(order: dict[str, Any], name: str, command: str | None) -> str:
    """Code that fits the same model to the file `name`. Every name in it is a literal: none of them can
    become code.
    """
    lines = ['"""Written by the studio of Mercer."""', ""]
    if command is not None:
        lines += ["# The same on the command line:", f"# {command}", ""]
    read = "read_parquet" if name.lower().endswith(".parquet") else "read_csv"
    separator = ', sep="\\t"' if name.lower().endswith(".tsv") else ""
    lines += ["import pandas as pd", "", "import mercer", "", f"data = pd.{read}({name!r}{separator})"]
    lines += (_series if order["task"] == "series" else _table)(order)
    return "\n".join(lines) + "\n"


def _table(order: dict[str, Any]) -> list[str]:
    target, features = order["target"], order["features"]
    classes = order["task"] == "classification"
    settings = {"kernel": order["kernel"], "likelihood": None if classes else order["noise"]}
    settings |= {"solver": order["solver"], "restarts": order["restarts"] or None}
    settings |= {"budget": order["budget"] if order["kernel"] == "search" else None}
    settings |= {"random_state": order["seed"] or None}
    inputs = f"data[{features!r}]" if features is not None else f"data.drop(columns=[{target!r}])"
    rows = f"rows = data[{target!r}].notna()"
    return [
        f"X, y = {inputs}, data[{target!r}]",
        rows,
        "",
        f"model = mercer.{'GPClassifier' if classes else 'GPRegressor'}({_arguments(settings)})",
        "model.fit(X[rows], y[rows])",
        "print(model.summary())",
        "",
        "predictions = model.predict(X)" if classes else "mean, std = model.predict(X, return_std=True)",
        'model.save("model.mercer")',
        'model.report("report.html")',
    ]


def _series(order: dict[str, Any]) -> list[str]:
    seasonal = seasons_of(order["seasonal"])
    first = [] if seasonal == "auto" else [repr(seasonal)]
    settings = [*first, *([f"likelihood={order['noise']!r}"] if order["noise"] else [])]
    return [
        "",
        f"model = mercer.GPTimeSeries({', '.join(settings)})",
        f"model.fit(data, time={order['time']!r}, value={order['target']!r})",
        "print(model.summary())",
        "",
        f"forecast = model.forecast({order['horizon']})",
        'model.save("model.mercer")',
        'model.report("report.html")',
    ]


def _arguments(settings: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in settings.items() if value is not None)


def command_line(order: dict[str, Any], name: str) -> str | None:
    """The command, where the names can be written in one line."""
    features = order["features"]
    if order["task"] == "series":
        words = ["mercer", "forecast", name, "--time", order["time"], "--target", order["target"]]
        words += ["--horizon", str(order["horizon"])]
        words += ["--seasonal", order["seasonal"]] if order["seasonal"] != "auto" else []
        words += ["--likelihood", order["noise"]] if order["noise"] else []
        words += ["--out", "predictions.csv", "--save", "model.mercer"]
    else:
        words = ["mercer", "fit", name, "--target", order["target"], "--out", "model.mercer"]
        if features is not None:
            if any("," in feature for feature in features):
                return None
            words += ["--features", ",".join(features)]
        words += ["--classify"] if order["task"] == "classification" else []
        for option in ("kernel", "solver"):
            words += [f"--{option}", order[option]] if order[option] else []
        words += ["--budget", order["budget"]] if order["kernel"] == "search" and order["budget"] else []
        if order["noise"]:
            words += ["--robust" if order["noise"] in ROBUST else "--likelihood", order["noise"]]
        words += ["--restarts", str(order["restarts"])] if order["restarts"] else []
        words += ["--seed", str(order["seed"])] if order["seed"] else []
    line = shlex.join(words)
    return line if line.isprintable() else None
