"""What a learner is asked to do."""

from __future__ import annotations

import dataclasses
import os
from typing import Any

import numpy as np

from mercer.distributed import Team
from mercer.gp import Model
from mercer.inputs import Inputs
from mercer.progress import Progress

ENOUGH = 1e-3  # nats that no step of a climb is made for
KEEPS = "Ctrl-C keeps the best"  # at the end of a line of progress

Data = list[tuple[Inputs, np.ndarray]]
"""Checked inputs, and targets as the likelihood encodes them, of each data set."""


@dataclasses.dataclass(frozen=True, eq=False)
class Task:
    """A model bound to the columns of its data, and how its free hyperparameters are to be learned: the
    arguments of `mercer.fit`. `pooled`: whether a list of data sets was given, be it of one.
    """

    model: Model
    data: Data
    pooled: bool
    rule: Any
    solver: Any
    objective: Any
    restarts: int
    seed: int
    n_folds: int
    jacobian: bool
    max_evaluations: int
    progress: Progress
    checkpoint: str | os.PathLike[str] | None
    starts: str = "several"
    workers: Team = Team()
    curvature: np.ndarray | None = None
    tolerance: float = ENOUGH

    def one_data_set(self, who: str) -> tuple[Inputs, np.ndarray]:
        """Inputs and targets, for a learner that takes one set of them and no objective but the evidence."""
        if len(self.data) > 1 or self.objective != "evidence":
            raise ValueError(f"{who} takes one data set, and no objective but the evidence.")
        return self.data[0]
