"""The surrogate of one outcome while rows come in.

Hyperparameters are learned anew for every row up to ALWAYS rows, and beyond that whenever the rows have grown
by a twentieth, from the last ones and from one start of their own; in between rows are appended to the
factor. What is kept says all: the same rows give the same surrogate, also after a file.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.decide import surrogate
from mercer.decide.surrogate import Surrogate

__all__ = ["Learner"]

ALWAYS = 60
GROWTH = 1.05


class Learner:
    """warped: whether a tail of large values may be shortened; else values are only standardised."""

    def __init__(self, groups: np.ndarray, warped: bool = True):
        self.groups, self.warped = groups, warped
        self.theta: np.ndarray | None = None
        self.rows = 0  # when theta was learned
        self._gp: Surrogate | None = None
        self._known = 0  # rows in it

    def gp(self, U: np.ndarray, y: np.ndarray) -> Surrogate:
        """The surrogate of values y (n,) at U (n, D): the rows of the call before, and those told since."""
        growth = 1.0 if self.rows < ALWAYS else GROWTH
        if self.theta is None or len(y) > growth * self.rows:
            self._learn(U, y)
        assert self.theta is not None
        if self._gp is None:
            at = self._known = self.rows
            self._gp = surrogate.condition(self.theta, U[:at], y[:at], self.groups)
        for i in range(self._known, len(y)):
            self._gp = surrogate.append(self._gp, U[i], y[i])
        self._known = len(y)
        return self._gp

    def _learn(self, U: np.ndarray, y: np.ndarray) -> None:
        count = int(self.groups.max()) + 1
        starts = [surrogate.default_start(count, warp) for warp in (100.0, 0.3)]
        if self.theta is not None:
            starts = [self.theta, starts[len(y) % 2]]
        elif not self.warped:
            starts = starts[:1]
        self.theta = surrogate.learn(U, y, self.groups, starts, self.warped)
        self.rows, self._gp = len(y), None

    def kept(self) -> dict[str, Any]:
        """What a file must say."""
        return {"theta": self.theta, "rows": self.rows}

    def restore(self, kept: dict[str, Any]) -> None:
        """As it was when `kept` was asked."""
        theta = kept["theta"]
        self.theta = None if theta is None else np.asarray(theta, float).reshape(int(self.groups.max()) + 4)
        self.rows, self._gp = int(kept["rows"]), None
