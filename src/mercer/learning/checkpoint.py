"""A file that lets a long fit go on where it stopped: written while it runs,
read when the same fit is started again.
"""

from __future__ import annotations

import hashlib
import os
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

EVERY = 2.0  # seconds between two writes


class Checkpoint:
    """The best hyperparameters so far, and how many data they were judged on.

    `found` is what the file held when the fit began: a dict with `vector`, `size` and whatever else was kept;
    None at first, and where the file belongs to another fit (other data, model or objective), which is said
    and then overwritten.
    """

    def __init__(self, path, names, data, objective: str):
        self.path, self.names = Path(path), list(names)
        self.mark = _mark(names, data, objective)
        self.written = 0.0
        self.found = self._read()

    def keep(self, vector: np.ndarray, size: int, value: float, now: bool = False, **more: Any) -> None:
        """Write, unless that was done a moment ago."""
        if not now and time.perf_counter() - self.written < EVERY and self.written:
            return
        temporary = self.path.with_name(self.path.name + ".part")
        with open(temporary, "wb") as file:
            np.savez(file, mark=self.mark, vector=vector, size=size, value=value, **more)
        os.replace(temporary, self.path)  # a fit that is killed while writing leaves the old file
        self.written = time.perf_counter()

    def _read(self) -> dict[str, np.ndarray] | None:
        if not self.path.exists():
            return None
        try:
            with np.load(self.path, allow_pickle=False) as file:
                found = {name: file[name] for name in file.files}
        except (ValueError, OSError, KeyError) as error:
            raise ValueError(
                f"{self.path} is not a checkpoint of mercer.fit ({error}): name another file, or remove it."
            ) from None
        if str(found.get("mark")) != self.mark:
            warnings.warn(
                (
                    f"{self.path} belongs to a fit of other data, another model or objective: this fit "
                    "starts "
                    "afresh and replaces it."
                ),
                stacklevel=4,
            )
            return None
        return found


def _mark(names, data, objective: str) -> str:
    """What must be the same for a fit to go on: the hyperparameters, the data, the objective."""
    h = hashlib.sha256(f"{list(names)} {objective}".encode())
    for inputs, y in data:
        values = inputs.values
        h.update(
            np.ascontiguousarray(values).tobytes()
            if values.dtype != object
            else repr(values.tolist()).encode()
        )
        h.update(np.ascontiguousarray(y).tobytes())
    return h.hexdigest()
