"""How files of data are found and read; `_Entry` says what is in one."""

from __future__ import annotations

import csv
import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray


def _given(name: str, entry: _Entry, path: Path) -> Path:
    if len(entry.files) > 1:
        raise ValueError(
            f"{name!r} is read from several files ({', '.join(entry.files)}): put them in the folder "
            "MERCER_DATA."
        )
    if not path.is_file():
        raise FileNotFoundError(
            f"load({name!r}) was given the path {path}, which is not a file. {_how(entry)}"
        )
    return path


def _how(entry: _Entry) -> str:
    layout = entry.layout or f"a CSV file with the columns {', '.join(_fields(entry))}"
    return f"It holds {layout}. Source: {entry.source}."


def _fields(entry: _Entry) -> tuple[str, ...]:
    return (*entry.columns, *((entry.target,) if isinstance(entry.target, str) else entry.target))


def _find(name: str, entry: _Entry, file: str, sha256: str | None) -> Path:
    how = _how(entry)
    folder = os.environ.get("MERCER_DATA")
    if not folder:
        raise FileNotFoundError(
            f"load({name!r}) needs the file {file!r}, which mercer does not ship, and the environment "
            "variable "
            f"MERCER_DATA is not set. Set it to the folder that holds the file. {how}"
        )
    path = Path(folder) / file
    if not path.is_file():
        raise FileNotFoundError(
            f"load({name!r}) needs the file {file!r}, which mercer does not ship and which is not in the "
            "folder "
            f"MERCER_DATA={folder}. Put it there. {how}"
        )
    if sha256 and hashlib.sha256(path.read_bytes()).hexdigest() != sha256:
        raise ValueError(
            f"{path} is not the file load({name!r}) was written for: its SHA-256 is not {sha256}. "
            "Fetch it again, or pass verify=False to read it as it is."
        )
    return path


def _read_csv(entry: _Entry, paths: list[Path], part: str, split: int) -> tuple[NDArray, NDArray]:
    with paths[0].open(encoding="utf-8", newline="") as file:
        lines = [line for line in csv.reader(file) if line]
    header, wanted = lines[0] if lines else [], _fields(entry)
    if set(wanted) <= set(header):
        lines = lines[1:]
    elif part == "all" and len(header) == len(wanted) and not set(wanted) & set(header):
        header = list(wanted)
    else:
        raise ValueError(
            f"{paths[0]} lacks the column(s) {', '.join(c for c in wanted if c not in header)}. {_how(entry)}"
        )
    rows = [row for row in (dict(zip(header, line, strict=True)) for line in lines) if entry.keep(row)]
    rows = [row for row in rows if part in ("all", row.get("split"))]

    def column(name: str) -> NDArray:
        values = (
            [entry.codes[name][row[name]] for row in rows]
            if name in entry.codes
            else [row[name] for row in rows]
        )
        try:
            return np.array(values, dtype=np.float64)
        except ValueError:
            return np.array(values)

    X = column(entry.columns[0]) if entry.text else np.column_stack([column(c) for c in entry.columns])
    if isinstance(entry.target, str):
        y = column(entry.target)
        return X, y.astype(np.int64) if entry.integer_labels else y
    return X, np.column_stack([column(t) for t in entry.target])


def _read_divided(entry: _Entry, paths: list[Path], part: str, split: int) -> tuple[NDArray, NDArray]:
    """Arrays X_train, y_train, X_test, y_test ...; all of them are the parts in this order."""
    parts = [p for p in entry.parts if p != "all"] if part == "all" else [part]
    with np.load(paths[0], allow_pickle=False) as z:
        X, y = (np.concatenate([z[f"{name}_{p}"] for p in parts]) for name in "Xy")
    return X.astype(np.float64), y.astype(np.int64 if y.dtype.kind in "iu" else np.float64)


def _read_threes_and_fives(
    entry: _Entry, paths: list[Path], part: str, split: int
) -> tuple[NDArray, NDArray]:
    X, y = _read_divided(entry, paths, part, split)
    keep = np.isin(y, [3, 5])
    return X[keep], y[keep]


def _read_masked(entry: _Entry, paths: list[Path], part: str, split: int) -> tuple[NDArray, NDArray]:
    """Arrays X, y and one packed test mask for each published division."""
    with np.load(paths[0], allow_pickle=False) as z:
        X, y = z["X"], z["y"]
        test = np.unpackbits(z["test_mask_packed"][split])[: len(y)].astype(bool)
    keep = {"all": slice(None), "train": ~test, "test": test}[part]
    return X[keep], y[keep]


def _read_sarcos(entry: _Entry, paths: list[Path], part: str, split: int) -> tuple[NDArray, NDArray]:
    """Training rows whose torque 1 is known and which are not official test rows;
    or the official test rows.
    """
    recovered, official = paths
    if part == "test":
        with np.load(official, allow_pickle=False) as z:
            return z["data"][:, :21], z["data"][:, 21]
    with np.load(recovered, allow_pickle=False) as z:
        clean = ~z["in_official_test"] & ~np.isnan(z["Y"][:, 0])
        return z["X"][clean], z["Y"][clean, 0]


@dataclass(frozen=True)
class _Entry:
    """One line of the table: which files (with SHA-256), what is in them, and how to read them."""

    files: Mapping[str, str]
    columns: tuple[str, ...]
    target: str | tuple[str, ...]
    source: str
    description: str
    read: Callable[[_Entry, list[Path], str, int], tuple[NDArray, NDArray]] = _read_csv
    parts: tuple[str, ...] = ("all",)
    splits: int = 1
    units: Mapping[str, str] = field(default_factory=dict)
    layout: str = ""
    keep: Callable[[Mapping[str, str]], bool] = lambda row: True
    codes: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    text: bool = False
    integer_labels: bool = False
