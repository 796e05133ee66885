"""A file that lets a long fit go on where it stopped: written while it runs, read when the same fit is
started again.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import re
import time
import types
import warnings
from pathlib import Path
from typing import Any

import jax
import numpy as np

from mercer.files import written_whole
from mercer.gp import Model
from mercer.params import flatten

EVERY = 2.0  # seconds between two writes
_ADDRESS = re.compile(" at 0x[0-9a-f]+")  # in the text of an object without a text of its own


class Checkpoint:
    """What a fit has reached, in a file. `mark`: the `fingerprint` of what must be the same for it to go on.

    `found` is what the file held when the fit began, arrays by name; None at first, and where the file
    belongs to another fit, which is said and then overwritten.
    """

    def __init__(self, path: str | os.PathLike[str], mark: str):
        self.path, self.mark = Path(path), mark
        self.written = 0.0
        self.found = self._read()

    def keep(self, vector: np.ndarray, size: int, value: float, now: bool = False) -> None:
        """Write the best hyperparameters so far and how many data they were judged on, unless that was done a
        moment ago.
        """
        if now or not self.written or time.perf_counter() - self.written >= EVERY:
            self.write(vector=vector, size=size, value=value)

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
            raise ValueError(
                f"{self.path} is damaged, or not a checkpoint of mercer.fit ({type(error).__name__}: "
                f"{error}): name another file, or remove it."
            ) from error
        if str(found.pop("mark", "")) == self.mark:
            return found
        warnings.warn(
            f"{self.path} belongs to a fit of other data, another model or other settings: this fit starts "
            "afresh and replaces it.",
            stacklevel=5,
        )
        return None


def without_values(model: Model) -> Model:
    """The model with its free hyperparameters all set to one place: what is left is what it is."""
    flat = flatten(model)
    bare: Model = flat.unflatten(np.zeros_like(flat.vector))
    return bare


def fingerprint(*values: Any) -> str:
    """The same text for the same values, also in another process: classes, settings, arrays, functions by
    their names and code.
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
        inner = [(field.name, getattr(value, field.name)) for field in dataclasses.fields(value)]
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
