"""Which solver learns and predicts best: what `solver="auto"` asks while hyperparameters are looked for.

Every candidate is conditioned on the same rows, at the hyperparameters of the best candidate before it (the
first: at those of a pilot) and at its own, found from there on many rows by its own objective in a few
evaluations; the better counts. A climb may end at a lesser optimum, which rounding alone may decide, and the
optimum of an approximation is not that of the exact answer. Hyperparameters of a few rows alone would be too
smooth, and make every approximation look accurate.
"""

from __future__ import annotations

import numpy as np

from mercer.gp import HeldOut, settle
from mercer.inference.protocol import AbstractSiteRule
from mercer.learning import starts
from mercer.learning.climb import Recorder
from mercer.learning.objectives import by_name as objective_by_name
from mercer.learning.problem import LearningProblem
from mercer.learning.search import climb_near
from mercer.learning.task import Task
from mercer.params import flatten
from mercer.progress import STOPPED
from mercer.solvers.auto import TRIED, name
from mercer.solvers.protocol import AbstractSolver, SolverError

OWN_ROWS = 10_000  # at most so many teach a candidate hyperparameters of its own
EXACT_ROWS = 1600  # and one that is exact, be it on a part of the data


class Tournament:
    """A judge of solvers, called with one after the other.

    vector: the hyperparameters of the best so far, at first those of the pilot. own: those of each candidate,
    by its name. interrupted: whether Ctrl-C ended it; candidates that come later are then refused.
    """

    def __init__(
        self, task: Task, rule: AbstractSiteRule, held: HeldOut, pilot: np.ndarray, recorder: Recorder
    ):
        self.task, self.rule, self.held, self.recorder = task, rule, held, recorder
        self.flat = flatten(task.model)
        self.vector, self.best = pilot, -np.inf
        self.own: dict[str, np.ndarray] = {}
        self.interrupted = False
        recorder.foresight = None  # how many candidates there will be is not known

    def __call__(self, solver: AbstractSolver) -> float:
        """Mean log density of the rows held out of this candidate."""
        if self.interrupted:
            raise SolverError("the comparison of solvers was interrupted.")
        who = name(solver)
        try:
            vector, value = self._tried(solver)
        except STOPPED:
            self.interrupted = True
            raise SolverError("the comparison of solvers was interrupted.") from None
        self.own[who] = vector
        if value > self.best:
            self.best, self.vector = value, vector
        return value

    def start(self, solver: AbstractSolver) -> dict[str, np.ndarray]:
        """Where a search with the chosen solver starts, by its name."""
        return {name(solver): self.own.get(name(solver), self.vector)}

    def _tried(self, solver: AbstractSolver) -> tuple[np.ndarray, float]:
        """Hyperparameters of a candidate, and how well it predicts with them: those of the best before it, or
        its own.
        """
        vectors = [self.vector]
        if self.task.max_evaluations and self.flat.vector.size:
            vectors.append(self._learned(solver, EXACT_ROWS if "exact" in solver.offers else OWN_ROWS))
        scores = [self.held.score(self.flat.unflatten(vector), solver) for vector in vectors]
        best = int(np.argmax(np.nan_to_num(scores, nan=-np.inf)))
        return vectors[best], scores[best]

    def _learned(self, solver: AbstractSolver, rows: int) -> np.ndarray:
        """Hyperparameters that the candidate finds on so many of the rows."""
        model, inputs, y = self.held.data(self.flat.unflatten(self.vector), rows)
        inputs, y, _, settled = settle(model, inputs, y, self.rule, solver)
        goal = objective_by_name(self.task.objective, self.task.n_folds, self.task.seed)
        problem = LearningProblem(model, [(inputs, y)], self.rule.rough(), settled, goal, self.task.jacobian)
        start = flatten(starts.with_rest(model, inputs.values, settled)).vector
        most = min(TRIED, self.task.max_evaluations)
        found = climb_near(problem, start, name(solver), self.recorder, most)
        problem.release()
        return found.vector
