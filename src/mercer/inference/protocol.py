"""What an inference rule is: how sites are found. It knows likelihoods and sites,
never how a matrix is stored.
"""

from __future__ import annotations

import abc
import dataclasses
from typing import Any, ClassVar

import numpy as np

from mercer.inference import pointwise
from mercer.inference.loo import leave_one_out
from mercer.inputs import Inputs
from mercer.posteriors.gaussian import Posterior
from mercer.solvers.protocol import AbstractSolver, AbstractState, AbstractWorkspace, Sites, SolverError


@dataclasses.dataclass(frozen=True)
class InferenceStatus:
    """How the search for sites ended: whether it converged, after how many factorisations,
    and what it had to do.
    """

    converged: bool = True
    iterations: int = 1
    message: str = "exact"


@dataclasses.dataclass(frozen=True)
class Result:
    """What a rule found: the State at its sites, the log evidence, notes a person should read,
    and how the search ended.
    """

    state: AbstractState
    log_evidence: float
    notes: tuple[str, ...] = ()
    status: InferenceStatus = InferenceStatus()


@dataclasses.dataclass(frozen=True)
class AbstractInference(abc.ABC):
    """An inference rule for a model (`gp`, `likelihood`) bound to its inputs."""

    needs: ClassVar[frozenset[str]]
    stochastic: ClassVar[bool] = False  # whether `mercer.fit` learns hyperparameters from batches
    samples: ClassVar[bool] = False  # whether `mercer.fit` draws them, with `learn`
    warm: ClassVar[bool] = False  # whether `foresee` gives a start
    # whether the evidence is smooth in the hyperparameters, also where noise is not log-concave
    smooth: ClassVar[bool] = True

    @abc.abstractmethod
    def run(
        self, model: Any, X: np.ndarray, y: np.ndarray, solver: AbstractSolver, workspace: Any = None
    ) -> Result: ...

    @abc.abstractmethod
    def gradient(
        self, model: Any, y: np.ndarray, result: Result, consume: bool = False, **bars
    ) -> dict[str, np.ndarray]:
        """Derivatives with respect to every hyperparameter, by dotted name: of the log evidence,
        or of what the bars say.
        """

    def posterior(
        self, model: Any, inputs: Inputs, y: np.ndarray, solver: AbstractSolver, workspace: Any = None
    ) -> Any:
        """What conditioning on prepared data returns."""
        result = self.run(model, inputs.values, y, solver, workspace)
        notes = (*result.notes, *result.state.notes, *((solver.why,) if solver.why else ()))
        return Posterior(
            model, inputs, y, result.state, result.log_evidence, notes, leave_one_out, result.status, solver
        )

    def solver(self) -> AbstractSolver | None:
        """The solver where none is asked for; None: the one for all rules."""
        return None

    def rough(self, tight: bool = False) -> AbstractInference:
        """The rule to use while hyperparameters are looked for: accurate enough for their gradient, no more;
        `tight`: as itself.
        """
        return self

    def coarse(self, model: Any) -> AbstractInference:
        """The rule for a first look at a part of the data."""
        return self.rough()

    def foresee(
        self, model: Any, y: np.ndarray, mean: np.ndarray, variance: np.ndarray
    ) -> dict[str, np.ndarray]:
        """What `workspace.memory` would hold after a run, guessed from predictions (n,
        L) of f by a part of the data.
        """
        return {}

    def check(self, solver: AbstractSolver) -> None:
        missing = self.needs - solver.offers
        if missing:
            raise SolverError(
                f"{type(self).__name__} needs {sorted(missing)}, which {type(solver).__name__} does not "
                "offer."
            )

    def check_single(self, model: Any) -> None:
        if model.likelihood.latents != 1:
            raise SolverError(
                f"{type(self).__name__} works with one latent function; {type(model.likelihood).__name__} "
                "has "
                f"{model.likelihood.latents}: use inference='laplace'."
            )

    def check_bars(self, bars: dict) -> None:
        if bars:
            raise ValueError(
                f"{type(self).__name__} has derivatives of the log evidence only: use objective='evidence'."
            )


@dataclasses.dataclass(eq=False)
class Problem:
    """A model bound to its data, and the workspace in which States at changing sites are factored."""

    model: Any
    X: np.ndarray
    y: np.ndarray
    solver: AbstractSolver
    workspace: AbstractWorkspace
    factorisations: int = dataclasses.field(default=0, init=False)

    def factor(self, sites: Sites) -> AbstractState:
        self.factorisations += 1
        return self.solver.factor(self.model.priors, self.X, sites, self.workspace)


def begin(
    model: Any, X: np.ndarray, solver: AbstractSolver, workspace: AbstractWorkspace | None
) -> AbstractWorkspace:
    """A workspace that holds the model's prior while sites are looked for."""
    workspace = solver.workspace(model.priors, X) if workspace is None else workspace
    workspace.hold(model.priors)
    return workspace


def prior_mean(model: Any, X: np.ndarray) -> np.ndarray:
    """The mean of f at the data before any of them is seen (n, L)."""
    priors = model.priors if isinstance(model.priors, tuple) else (model.priors,)
    columns = []
    for gp in priors:
        m = np.asarray(gp.mean.value(X), float)
        if gp.basis is not None:
            H = np.asarray(gp.basis.features(X), float)
            m = m + H @ gp.basis.prior(H.shape[1])[0]
        columns.append(m)
    return np.stack(columns, 1)


def gaussian_start(model: Any, X: np.ndarray, y: np.ndarray) -> Sites:
    """Sites from the likelihood at the prior mean, all of positive precision:
    they make a vague prior proper.
    """
    m = prior_mean(model, X)
    _, g, _, _ = pointwise.slopes(model.likelihood, m, y)
    W, _ = pointwise.fisher(model.likelihood, m, y)
    return Sites(m, np.maximum(W, 1e-3), g)


def jitter_notes(state: AbstractState) -> tuple[str, ...]:
    return (f"jitter of {state.jitter:.3g} was added to the diagonal",) if state.jitter else ()
