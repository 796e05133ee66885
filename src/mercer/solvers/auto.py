"""Choosing a solver: each proposes itself for a task, with its time, memory and error;
the fastest that is good enough wins.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

import numpy as np

from mercer import registry
from mercer.linalg import memory as room
from mercer.linalg import tiles
from mercer.linalg.cholesky import cholesky
from mercer.params import strip
from mercer.prior import AbstractPrior
from mercer.solvers.protocol import (
    AbstractSolver,
    AbstractState,
    AbstractWorkspace,
    Cost,
    Proposal,
    Sites,
    SolverError,
)
from mercer.tables import text_table

EVALUATIONS = 20  # of all data in one fit, after the coarse part


@dataclasses.dataclass(frozen=True)
class Auto(AbstractSolver):
    """The fastest solver that is good enough, chosen from n, the inputs, the kernel, memory and time.

    memory: bytes or a text such as "8GiB" (None: what is free)
    seconds: what a fit may take
    tolerance: accepted loss in nats for each datum where theory gives an estimate (for inducing inputs half
        the unexplained variance over the noise variance)
    say: whether the choice is printed; the posterior's notes tell it anyway

    >>> mercer.GPRegressor(solver="auto", memory="8GiB").fit(X, y)
    >>> solvers.Auto(seconds=60).choose(gp, X, 0.1)   # the choice with all proposals, as a table
    """

    memory: Any = None
    seconds: float = 600.0
    tolerance: float = 0.05
    say: bool = True

    offers: ClassVar[frozenset[str]] = frozenset(
        {"variance", "logdet", "sample", "full", "exact", "blocks", "indefinite"}
    )
    pilot: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.memory is not None:
            room.parse(self.memory)
        if not self.seconds > 0:
            raise ValueError(f"Auto.seconds must be positive, got {self.seconds}.")

    def prepare(self, prior: Any, X: np.ndarray, y: np.ndarray, noise_variance: Any = None) -> AbstractSolver:
        choice = self.choose(prior, X, noise_variance)
        if self.say and X.shape[0] > SMALL:
            print(choice.why, file=sys.stderr)
        chosen = choice.solver.prepare(prior, X, y, noise_variance)
        chosen = dataclasses.replace(chosen)  # a copy of our own, to carry the reason
        object.__setattr__(chosen, "why", choice.why)
        return chosen

    def choose(
        self,
        prior: AbstractPrior | tuple[AbstractPrior, ...],
        X: np.ndarray,
        noise_variance: np.ndarray | float | None = None,
    ) -> Choice:
        """The choice for data at X under this prior; `noise_variance` of Gaussian noise,
        None for other likelihoods.
        """
        first, several = (prior[0], True) if isinstance(prior, tuple) else (prior, False)
        task = Task(first, np.asarray(X), noise_variance, several, self.tolerance)
        proposals = sorted(_proposals(task), key=lambda p: p.seconds)
        affordable = self.affordable(proposals)
        good = [p for p in affordable if p.error <= self.tolerance]
        if good:
            best, why = good[0], "the fastest that is exact or accurate enough"
        elif affordable:
            best = min(affordable, key=lambda p: p.error)
            why = (
                f"the most accurate within the limits, but it misses the tolerance of {self.tolerance:g} "
                "nats per datum"
            )
        else:
            limit = self._limit()
            least = min(proposals, key=lambda p: max(p.bytes / limit, EVALUATIONS * p.seconds / self.seconds))
            raise SolverError(
                f"no solver fits {task.n:,} data into {room.text(limit)} and {self.seconds:g} s: the "
                "closest, "
                f"{name(least.solver)}, needs {room.text(least.bytes)} and about "
                f"{EVALUATIONS * least.seconds:.2g} s. Give more, "
                "or fewer data."
            )
        return Choice(best, why, tuple(proposals), task.n, task.d)

    def affordable(self, proposals: Iterable[Proposal]) -> list[Proposal]:
        """Those within the limits of memory and time."""
        limit = self._limit()
        return [p for p in proposals if p.bytes <= limit and EVALUATIONS * p.seconds <= self.seconds]

    def _limit(self) -> float:
        return room.available() if self.memory is None else room.parse(self.memory)

    def workspace(self, prior: Any, X: np.ndarray) -> AbstractWorkspace:
        return self.choose(prior, X).solver.workspace(prior, X)

    def factor(self, prior: Any, X: np.ndarray, sites: Sites, workspace: Any = None) -> AbstractState:
        raise SolverError(
            "solver 'auto' makes its choice first: use it through condition, fit or an estimator."
        )

    def cost(self, n: int, d: int, L: int = 1) -> Cost:
        raise SolverError("solver 'auto' costs what it chooses: see Auto().choose(gp, X, noise_variance).")


@dataclasses.dataclass(frozen=True, eq=False)
class Choice:
    """What was chosen, why, and what else was there; prints as a table."""

    best: Proposal
    reason: str
    proposals: tuple[Proposal, ...]
    n: int
    d: int

    @property
    def solver(self) -> AbstractSolver:
        return self.best.solver

    @property
    def why(self) -> str:
        p = self.best
        return (
            f"solver: {name(p.solver)} for n = {self.n:,}, d = {self.d}: {self.reason} ({p.says}; about "
            f"{EVALUATIONS * p.seconds:.2g} s for a fit, {room.text(p.bytes)})"
        )

    def __str__(self) -> str:
        rows = [
            (
                ("* " if p is self.best else "  ") + name(p.solver),
                f"{EVALUATIONS * p.seconds:.2g}",
                room.text(p.bytes),
                _error(p),
            )
            for p in self.proposals
        ]
        return "\n".join(
            [self.why, *text_table(("solver", "fit, s", "memory", "error, nats per datum"), rows)]
        )


TINY = 500  # up to here the dense solver is chosen without looking further
SMALL = 2000  # up to here only exact solvers are considered
LADDER = (64, 128, 256, 512, 1024, 2048, 4096)  # inducing inputs to consider
SAMPLE = 1000  # data on which the unexplained variance is estimated


class Task:
    """What a solver needs to know to propose itself."""

    def __init__(
        self,
        prior: AbstractPrior,
        X: np.ndarray,
        noise_variance: np.ndarray | float | None,
        several: bool,
        tolerance: float,
    ):
        self.prior, self.X, self.several, self.tolerance = prior, X, several, tolerance
        self.n, self.d = X.shape
        self.exact_only = self.n <= SMALL
        self.kernel = strip(prior.kernel)
        self.gaussian = noise_variance is not None
        self.constant_noise = noise_variance is not None and np.ndim(noise_variance) == 0
        self.noise = None if noise_variance is None else float(np.mean(noise_variance))
        self._left: dict[int, np.ndarray] = {}

    @functools.cached_property
    def rate(self) -> float:
        """Flops per second of large products, measured now."""
        A = np.ones((768, 768))
        best = math.inf
        for _ in range(4):
            began = time.perf_counter()
            A @ A
            best = min(best, time.perf_counter() - began)
        return 2.0 * 768**3 / best

    @functools.cached_property
    def exact_seconds(self) -> float:
        """Of the dense solver: what takes longer and is not exact need not be considered."""
        from mercer.solvers.dense import Dense

        return next(iter(Dense.propose(self))).seconds

    def unexplained(self, m: int) -> float:
        """Mean variance of f that m random inducing inputs leave, estimated on a sample:
        chosen ones leave less.
        """
        size = next(s for s in (512, 2048, LADDER[-1]) if m <= s)
        if size not in self._left:
            self._left[size] = self._left_by(size)
        left = self._left[size]
        return float(left[min(m, len(left) - 1)])

    def _left_by(self, size: int) -> np.ndarray:
        """The same for 0, 1 ... `size` inputs, by one Cholesky factor."""
        from scipy.linalg import solve_triangular

        rows = np.random.default_rng(0).permutation(self.n)
        parts = rows[: min(size, self.n // 2)], rows[-min(SAMPLE, self.n // 2) :]
        chosen, sample = (self.kernel.encode(self.X[r]) for r in parts)
        L, _ = cholesky(tiles.matrix(self.kernel, chosen, chosen))
        V = solve_triangular(L, tiles.matrix(self.kernel, chosen, sample), lower=True)
        prior = float(np.mean(tiles.diagonal(self.kernel, tiles.Panels(sample, tiles.SIZES[-1]))))
        return np.concatenate([[prior], np.maximum(prior - np.cumsum(np.mean(V**2, 1)), 0.0)])


def _proposals(task: Task) -> Iterator[Proposal]:
    """What every solver says for itself: those that suit few data, then the others, and those of other
    packages.
    """
    from mercer.solvers.dense import Dense
    from mercer.solvers.weight_space import WeightSpace

    few = (Dense, WeightSpace)
    for cls in few:
        yield from cls.propose(task)
    if task.n > TINY:
        for other in [*registry.classes("solvers", AbstractSolver), *registry.all_installed(AbstractSolver)]:
            if other not in few:
                yield from other.propose(task)


def name(solver: AbstractSolver) -> str:
    """A solver with the sizes that matter: VFE(m=256)."""
    fields = [f"{f}={getattr(solver, f)}" for f in ("m", "neighbours", "size") if hasattr(solver, f)]
    return f"{type(solver).__name__}({', '.join(fields)})"


def _error(p: Proposal) -> str:
    return "exact" if p.error == 0.0 else f"{p.error:.2g}" if math.isfinite(p.error) else "no estimate"
