"""Columns beside the times of a series, with linear effects: regressors, days of events, changes of level.

With weights beta ~ N(0, scale^2) for each column they are basis functions (GPML 2.7), integrated out in O(n).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mercer.estimators import defaults
from mercer.estimators.series.clock import ROUNDING, Clock
from mercer.estimators.series.events import Event
from mercer.inputs import InputError
from mercer.means import Coordinates
from mercer.persist.kinds import checked

WEAK = 3.0  # prior standard deviation of an effect, in standard deviations of the series
CHANGES = "changes"  # what the part made of changes of level is called


@dataclasses.dataclass(frozen=True)
class Regressor:
    """A column of the user's, less its mean. scale: prior standard deviation of the effect of one unit."""

    name: str
    centre: float
    scale: float

    @property
    def label(self) -> str:
        """What its effect is called."""
        return self.name


@dataclasses.dataclass(frozen=True)
class EventDay:
    """An event, or the day so many days after it."""

    name: str
    event: Event
    offset: int
    scale: float

    @property
    def label(self) -> str:
        """christmas, christmas +1."""
        return f"{self.name} {self.offset:+d}" if self.offset else self.name

    def at(self, clock: Clock, t: np.ndarray) -> np.ndarray:
        """The column at times t (m,)."""
        return self.event.at(clock, t, self.offset)


@dataclasses.dataclass(frozen=True)
class Change:
    """A level that is another one from a time on. odds: the logarithm of those with which it was found."""

    time: float
    label: str
    scale: float
    odds: float
    name: str = CHANGES

    def at(self, clock: Clock, t: np.ndarray) -> np.ndarray:
        """The column at times t (m,)."""
        return (t >= self.time - ROUNDING * clock.step).astype(float)


@dataclasses.dataclass(frozen=True)
class Design:
    """The columns beside the times, in this order; those of regressors are the user's own."""

    regressors: tuple[Regressor, ...] = ()
    days: tuple[EventDay, ...] = ()
    changes: tuple[Change, ...] = ()

    @property
    def columns(self) -> tuple[Any, ...]:
        """All of them; each has a name (of the part of the series), a label and a prior scale."""
        return (*self.regressors, *self.days, *self.changes)

    @property
    def names(self) -> tuple[str, ...]:
        """Of the parts of the series: an event is one, and so are all changes."""
        return tuple(dict.fromkeys(column.name for column in self.columns))

    def inputs(self, clock: Clock, t: np.ndarray, R: np.ndarray) -> np.ndarray:
        """Times (n,) and all columns: (n, 1 + p). R (n, regressors)."""
        days = [column.at(clock, t) for column in self.days]
        changes = [column.at(clock, t) for column in self.changes]
        return np.column_stack([t, R, *days, *changes])

    def basis(self) -> Coordinates | None:
        """The effects as basis functions; None where there are none."""
        if not self.columns:
            return None
        centre = np.zeros(len(self.columns))
        centre[: len(self.regressors)] = [r.centre for r in self.regressors]
        scales = np.array([column.scale for column in self.columns])
        return Coordinates(tuple(range(1, 1 + scales.size)), centre=centre, covariance=scales**2)

    def centred(self, X: np.ndarray) -> np.ndarray:
        """The basis functions H (n, p) of inputs (n, 1 + p)."""
        basis = self.basis()
        return np.zeros((len(X), 0)) if basis is None else np.asarray(basis.features(X))

    def of(self, name: str) -> list[int]:
        """Which columns make a part."""
        return [j for j, column in enumerate(self.columns) if column.name == name]

    def with_change(self, change: Change) -> Design:
        """With one more, in the order of time."""
        return dataclasses.replace(self, changes=tuple(sorted((*self.changes, change), key=lambda c: c.time)))


def design(
    others: Mapping[str, np.ndarray], events: Mapping[str, Event], clock: Clock, t: np.ndarray, z: np.ndarray
) -> tuple[Design, tuple[str, ...]]:
    """The columns for values z (n,) at times t with regressors `others` (n,), and notes: days of events that
    no time stands for have no effect that could be learned and are left out.
    """
    scale = WEAK * defaults.target_scale(z)
    regressors = []
    for name, column in others.items():
        spread = float(np.std(column))
        if not spread > 1e-12 * float(np.max(np.abs(column), initial=0.0)):
            raise InputError(
                f"the regressor {name!r} does not vary, so its effect cannot be told: leave it out."
            )
        regressors.append(Regressor(name, float(np.mean(column)), scale / spread))
    days, notes = [], []
    for name, event in events.items():
        own = event.scale or scale
        found = [EventDay(name, event, i, own) for i in event.offsets(clock)]
        seen = [day for day in found if 0 < np.count_nonzero(day.at(clock, t)) < t.size]
        days += seen
        if not seen:
            notes.append(f"the event {name!r} falls on no value of the series: nothing is learned of it")
        elif unseen := [day.label for day in found if day not in seen]:
            notes.append(f"no value of the series falls on {', '.join(unseen)}: no effect is learned there")
    return Design(tuple(regressors), tuple(days)), tuple(notes)


def read_design(said: Any) -> Design:
    """A design from what `dataclasses.asdict` made of it, as files hold it."""
    parts = checked(_Said, said)
    return Design(
        tuple(checked(Regressor, one) for one in parts.regressors),
        tuple(checked(EventDay, {**one, "event": checked(Event, one["event"])}) for one in parts.days),
        tuple(checked(Change, one) for one in parts.changes),
    )


@dataclasses.dataclass(frozen=True)
class _Said:
    regressors: list[dict] | tuple[dict, ...]
    days: list[dict] | tuple[dict, ...]
    changes: list[dict] | tuple[dict, ...]


def check_names(taken: Sequence[str], added: Sequence[str]) -> None:
    """Parts have names of their own."""
    names = [*taken, *added]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InputError(
            f"two parts of the series would be called {twice[0]!r}: give the regressor or event another name."
        )


__all__ = [
    "CHANGES",
    "WEAK",
    "Change",
    "Design",
    "EventDay",
    "Regressor",
    "check_names",
    "design",
    "read_design",
]
