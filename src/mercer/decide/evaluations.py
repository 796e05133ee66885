"""What an optimiser hands out: evaluations, the best of them, a suggestion in words."""

from __future__ import annotations

import dataclasses
from typing import Any

__all__ = ["Evaluation", "Front", "Optimum", "Suggestion"]


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
    history: tuple[Evaluation, ...]


@dataclasses.dataclass(frozen=True)
class Front:
    """The rows that none beats in all objectives, ordered by the first; history: every `Evaluation`."""

    rows: tuple[Evaluation, ...]
    history: tuple[Evaluation, ...]

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
        row = ", ".join(
            f"{k} = {v:.6g}" if isinstance(v, float) else f"{k} = {v}" for k, v in self.point.items()
        )
        return f"{row}\n{self.reason}"
