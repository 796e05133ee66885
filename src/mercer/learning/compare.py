"""Model comparison at the second and third level of inference (5.3-5.7): Laplace around the learned hyperparameters."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mercer.gp import Model, choose_solver
from mercer.inference import by_name as inference_by_name
from mercer.learning.objectives import by_name as objective_by_name
from mercer.learning.problem import Problem


class ModelEvidence(NamedTuple):
    """log p(y | model) with the hyperparameters integrated out by Laplace's method, and the posterior sd of each log parameter."""

    log_evidence: float
    names: tuple[str, ...]
    sd: np.ndarray


def model_evidence(fit: Any, inference=None, solver=None) -> ModelEvidence:
    """Laplace approximation of the evidence of a model whose free hyperparameters all have proper priors (5.6).

    log p(y | M) = log p(y | theta) + log p(theta) + p/2 log 2 pi - 1/2 log|H|, at the maximum over the unconstrained parameters.
    """
    posteriors = fit.posterior if isinstance(fit.posterior, list) else [fit.posterior]
    model: Model = fit.model
    rule, chosen = inference_by_name(inference), choose_solver(model, solver)
    data = [(p.inputs, p.y) for p in posteriors]
    problem = Problem(model, data, rule, chosen, objective_by_name("evidence"), jacobian=True)
    without = [p.name for p, _ in problem.flat.slots if p.info.prior is None or not p.info.prior.proper]
    if without:
        raise ValueError(f"the evidence of a model needs a proper prior on every free hyperparameter; {without} have none.")
    from mercer.learning.optimise import Recorder, maximise
    from mercer.learning.progress import Progress

    best = maximise(problem, problem.flat.vector, "given", Recorder(Progress(False, problem.size)), gtol=1e-5, ftol=1e-12)
    p, step = best.vector.shape[0], 1e-4
    hessian = np.empty((p, p))
    for j in range(p):
        ends = [problem.value_and_gradient(best.vector + s * step * np.eye(p)[j])[1] for s in (1, -1)]
        hessian[j] = -(ends[0] - ends[1]) / (2 * step)
    hessian = 0.5 * (hessian + hessian.T)
    sign, logdet = np.linalg.slogdet(hessian)
    if sign <= 0 or np.linalg.eigvalsh(hessian).min() <= 0:
        raise ValueError("the posterior of the hyperparameters has no proper maximum here: Laplace's method does not apply.")
    value = best.value + 0.5 * p * np.log(2 * np.pi) - 0.5 * logdet
    return ModelEvidence(float(value), problem.flat.names, np.sqrt(np.diag(np.linalg.inv(hessian))))


def overall_scale(model: Model, X, y) -> float:
    """The factor theta0 by which multiplying all variances, noise included, maximises the evidence: r' K_y^-1 r / n (5.29)."""
    posterior = model.condition(X, y)
    residual = posterior.y - np.asarray(posterior.model.gp.mean.value(posterior.inputs.values))
    return float(residual @ posterior.state.alpha / residual.shape[0])


def model_posterior(log_evidences, prior=None) -> np.ndarray:
    """Probabilities of models from their log evidences (2.8), with equal prior probabilities unless given."""
    logs = np.asarray(log_evidences, float)
    if prior is not None:
        logs = logs + np.log(np.asarray(prior, float))
    weights = np.exp(logs - logs.max())
    return weights / weights.sum()
