"""What the reports of all estimators share: numbers as text, rows that are shown, how to do it again."""

from __future__ import annotations

import inspect
import math
import platform
import shlex
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import numpy as np

from mercer.columns import Columns
from mercer.report import AbstractPart, Code, Notes, Section, Table

MOST_DOTS = 600  # points of one chart
FURTHEST = 60  # of them, where there are more: those that lie furthest off
MOST_ROWS = 40  # rows of a table behind a chart

TITLES = {
    "words": "What was fitted",
    "data": "The data",
    "hyperparameters": "What was learned",
    "importance": "Which columns matter",
    "effects": "How they matter",
    "forecast": "What comes next",
    "where": "Where they are",
    "left-out": "How well rows are predicted",
    "outliers": "Outliers",
    "trust": "How far to trust it",
    "what-if": "What if",
}  # of sections that several reports have, by their id


def titled(id: str, parts: Sequence[AbstractPart]) -> Section:
    """A section with the title that it has in every report."""
    return Section(id, TITLES[id], tuple(parts))


def number(value: float, digits: int = 4) -> str:
    """A number for people."""
    if not math.isfinite(value):
        return "∞" if value > 0 else "−∞" if value < 0 else "not known"
    size = abs(value)
    if size >= 10**digits and size < 1e9:
        return f"{value:,.0f}".replace("-", "−")
    return f"{value:.{digits}g}".replace("-", "−")


def percent(share: float) -> str:
    """0.713 -> '71.3 %'."""
    return f"{100 * share:.1f} %"


def shown_rows(away: np.ndarray, most: int = MOST_DOTS, seed: int = 0) -> tuple[np.ndarray, str]:
    """Which rows a chart shows, in order, and a sentence on it: all of few; of many those that lie furthest
    `away` (n,) and others at random.
    """
    n = len(away)
    if n <= most:
        return np.arange(n), ""
    far = np.argsort(-np.abs(away), kind="stable")[:FURTHEST]
    rest = np.setdiff1d(np.arange(n), far)
    chosen = np.random.default_rng(seed).choice(rest, most - FURTHEST, replace=False)
    said = (
        f" Shown are {most} of {n:,} rows: the {FURTHEST} that lie furthest off, and others chosen at random."
    )
    return np.sort(np.concatenate([far, chosen])), said


def behind(caption: str, columns: dict[str, Any], most: int = MOST_ROWS) -> Table:
    """The numbers behind a chart; of many rows some, evenly spaced."""
    values = [np.asarray(column) for column in columns.values()]
    n = len(values[0])
    rows = np.unique(np.linspace(0, n - 1, min(n, most)).astype(int)) if n else np.zeros(0, int)
    said = caption if n <= most else f"{caption} ({len(rows)} of {n:,} rows, evenly spaced)"
    text = [[cell(column[i]) for column in values] for i in rows]
    right = tuple(j for j, column in enumerate(values) if column.dtype.kind in "fiu")
    return Table(said, tuple(columns), text, right)


def cell(value: Any) -> str:
    """What stands in a table."""
    if isinstance(value, float | np.floating):
        return number(float(value), 5)
    return str(value)


def listed(names: Sequence[str], most: int = 8) -> str:
    """a, b and c."""
    names = [*names[:most], f"{len(names) - most} more"] if len(names) > most + 1 else list(names)
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


# ---------------------------------------------------------------------------------------------- once more


def again(code: str, command: str | None, digest: str | None, seed: Any = None) -> Section:
    """How to reproduce it: versions, code, command, and the hash of the data."""
    libraries = ("mercer", "jax", "numpy", "scipy", "scikit-learn")
    versions = [("Python", platform.python_version()), *((name, version(name)) for name in libraries)]
    parts: list[Any] = [Code(code, "In Python:")]
    if command is not None:
        parts.append(Code(command, "On the command line:"))
    facts = [[name, said] for name, said in versions]
    if seed is not None:
        facts.append(["random_state", repr(seed)])
    if digest is not None:
        facts.append(["SHA-256 of the training data", digest])
    parts.append(Table("Versions, and what it was fitted to", ("what", "value"), facts))
    if digest is not None:
        parts.append(
            Notes(("The hash is of the numbers that the model reads, inputs and targets, as 8-byte floats.",))
        )
    return Section("again", "How to reproduce it", tuple(parts))


def constructor(model: Any, skip: Sequence[str] = ()) -> str:
    """The call that makes an estimator of these settings, those that differ from the defaults."""
    defaults = {p.name: p.default for p in inspect.signature(type(model)).parameters.values()}
    said = []
    for name, value in model.get_params(deep=False).items():
        if name in skip or name == "progress" or _same(value, defaults.get(name)):
            continue
        said.append(f"{name}={_code(value)}")
    return f"mercer.{type(model).__name__}({', '.join(said)})"


def fit_command(model: Any, columns: Columns, more: str = "") -> str | None:
    """The commands that do the same, where all settings are the defaults and columns have names."""
    target = model.target_name_
    if not columns.named or target is None or not constructor(model).endswith("()"):
        return None
    said = f"--target {shlex.quote(target)} --features {shlex.quote(','.join(columns.names))}{more}"
    return f"mercer fit data.csv {said} --out model.mercer\nmercer report model.mercer --out report.html"


def _same(value: Any, default: Any) -> bool:
    plain = (str, int, float, bool, type(None))
    return value is default or (
        isinstance(value, plain) and type(value) is type(default) and value == default
    )


def _code(value: Any) -> str:
    if isinstance(value, np.ndarray) and value.size > 8:
        return f"...  # {value.size} numbers"
    text = repr(value)
    return text if len(text) <= 200 else f"...  # {type(value).__name__}"


def names_of(columns: Sequence[str]) -> str:
    """A list of names, as Python."""
    return "[" + ", ".join(map(repr, columns)) + "]"
