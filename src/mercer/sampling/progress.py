"""A progress line for long runs: only in a terminal, only after a second, silenced with False;
a callable is called instead.
"""

from __future__ import annotations

import sys
import time
from typing import Any, Self


class Progress:
    """Context manager; `update(done, total, text)` after every chunk of work."""

    def __init__(self, show: Any, what: str):
        self.callback = show if callable(show) else None
        self.show = self.callback is None and (sys.stderr.isatty() if show is None else bool(show))
        self.delay = 1.0 if show is None else 0.0
        self.what = what
        self._status: Any = None

    def __enter__(self) -> Self:
        self.began = time.perf_counter()
        return self

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.began

    def update(self, done: int, total: int, text: str = "") -> None:
        if self.callback is not None:
            self.callback(done, total, text)
        if not self.show or self.seconds < self.delay:
            return
        if self._status is None:
            from rich.console import Console

            self._status = Console(stderr=True).status(self.what)
            self._status.start()
        left = self.seconds * (total - done) / max(done, 1)
        self._status.update(
            f"{self.what}: {done} of {total} {text}, about {left:.0f} s left; Ctrl-C keeps what was drawn"
        )

    def __exit__(self, *exc) -> None:
        if self._status is not None:
            self._status.stop()
