"""What an optimiser hands out: evaluations, the best of them, a suggestion in words."""

from __future__ import annotations

import dataclasses
from typing import Any

__all__ = ["Evaluation", "Front", "Optimum", "Suggestion", "evaluations"]


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """One row that was evaluated.

    point: the row; outcomes: what was measured, by name, empty for a failure; objectives: their names;
    failed: whether it failed; feasible: what was told of that; cost, note: as told
    """

    point: dict[str, Any]
    outcomes: dict[str, float]
    objectives: tuple[str, ...] = ("value",)
    failed: bool = False
    feasible: bool | None = None
    cost: float | None = None
    note: str = ""

    @property
    def value(self) -> Any:
        """The value, None for a failure; of several objectives a tuple of them."""
        if self.failed:
            return None
        values = tuple(self.outcomes[name] for name in self.objectives)
        return values[0] if len(values) == 1 else values


@dataclasses.dataclass(frozen=True)
class Optimum:
    """The best row found.

    value: its value as observed; point: the row; outcomes: all that was measured of it; history: every
    `Evaluation` in the order told
    """

    value: float
    point: dict[str, Any]
    outcomes: dict[str, float]
    history: tuple[Evaluation, ...] = dataclasses.field(repr=False)

    def __str__(self) -> str:
        return f"{self.value:.6g} at {row_in_words(self.point)}, best of {evaluations(len(self.history))}"


@dataclasses.dataclass(frozen=True)
class Front:
    """The rows that none beats in all objectives, ordered by the first; history: every `Evaluation`."""

    rows: tuple[Evaluation, ...]
    history: tuple[Evaluation, ...] = dataclasses.field(repr=False)

    def __str__(self) -> str:
        rows = f"{len(self.rows)} row{'s' * (len(self.rows) != 1)}"
        lines = [f"{rows} that none beats, of {evaluations(len(self.history))}"]
        for e in self.rows:
            reached = ", ".join(f"{name} = {e.outcomes[name]:.6g}" for name in e.objectives)
            lines.append(f"{reached} at {row_in_words(e.point)}")
        return "\n".join(lines)

    @property
    def points(self) -> list[dict[str, Any]]:
        """The rows."""
        return [dict(e.point) for e in self.rows]

    @property
    def values(self) -> list[tuple[float, ...]]:
        """Their objectives."""
        return [e.value for e in self.rows]


@dataclasses.dataclass(frozen=True)
class Suggestion:
    """A row to evaluate next, and why it is this one."""

    point: dict[str, Any]
    reason: str

    def __str__(self) -> str:
        return f"{row_in_words(self.point)}\n{self.reason}"


def row_in_words(row: dict[str, Any]) -> str:
    """x = 0.5, kind = a"""
    return ", ".join(f"{k} = {v:.6g}" if isinstance(v, float) else f"{k} = {v}" for k, v in row.items())


def evaluations(count: int) -> str:
    """How many, in words."""
    return f"{count:,} evaluation{'s' * (count != 1)}"
