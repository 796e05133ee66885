"""Rows of a table that are copies of other rows.

Two measurements at the same inputs tell the noise. A row that was written down twice tells nothing new, yet
looks like two measurements that agree to the last digit: learned from such rows, noise goes to zero.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from mercer.registry import unknown

REPEATS = ("merge", "keep")
ROUNDING = 1e-9  # of the range of the targets: numbers closer than this were the same before arithmetic


@dataclasses.dataclass(frozen=True, eq=False)
class Copies:
    """Which rows of a table are copies. `rows` (n,): of the rows that count, the first of each kind in the
    order of the table, the place of what every row is or copies.
    """

    rows: np.ndarray

    @property
    def kept(self) -> np.ndarray:
        """Positions (k,) of the rows that count."""
        return np.unique(self.rows, return_index=True)[1]

    @property
    def count(self) -> int:
        """How many rows are copies."""
        return len(self.rows) - int(self.rows.max()) - 1

    def note(self) -> str:
        """What to tell of them."""
        verb = "row is a copy of another" if self.count == 1 else "rows are copies of others"
        return (
            f"{self.count} of {len(self.rows)} {verb} (same inputs, same target) and not counted again: a "
            "copy says nothing of the noise (repeats='keep' if they were measured apart)"
        )


def copies(
    X: np.ndarray, y: np.ndarray, repeats: str = "merge", known: Sequence[np.ndarray] = ()
) -> Copies | None:
    """The rows of X (n, d) that repeat an earlier one with its target y (n,) and what else is known of it,
    each (n,); None where there are none, or where `repeats` is "keep".

    Equal inputs with different targets are replicates, and all of them count. Where they agree no more often
    than their spread and the rounding of the targets (scores, counts) explain, nothing is a copy.
    """
    if repeats not in REPEATS:
        raise ValueError(unknown("repeats", repeats, REPEATS))
    if repeats == "keep":
        return None
    places = _places(X)
    rows = _numbered(places, y)
    for values in known:
        rows = _numbered(rows, values)
    found = Copies(rows)
    return None if not found.count or _rounded_replicates(places, y, found.rows) else found


def _rounded_replicates(places: np.ndarray, y: np.ndarray, rows: np.ndarray) -> bool:
    """Whether equal rows may be replicates whose targets were rounded. `places` and `rows` (n,) tell inputs
    and whole rows apart.
    """
    size, first = np.bincount(places), np.unique(places, return_index=True)[1]
    away = y - y[first][places]
    square = np.bincount(places, away**2) - np.bincount(places, away) ** 2 / size
    differ = np.bincount(places, away != 0) > 0
    if not differ.any():
        return False
    spread = np.sqrt(np.sum(square[differ]) / np.sum(size[differ] - 1))
    gaps = np.diff(np.unique(y))
    step = np.min(gaps[gaps > ROUNDING * np.ptp(y)])
    pairs, equal = (float(np.sum(m * (m - 1.0))) for m in (size, np.bincount(rows)))
    # the chance that normal noise of this spread, rounded, agrees
    chance = min(1.0, step / (2.0 * np.sqrt(np.pi) * spread))
    return equal / pairs <= min(2.0 * chance, 0.5 * (1.0 + chance))


def _places(X: np.ndarray) -> np.ndarray:
    """A number for every row (n,), the same for equal ones."""
    if X.dtype == object:
        seen: dict[tuple, int] = {}
        try:
            return np.array([seen.setdefault(tuple(row), len(seen)) for row in X])
        except TypeError:  # objects without a hash are not compared
            return np.arange(X.shape[0])
    places = np.zeros(X.shape[0], dtype=int)
    for column in X.T:
        places = _numbered(places, column)
        if int(places.max()) == X.shape[0] - 1:  # all are different
            break
    return places


def _numbered(places: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Numbers (n,) for the pairs of a place (n,) and a value (n,): 0, 1 ... as they first come."""
    _, codes = np.unique(values, return_inverse=True)
    _, first, rows = np.unique(places * len(codes) + codes.ravel(), return_index=True, return_inverse=True)
    number = np.empty(len(first), dtype=int)
    number[np.argsort(first)] = np.arange(len(first))
    return number[rows.ravel()]
