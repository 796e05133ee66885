"""Model comparison at the second and third level of inference (5.3-5.7): evidences, Bayes factors,
probabilities of models.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from mercer.distributed import Parallel, team
from mercer.gp import Model, as_model, choose_solver, log_evidence_of, read
from mercer.inference import by_name as inference_by_name
from mercer.inference.estimate import Estimate
from mercer.inference.protocol import AbstractInference, site_rule
from mercer.inputs import Inputs
from mercer.learning.objectives import by_name as objective_by_name
from mercer.learning.problem import LearningProblem
from mercer.persist.tables import from_table, to_table
from mercer.prior import AbstractPrior
from mercer.progress import shown
from mercer.solvers.protocol import AbstractSolver
from mercer.tables import text_table


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Models side by side: `log_evidence` with its `standard_error` (0 for a deterministic rule, whose own
    error is not known), posterior `probability`, and `log_bayes_factor` of each against the best.
    """

    names: tuple[str, ...]
    methods: tuple[str, ...]
    log_evidence: np.ndarray
    standard_error: np.ndarray
    probability: np.ndarray
    notes: tuple[tuple[str, ...], ...] = ()

    @property
    def log_bayes_factor(self) -> np.ndarray:
        """log p(y | M) - log p(y | best): zero for the best, negative for the others (2.9)."""
        return self.log_evidence - self.log_evidence.max()

    @property
    def best(self) -> str:
        """Name of the most probable model."""
        return self.names[int(np.argmax(self.probability))]

    def __str__(self) -> str:
        rows = []
        for i in np.argsort(-self.probability, kind="stable"):
            error = f" +- {self.standard_error[i]:.2g}" if self.standard_error[i] > 0 else ""
            factor = self.log_bayes_factor[i]
            rows.append(
                (
                    self.names[i],
                    self.methods[i],
                    f"{self.log_evidence[i]:.3f}{error}",
                    f"{factor:.2f}",
                    f"{factor / np.log(10):.2f}",
                    f"{self.probability[i]:.4f}",
                )
            )
        header = ("model", "method", "log evidence", "ln Bayes factor", "log10", "probability")
        lines = text_table(header, rows)
        close = np.sum(self.log_bayes_factor > -1.0) > 1
        lines.append(
            ""
            if not close
            else "the best differ by less than one nat: these data do not decide between them."
        )
        lines += [
            f"note on {name}: {note}"
            for name, some in zip(self.names, self.notes, strict=False)
            for note in some
        ]
        return "\n".join(line for line in lines if line)


def compare(
    models: Mapping[str, Model | AbstractPrior] | Iterable[Model | AbstractPrior],
    X: Any,
    y: Any,
    *,
    inference: str | AbstractInference | Mapping[str, str | AbstractInference] | None = None,
    solver: str | AbstractSolver | None = None,
    prior: ArrayLike | None = None,
    parallel: Parallel = None,
) -> Comparison:
    """Evidences and posterior probabilities of models on the same data y (n,) at X (n, d), at the
    hyperparameters they have (2.8-2.9).

    models: a dict of names to Models (or GPs), or a list
    inference: one rule for all, or a dict of names to rules, by name or instance; `AIS` gives each evidence a
        standard error
    prior: probabilities of the models, equal unless given
    parallel: who computes the evidences: None (this process), so many processes, or a
        `dask.distributed.Client`

    Evidences of fitted hyperparameters flatter models with many of them: `model_evidence` integrates over
    those.

    >>> models = {"SE": Model(GP(kernels.SE())), "Matern": Model(GP(kernels.Matern(nu=0.5)))}
    >>> print(compare(models, X, y)); compare(models, X, y).best
    """
    named = (
        dict(models) if isinstance(models, Mapping) else {f"model {i + 1}": m for i, m in enumerate(models)}
    )
    if not named:
        raise ValueError("there is no model to compare.")
    jobs: list[dict[str, Any]] = []
    methods, notes = [], []
    for name, given in named.items():
        asked = inference.get(name) if isinstance(inference, Mapping) else inference
        rule = inference_by_name(asked, as_model(given).likelihood)
        model, inputs, targets = read(as_model(given), X, y)
        jobs.append({"model": model, "X": to_table(inputs.values), "names": inputs.names, "y": targets})
        jobs[-1] |= {"rule": rule, "solver": solver}
        methods.append(rule.name)
        notes.append(("its evidence is a lower bound",) if rule.lower_bound else ())
    with shown("comparing", None), team(parallel) as workers:
        found = workers.map(
            evidence, jobs, names=[f"the evidence of {name}" for name in named], what="models"
        )
    values, errors = np.array(found).T
    probability = model_posterior(values, prior)
    return Comparison(tuple(named), tuple(methods), values, errors, probability, tuple(notes))


def evidence(
    model: Model, X: Any, names: tuple[str, ...] | None, y: np.ndarray, rule: Any, solver: Any
) -> list[float]:
    """A job: log evidence and its standard error, 0 where the rule is deterministic."""
    value = log_evidence_of(model, Inputs(from_table(X), names), y, rule, solver)
    return [float(value), value.standard_error if isinstance(value, Estimate) else 0.0]


class ModelEvidence(NamedTuple):
    """log p(y | model) with the hyperparameters integrated out by Laplace's method,
    and the posterior sd of each log parameter.
    """

    log_evidence: float
    names: tuple[str, ...]
    sd: np.ndarray


def model_evidence(
    fit: Any, inference: str | AbstractInference | None = None, solver: str | AbstractSolver | None = None
) -> ModelEvidence:
    """Laplace approximation of the evidence of a model whose free hyperparameters all have proper priors
    (5.6).

    log p(y | M) = log p(y | theta) + log p(theta) + p/2 log 2 pi - 1/2 log|H|, at the maximum over the
    unconstrained parameters.
    """
    model: Model = fit.model
    rule = site_rule(inference_by_name(inference, model.likelihood))
    chosen = choose_solver(model, solver)
    data = [(p.inputs, p.y) for p in fit.posteriors]
    problem = LearningProblem(model, data, rule, chosen, objective_by_name("evidence"), jacobian=True)
    without = [p.name for p, _ in problem.flat.slots if p.info.prior is None or not p.info.prior.proper]
    if without:
        raise ValueError(
            f"the evidence of a model needs a proper prior on every free hyperparameter; {without} have none."
        )
    from mercer.learning.climb import Recorder, maximise

    with shown("climbing", False):
        best = maximise(problem, problem.flat.vector, "given", Recorder(problem.size), gtol=1e-5, ftol=1e-12)
    p, step = best.vector.shape[0], 1e-4
    hessian = np.empty((p, p))
    for j in range(p):
        ends = [problem.value_and_gradient(best.vector + s * step * np.eye(p)[j])[1] for s in (1, -1)]
        hessian[j] = -(ends[0] - ends[1]) / (2 * step)
    hessian = 0.5 * (hessian + hessian.T)
    sign, logdet = np.linalg.slogdet(hessian)
    if sign <= 0 or np.linalg.eigvalsh(hessian).min() <= 0:
        raise ValueError(
            "the posterior of the hyperparameters has no proper maximum here: Laplace's method does not "
            "apply."
        )
    value = best.value + 0.5 * p * np.log(2 * np.pi) - 0.5 * logdet
    return ModelEvidence(float(value), problem.flat.names, np.sqrt(np.diag(np.linalg.inv(hessian))))


def overall_scale(model: Model, X: Any, y: Any) -> float:
    """The factor theta0 by which multiplying all variances, noise included, maximises the evidence:
    r' K_y^-1 r / n (5.29).
    """
    posterior = model.condition(X, y)
    return -2.0 * posterior.evidence_terms().data_fit / len(posterior.y)


def model_posterior(log_evidences: ArrayLike, prior: ArrayLike | None = None) -> np.ndarray:
    """Probabilities of models from their log evidences (2.8), with equal prior probabilities unless given."""
    logs = np.asarray(log_evidences, float)
    if prior is not None:
        prior = np.asarray(prior, float)
        if prior.shape != logs.shape or np.any(prior < 0) or not prior.sum() > 0:
            raise ValueError(f"prior must give each of the {logs.size} models a probability, got {prior}.")
        with np.errstate(divide="ignore"):
            logs = logs + np.log(prior / prior.sum())
    weights = np.exp(logs - logs.max())
    return weights / weights.sum()
