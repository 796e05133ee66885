"""Climbing to the best latent points and hyperparameters, both at once, from one start or several."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from mercer.distributed import Parallel, Team, team
from mercer.kernels import SE, AbstractKernel
from mercer.latent import bayesian, mode
from mercer.latent.table import Grouped, grouped
from mercer.learning.apart import said, taken
from mercer.learning.bounds import Bound
from mercer.learning.climb import GAIN, Optimum, Recorder, maximise
from mercer.params import flatten, named_leaves, strip
from mercer.progress import STOPPED, shown

SMALLEST_NOISE = 1e-6  # variance, of a table whose columns have unit variance


class Free(NamedTuple):
    """The bounds of what the optimiser moves."""

    sides: list[Bound]

    def bounds(self) -> list[Bound]:
        """One for each number."""
        return self.sides


class AbstractProblem(abc.ABC):
    """An objective as a function of one vector: hyperparameters of the kernel as they are learned, log noise
    variance, then latent points and what else there is, row by row.
    """

    smooth = True
    recipe: dict[str, Any]  # of `of_rows`, for other processes

    def __init__(self, kernel: AbstractKernel, table: Grouped):
        self.kernel, self.table = flatten(kernel), jax.device_put(table)
        self.size = int(np.sum(table.observed))

    @property
    def flat(self) -> Free:
        """As `maximise` asks for them."""
        hyper = [*self.kernel.bounds(), (float(np.log(SMALLEST_NOISE)), None)]
        return Free(hyper + [(None, None)] * sum(map(int, map(np.prod, self.shapes))))

    @property
    @abc.abstractmethod
    def shapes(self) -> list[tuple[int, int]]:
        """Of the arrays after the hyperparameters."""

    @abc.abstractmethod
    def evaluate(self, kernel: Any, noise: Any, arrays: Sequence[np.ndarray]) -> tuple[Any, Any]:
        """The objective and its derivatives: (kernel, noise variance, *arrays)."""

    def vector(self, kernel: AbstractKernel, noise: Any, *arrays: Any) -> np.ndarray:
        """Everything as one vector."""
        return np.concatenate([flatten(kernel).vector, [np.log(noise)], *(np.ravel(a) for a in arrays)])

    def parts(self, vector: np.ndarray) -> tuple[Any, ...]:
        """Kernel, noise variance and arrays of a vector."""
        cut = len(self.kernel.vector)
        arrays, at = [], cut + 1
        for shape in self.shapes:
            size = int(np.prod(shape))
            arrays.append(vector[at : at + size].reshape(shape))
            at += size
        return self.kernel.unflatten(vector[:cut]), float(np.exp(vector[cut])), *arrays

    def value_and_gradient(self, vector: np.ndarray) -> tuple[float, np.ndarray, float]:
        """The objective with the log prior of the kernel, its gradient, and the objective alone."""
        kernel, noise, *arrays = self.parts(vector)
        cut = len(self.kernel.vector)
        value, (kernel_bar, noise_bar, *bars) = self.evaluate(strip(kernel), noise, arrays)
        prior, prior_slope = self.kernel.log_prior(vector[:cut])
        hyper = self.kernel.pull(dict(named_leaves(kernel_bar)), vector[:cut]) + prior_slope
        slope = np.concatenate([hyper, [float(noise_bar) * noise], *(np.ravel(bar) for bar in bars)])
        if not (np.isfinite(value) and np.isfinite(slope).all()):
            return -np.inf, np.zeros_like(vector), -np.inf
        return float(value) + prior, slope, float(value)


class ModeProblem(AbstractProblem):
    """The log density of table and latent points (n, Q)."""

    def __init__(self, kernel: AbstractKernel, table: Grouped, q: int):
        super().__init__(kernel, table)
        self.q = q

    @property
    def shapes(self) -> list[tuple[int, int]]:
        return [(len(self.table.Y), self.q)]

    def evaluate(self, kernel: Any, noise: Any, arrays: Sequence[np.ndarray]) -> tuple[Any, Any]:
        return mode.log_joint_and_gradient(mode.Points(kernel, noise, *arrays), self.table)


class BayesianProblem(AbstractProblem):
    """The bound of the evidence, with means and log variances (n, Q), and inducing inputs (m, Q)."""

    def __init__(self, kernel: SE, table: Grouped, q: int, m: int):
        super().__init__(kernel, table)
        self.q, self.m = q, m

    @property
    def shapes(self) -> list[tuple[int, int]]:
        n = len(self.table.Y)
        return [(n, self.q), (n, self.q), (self.m, self.q)]

    def evaluate(self, kernel: Any, noise: Any, arrays: Sequence[np.ndarray]) -> tuple[Any, Any]:
        return bayesian.bound_and_gradient(bayesian.Variational(kernel, noise, *arrays), self.table)


@dataclasses.dataclass(frozen=True)
class Learned:
    """What a climb ended with: kernel, noise variance and the arrays of the problem, the objective with and
    without the log prior of the kernel, whether it came to a top, the best value after each evaluation.
    """

    kernel: Any
    noise_variance: float
    arrays: tuple[np.ndarray, ...]
    objective: float
    converged: bool
    message: str
    history: np.ndarray


def of_rows(kernel: Any, rows: np.ndarray, q: int, m: int | None) -> AbstractProblem:
    """The problem of a table (n, d) with q latent dimensions: Bayesian, with m inducing inputs, or without
    them (None) that of the most probable points.
    """
    table = grouped(rows)
    problem: Any = ModeProblem(kernel, table, q) if m is None else BayesianProblem(kernel, table, q, m)
    problem.recipe = {"kernel": kernel, "rows": rows, "q": q, "m": m}
    return problem


def learn(
    problem: AbstractProblem,
    starts: dict[str, np.ndarray],
    max_evaluations: int,
    progress: Any,
    parallel: Parallel = None,
) -> Learned:
    """The best end of the climbs from several starts, each a name and a vector; Ctrl-C keeps the
    best so far.
    """
    recorder, best = Recorder(problem.size), Optimum(next(iter(starts.values())))
    with shown("fitting", progress, "Ctrl-C keeps the best"), team(parallel) as workers:
        try:
            tops = {}
            for label, top in _climbs(problem, starts, recorder, max_evaluations, workers):
                tops[label], best = top, max(best, top, key=_height)
            best = max((tops[label] for label in starts), key=_height)
        except STOPPED:
            if recorder.best is not None:
                best = max(best, recorder.best, key=_height)
            if best.gradient is None:
                raise
            best = dataclasses.replace(best, message="interrupted")
    if best.gradient is None:
        raise ArithmeticError(
            "the objective is not finite at any start: are there columns of very different sizes, or values "
            "beyond 1e100? Scale them, or leave standardise=True."
        )
    kernel, noise, *arrays = problem.parts(best.vector)
    ended = "CONVERGENCE" in best.message or best.expected_gain < GAIN
    converged = max_evaluations == 0 or (ended and best.message != "interrupted")
    heights = np.maximum.accumulate([e.value for e in recorder.history])
    return Learned(kernel, noise, tuple(arrays), best.objective, converged, best.message, heights)


def _climb(
    problem: AbstractProblem, vector: np.ndarray, label: str, recorder: Recorder, max_evaluations: int
) -> Optimum:
    if max_evaluations == 0:
        return Optimum(vector, *recorder.ask(problem, vector, label), message="nothing was learned")
    return maximise(problem, vector, label, recorder, ftol=1e-6, max_evaluations=max_evaluations)


def _climbs(
    problem: AbstractProblem,
    starts: dict[str, np.ndarray],
    recorder: Recorder,
    max_evaluations: int,
    workers: Team,
) -> Iterator[tuple[str, Optimum]]:
    if workers.here or len(starts) < 2:
        for label, vector in starts.items():
            yield label, _climb(problem, vector, label, recorder, max_evaluations)
        return
    labels = list(starts)
    jobs = [{"label": label, "vector": vector} for label, vector in starts.items()]
    shared = problem.recipe | {"max_evaluations": max_evaluations}
    names = [f"the climb from the start {label!r}" for label in labels]
    for i, found in workers.each(climb, jobs, shared, names, "climbs"):
        yield labels[i], taken(found, labels[i], problem.size, recorder)


def climb(
    kernel: Any, rows: np.ndarray, q: int, m: int | None, max_evaluations: int, label: str, vector: np.ndarray
) -> dict[str, Any]:
    """A job: the climb from one start."""
    problem = of_rows(kernel, rows, q, m)
    recorder = Recorder(problem.size)
    return said(_climb(problem, vector, label, recorder, max_evaluations), recorder)


def _height(optimum: Optimum) -> float:
    return optimum.value
