"""Maximising an objective: L-BFGS-B on the host, coarse-to-fine, with the curvature learned where it is
cheap.

Large problems are first solved on a random subset. The Hessian there, by differences of the gradient, gives
coordinates in which the
full problem is nearly round, so that few of its expensive evaluations are needed. Ctrl-C returns the best
point so far.
"""

from __future__ import annotations

import dataclasses
import time
from typing import Any

import numpy as np

from mercer.learning.checkpoint import Checkpoint
from mercer.learning.problem import Problem
from mercer.linalg.lapack import threads_for


@dataclasses.dataclass
class Evaluation:
    """One entry of the history: which start, how many data,
    the objective (with log prior) and seconds since the fit began.
    """

    start: str
    size: int
    value: float
    seconds: float


class Recorder:
    """Counts evaluations, remembers the best point of the current problem, shows progress."""

    def __init__(self, progress):
        self.history: list[Evaluation] = []
        self.began = time.perf_counter()
        self.progress = progress
        self.interrupted = False
        self.checkpoint: Checkpoint | None = None

    def note(self, start: str, size: int, value: float) -> None:
        self.history.append(Evaluation(start, size, value, time.perf_counter() - self.began))
        self.progress.update(len(self.history), start, size, value)


@dataclasses.dataclass
class Optimum:
    """The best point an optimisation saw."""

    vector: np.ndarray
    value: float = -np.inf
    gradient: np.ndarray | None = None
    objective: float = -np.inf
    expected_gain: float = np.inf  # what one more Newton step promises, by the optimiser's curvature
    message: str = ""


COARSE_FROM = 800  # data; below, the full problem is solved from every start
COARSE_SIZE = 400


def maximise(
    problem: Any,
    start: np.ndarray,
    label: str,
    recorder: Recorder,
    scaling: np.ndarray | None = None,
    gtol=1e-2,
    ftol=1e-7,
    max_evaluations: int = 500,
    best: Optimum | None = None,
) -> Optimum:
    """L-BFGS-B from `start`. `scaling` (p, p): coordinates z with vector = start + scaling z."""
    from scipy.optimize import minimize

    best = Optimum(start) if best is None else best
    first: list[float] = []
    heights: list[float] = []

    def negative(z):
        vector = start + (z if scaling is None else scaling @ z)
        value, gradient, objective = problem.value_and_gradient(vector)
        recorder.note(label, problem.size, value)
        heights.append(max(value, best.value))
        if not problem.smooth and len(heights) > PATIENCE and heights[-1] - heights[-1 - PATIENCE] < 0.01:
            raise _Stalled
        if value > best.value:
            best.vector, best.value, best.gradient, best.objective = vector.copy(), value, gradient, objective
            if recorder.checkpoint is not None:
                recorder.checkpoint.keep(best.vector, problem.size, value)
        if not np.isfinite(value):
            return (abs(first[0]) if first else 1.0) * 1e3 + 1e6, np.zeros_like(z)
        # counted from the first: stopping depends on nats per datum, not on the units of y
        first.append(value)
        return problem.size + first[0] - value, -gradient if scaling is None else -(scaling.T @ gradient)

    bounds: list[tuple[Any, Any]] = problem.flat.bounds()
    box: list[tuple[Any, Any]] | None = None
    if any(b != (None, None) for b in bounds) and scaling is not None:
        closed = np.array([b != (None, None) for b in bounds])
        scaling = _apart(scaling, closed)  # a box stays a box
        box = [
            _box(b, s, c) if shut else (None, None)
            for b, s, c, shut in zip(bounds, start, np.diag(scaling), closed, strict=True)
        ]
    elif scaling is None:
        box = [_box(b, s, 1.0) for b, s in zip(bounds, start, strict=True)]
    # SciPy takes a whole gradient for its first step where every side is closed
    if box is not None and (None, None) in bounds:
        free = bounds.index((None, None))
        box[free] = box[free][0], None
    options = dict(maxfun=max_evaluations, maxiter=max_evaluations, gtol=gtol, ftol=ftol, maxcor=20)
    with threads_for(problem.size):  # the optimiser itself calls LAPACK, on tiny matrices
        try:
            result = minimize(
                negative, np.zeros_like(start), jac=True, method="L-BFGS-B", bounds=box, options=options
            )
        except _Stalled:
            best.message, best.expected_gain = (
                f"no gain in {PATIENCE} evaluations: the top may be a ridge with a kink",
                0.0,
            )
            return best
    best.message = str(result.message)
    if best.gradient is not None:  # of the best point: the last may have failed
        slope = best.gradient if scaling is None else scaling.T @ best.gradient
        best.expected_gain = 0.5 * float(slope @ (result.hess_inv @ slope))
    return best


class _Stalled(Exception):
    """The best value has not changed for so long that it will not."""


PATIENCE = 8  # evaluations in a row whose gain, together, is below a hundredth of a nat
# in units of log parameter: a length-scale on its way to infinity stops ten million times from where it began
REACH = 16.0


def _box(bound, start: float, unit: float) -> tuple[float, float]:
    """Bounds of one coordinate, counted from the start: the user's, or out of reach."""
    lo, hi = bound
    return max(-REACH, -np.inf if lo is None else lo - start) / unit, min(
        REACH, np.inf if hi is None else hi - start
    ) / unit


def _apart(scaling: np.ndarray, closed: np.ndarray) -> np.ndarray:
    """The same curvature with the `closed` coordinates kept as axes, each in its own unit;
    the others turned among themselves.
    """
    root = np.linalg.inv(scaling)
    hessian = root.T @ root
    out = np.diag(1.0 / np.sqrt(np.diag(hessian)))
    free = np.ix_(~closed, ~closed)
    values, vectors = np.linalg.eigh(hessian[free])
    out[free] = vectors / np.sqrt(values)
    return out


def curvature(
    problem: Problem, optimum: Optimum, label: str, recorder: Recorder, factor: float
) -> np.ndarray:
    """Coordinates in which the problem is nearly round:
    V |lambda|^-1/2 of the Hessian by forward differences of the gradient.
    """
    p, step = optimum.vector.shape[0], 1e-3
    hessian = np.empty((p, p))
    base = optimum.gradient if optimum.gradient is not None else np.zeros(p)
    for j in range(p):
        moved = optimum.vector.copy()
        moved[j] += step
        value, gradient, _ = problem.value_and_gradient(moved)
        recorder.note(label, problem.size, value)
        hessian[j] = (base - gradient) / step
    values, vectors = np.linalg.eigh(0.5 * (hessian + hessian.T))
    return vectors / np.sqrt(np.maximum(np.abs(values) * factor, 0.3))


def levels(n: int, iterated: bool = False) -> list[int]:
    """Sizes of the coarse problems: 400, 1600 ... well below n;
    half of that where an evaluation is many factorisations.
    """
    sizes, size = [], COARSE_SIZE // 2 if iterated else COARSE_SIZE
    while size * 2 <= n and n >= COARSE_FROM:
        sizes.append(size)
        size *= 4
    return sizes
