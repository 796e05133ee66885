"""Integrating hyperparameters out without sampling (5.2): a few settings around the mode, weighted by their
posterior density.

In coordinates z in which the posterior of the unconstrained parameters is standard normal to second order,
points are a central composite design (the mode, two on each axis, corners of a fractional cube) or a grid.
Weights are density ratios, so a skewed posterior is followed as far as the points reach.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from mercer.gp import Model, choose_solver, posterior
from mercer.inference import by_name as inference_by_name
from mercer.inference.protocol import AbstractInference, AbstractSiteRule, site_rule
from mercer.learning.climb import Optimum, Recorder, maximise
from mercer.learning.comparison import model_posterior
from mercer.learning.curvature import curvature
from mercer.learning.newton import ascend
from mercer.learning.objectives import by_name as objective_by_name
from mercer.learning.problem import LearningProblem
from mercer.posteriors.average import AveragedPosterior
from mercer.progress import shown
from mercer.solvers.protocol import AbstractSolver

# of the design, in units of sqrt(p): a little beyond the shell where a p-dimensional normal lives
RADIUS = 1.1
# no direction reaches further than this many units of a log parameter for one posterior standard deviation
WIDEST = 3.0


def integrate(
    fit: Any,
    *,
    how: str = "ccd",
    inference: str | AbstractInference | None = None,
    solver: str | AbstractSolver | None = None,
    spacing: float = 1.0,
    reach: float = 2.0,
) -> AveragedPosterior:
    """The posterior with the free hyperparameters of a fit integrated out, by `how` = "ccd" or "grid".

    fit: what `mercer.fit` returned. Parameters without a prior are taken as uniform in their logarithm near
    the mode. The grid has points every `spacing` standard deviations out to `reach` in each direction (for up
    to three parameters); the design has 1 + 2p + 2^(p - k) points.

    >>> post = integrate(fit(model, X, y)); post.mean_and_std(Xs)
    """
    post = fit.one_posterior()
    rule = site_rule(inference_by_name(inference, fit.model.likelihood))
    chosen = choose_solver(fit.model, solver)
    models, weights = settings(fit, how, rule, chosen, spacing, reach)
    if len(models) == 1:
        return AveragedPosterior((post,), np.ones(1), float(post.log_evidence))
    parts = [posterior(model, post.inputs, post.y, rule, chosen) for model in models]
    note = (
        f"hyperparameters integrated over {len(parts)} settings ({how}); the heaviest has weight "
        f"{weights.max():.2f}"
    )
    return AveragedPosterior(tuple(parts), weights, None, (note,))


def settings(
    fit: Any,
    how: str,
    rule: AbstractSiteRule,
    solver: AbstractSolver,
    spacing: float = 1.0,
    reach: float = 2.0,
) -> tuple[list[Model], np.ndarray]:
    """The models that `integrate` averages over, and their weights, which sum to one; the model of the fit
    alone where it has nothing to learn.
    """
    post = fit.one_posterior()
    problem = LearningProblem(
        fit.model, [(post.inputs, post.y)], rule, solver, objective_by_name("evidence"), jacobian=True
    )
    p = problem.flat.vector.size
    if p == 0:
        return [fit.model], np.ones(1)
    with shown("integrating", False):
        best = _mode(problem, fit.curvature)
    centre = best.vector
    scales = _scales(problem, centre)
    points = _design(p) if how == "ccd" else _grid(p, spacing, reach) if how == "grid" else None
    if points is None:
        raise ValueError(f"how must be 'ccd' or 'grid', got {how!r}.")
    values, vectors = [], []
    for z in points:
        vector = centre + scales @ z
        value, _, _ = problem.value_and_gradient(vector)
        if np.isfinite(value):
            values.append(value - best.value + _volume(z, p, how))
            vectors.append(vector)
    weights = model_posterior(values)
    keep = weights > 1e-4
    problem.release()
    models = [problem.flat.unflatten(v) for v, kept in zip(vectors, keep, strict=True) if kept]
    return models, weights[keep] / weights[keep].sum()


def _mode(problem: LearningProblem, curvature: np.ndarray | None) -> Optimum:
    """The top near the values of the model: the fit may have climbed another density, or ended a little
    below it.
    """
    start, recorder = problem.flat.vector, Recorder(problem.size)
    if curvature is None:
        return maximise(problem, start, "mode", recorder, gtol=1e-3, ftol=1e-10)
    return ascend(problem, start, curvature, "mode", recorder)


def _scales(problem: LearningProblem, centre: np.ndarray) -> np.ndarray:
    """V lambda^-1/2 of the negative Hessian; flat directions are bounded."""
    values, vectors = np.linalg.eigh(curvature(problem, centre))
    return vectors / np.sqrt(np.maximum(values, WIDEST**-2))


def _design(p: int) -> list[np.ndarray]:
    """Centre, axial points, and the corners of a cube (a fraction of them from p = 5 on),
    all but the centre at one radius.
    """
    r = RADIUS * np.sqrt(p)
    out = [np.zeros(p)]
    out += [s * r * np.eye(p)[j] for j in range(p) for s in (1.0, -1.0)]
    if p >= 2:
        base = min(p, 4)
        for signs in itertools.product((-1.0, 1.0), repeat=base):
            corner = np.array(
                [
                    *signs,
                    *(np.prod([signs[(j + i) % base] for i in range(2 + j % 2)]) for j in range(p - base)),
                ]
            )
            out.append(RADIUS * corner)
    return out


def _volume(z: np.ndarray, p: int, how: str) -> float:
    """Log of the share of space a point stands for.
    In the design the points at radius r share what gives E|z|^2 = p.
    """
    if how == "grid":
        return 0.0
    if not np.any(z):
        return 0.0
    count = len(_design(p)) - 1
    return -np.log(count * (RADIUS**2 - 1.0)) + 0.5 * p * RADIUS**2


def _grid(p: int, spacing: float, reach: float) -> list[np.ndarray]:
    if p > 3:
        raise ValueError(f"a grid over {p} hyperparameters is too large; use how='ccd' (or MCMC).")
    ticks = np.arange(-np.floor(reach / spacing), np.floor(reach / spacing) + 1) * spacing
    return [np.array(z) for z in itertools.product(ticks, repeat=p)]
