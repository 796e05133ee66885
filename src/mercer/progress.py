"""A line with the time left, for one long computation: conditioning on many data,
predicting at many inputs.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from mercer.linalg import blocked


@contextlib.contextmanager
def shown(what: str, show: bool | None = None) -> Iterator[Callable[[str, float], None]]:
    """Within, factorisations of many data and whoever calls the result are heard on a line of standard error.

    show: True, False, or None (in a terminal, after a second). Where someone outside listens already, that
    one alone hears.

    >>> with shown("predicting") as tell:
    ...     tell("rows", 0.25)  # the share that is done
    """
    if blocked.listening():
        yield blocked.tell
        return
    line = Line(what, show)
    try:
        with blocked.progress(line.hear):
            yield line.hear
    finally:
        line.close()


class Line:
    """A line such as "conditioning: factor 40%, about 12 s left": `hear` takes the share that is done,
    `close` ends it.
    """

    def __init__(self, what: str, show: bool | None):
        self.what = what
        self.show = sys.stderr.isatty() if show is None else show
        self.delay = 1.0 if show is None else 0.0
        self.clock, self.began = Clock(), time.perf_counter()
        self._status: Any = None

    def hear(self, part: str, share: float) -> None:
        """So much of this part is done."""
        self.say(f"{self.what}: {self.clock.says(part, share)}")

    def say(self, text: str) -> None:
        """Show this, unless silent or too early."""
        if not self.show or time.perf_counter() - self.began < self.delay:
            return
        if self._status is None:
            from rich.console import Console

            self._status = Console(stderr=True).status(text)
            self._status.start()
        self._status.update(text)

    def close(self) -> None:
        """Clear the line."""
        if self._status is not None:
            self._status.stop()
            self._status = None


class Clock:
    """The time left of a part, from the share that is done: a part begins when its share falls,
    or with another name.
    """

    def __init__(self):
        self.part, self.first, self.share, self.began = "", 0.0, 1.0, time.perf_counter()

    def says(self, part: str, share: float) -> str:
        now = time.perf_counter()
        if part != self.part or share < self.share:
            self.part, self.first, self.began = part, share, now
        self.share = share
        done = share - self.first
        left = (
            f", about {(now - self.began) * (1.0 - share) / done:.0f} s left"
            if done > 0 and share < 1.0
            else ""
        )
        return f"{part} {share:.0%}{left}"
