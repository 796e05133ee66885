"""EP on all sites at once: one factorisation each sweep."""

from __future__ import annotations

import dataclasses

import numpy as np

from mercer.inference.anderson import Anderson
from mercer.inference.ep.point import AbstractProblem, End, Point
from mercer.solvers.protocol import Sites

SHORTEST = 1e-5  # a step that has to be shorter leads nowhere


@dataclasses.dataclass(frozen=True)
class Parallel:
    """All sites at once, accelerated while that goes well. The step, at most `damping`, is shortened when
    changes grow, and lengthened again slowly while they shrink; from sites of positive precision, also where
    a cavity would be improper.
    """

    damping: float
    tol: float
    max_iterations: int

    def run(self, problem: AbstractProblem, sites: Sites, before: int = 0) -> End:
        """From these sites, after `before` sweeps of earlier runs."""
        point, last, step, memory = problem.point(sites), np.inf, self.damping, Anderson()
        careful = point.proper and bool(point.W.any() and (point.W >= 0).all())
        sweep = before
        for sweep in range(before + 1, before + self.max_iterations + 1):
            if point.change <= self.tol:
                break
            if point.change > last:
                step, memory = max(0.5 * step, 0.02), Anderson()
            elif point.change < (1.0 - 0.4 * step) * last:
                step = min(1.2 * step, self.damping)
            last = point.change
            ahead = _accelerated(point, memory)
            if ahead is not None and step > 0.1 and _allowed(problem, ahead):
                new = problem.step(ahead, careful)
                if new is not None:
                    point = new
                    continue
                memory = Anderson()
            new, step = _damped(problem, point, step, careful)
            if new is None:
                return problem.point(point.sites()).end(self.tol, sweep)
            point = new
        return point.end(self.tol, sweep)


def _accelerated(point: Point, memory: Anderson) -> Sites | None:
    """Sites in which the changes of the last points cancel; in natural parameters W and h = g + W mean."""
    mean, W, dW = point.mean, point.W, point.dW
    found = memory.step(W, point.g + W * mean, dW, point.dg + dW * mean, np.sqrt(point.variance))
    return None if found is None else Sites(mean, found[0], found[1] - found[0] * mean)


def _allowed(problem: AbstractProblem, sites: Sites) -> bool:
    """A log-concave likelihood has no sites of negative precision."""
    return bool(not problem.model.likelihood.log_concave or (sites.precision >= 0).all())


def _damped(problem: AbstractProblem, point: Point, step: float, careful: bool) -> tuple[Point | None, float]:
    """The point a step further, halved until there is one, and that step."""
    new, length = None, step
    while new is None and length > SHORTEST:
        step, length = length, 0.5 * length
        new = problem.step(point.moved(step), careful)
    return new, step
