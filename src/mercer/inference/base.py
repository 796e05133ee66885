"""What an inference rule is: how sites are found. It knows likelihoods and sites, never how a matrix is stored."""

from __future__ import annotations

import abc
import dataclasses
from typing import Any, ClassVar

import numpy as np

from mercer.solvers.protocol import AbstractSolver, AbstractState, SolverError


@dataclasses.dataclass(frozen=True)
class Result:
    """What a rule found: the State at its sites, the log evidence, and notes a person should read."""

    state: AbstractState
    log_evidence: float
    notes: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class AbstractInference(abc.ABC):
    """An inference rule for a model (`gp`, `likelihood`) bound to its inputs."""

    needs: ClassVar[frozenset[str]]

    @abc.abstractmethod
    def run(self, model: Any, X: np.ndarray, y: np.ndarray, solver: AbstractSolver, workspace: Any = None) -> Result: ...

    @abc.abstractmethod
    def gradient(self, model: Any, y: np.ndarray, result: Result, consume: bool = False, **bars) -> dict[str, np.ndarray]:
        """Derivatives with respect to every hyperparameter, by dotted name: of the log evidence, or of what the bars say."""

    def check(self, solver: AbstractSolver) -> None:
        missing = self.needs - solver.offers
        if missing:
            raise SolverError(f"{type(self).__name__} needs {sorted(missing)}, which {type(solver).__name__} does not offer.")
