"""A progress line for long fits: only in a terminal, only after a second,
and silenced with `progress=False`.
"""

from __future__ import annotations

import contextlib

from mercer.linalg import blocked
from mercer.progress import Line


class Progress(Line):
    """Context manager; `update` is called after every evaluation, `hear` within those of many data."""

    def __init__(self, show: bool | None, size: int):
        super().__init__("fitting", show)
        self.size, self.best = size, float("-inf")
        self._open = contextlib.ExitStack()

    def __enter__(self) -> Progress:
        self._open.callback(self.close)
        self._open.enter_context(blocked.progress(self.hear))
        return self

    def update(self, evaluations: int, start: str, size: int, value: float) -> None:
        if size == self.size:
            self.best = max(self.best, value)
        coarse = "" if size == self.size else f" on {size} of {self.size} data"
        best = f", best {self.best:.2f}" if self.best > float("-inf") else ""
        self.what = (
            f"fitting: evaluation {evaluations} (start: {start}{coarse}) {value:.2f}{best}; Ctrl-C "
            "keeps the best"
        )
        self.say(self.what)

    def __exit__(self, *exc) -> None:
        self._open.close()
