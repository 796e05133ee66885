"""A progress line for long fits: only in a terminal, only after a second, and silenced with `progress=False`."""

from __future__ import annotations

import sys
import time
from typing import Any


class Progress:
    """Context manager; `update` is called after every evaluation."""

    def __init__(self, show: bool | None, size: int):
        self.show = sys.stderr.isatty() if show is None else show
        self.delay = 1.0 if show is None else 0.0
        self.size, self.best = size, float("-inf")
        self._status: Any = None

    def __enter__(self) -> Progress:
        self.began = time.perf_counter()
        return self

    def update(self, evaluations: int, start: str, size: int, value: float) -> None:
        if size == self.size:
            self.best = max(self.best, value)
        if not self.show or time.perf_counter() - self.began < self.delay:
            return
        if self._status is None:
            from rich.console import Console

            self._status = Console(stderr=True).status("fitting")
            self._status.start()
        coarse = "" if size == self.size else f" on {size} of {self.size} data"
        best = f", best {self.best:.2f}" if self.best > float("-inf") else ""
        self._status.update(f"fitting: evaluation {evaluations} (start: {start}{coarse}) {value:.2f}{best}; Ctrl-C keeps the best")

    def __exit__(self, *exc) -> None:
        if self._status is not None:
            self._status.stop()
