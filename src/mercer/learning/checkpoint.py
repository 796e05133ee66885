"""A file that lets a long fit go on where it stopped: written while it runs, read when the same fit is
started again.

A search is a function of what its objective says. So what it has computed is kept: the same fit, started
again, reads instead of computing as far as it had come, and ends where it would have ended.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import re
import time
import types
from pathlib import Path
from typing import Any

import jax
import numpy as np

from mercer.files import written_whole

EVERY = 2.0  # seconds between two writes
_ADDRESS = re.compile(" at 0x[0-9a-f]+")  # in the text of an object without a text of its own


class CheckpointError(ValueError):
    """A checkpoint that is damaged, or that of another fit."""


class Checkpoint:
    """What a fit has reached, in a file. `mark`: the `fingerprint` of what must be the same for it to go on.

    `found` is what the file held when the fit began, arrays by name; None where there was none. A file that
    is damaged or belongs to another fit is a `CheckpointError`, and stays as it is.
    """

    def __init__(self, path: str | os.PathLike[str], mark: str):
        self.path, self.mark = Path(path), mark
        self.written = 0.0
        self.found = self._read()

    def due(self) -> bool:
        """Whether nothing was written for a while."""
        return not self.written or time.perf_counter() - self.written >= EVERY

    def write(self, **arrays: Any) -> None:
        """Write this, in place of what was there."""
        with written_whole(self.path) as new, open(new, "wb") as file:
            np.savez(file, mark=self.mark, **arrays)
        self.written = time.perf_counter()

    def _read(self) -> dict[str, np.ndarray] | None:
        if not self.path.exists():
            return None
        try:
            with open(self.path, "rb") as file, np.load(file, allow_pickle=False) as arrays:
                found = {name: arrays[name] for name in arrays.files}
        except Exception as error:  # a damaged file can fail in any way
            raise self.damaged(f"{type(error).__name__}: {error}") from error
        if str(found.pop("mark", "")) != self.mark:
            raise CheckpointError(
                f"{self.path} is the checkpoint of a fit of other data, of another model or start, or with "
                "other settings: name another file, or remove it."
            )
        return found

    def damaged(self, why: str) -> CheckpointError:
        return CheckpointError(
            f"{self.path} is damaged, or not a checkpoint of mercer.fit ({why}): name another file, or "
            "remove it."
        )


Answer = tuple[float, np.ndarray, float]
"""Of an objective at a vector (p,): its value with the log prior, the gradient (p,), the value without."""


class Journal:
    """What an objective said wherever it was asked, in a checkpoint: nothing is computed twice, also not by
    the same fit started again.
    """

    def __init__(self, checkpoint: Checkpoint | None):
        self.checkpoint = checkpoint
        self.answers: dict[bytes, Answer] = {}
        if checkpoint is not None and checkpoint.found is not None:
            self._read(checkpoint, checkpoint.found)

    def ask(self, problem: Any, vector: np.ndarray) -> Answer:
        """`problem.value_and_gradient(vector)`, found here or computed."""
        problem.open(vector)
        place = fingerprint(problem.rule, problem.solver, problem.mark, vector).encode()
        if place not in self.answers:
            self.answers[place] = problem.value_and_gradient(vector)
            if self.checkpoint is not None and self.checkpoint.due():
                self.write()
        return self.answers[place]

    def write(self) -> None:
        """Bring the file up to date."""
        if self.answers and self.checkpoint is not None:
            self.checkpoint.write(places=np.array(list(self.answers)), answers=self._rows())

    def said(self) -> dict[str, Any]:
        """What it holds, for a journal in another process to `take`."""
        return {"places": [place.decode() for place in self.answers], "answers": self._rows()}

    def take(self, said: dict[str, Any]) -> None:
        """Add what another journal holds."""
        places = [place.encode() for place in said["places"]]
        rows = zip(places, said["answers"], strict=True)
        self.answers |= {place: (float(row[0]), row[2:], float(row[1])) for place, row in rows}

    def _rows(self) -> np.ndarray:
        return np.array([np.concatenate([[v, o], g]) for v, g, o in self.answers.values()])

    def _read(self, checkpoint: Checkpoint, found: dict[str, np.ndarray]) -> None:
        places, answers = found.get("places"), found.get("answers")
        if places is None or answers is None or answers.ndim != 2 or places.shape != answers.shape[:1]:
            raise checkpoint.damaged("it holds no evaluations")
        rows = zip(places.tolist(), answers, strict=True)
        self.answers = {place: (float(row[0]), row[2:], float(row[1])) for place, row in rows}


def fingerprint(*values: Any) -> str:
    """The same text for the same values, also in another process: classes, settings, arrays, functions by
    their names and code; not what is only said to people (fields with "words" in their metadata).
    """
    digest = hashlib.sha256()
    for value in values:
        _feed(digest, value)
    return digest.hexdigest()


def _feed(digest: Any, value: Any) -> None:
    value = np.asarray(value) if isinstance(value, jax.Array) else value
    said = type(value).__qualname__
    inner: Any = ()
    if isinstance(value, np.ndarray) and value.dtype == object:
        said, inner = f"{said} {value.shape}", value.ravel().tolist()
    elif isinstance(value, np.ndarray | np.generic):
        said, inner = f"{said} {value.dtype} {value.shape}", [value.tobytes()]
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        counted = [field.name for field in dataclasses.fields(value) if "words" not in field.metadata]
        inner = [(name, getattr(value, name)) for name in counted]
    elif isinstance(value, dict):
        inner = list(value.items())
    elif isinstance(value, list | tuple):
        inner = value
    elif isinstance(value, types.FunctionType):
        inner = [value.__qualname__, value.__code__]
    elif isinstance(value, types.CodeType):
        inner = [value.co_code, value.co_names, value.co_consts]
    elif not _ADDRESS.search(repr(value)):
        said += f" {value!r}"
    digest.update(f"({said}".encode())
    for part in inner:
        _feed(digest, part)
    digest.update(b")")
