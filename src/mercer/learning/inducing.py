"""Learning inducing inputs together with the hyperparameters, once those are near their best."""

from __future__ import annotations

import dataclasses

import numpy as np

from mercer.learning.bounds import Bound
from mercer.learning.climb import Optimum, Recorder, maximise
from mercer.learning.problem import LearningProblem


def move_inducing(
    problem: LearningProblem, best: Optimum, recorder: Recorder, max_evaluations: int
) -> tuple[Optimum, np.ndarray]:
    """The best hyperparameters and inducing inputs found from `best` and the solver's own."""
    joint = InducingProblem(problem)
    start = np.concatenate([best.vector, (joint.Z / joint.scale).ravel()])
    journal, recorder.journal = recorder.journal, None  # which keeps hyperparameters only
    found = maximise(joint, start, "inducing inputs", recorder, ftol=1e-8, max_evaluations=max_evaluations)
    recorder.journal = journal
    theta, Z = joint.split(found.vector)
    gradient = None if found.gradient is None else found.gradient[: theta.shape[0]]
    return dataclasses.replace(found, vector=theta, gradient=gradient), Z


@dataclasses.dataclass(eq=False)
class InducingProblem:
    """The objective as a function of hyperparameters and inducing inputs,
    each in units of its column's standard deviation.
    """

    problem: LearningProblem

    def __post_init__(self) -> None:
        X = self.problem.data[0][0].values
        spread = np.std(X, 0)
        self.scale = np.where(spread > 0, spread, 1.0)
        Z = self.problem.solver.inducing_to_learn()
        assert Z is not None
        self.Z, self.flat = Z, self
        self.size, self.smooth = self.problem.size, self.problem.smooth

    def bounds(self) -> list[Bound]:
        hyperparameters = self.problem.flat.bounds()
        return hyperparameters + [(None, None)] * self.Z.size

    def split(self, vector: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        p = self.problem.flat.vector.shape[0]
        return vector[:p], vector[p:].reshape(-1, self.scale.shape[0]) * self.scale

    def value_and_gradient(self, vector: np.ndarray) -> tuple[float, np.ndarray, float]:
        theta, Z = self.split(vector)
        problem = self.problem
        problem.solver = problem.solver.with_inducing(Z, learn=True)
        if problem.workspaces[0] is not None:
            problem.workspaces[0].move_inducing(Z)
        value, gradient, objective = problem.value_and_gradient(theta)
        moved = (
            np.zeros_like(Z) if not np.isfinite(value) else problem.by_name["solver.inducing"] * self.scale
        )
        return value, np.concatenate([gradient, moved.ravel()]), objective
