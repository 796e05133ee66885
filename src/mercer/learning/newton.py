"""Maximising an objective whose curvature is known about: steps of Newton's in a trust region, with the
curvature that is given and what the gradients teach of it (BFGS).

Where all hyperparameters have priors, that is the curvature of the log prior before anything is known of the
data; later it is what the climb of a like problem ended with. Steps are measured in standard deviations of
the prior.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from mercer.gp import Model
from mercer.learning.bounds import clip, pressed
from mercer.learning.climb import Optimum, Recorder
from mercer.learning.problem import LearningProblem
from mercer.learning.task import ENOUGH
from mercer.linalg.lapack import threads_for
from mercer.params import Flattened, flatten

FIRST, LONGEST, SHORTEST = 2.0, 4.0, 1e-4  # steps, in prior standard deviations
STEP = 1e-3  # of an unconstrained parameter, for differences of the prior's slope
FLATTEST = 1 / 9  # the least precision of a prior: none says less than within a factor of exp(3)
DAMPED = 0.1  # of the curvature that was expected is kept where the objective shows less (Powell 1978)


def prior_curvature(model: Model, jacobian: bool = False) -> np.ndarray:
    """Minus the Hessian (p, p) of the log prior at the free hyperparameters of a model, in unconstrained
    coordinates; jacobian: as in `fit`. Without a prior, as if they were known within a factor of exp(3).
    """
    flat = flatten(model)
    return np.diag(_precision(flat, flat.vector, jacobian))


def checked_curvature(curvature: ArrayLike, names: Sequence[str]) -> np.ndarray:
    """As numbers (p, p), if it can be minus the Hessian at a maximum in these hyperparameters."""
    B, p = np.asarray(curvature, float), len(names)
    if B.shape != (p, p):
        raise ValueError(
            f"curvature must have a row and a column for each of {', '.join(names)}, in this order: shape "
            f"({p}, {p}), got {B.shape}."
        )
    if not np.isfinite(B).all() or not np.allclose(B, B.T) or not (np.linalg.eigvalsh(B) > 0).all():
        raise ValueError(
            "curvature must be symmetric with eigenvalues above 0, as minus the Hessian at a maximum is; "
            "learning.prior_curvature(model) is one to begin with."
        )
    return B


def _precision(flat: Flattened, vector: np.ndarray, jacobian: bool) -> np.ndarray:
    """Of the log prior (p,), parameter by parameter."""
    ends = [flat.log_prior(vector + h, jacobian)[1] for h in (-STEP, STEP)]
    return np.maximum((ends[0] - ends[1]) / (2 * STEP), FLATTEST)


def ascend(
    problem: LearningProblem,
    start: np.ndarray,
    curvature: np.ndarray,
    label: str,
    recorder: Recorder,
    max_evaluations: int = 500,
    tolerance: float = ENOUGH,
) -> Optimum:
    """The best point found from `start` (p,), where minus the Hessian is about `curvature` (p, p); what was
    learned of it comes with the optimum. Two steps in a row that promise fewer nats than `tolerance` are the
    last.
    """
    unit = 1.0 / np.sqrt(_precision(problem.flat, start, problem.jacobian))
    B = curvature * np.outer(unit, unit)

    def ask(vector: np.ndarray) -> tuple[Optimum, np.ndarray]:
        value, gradient, objective = recorder.ask(problem, vector, label)
        return Optimum(vector, value, gradient, objective, size=problem.size), unit * gradient

    with threads_for(problem.size):
        best, slope = ask(start)
        recorder.best, radius, calm, promise = best, FIRST, 0, np.inf
        message = f"LIMIT of {max_evaluations} evaluations reached"
        for _ in range(max_evaluations - 1):
            free = pressed(problem.flat.bounds(), best.vector, slope) == 0
            values, vectors = np.linalg.eigh(B[np.ix_(free, free)])
            along = vectors.T @ slope[free]
            promise = 0.5 * float(along @ (along / values))
            calm = calm + 1 if promise < tolerance else 0
            if calm > 1 or radius < SHORTEST or not free.any():
                message = f"one more step promises {promise:.1g} nats"
                break
            s = np.zeros_like(start)
            s[free] = vectors @ _within(radius, along, values)
            s = (clip(problem.flat, best.vector + unit * s) - best.vector) / unit
            there, slope_there = ask(best.vector + unit * s)
            length, expected = float(np.linalg.norm(s)), float(slope @ s - 0.5 * s @ B @ s)
            gain = there.value - best.value
            if np.isfinite(gain) and length > 0:
                B = _learned(B, s, slope - slope_there)
            if not gain > 0.25 * expected:
                radius = 0.4 * length
            elif gain > 0.6 * expected:
                radius = min(max(radius, 2.0 * length), LONGEST)
            if gain > 0:
                best, slope = there, slope_there
                recorder.best = best
    return dataclasses.replace(
        best, expected_gain=promise, message=message, curvature=B / np.outer(unit, unit)
    )


def _within(radius: float, slope: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Newton's step where the curvature has eigenvalues `values`, or the best one of length `radius`: the
    curvature raised by what makes it so short, itself found by Newton's method (More and Sorensen 1983).
    """
    raised = 0.0
    while True:
        s = slope / (values + raised)
        length = float(np.linalg.norm(s))
        if length <= 1.01 * radius:
            return s
        raised += (length / radius - 1.0) * length**2 / float(s @ (s / (values + raised)))


def _learned(B: np.ndarray, s: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The curvature after a step s (p,) that changed minus the slope by y (p,)."""
    Bs = B @ s
    sBs, sy = float(s @ Bs), float(s @ y)
    if sy < DAMPED * sBs:
        y = y + (DAMPED * sBs - sy) / (sBs - sy) * (Bs - y)
    return B - np.outer(Bs, Bs) / sBs + np.outer(y, y) / float(s @ y)
