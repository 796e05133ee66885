"""How far a long computation is, on one line with the time left; and deadlines that it keeps.

Whoever works calls `tell` now and then; whoever asked for the work opens `shown` around it, and `within` a
deadline where there is one. Every `progress=` argument has one meaning: True shows a line on standard error,
False nothing, None a line in a terminal after a second, and a function `(done, total, text)` is called
instead. `total` is None where nobody knows it.
"""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import math
import re
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

__all__ = [
    "STOPPED",
    "Deadline",
    "DeadlineReached",
    "Listener",
    "Progress",
    "Watch",
    "seconds_of",
    "shown",
    "tell",
    "within",
]

Listener = Callable[[float, float | None, str], Any]
"""Called as listener(done, total, text)."""

Progress = bool | Listener | None
"""What a `progress=` argument may be."""


def tell(done: float, total: float | None, text: str) -> None:
    """So many of `total` are done (a share of 1.0, or of a number of `text`); the time is up where a deadline
    has passed.

    >>> tell(0.25, 1.0, "rows")
    >>> tell(150, 4000, "draws")
    >>> tell(3, None, "evaluation 3: -12.5")  # nobody knows how many there will be
    """
    listener, watch = _listener.get(), _watch.get()
    if listener is not None:
        listener(done, total, text)
    if watch is not None:
        watch.step(finished=total is not None and done >= total)


@contextlib.contextmanager
def shown(what: str, progress: Progress = None, hint: str = "") -> Iterator[None]:
    """Within, what is told is heard as `progress` says, on a line from `what` to `hint`.

    Where someone outside listens already, that one goes on hearing unless `progress` is False or a function.

    >>> with shown("predicting"):
    ...     tell(0.25, 1.0, "rows")  # predicting: rows 25%, about 12 s left
    """
    if not (progress is None or isinstance(progress, bool) or callable(progress)):
        raise ValueError(
            f"progress must be True, False, None or a function (done, total, text), got {progress!r}."
        )
    if (progress is None and _listener.get() is not None) or (progress is True and listening()):
        yield
        return
    line = Line(what, None if callable(progress) else progress, hint)
    listener = progress if callable(progress) else line.hear if line.show else _nobody
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)
        line.close()


def listening() -> bool:
    """Whether someone hears what is told."""
    return _listener.get() not in (None, _nobody)


def _nobody(done: float, total: float | None, text: str) -> None:
    """Hears nothing: what is within `progress=False` is silent unless it asks for a line itself."""


_listener: contextvars.ContextVar[Listener | None] = contextvars.ContextVar("listener", default=None)


EVERY = 10.0  # seconds between two lines where there is no terminal to write the same line again


class Line:
    """A line such as "conditioning: factor 40%, about 12 s left", written over in a terminal."""

    def __init__(self, what: str, show: bool | None, hint: str = ""):
        self.show = sys.stderr.isatty() if show is None else show
        self._what, self._hint = what, f"; {hint}" if hint else ""
        self._heading = what
        self._delay = 1.0 if show is None else 0.0
        self._clock, self._began = Clock(), time.perf_counter()
        self._console: Any = None
        self._status: Any = None
        self._next = -math.inf

    def hear(self, done: float, total: float | None, text: str) -> None:
        """A listener. What has no total is the heading of what is counted after it."""
        if total is None:
            self._heading = f"{self._what}: {text}"
            self.say(self._heading + self._hint)
        else:
            self.say(f"{self._heading}: {self._clock.says(done, total, text)}{self._hint}")

    def say(self, text: str) -> None:
        """Show this, unless silent or too early."""
        if not self.show or time.perf_counter() - self._began < self._delay:
            return
        from rich.console import Console
        from rich.text import Text

        if self._console is None:
            self._console = Console(stderr=True)
        if self._console.is_terminal or self._console.is_jupyter:
            line = Text(_fitted(text, self._console.width - 4))
            if self._status is None:
                self._status = self._console.status(line)
                self._status.start()
            self._status.update(line)
        elif time.perf_counter() >= self._next:
            self._next = time.perf_counter() + EVERY
            print(text, file=sys.stderr, flush=True)

    def close(self) -> None:
        """Clear the line."""
        if self._status is not None:
            self._status.stop()
            self._status = None


def _fitted(text: str, room: int) -> str:
    """The text, without its middle if it is too long for one line: both ends matter."""
    half = max(room // 2 - 2, 0)
    return text if len(text) <= room else f"{text[:half]} … {text[len(text) - half :]}"


class Clock:
    """The time left of a part, which begins with another name or when its share falls."""

    def __init__(self) -> None:
        self._part, self._first, self._share, self._began = "", 0.0, 1.0, time.perf_counter()

    def says(self, done: float, total: float, part: str) -> str:
        """Such as "factor 40%, about 12 s left", or "draws 150 of 4000, about 12 s left"."""
        now, share = time.perf_counter(), done / total
        if part != self._part or share < self._share:
            self._part, self._first, self._began = part, share, now
        self._share = share
        counted = f"{share:.0%}" if total == 1 else f"{done} of {total}"
        gone = share - self._first
        if gone <= 0 or share >= 1:
            return f"{part} {counted}"
        return f"{part} {counted}, about {(now - self._began) * (1.0 - share) / gone:.0f} s left"


# -------------------------------------------------------------------------------------------------- deadlines


class DeadlineReached(Exception):
    """The time that a computation was given is over."""


STOPPED = (KeyboardInterrupt, DeadlineReached)
"""What ends a computation early: those that can keep what they have catch both."""


@dataclasses.dataclass(frozen=True)
class Deadline:
    """A point in time, in seconds of `time.perf_counter`.

    >>> deadline = Deadline.after("20s")
    >>> deadline.left(), deadline.passed()
    """

    end: float

    @classmethod
    def after(cls, budget: float | str) -> Deadline:
        """So far from now: seconds, or a time such as "20s", "5min", "1h"."""
        return cls(time.perf_counter() + seconds_of(budget))

    def left(self) -> float:
        """Seconds that are left, at least 0."""
        return max(0.0, self.end - time.perf_counter())

    def passed(self) -> bool:
        return time.perf_counter() > self.end

    def check(self) -> None:
        """Raise DeadlineReached if it has passed."""
        if self.passed():
            raise DeadlineReached("the time given to this computation is over.")

    def share(self, part: float) -> Deadline:
        """The deadline of those who may use this part of the time that is left."""
        return Deadline(self.end - (1.0 - part) * self.left())


class Watch:
    """A deadline being kept: whether it was `reached`, and how long the work has been under way."""

    def __init__(self, deadline: Deadline):
        self.deadline, self.reached = deadline, False
        self._first: float | None = None

    @property
    def working(self) -> float:
        """Seconds since the first step was told: without a compilation before it, which longer runs do not
        repeat.
        """
        return 0.0 if self._first is None else time.perf_counter() - self._first

    def step(self, finished: bool) -> None:
        """Raise DeadlineReached, once, if it has passed and the work is not finished."""
        if self._first is None:
            self._first = time.perf_counter()
        if not (finished or self.reached) and self.deadline.passed():
            self.reached = True
            self.deadline.check()


@contextlib.contextmanager
def within(deadline: Deadline) -> Iterator[Watch]:
    """Within, work that tells how far it is gets DeadlineReached at its first step after the deadline.

    As after Ctrl-C, chains, annealing and EM then keep what they have. It is raised once, so that what keeps
    the results is not stopped too.

    >>> with within(Deadline.after("20s")) as watch:
    ...     posterior = model.condition(X, y, MCMC())
    >>> watch.reached
    """
    outside = _watch.get()
    earlier = deadline if outside is None else min(deadline, outside.deadline, key=lambda d: d.end)
    watch = Watch(earlier)
    token = _watch.set(watch)
    try:
        yield watch
    finally:
        _watch.reset(token)


_watch: contextvars.ContextVar[Watch | None] = contextvars.ContextVar("watch", default=None)

_UNITS = {"": 1, "s": 1, "sec": 1, "seconds": 1, "m": 60, "min": 60, "minutes": 60, "h": 3600, "hours": 3600}


def seconds_of(budget: float | str) -> float:
    """A time in seconds: 60, "60s", "5min", "1h"."""
    if isinstance(budget, int | float):
        seconds = float(budget)
    else:
        match = re.fullmatch(r"\s*(\d+\.?\d*|\.\d+)\s*([a-z]*)\s*", str(budget))
        seconds = float(match[1]) * _UNITS.get(match[2], 0) if match else 0.0
    if not seconds > 0:
        raise ValueError(f"budget must be a time such as 60, '60s' or '5min', got {budget!r}.")
    return seconds
