"""How far a long computation is, on one line with the time left; and deadlines that it keeps.

Whoever works calls `tell` now and then; whoever asked for the work opens `shown` around it, and `within` a
deadline where there is one. Every `progress=` argument has one meaning: True shows a line on standard error,
False nothing, None a line in a terminal or a notebook after a second, and a function `(done, total, text)` is
called instead. `total` is None where nobody knows it.
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
    "announce",
    "duration",
    "followed",
    "in_lines",
    "keep_time",
    "reached",
    "seconds_of",
    "shown",
    "tell",
    "within",
]

Listener = Callable[[float, float | None, str], Any]
"""Called as listener(done, total, text)."""

Progress = bool | Listener | None
"""What a `progress=` argument may be."""


def tell(done: float, total: float | None, text: str | Callable[[], str]) -> None:
    """So many of `total` are done (a share of 1.0, or of a number of `text`); the time is up where a deadline
    has passed. A `text` that takes time to write is a function, called where somebody listens.

    >>> tell(0.25, 1.0, "rows")
    >>> tell(150, 4000, "draws")
    >>> tell(3, None, "evaluation 3: -12.5")  # nobody knows how many there will be
    """
    listener, watch = _listener.get(), _watch.get()
    if listener is not None:
        listener(done, total, text if isinstance(text, str) else text())
    if watch is not None:
        watch.step(finished=total is not None and done >= total)


def keep_time(ahead: float = 0.0) -> None:
    """The time is up where a deadline has passed: for steps that are too small to be told of, and before one
    that may take `ahead` seconds and cannot be stopped.

    >>> for iteration in range(100):
    ...     keep_time()
    """
    watch = _watch.get()
    if watch is not None:
        watch.look(ahead)


def announce(text: str) -> None:
    """Something that was foreseen or chosen: shown at once where progress is, on a line that stays.

    >>> announce("60,000 rows by VFE(m=256): about 3 min and 300 MiB")
    """
    announcer = _announcer.get()
    if announcer is not None:
        announcer(text)


def reached(value: float) -> None:
    """What learning climbs was evaluated on all data, and is this: for who draws the climb.

    >>> reached(-12.5)
    """
    follower = _follower.get()
    if follower is not None:
        follower(value)


@contextlib.contextmanager
def followed(follower: Callable[[float], Any]) -> Iterator[None]:
    """Within, `follower(value)` is called with every value that the objective of learning has.

    >>> values = []
    >>> with followed(values.append):
    ...     model = GPRegressor().fit(X, y)
    """
    token = _follower.set(follower)
    try:
        yield
    finally:
        _follower.reset(token)


_follower: contextvars.ContextVar[Callable[[float], Any] | None] = contextvars.ContextVar(
    "follower", default=None
)


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
    announced = _announcer.set(_as_heard(progress) if callable(progress) else line.announce)
    try:
        yield
    finally:
        _announcer.reset(announced)
        _listener.reset(token)
        line.close()


def _as_heard(listener: Listener) -> Callable[[str], Any]:
    """The listener for what is announced."""
    return lambda text: listener(0, None, text)


def listening() -> bool:
    """Whether someone hears what is told."""
    return _listener.get() not in (None, _nobody)


def _nobody(done: float, total: float | None, text: str) -> None:
    """Hears nothing: what is within `progress=False` is silent unless it asks for a line itself."""


_listener: contextvars.ContextVar[Listener | None] = contextvars.ContextVar("listener", default=None)
_announcer: contextvars.ContextVar[Callable[[str], Any] | None] = contextvars.ContextVar(
    "announcer", default=None
)


@contextlib.contextmanager
def in_lines() -> Iterator[None]:
    """Within, `progress=None` also shows where there is no terminal: a plain line every ten seconds. The
    command line works within it.
    """
    token = _lines.set(True)
    try:
        yield
    finally:
        _lines.reset(token)


_lines: contextvars.ContextVar[bool] = contextvars.ContextVar("lines", default=False)

WIDTH = 80  # columns of a line where no terminal says how many there are
EVERY = 10.0  # seconds between two lines where there is no terminal to write the same line again


class Line:
    """A line such as "conditioning: factor 40%, about 12 s left", written over in a terminal or a notebook;
    elsewhere another one now and then.
    """

    def __init__(self, what: str, show: bool | None, hint: str = ""):
        self._notebook = in_notebook()
        terminal = sys.stderr.isatty() or self._notebook
        self.show = terminal or _lines.get() if show is None else show
        self._what, self._hint = what, f"; {hint}" if hint else ""
        self._heading = what
        self._delay = 0.0 if show else 1.0 if terminal else 2.0
        self._clock, self._began = Clock(), time.perf_counter()
        self._console: Any = None
        self._status: Any = None
        self._next = -math.inf
        self._written = False
        self._share: float | None = None

    def hear(self, done: float, total: float | None, text: str) -> None:
        """A listener. What has no total is the heading of what is counted after it."""
        self._share = None if total is None else done / total
        if total is None:
            self._heading = f"{self._what}: {text}"
            self.say(self._heading + self._hint)
        else:
            self.say(f"{self._heading}: {self._clock.says(done, total, text)}{self._hint}")

    def announce(self, text: str) -> None:
        """Show this at once, on a line that stays."""
        if self.show:
            self._clear()
            print(_fitted(f"{self._what}: {text}", WIDTH - 1), file=sys.stderr, flush=True)

    def say(self, text: str) -> None:
        """Show this, unless silent or too early."""
        now = time.perf_counter()
        if not self.show or now - self._began < self._delay or now < self._next:
            return
        if self._notebook:
            self._next = now + 0.2
            self._written = True
            print("\r" + self._cut(text, WIDTH - 1).ljust(WIDTH - 1), end="", file=sys.stderr, flush=True)
        elif not self._in_terminal(text):
            self._next = now + EVERY
            print(self._cut(text, WIDTH - 1), file=sys.stderr, flush=True)

    def _in_terminal(self, text: str) -> bool:
        """Write over the last line; False where there is no terminal."""
        from rich.console import Console
        from rich.text import Text

        if self._console is None:
            self._console = Console(stderr=True)
        if not self._console.is_terminal:
            return False
        drawn = f"{bar(self._share)} " if self._share is not None and self._console.width >= 4 * BAR else ""
        line = Text(drawn + self._cut(text, self._console.width - 4 - len(drawn)))
        if self._status is None:
            self._status = self._console.status(line)
            self._status.start()
        self._status.update(line)
        return True

    def _cut(self, text: str, room: int) -> str:
        """The text in one line: without its hint, then without its middle."""
        return _fitted(text if len(text) <= room else text.removesuffix(self._hint), room)

    def _clear(self) -> None:
        if self._written:
            print("\r" + " " * (WIDTH - 1), end="\r", file=sys.stderr, flush=True)
            self._written = False

    def close(self) -> None:
        """Clear the line."""
        self._clear()
        if self._status is not None:
            self._status.stop()
            self._status = None


BAR = 16  # columns of a bar


def bar(share: float) -> str:
    """A share as a bar, to half a column.

    >>> bar(0.25)
    '━━━━────────────'
    """
    halves = round(2 * BAR * min(max(share, 0.0), 1.0))
    return ("━" * (halves // 2) + "╸" * (halves % 2)).ljust(BAR, "─")


def in_notebook() -> bool:
    """Whether this is a notebook, where what is written appears below a cell."""
    IPython = sys.modules.get("IPython")
    return IPython is not None and type(IPython.get_ipython()).__name__ == "ZMQInteractiveShell"


def _fitted(text: str, room: int) -> str:
    """The text, without its middle if it is too long for one line: both ends matter."""
    half = max(room // 2 - 2, 0)
    return text if len(text) <= room else f"{text[:half]} … {text[len(text) - half :]}"


def duration(seconds: float) -> str:
    """A time as people say it: "12 s", "3 min", "1.5 h".

    >>> duration(200.0)
    '3 min'
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


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
        return f"{part} {counted}, about {duration((now - self._began) * (1.0 - share) / gone)} left"


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

    def passed(self, ahead: float = 0.0) -> bool:
        """Whether it has, or will have in so many seconds."""
        return time.perf_counter() + ahead > self.end

    def check(self, ahead: float = 0.0) -> None:
        """Raise DeadlineReached if it has passed, or will have in so many seconds."""
        if self.passed(ahead):
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
        if not finished:
            self.look()

    def look(self, ahead: float = 0.0) -> None:
        """Raise DeadlineReached, once, if it passes within the seconds ahead."""
        if not self.reached and self.deadline.passed(ahead):
            self.reached = True
            self.deadline.check(ahead)


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
