"""What a fit will take: foreseen before it begins, and corrected by what its evaluations do take."""

from __future__ import annotations

import statistics
import time
from collections import Counter, deque
from collections.abc import Sequence
from typing import NamedTuple

from mercer.learning.problem import LearningProblem
from mercer.linalg import memory
from mercer.progress import announce, duration

FIRST = 25  # evaluations expected from each start
LATER = 12  # and near a top that a part of the data has shown
ROUNDS = 10  # factorisations of a rule that looks for its sites
OVERHEAD = 8e-3  # seconds of an evaluation on hardly any data
LONG = 10.0  # seconds; a fit that takes longer is announced


class Stage(NamedTuple):
    """Evaluations that are expected on so many data."""

    size: int
    evaluations: int


class Foresight:
    """The stages of a fit, and how long they take: at first on the nominal machine, then at the pace of those
    seen.
    """

    def __init__(self, problem: LearningProblem, stages: Sequence[Stage]):
        self.problem, self.stages = problem, tuple(stages)
        self.counts: Counter[int] = Counter()
        self.paces: deque[float] = deque(maxlen=5)
        self.last = time.perf_counter()

    def seconds(self, size: int) -> float:
        """Of one value and gradient on so many data, on the nominal machine."""
        problem = self.problem
        d = problem.data[0][0].values.shape[1]
        cost = problem.solver.cost(size, d, problem.model.likelihood.latents)
        return OVERHEAD + (ROUNDS if problem.rule.warm else 1) * cost.seconds

    def note(self, size: int) -> None:
        """An evaluation on so many data has ended."""
        now = time.perf_counter()
        self.counts[size] += 1
        self.paces.append((now - self.last) / self.seconds(size))
        self.last = now

    def left(self) -> float:
        """Seconds that the fit will still take, about."""
        pace = statistics.median(self.paces) if self.paces else 1.0
        under_way = max((i for i, s in enumerate(self.stages) if self.counts[s.size]), default=0)
        left = [
            max(stage.evaluations - self.counts[stage.size], 2) * self.seconds(stage.size)
            for stage in self.stages[under_way:]
        ]
        return pace * sum(left)

    def announce(self) -> None:
        """Tell what will come, where it is long."""
        seconds = self.left()
        if seconds < LONG:
            return
        from mercer.solvers.auto import name

        problem = self.problem
        d = problem.data[0][0].values.shape[1]
        cost = problem.solver.cost(problem.size, d, problem.model.likelihood.latents)
        announce(
            f"{problem.size:,} rows by {name(problem.solver)}: about {duration(seconds)} and "
            f"{memory.text(cost.bytes)}"
        )


def stages(sizes: Sequence[int], size: int, starts: int, parameters: int) -> list[Stage]:
    """Of a search on parts of these sizes, then on all: the first from every start; then the curvature."""
    every = [*sizes, size]
    first = Stage(every[0], starts * FIRST + parameters * (len(every) > 1))
    later = [Stage(s, LATER + parameters * (s != size)) for s in every[1:]]
    return [first, *later]
