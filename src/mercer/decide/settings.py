"""What people hand to an optimiser: read and checked, with what is wrong by name."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mercer.registry import unknown

__all__ = ["as_number", "checked_cost", "checked_limits", "checked_objectives", "signs"]


def checked_objectives(objectives: Sequence[str]) -> tuple[str, ...]:
    """Names of objectives, one to three."""
    names = (objectives,) if isinstance(objectives, str) else tuple(objectives)
    if "cost" in names:
        raise ValueError('"cost" is what an evaluation costs, told by tell(..., cost=): use another name.')
    if not 1 <= len(names) <= 3 or len(set(names)) != len(names):
        raise ValueError(f"there are one to three objectives of different names, got {names!r}.")
    return names


def checked_limits(limits: Mapping[str, Any], objectives: tuple[str, ...]) -> dict[str, tuple[Any, Any]]:
    """Limits of outcomes by name, each a (low, high) with None for no limit."""
    out = {}
    for name, pair in limits.items():
        if name in objectives or name == "cost":
            raise ValueError(f"limits are of other outcomes than {name!r}.")
        try:
            low, high = (None if end is None else float(end) for end in pair)
        except (TypeError, ValueError):
            raise ValueError(
                f"the limits of {name!r} are (low, high), None for no limit, got {pair!r}."
            ) from None
        if (low is None and high is None) or (low is not None and high is not None and not low < high):
            raise ValueError(f"the limits of {name!r} need low < high, one of them a number, got {pair!r}.")
        out[name] = (low, high)
    return out


def signs(maximise: bool | Sequence[str], objectives: tuple[str, ...]) -> np.ndarray:
    """-1 for objectives to be maximised."""
    if isinstance(maximise, bool):
        return np.full(len(objectives), -1.0 if maximise else 1.0)
    wanted = (maximise,) if isinstance(maximise, str) else tuple(maximise)
    for name in wanted:
        if name not in objectives:
            raise ValueError(unknown("objective to maximise", name, objectives))
    return np.array([-1.0 if name in wanted else 1.0 for name in objectives])


def checked_cost(cost: Any) -> float | None:
    """A cost as told; None where there is none."""
    if cost is None:
        return None
    number = as_number("cost", cost)
    if not (math.isfinite(number) and number > 0):
        raise ValueError(f"a cost is a positive number, got {cost!r}.")
    return number


def as_number(name: str, value: Any) -> float:
    """One number, whatever kind it is of."""
    try:
        if not isinstance(value, (str, bool)) and np.ndim(value) == 0:
            return float(value)
    except (TypeError, ValueError):
        pass
    raise ValueError(f"{name!r} of a row is one number, got {value!r}.")
