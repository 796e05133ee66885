"""What is said of the columns of a fitted function: a small table."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np

from mercer.tables import text_table

LEADING = 6  # columns in one line of a summary
SHOWN = 3  # pairs below the table
SMALL = 0.005  # shares below this are not worth a line


class Pair(NamedTuple):
    """Two columns, the share of the variance that they explain together beyond what each does alone, and its
    standard error.
    """

    first: str
    second: str
    share: float
    error: float


@dataclasses.dataclass(frozen=True, eq=False)
class Importance:
    """How much each column of the data matters to what a model predicts. Made by `model.importance()` or
    `explain.importance`.

    The variance is that of `what` is predicted, over columns that are drawn independently, each as in the
    data: a column is judged where it really lies, but without what it shares with others.

    names: the columns (G,), the most important first
    first_order (G,): share of the variance that the column explains alone (Sobol's first index)
    total (G,): share that would be left if all other columns were known, interactions included; 0 says that
        the column does nothing. The totals sum to more than 1 where columns interact
    permutation (G,) or None: how much the loss of left-out predictions rises where the column is shuffled: of
        numbers the squared error as a share of the variance of y (so it is what R2 loses), of classes the log
        loss in nats
    first_order_error, total_error, permutation_error: standard errors; `notes` say of what
    interactions (G, G): share of each pair beyond its two columns; interactions_error
    what, method, notes: what is predicted, how the shares were computed, and what a person should know

    >>> found = GPRegressor().fit(df[["a", "b", "c"]], df["y"]).importance()
    >>> print(found); found.to_frame(); found.pairs; found["a"]
    """

    names: tuple[str, ...]
    first_order: np.ndarray
    first_order_error: np.ndarray
    total: np.ndarray
    total_error: np.ndarray
    interactions: np.ndarray
    interactions_error: np.ndarray
    permutation: np.ndarray | None
    permutation_error: np.ndarray | None
    what: str
    method: str
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, name: str) -> float:
        """The total share of a column."""
        if name not in self.names:
            raise KeyError(f"no column {name!r}; there are {list(self.names)}.")
        return float(self.total[self.names.index(name)])

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """All pairs of columns, those that interact most first."""
        G = len(self.names)
        found = [
            Pair(
                self.names[i],
                self.names[j],
                float(self.interactions[i, j]),
                float(self.interactions_error[i, j]),
            )
            for i in range(G)
            for j in range(i + 1, G)
        ]
        return tuple(sorted(found, key=lambda pair: -pair.share))

    def to_frame(self) -> Any:
        """The table as a pandas frame with the columns as index, the most important first; a dict of arrays
        where pandas is not installed.
        """
        columns: dict[str, Any] = {
            "first_order": self.first_order,
            "first_order_error": self.first_order_error,
            "total": self.total,
            "total_error": self.total_error,
        }
        if self.permutation is not None:
            columns |= {"permutation": self.permutation, "permutation_error": self.permutation_error}
        try:
            import pandas as pd
        except ImportError:
            return {"column": np.array(self.names, dtype=object), **columns}
        return pd.DataFrame(columns, index=pd.Index(self.names, name="column"))

    def table(self, most: int | None = None) -> tuple[list[str], list[list[str]]]:
        """Header and rows of the `most` important columns, as text."""
        header = ["column", "alone", "total", *([] if self.permutation is None else ["shuffled"])]
        rows = []
        for i, name in enumerate(self.names[:most]):
            row = [name, _pm(self.first_order[i], self.first_order_error[i])]
            row.append(_pm(self.total[i], self.total_error[i]))
            if self.permutation is not None and self.permutation_error is not None:
                row.append(_pm(self.permutation[i], self.permutation_error[i]))
            rows.append(row)
        return header, rows

    def line(self) -> str:
        """The leading columns in one line."""
        shown = [f"{name} {share:.2f}" for name, share in zip(self.names, self.total, strict=True)][:LEADING]
        if len(self) > LEADING:
            others = float(np.max(self.total[LEADING:]))
            shown.append(f"{len(self) - LEADING} others at most {others:.2f}")
        return ", ".join(shown)

    def paragraph(self) -> str:
        """What the numbers mean, in words."""
        text = f"Share of the variance of the {self.what} that each column explains, alone and in total"
        if self.permutation is not None:
            text += "; and how much worse left-out rows are predicted where it is shuffled"
        return text + "."

    def report_section(self) -> dict[str, Any]:
        """For a report: title, paragraphs, and a table."""
        header, rows = self.table()
        paragraphs = [self.paragraph(), *self._about_pairs(), *self.notes]
        return dict(title="Importance of the columns", paragraphs=paragraphs, header=header, rows=rows)

    def __str__(self) -> str:
        header, rows = self.table()
        return "\n".join(
            [self.paragraph(), "", *text_table(header, rows), "", *self._about_pairs(), *self._about()]
        )

    def _about_pairs(self) -> list[str]:
        shown = [
            f"{p.first} with {p.second} {_pm(p.share, p.error)}"
            for p in self.pairs[:SHOWN]
            if p.share > SMALL
        ]
        return ["together, beyond alone: " + ", ".join(shown)] if shown else []

    def _about(self) -> list[str]:
        return [f"method: {self.method}", *(f"note: {note}" for note in self.notes)]


def _pm(value: float, error: float) -> str:
    """A number to three digits, with its standard error where there is one."""
    return f"{value:.3f}" + (f" ± {error:.3f}" if error > 0 else "")
