"""How sure learning is of hyperparameters: the curvature of what it climbed, at the top."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.inference import by_name as inference_by_name
from mercer.inference.protocol import site_rule
from mercer.learning.objectives import by_name as objective_by_name
from mercer.learning.problem import LearningProblem

STEP = 1e-3  # of a log parameter
WIDEST = 3.0  # standard deviations of a log parameter beyond which data and prior do not determine it


def curvature(problem: LearningProblem, centre: np.ndarray) -> np.ndarray:
    """The negative Hessian (p, p) of objective and log prior, by differences of the gradient."""
    p = centre.size
    hessian = np.empty((p, p))
    for j in range(p):
        ends = [problem.value_and_gradient(centre + s * STEP * np.eye(p)[j])[1] for s in (1, -1)]
        hessian[j] = -(ends[0] - ends[1]) / (2 * STEP)
    return 0.5 * (hessian + hessian.T)


def intervals(fit: Any, inference: Any = None, reach: float = 1.96) -> dict[str, tuple[float, float] | None]:
    """Of each free hyperparameter, by name, the values `reach` standard deviations below and above the
    learned one, where log evidence and log prior are taken for quadratic around their maximum in
    unconstrained coordinates (logarithms of positive numbers); None of one that is not determined.

    >>> intervals(fit(model, X, y))["kernel.lengthscale"]
    """
    post = fit.one_posterior()
    rule = site_rule(inference_by_name(inference, fit.model.likelihood))
    problem = LearningProblem(
        fit.model, [(post.inputs, post.y)], rule, post.solver, objective_by_name("evidence")
    )
    flat = problem.flat
    if not flat.vector.size:
        return {}
    values, vectors = np.linalg.eigh(curvature(problem, flat.vector))
    problem.release()
    variances = (vectors**2 / np.maximum(values, 1e-6 * WIDEST**-2)).sum(1)
    found: dict[str, tuple[float, float] | None] = {}
    for p, s in flat.slots:
        std, centre = np.sqrt(variances[s]), flat.vector[s]
        near = np.minimum(std, WIDEST)
        ends = [np.ravel(p.constraint.value(centre + sign * reach * near)) for sign in (-1.0, 1.0)]
        for i, name in enumerate(flat.names[s]):
            found[name] = None if std[i] > WIDEST else (float(ends[0][i]), float(ends[1][i]))
    return found
