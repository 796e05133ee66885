"""Maximising an objective: L-BFGS-B on the host, coarse-to-fine, with the curvature learned where it is
cheap.

Large problems are first solved on a random subset. The Hessian there, by differences of the gradient, gives
coordinates in which the full problem is nearly round, so that few of its expensive evaluations are needed.
"""

from __future__ import annotations

import dataclasses
import time
from functools import partial
from typing import Any

import numpy as np

from mercer.learning.bounds import STEEP, Bound, pressed
from mercer.learning.checkpoint import Answer, Journal
from mercer.learning.foresee import Foresight
from mercer.learning.problem import LearningProblem
from mercer.linalg.lapack import threads_for
from mercer.progress import duration, reached, tell


@dataclasses.dataclass
class Evaluation:
    """One entry of the history: which start, how many data, the objective (with log prior) and seconds since
    the fit began.
    """

    start: str
    size: int
    value: float
    seconds: float


@dataclasses.dataclass(frozen=True, eq=False)
class Optimum:
    """The best point that a climb saw: `value` is the objective with the log prior, `objective` without."""

    vector: np.ndarray
    value: float = -np.inf
    gradient: np.ndarray | None = None
    objective: float = -np.inf
    expected_gain: float = np.inf  # what one more Newton step promises, by the optimiser's curvature
    message: str = ""
    size: int = 0  # of the data it was judged on
    curvature: np.ndarray | None = None  # minus the Hessian there (p, p), where the climb has learned it


class Recorder:
    """Counts evaluations of a problem of `size` data and its parts, and tells of them; remembers the best
    point of the climb that is under way, which is what Ctrl-C leaves.
    """

    def __init__(self, size: int):
        self.history: list[Evaluation] = []
        self.began = time.perf_counter()
        self.size, self.highest = size, -np.inf
        self.journal: Journal | None = None
        self.foresight: Foresight | None = None
        self.best: Optimum | None = None

    def note(self, start: str, size: int, value: float) -> None:
        self.history.append(Evaluation(start, size, value, time.perf_counter() - self.began))
        if size == self.size:
            self.highest = max(self.highest, value)
            reached(value)
        if self.foresight is not None:
            self.foresight.note(size)
        tell(len(self.history), None, partial(self._told, start, size))

    def _told(self, start: str, size: int) -> str:
        part = "" if size == self.size else f" on {size:,} of {self.size:,} rows"
        best = f", best {self.highest:.2f}" if self.highest > -np.inf else ""
        left = "" if self.foresight is None else f", about {duration(self.foresight.left())} left"
        return f"evaluation {len(self.history)} (start: {start}{part}){best}{left}"

    def ask(self, problem: Any, vector: np.ndarray, label: str) -> Answer:
        """What the objective says at a vector; noted."""
        ask = problem.value_and_gradient if self.journal is None else partial(self.journal.ask, problem)
        answer: Answer = ask(vector)
        self.note(label, problem.size, answer[0])
        return answer


COARSE_FROM = 800  # data; below, the full problem is solved from every start
COARSE_SIZE = 400
PATIENCE = 8  # evaluations in a row whose gain, together, is below `GAIN`
GAIN = 0.01  # nats that do not matter
AS_GIVEN = "nothing was learned: the values are those given"  # how a climb that was not asked for ends
# in units of log parameter: a length-scale on its way to infinity stops ten million times from where it began
REACH = 16.0


def maximise(
    problem: Any,
    start: np.ndarray,
    label: str,
    recorder: Recorder,
    scaling: np.ndarray | None = None,
    gtol: float = 1e-2,
    ftol: float = 1e-7,
    max_evaluations: int = 500,
) -> Optimum:
    """The best point that L-BFGS-B finds from `start` (p,).

    `scaling` (p, p): the optimiser's coordinates z, in which vector = start + scaling z. `gtol` is the
    largest slope in these at the end, `ftol` the last gain in nats per datum. `recorder.best` follows the
    climb.
    """
    from scipy.optimize import minimize

    scaling, box = _box(problem.flat.bounds(), start, scaling)
    climb = _Climb(problem, start, scaling, label, recorder)
    options = dict(maxfun=max_evaluations, maxiter=max_evaluations, gtol=gtol, ftol=ftol, maxcor=20)
    search = partial(minimize, climb.loss, jac=True, method="L-BFGS-B", bounds=box, options=options)
    with threads_for(problem.size):  # the optimiser itself calls LAPACK, on tiny matrices
        try:
            result = search(np.zeros_like(start))
            if result.success and climb.steep() and climb.promise(result.hess_inv) > GAIN:
                result = search(climb.z)  # misled by what it remembers of the curvature: go on without
        except _Stalled as stop:
            return dataclasses.replace(climb.best, expected_gain=0.0, message=str(stop))
    gain = climb.promise(result.hess_inv)
    return dataclasses.replace(climb.best, expected_gain=gain, message=str(result.message))


class _Stalled(Exception):
    """The best value has not changed for so long that it will not."""


class _Climb:
    """The objective as a minimiser wants it, in coordinates z that count from the start, and the best point
    that it has shown so far.
    """

    def __init__(
        self, problem: Any, start: np.ndarray, scaling: np.ndarray | None, label: str, recorder: Recorder
    ):
        self.problem, self.start, self.scaling = problem, start, scaling
        self.label, self.recorder = label, recorder
        self.best, self.z = Optimum(start), np.zeros_like(start)
        self.first: float | None = None  # finite value
        self.heights: list[float] = []  # the best value after each evaluation
        recorder.best = self.best

    def loss(self, z: np.ndarray) -> tuple[float, np.ndarray]:
        """Minus the objective, counted from its first value: stopping then depends on nats per datum, not on
        the units of y; where there is none, something larger than any. Its gradient in z.
        """
        vector = self.start + (z if self.scaling is None else self.scaling @ z)
        value, gradient, objective = self.recorder.ask(self.problem, vector, self.label)
        if value > self.best.value:
            self.best = Optimum(vector, value, gradient, objective, size=self.problem.size)
            self.z = z.copy()
            self.recorder.best = self.best
        self.heights.append(self.best.value)
        self._check_patience()
        if not np.isfinite(value):
            return (1.0 if self.first is None else abs(self.first)) * 1e3 + 1e6, np.zeros_like(z)
        self.first = value if self.first is None else self.first
        return self.problem.size + self.first - value, -self._slope(gradient)

    def promise(self, inverse_hessian: Any) -> float:
        """What one more Newton step from the best point would gain (the last one may have failed)."""
        if self.best.gradient is None:
            return np.inf
        slope = self._slope(self.best.gradient)
        return 0.5 * float(slope @ (inverse_hessian @ slope))

    def steep(self) -> bool:
        """Whether the gradient at the best point says that it is not the top."""
        vector, gradient = self.best.vector, self.best.gradient
        if gradient is None:
            return False
        inside = pressed(self.problem.flat.bounds(), vector, gradient) == 0
        return bool(np.max(np.abs(gradient[inside]), initial=0.0) > STEEP)

    def _slope(self, gradient: np.ndarray) -> np.ndarray:
        return gradient if self.scaling is None else self.scaling.T @ gradient

    def _check_patience(self) -> None:
        """A top with a kink has no small gradient to stop at."""
        if self.problem.smooth or len(self.heights) <= PATIENCE:
            return
        if self.heights[-1] - self.heights[-1 - PATIENCE] < GAIN:
            raise _Stalled(f"no gain in {PATIENCE} evaluations: the top may be a ridge with a kink")


def _box(
    bounds: list[Bound], start: np.ndarray, scaling: np.ndarray | None
) -> tuple[np.ndarray | None, list[Bound] | None]:
    """The coordinates in which the user's bounds are a box, and its sides, counted from the start."""
    closed = np.array([bound != (None, None) for bound in bounds])
    if scaling is None:
        box = [_sides(bound, s, 1.0) for bound, s in zip(bounds, start, strict=True)]
    elif closed.any():
        scaling = _apart(scaling, closed)
        units = np.diag(scaling)
        box = [
            _sides(bound, s, unit) if shut else (None, None)
            for bound, s, unit, shut in zip(bounds, start, units, closed, strict=True)
        ]
    else:
        return scaling, None
    if not closed.all():  # where every side is closed, SciPy takes a whole gradient for its first step
        free = int(np.argmin(closed))
        box[free] = box[free][0], None
    return scaling, box


def _sides(bound: Bound, start: float, unit: float) -> Bound:
    """Bounds of one coordinate, counted from the start: the user's, or out of reach."""
    lower, upper = bound
    below = -REACH if lower is None else max(-REACH, lower - start)
    above = REACH if upper is None else min(REACH, upper - start)
    return below / unit, above / unit


def _apart(scaling: np.ndarray, closed: np.ndarray) -> np.ndarray:
    """The same curvature with the `closed` coordinates kept as axes, each in its own unit; the others turned
    among themselves: a box stays a box.
    """
    root = np.linalg.inv(scaling)
    hessian = root.T @ root
    out = np.diag(1.0 / np.sqrt(np.diag(hessian)))
    free = np.ix_(~closed, ~closed)
    values, vectors = np.linalg.eigh(hessian[free])
    out[free] = vectors / np.sqrt(values)
    return out


def curvature(
    problem: LearningProblem, optimum: Optimum, label: str, recorder: Recorder, factor: float
) -> np.ndarray:
    """Coordinates in which the problem is nearly round: V |lambda|^-1/2 of the Hessian by forward differences
    of the gradient.
    """
    p, step = optimum.vector.shape[0], 1e-3
    hessian = np.empty((p, p))
    base = optimum.gradient if optimum.gradient is not None else np.zeros(p)
    for j in range(p):
        moved = optimum.vector.copy()
        moved[j] += step
        _, gradient, _ = recorder.ask(problem, moved, label)
        hessian[j] = (base - gradient) / step
    values, vectors = np.linalg.eigh(0.5 * (hessian + hessian.T))
    return vectors / np.sqrt(np.maximum(np.abs(values) * factor, 0.3))


def levels(n: int, iterated: bool = False) -> list[int]:
    """Sizes of the coarse problems: 400, 1600 ... well below n; half of that where an evaluation is many
    factorisations.
    """
    sizes, size = [], COARSE_SIZE // 2 if iterated else COARSE_SIZE
    while size * 2 <= n and n >= COARSE_FROM:
        sizes.append(size)
        size *= 4
    return sizes
