"""What inference is, in three kinds.

A *site rule* replaces each likelihood factor by a Gaussian site and leaves the algebra to a solver: its
posterior is a Gaussian process, its evidence has derivatives. A *sampler* draws. An *evidence estimator*
gives a number with its error. (`Enumeration` is none of them: a posterior and an evidence, both exact.)
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from mercer.inference import pointwise
from mercer.inputs import Inputs
from mercer.params import Flattened
from mercer.posteriors.answers import InferenceStatus
from mercer.posteriors.gaussian import GaussianPosterior
from mercer.posteriors.protocol import AbstractPosterior
from mercer.posteriors.source import Made
from mercer.progress import keep_time
from mercer.registry import Saved
from mercer.solvers.protocol import AbstractSolver, AbstractState, AbstractWorkspace, Sites, SolverError


@dataclasses.dataclass(frozen=True)
class Result:
    """What a rule found: the State at its sites, the log evidence, notes a person should read,
    and how the search ended.
    """

    state: AbstractState
    log_evidence: float
    notes: tuple[str, ...] = ()
    status: InferenceStatus = InferenceStatus()


@Saved.register
@dataclasses.dataclass(frozen=True)
class AbstractInference(abc.ABC):
    """A way from a model (`gp`, `likelihood`) bound to its inputs, and data, to what they say.

    needs: what the solver must offer
    gives: what it is for, as the end of a sentence that begins with its name
    learns: how `mercer.fit` learns hyperparameters with it ("gradient", "batches" or "draws"); None: it does
        not
    lower_bound: whether its evidence is one
    """

    needs: ClassVar[frozenset[str]]
    gives: ClassVar[str]
    learns: ClassVar[str | None] = None
    lower_bound: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """What the rule is called in tables."""
        return type(self).__name__

    def solver(self) -> AbstractSolver | None:
        """The solver where none is asked for; None: the one for all rules."""
        return None

    def check(self, solver: AbstractSolver) -> None:
        """Refuse a solver that does not offer what is needed."""
        missing = self.needs - solver.offers
        if missing:
            raise SolverError(
                f"{self.name} needs {sorted(missing)}, which {type(solver).__name__} does not offer: use "
                "solver='dense'."
            )


@dataclasses.dataclass(frozen=True)
class AbstractConditioning(AbstractInference):
    """What gives a posterior."""

    @abc.abstractmethod
    def posterior(
        self, model: Any, inputs: Inputs, y: np.ndarray, solver: AbstractSolver
    ) -> AbstractPosterior:
        """What conditioning on prepared data returns, at the model's hyperparameters."""


@dataclasses.dataclass(frozen=True)
class AbstractEvidence(AbstractInference):
    """What gives the log evidence: the estimators AIS and Importance give nothing else."""

    gives: ClassVar[str] = (
        "estimates the evidence, not a posterior: use mercer.log_evidence(..., inference={name}()), or MCMC "
        "for draws"
    )

    @abc.abstractmethod
    def evidence(self, model: Any, inputs: Inputs, y: np.ndarray, solver: AbstractSolver) -> float:
        """log p(y) of prepared data at the model's hyperparameters; an `Estimate` where it has an error."""


@dataclasses.dataclass(frozen=True)
class AbstractSiteRule(AbstractConditioning, AbstractEvidence):
    """A rule that finds Gaussian sites: the posterior is a Gaussian process, and its evidence has
    derivatives. It knows likelihoods and sites, never how a matrix is stored.

    warm: whether `foresee` gives a start. smooth: whether the evidence is smooth in the hyperparameters, also
    where noise is not log-concave. fixed_sites: whether the sites do not depend on the kernel, so that there
    are derivatives of more than the log evidence.
    """

    gives: ClassVar[str] = "gives a Gaussian posterior and its evidence"
    learns: ClassVar[str | None] = "gradient"
    warm: ClassVar[bool] = False
    smooth: ClassVar[bool] = True
    fixed_sites: ClassVar[bool] = False

    @abc.abstractmethod
    def run(
        self,
        model: Any,
        X: np.ndarray,
        y: np.ndarray,
        solver: AbstractSolver,
        workspace: AbstractWorkspace | None = None,
    ) -> Result:
        """Find the sites, on a solver; `workspace` has its buffers, and remembers the sites of the last
        run.
        """

    @abc.abstractmethod
    def gradient(
        self, model: Any, y: np.ndarray, result: Any, consume: bool = False, **bars: Any
    ) -> dict[str, np.ndarray]:
        """Derivatives with respect to every hyperparameter, by dotted name: of the log evidence, or of what
        the bars say. `consume=True` lets the State of the `result` be spent.
        """

    def at_vectors(self, flat: Flattened, X: np.ndarray, y: np.ndarray, solver: AbstractSolver) -> Any:
        """The log evidence as a function of the vector that gives (value, gradient), where there is a faster
        way to it than by a State; None by default.
        """
        return None

    def posterior(
        self,
        model: Any,
        inputs: Inputs,
        y: np.ndarray,
        solver: AbstractSolver,
        memory: Mapping[str, Any] | None = None,
    ) -> GaussianPosterior:
        """The State at the sites, with what a person should know of it.

        memory: what a workspace remembers of runs at hyperparameters nearby, to begin there
        """
        workspace = None
        if memory:
            workspace = solver.workspace(model.priors, inputs.values)
            workspace.memory.update(memory)
        result = self.run(model, inputs.values, y, solver, workspace)
        why = (solver.why,) if solver.why else ()
        notes = (*result.notes, *result.state.notes, *basis_notes(result.state, inputs), *why)
        return GaussianPosterior(
            model, inputs, y, Made(result.state), result.log_evidence, notes, result.status, solver
        )

    def evidence(self, model: Any, inputs: Inputs, y: np.ndarray, solver: AbstractSolver) -> float:
        """That of the run, exact or approximate as the rule is."""
        return self.run(model, inputs.values, y, solver).log_evidence

    def rough(self, tight: bool = False) -> AbstractSiteRule:
        """The rule to use while hyperparameters are looked for: accurate enough for their gradient, no more;
        `tight`: as itself.
        """
        return self

    def coarse(self, model: Any) -> AbstractSiteRule:
        """The rule for a first look at a part of the data."""
        return self.rough()

    def foresee(self, model: Any, y: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> dict[str, Any]:
        """What `workspace.memory` would hold after a run, guessed from predictions (n, L) of f by a part of
        the data, or by an earlier q.
        """
        return {}

    def sweeps(self, model: Any) -> bool:
        """Whether it finds the sites of rows in chunks where these are (`mercer.inference.ep.in_chunks`)."""
        return False

    def check_single(self, model: Any) -> None:
        """Refuse a likelihood of several latent functions."""
        if model.likelihood.latents != 1:
            raise SolverError(
                f"{self.name} works with one latent function; {type(model.likelihood).__name__} has "
                f"{model.likelihood.latents}: use inference='laplace'."
            )

    def check_blocks(self, model: Any, solver: AbstractSolver) -> None:
        """Refuse a solver that cannot couple the latent functions of a likelihood."""
        if model.likelihood.latents > 1 and "blocks" not in solver.offers:
            raise SolverError(
                f"{type(solver).__name__} does not offer blocks, which {type(model.likelihood).__name__} "
                "needs: use 'dense'."
            )

    def check_bars(self, bars: dict[str, Any]) -> None:
        """Refuse to differentiate anything but the log evidence."""
        if bars:
            raise ValueError(
                f"{self.name} has derivatives of the log evidence only: use objective='evidence'."
            )


@dataclasses.dataclass(frozen=True)
class AbstractSampler(AbstractConditioning):
    """A sampler: the posterior is a set of draws of f, and of the free hyperparameters with `learn`."""

    gives: ClassVar[str] = (
        "returns draws, which have no log evidence and no derivatives: use model.condition(..., "
        "inference={name}()) or mercer.fit, and AIS for the evidence"
    )
    learns: ClassVar[str | None] = "draws"

    @abc.abstractmethod
    def learn(
        self, model: Any, inputs: Inputs, y: np.ndarray, solver: AbstractSolver, near: Any = None
    ) -> Any:
        """Draws of the free hyperparameters and of f, from chains that start around the hyperparameters of
        `near`; the model's own values are the centre of wide priors for those without one.
        """


def conditioning(rule: AbstractInference) -> AbstractConditioning:
    """The rule as one that gives a posterior, or an error that says what it gives."""
    if not isinstance(rule, AbstractConditioning):
        raise refusal(rule)
    return rule


def evidential(rule: AbstractInference) -> AbstractEvidence:
    """The rule as one that gives the evidence, or an error that says what it gives."""
    if not isinstance(rule, AbstractEvidence):
        raise refusal(rule)
    return rule


def site_rule(rule: AbstractInference) -> AbstractSiteRule:
    """The rule as one that finds sites, and so has derivatives, or an error that says what it gives."""
    if not isinstance(rule, AbstractSiteRule):
        raise refusal(rule)
    return rule


def refusal(rule: AbstractInference) -> SolverError:
    """What to say when a rule is asked for what it does not give."""
    return SolverError(f"{rule.name} {rule.gives.format(name=rule.name)}.")


@dataclasses.dataclass(eq=False)
class AbstractSiteProblem:
    """A model bound to its data, and the workspace in which States at changing sites are factored: what the
    searches of the rules have in common.
    """

    model: Any
    X: np.ndarray
    y: np.ndarray
    solver: AbstractSolver
    workspace: AbstractWorkspace
    factorisations: int = dataclasses.field(default=0, init=False)

    def factor(self, sites: Sites) -> AbstractState:
        """The State at these sites: one step of a search, which ends here where its time is up."""
        keep_time()
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


def basis_notes(state: AbstractState, inputs: Inputs) -> tuple[str, ...]:
    """What is said of basis functions that the data cannot tell from others, by the names of columns."""
    weights = state.basis_weights()
    if weights is None or not weights.dropped:
        return ()
    assert state.prior.basis is not None
    X, H = inputs.values, np.asarray(state.prior.basis.features(inputs.values))
    names = inputs.names or [f"column {k}" for k in range(X.shape[1])]
    said = []
    for j in weights.dropped:
        same = [name for name, x in zip(names, X.T, strict=True) if np.array_equal(x, H[:, j])]
        said.append(same[0] if same else f"function {j} of {H.shape[1]}")
    return (
        f"basis functions left out, as combinations of others at these inputs: {', '.join(said)}; where new "
        "inputs are not, predictions extrapolate by those that stay",
    )


def jitter_notes(state: AbstractState) -> tuple[str, ...]:
    return (f"jitter of {state.jitter:.3g} was added to the diagonal",) if state.jitter else ()
