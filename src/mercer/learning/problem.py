"""A learning problem: an objective of the free hyperparameters, on one or several data sets."""

from __future__ import annotations

import dataclasses
import functools
from functools import partial
from typing import Any

import numpy as np

from mercer.gp import Model, at_rows
from mercer.inference.protocol import AbstractSiteRule, Result
from mercer.inputs import Inputs
from mercer.learning.checkpoint import fingerprint
from mercer.learning.objectives import Objective, evidence
from mercer.linalg.cholesky import NotPositiveDefinite
from mercer.params import Flattened, flatten

STEP = 1e-3  # of the logarithm of a hyperparameter, where derivatives are differences


@dataclasses.dataclass(eq=False)
class LearningProblem:
    """Value and gradient of objective + log prior as a function of the unconstrained vector."""

    model: Model
    data: list[tuple[Inputs, np.ndarray]]
    rule: AbstractSiteRule
    solver: Any
    objective: Objective
    jacobian: bool = False

    def __post_init__(self) -> None:
        self.flat: Flattened = flatten(self.model)
        self.workspaces: list[Any] = [None] * len(self.data)
        self.by_name: dict[str, np.ndarray] = {}  # of the last evaluation by States, on the last data set

    @property
    def size(self) -> int:
        return sum(y.shape[0] for _, y in self.data)

    @functools.cached_property
    def mark(self) -> str:
        """Of its data, to tell it from problems on other rows."""
        return fingerprint(self.data)

    @property
    def smooth(self) -> bool:
        return self.rule.smooth or self.model.likelihood.log_concave

    def open(self, vector: np.ndarray) -> None:
        """Make the workspaces that States need, at the first hyperparameters that are asked about: nearest
        neighbours depend on them.
        """
        for i, (inputs, _) in enumerate(self.data):
            if self.workspaces[i] is None and self.short_cuts[i] is None:
                model = self.flat.unflatten(vector)
                self.workspaces[i] = self.solver.workspace(model.priors, inputs.values)

    def fresh(self, vector: np.ndarray) -> None:
        """Forget what was remembered of earlier evaluations; what depends on hyperparameters is chosen at
        these.
        """
        self.release()
        self.open(vector)

    def value_and_gradient(self, vector: np.ndarray) -> tuple[float, np.ndarray, float]:
        """Objective plus log prior, its gradient, and the objective alone. (-inf, zeros,
        -inf) where the model cannot be factored.
        """
        failed = (-np.inf, np.zeros_like(vector), -np.inf)
        if not self.flat.within_reach(vector):
            return failed
        if self.objective.value is not None and not self.rule.fixed_sites:
            return self._by_differences(vector)
        total, gradient = 0.0, np.zeros_like(vector)
        for i in range(len(self.data)):
            try:
                with np.errstate(all="ignore"):
                    value, slope = (self.short_cuts[i] or partial(self._by_state, i))(vector)
            except NotPositiveDefinite:
                return failed
            total += value
            gradient += slope
        prior, prior_gradient = self.flat.log_prior(vector, self.jacobian)
        value, gradient = total + prior, gradient + prior_gradient
        if not np.isfinite(value) or not np.isfinite(gradient).all():
            return failed
        return float(value), gradient, float(total)

    @functools.cached_property
    def short_cuts(self) -> list[Any]:
        """What the rule knows of each data set that is faster than a State; None where it knows nothing."""
        if self.objective.evaluate is not evidence:
            return [None] * len(self.data)
        return [self.rule.at_vectors(self.flat, inputs.values, y, self.solver) for inputs, y in self.data]

    def _by_state(self, i: int, vector: np.ndarray) -> tuple[float, np.ndarray]:
        """The objective of one data set, and its gradient."""
        self.open(vector)
        model, (inputs, y) = self.flat.unflatten(vector), self.data[i]
        result = self.rule.run(model, inputs.values, y, self.solver, self.workspaces[i])
        value, bars = self.objective.evaluate(result)
        self.by_name = self.rule.gradient(model, y, result, consume=True, **bars)
        return value, self.flat.pull(self.by_name, vector)

    def _by_differences(self, vector: np.ndarray) -> tuple[float, np.ndarray, float]:
        """The same of an objective that has no derivatives for this rule: by central differences."""

        def value(at: np.ndarray) -> float:
            with np.errstate(all="ignore"):
                return sum(self._value(at, i) for i in range(len(self.data)))

        self.open(vector)
        try:
            total = value(vector)
            steps = STEP * np.eye(len(vector))
            gradient = np.array([(value(vector + h) - value(vector - h)) / (2 * STEP) for h in steps])
        except NotPositiveDefinite:
            return -np.inf, np.zeros_like(vector), -np.inf
        prior, prior_gradient = self.flat.log_prior(vector, self.jacobian)
        gradient = gradient + prior_gradient
        if not np.isfinite(total + prior) or not np.isfinite(gradient).all():
            return -np.inf, np.zeros_like(vector), -np.inf
        return float(total + prior), gradient, float(total)

    def _value(self, vector: np.ndarray, i: int) -> float:
        assert self.objective.value is not None
        model, (inputs, y) = self.flat.unflatten(vector), self.data[i]
        result = self.rule.run(model, inputs.values, y, self.solver, self.workspaces[i])
        return self.objective.value(_Rows(self, model, inputs.values, y, result))

    def subset(self, size: int, seed: int) -> LearningProblem:
        """The same problem on a random part of the data of about this size that the solver can work on."""
        fraction = size / self.size
        rng = np.random.default_rng(seed)
        parts, model = [], self.model
        for inputs, y in self.data:
            rows = self.solver.some_rows(inputs.values, round(fraction * y.shape[0]), rng)
            parts.append((Inputs(inputs.values[rows], inputs.names), y[rows]))
            model = at_rows(model, rows, y.shape[0])
        return LearningProblem(
            model, parts, self.rule.coarse(model), self.solver, self.objective, self.jacobian
        )

    def foresee(self, part: LearningProblem, vector: np.ndarray) -> None:
        """Start the rule where a problem on a part of the data suggests, at these hyperparameters."""
        model = self.flat.unflatten(vector)
        for i, ((few, y_few), (inputs, y)) in enumerate(zip(part.data, self.data, strict=True)):
            try:
                few_model = part.flat.unflatten(vector)
                result = part.rule.run(few_model, few.values, y_few, self.solver, part.workspaces[i])
                mean, variance = result.state.predict(inputs.values)
                assert variance is not None
            except NotPositiveDefinite:
                continue
            self.workspaces[i] = self.solver.workspace(model.priors, inputs.values)
            self.workspaces[i].memory.update(self.rule.foresee(model, y, mean, variance))

    def memories(self) -> list[dict[str, Any]]:
        """What the rule remembers of its last run on each data set."""
        return [{} if workspace is None else dict(workspace.memory) for workspace in self.workspaces]

    def release(self) -> None:
        """Forget the buffers."""
        self.workspaces = [None] * len(self.data)


@dataclasses.dataclass(frozen=True, eq=False)
class _Rows:
    """The data of a problem at some hyperparameters, to condition on parts of them."""

    problem: LearningProblem
    model: Model
    X: np.ndarray
    y: np.ndarray
    result: Result

    @property
    def likelihood(self) -> Any:
        return self.model.likelihood

    def predicted(self, rest: np.ndarray, part: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of f at the rows `part` from the rows `rest`."""
        model = at_rows(self.model, rest, len(self.y))
        state = self.problem.rule.run(model, self.X[rest], self.y[rest], self.problem.solver).state
        mean, variance = state.predict(self.X[part])
        assert variance is not None
        return (mean, variance) if mean.shape[1] > 1 else (mean[:, 0], variance[:, 0])
