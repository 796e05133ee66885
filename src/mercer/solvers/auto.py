"""Choosing a solver: each proposes itself for a task; those that are not exact are judged by how well they
predict rows held out of them, and the fastest that is about as good as the best wins.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import sys
import textwrap
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

import numpy as np

from mercer import registry
from mercer.linalg import memory as room
from mercer.linalg import tiles
from mercer.linalg.cholesky import cholesky
from mercer.params import strip
from mercer.prior import AbstractPrior
from mercer.progress import announce, duration
from mercer.solvers.basis import WithBasis
from mercer.solvers.protocol import (
    AbstractSolver,
    AbstractState,
    AbstractWorkspace,
    Cost,
    Judge,
    Proposal,
    Sites,
    SolverError,
)
from mercer.tables import text_table

EVALUATIONS = 20  # of all data in one fit, after the coarse part
TRIED = 12  # evaluations by which a candidate that is not exact learns hyperparameters of its own
QUICK = 10.0  # seconds of a fit, on the nominal machine, within which an exact answer is not looked beyond


@dataclasses.dataclass(frozen=True)
class Auto(AbstractSolver):
    """The fastest solver that is good enough, chosen from n, the inputs, the kernel and the data.

    An exact solver that is quick is taken at once. Else the candidates are conditioned on all data but 500
    rows, and the fastest is taken whose mean log density of those rows is at most `tolerance` below the
    highest. Times are counted, on a nominal machine of 5e10 flops per second, not measured: the same call
    makes the same choice everywhere.

    memory: bytes or a text such as "8GiB" (None: 4 GiB)
    seconds: what a fit may take on the nominal machine
    tolerance: accepted loss in nats for each datum
    say: whether the choice is printed; the posterior's notes tell it anyway
    because: why a solver is to be chosen at all, for people

    >>> mercer.GPRegressor(solver="auto", memory="8GiB").fit(X, y)
    >>> solvers.Auto(seconds=60).choose(gp, X, 0.1)   # the choice with all proposals, as a table
    """

    memory: Any = None
    seconds: float = 600.0
    tolerance: float = 0.05
    say: bool = dataclasses.field(default=True, metadata={"words": True})
    because: str = dataclasses.field(default="", metadata={"words": True})

    offers: ClassVar[frozenset[str]] = frozenset(
        {"variance", "logdet", "sample", "full", "exact", "blocks", "indefinite"}
    )
    pilot: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self._limit()
        if not self.seconds > 0:
            raise ValueError(f"Auto.seconds must be positive, got {self.seconds}.")

    def chosen(
        self, prior: Any, X: np.ndarray, noise_variance: Any = None, judge: Judge | None = None
    ) -> AbstractSolver:
        choice = self.choose(prior, X, noise_variance, judge)
        if self.say and X.shape[0] > TINY:
            print(textwrap.fill(choice.why, 79, subsequent_indent="  "), file=sys.stderr, flush=True)
        return dataclasses.replace(choice.solver, why=choice.why)

    def choose(
        self,
        prior: AbstractPrior | tuple[AbstractPrior, ...],
        X: np.ndarray,
        noise_variance: np.ndarray | float | None = None,
        judge: Judge | None = None,
    ) -> Choice:
        """The choice for data at X under this prior; `noise_variance` of Gaussian noise, None for other
        likelihoods. Without a `judge` approximations are believed what they promise at these hyperparameters.
        """
        first, several = (prior[0], True) if isinstance(prior, tuple) else (prior, False)
        task = Task(first, np.asarray(X), noise_variance, several, self.tolerance, judge is not None)
        proposals = sorted(_proposals(task), key=lambda p: p.seconds)
        affordable = self.affordable(proposals)
        if not affordable:
            raise self._too_much(task.n, proposals)
        exact = [p for p in affordable if p.error == 0.0]
        if exact and _fit_seconds(exact[0]) <= QUICK:
            best, why = exact[0], "exact and quick"
        elif judge is not None:
            tried = self._race(affordable, judge)
            proposals = [next((t for t in tried if t.solver == p.solver), p) for p in proposals]
            failed = max(map(_held_out, tried)) == -math.inf
            best, why = self._by_promises(affordable) if failed else self._decide(tried)
        else:
            best, why = self._by_promises(affordable)
        return Choice(
            best, f"{self.because}{'; ' if self.because else ''}{why}", tuple(proposals), task.n, task.d
        )

    def affordable(self, proposals: Iterable[Proposal]) -> list[Proposal]:
        """Those within the limits of memory and time."""
        limit = self._limit()
        return [p for p in proposals if p.bytes <= limit and _fit_seconds(p) <= self.seconds]

    def _race(self, affordable: list[Proposal], judge: Judge) -> list[Proposal]:
        """Those that were tried, each with its held-out density: the smallest size of each approximation
        first, what is exact last, so that it is judged at the best hyperparameters found.
        """
        tried: list[Proposal] = []
        sizes = {id(p): [q for q in affordable if type(q.solver) is type(p.solver)] for p in affordable}
        order = sorted(
            affordable, key=lambda p: ("exact" in p.solver.offers, sizes[id(p)].index(p), p.seconds)
        )
        takes = sum(p.seconds * (1 if "exact" in p.solver.offers else TRIED) for p in affordable)
        if takes > QUICK:
            announce(f"up to {len(affordable)} solvers are compared first: at most about {duration(takes)}")
        for proposal in order:
            larger = len(sizes[id(proposal)]) - sizes[id(proposal)].index(proposal)
            if self._may_win(proposal, larger, tried):
                tried.append(dataclasses.replace(proposal, held_out=_score(judge, proposal.solver)))
        return tried

    def _may_win(self, proposal: Proposal, larger: int, tried: list[Proposal]) -> bool:
        """Whether a further size of a solver is worth trying: the last step to a larger one brought
        something, and as much again for each step that is left would reach the best; or, where this size is
        slower than what would be taken now, would be better than that by more than the tolerance.
        """
        mine = [_held_out(t) for t in tried if type(t.solver) is type(proposal.solver)]
        if len(mine) < 2:
            return True
        gain = mine[-1] - mine[-2]
        needed = max(map(_held_out, tried)) - self.tolerance
        now, _ = self._decide(tried)
        if proposal.seconds > now.seconds and _fit_seconds(proposal) > QUICK:
            needed = _held_out(now) + self.tolerance
        return gain > 0.5 * self.tolerance and mine[-1] + larger * gain > needed

    def _decide(self, tried: list[Proposal]) -> tuple[Proposal, str]:
        """Of those that are about as good as the best: the best of the quick ones, or the fastest."""
        top = max(map(_held_out, tried))
        good = sorted((t for t in tried if _held_out(t) >= top - self.tolerance), key=lambda t: t.seconds)
        quick = [t for t in good if _fit_seconds(t) <= QUICK]
        best = max(quick, key=_held_out) if quick else good[0]
        which = "the best of the quick ones" if quick else "the fastest"
        densities = ", ".join(
            f"{name(t.solver)} {_held_out(t):.3f}" for t in sorted(tried, key=_held_out, reverse=True)
        )
        return best, (
            f"{which} within {self.tolerance:g} nats per datum of the best on rows held out (mean log "
            f"density of {densities})"
        )

    def _by_promises(self, affordable: list[Proposal]) -> tuple[Proposal, str]:
        good = [p for p in affordable if p.error <= self.tolerance]
        if good:
            return good[
                0
            ], f"the fastest that is exact or promises a loss of at most {self.tolerance:g} nats per datum"
        return min(affordable, key=lambda p: p.error), (
            f"the most accurate within the limits, but it misses the tolerance of {self.tolerance:g} nats "
            "per datum"
        )

    def _too_much(self, n: int, proposals: list[Proposal]) -> SolverError:
        limit = self._limit()
        least = min(proposals, key=lambda p: max(p.bytes / limit, _fit_seconds(p) / self.seconds))
        return SolverError(
            f"no solver fits {n:,} data into {room.text(limit)} and {self.seconds:g} s: the closest, "
            f"{name(least.solver)}, needs {room.text(least.bytes)} and about {_fit_seconds(least):.2g} s. "
            "Give more, or fewer data."
        )

    def _limit(self) -> float:
        return room.LIMIT if self.memory is None else room.parse(self.memory)

    def workspace(self, prior: Any, X: np.ndarray) -> AbstractWorkspace:
        raise SolverError(FIRST)

    def factor(self, prior: Any, X: np.ndarray, sites: Sites, workspace: Any = None) -> AbstractState:
        raise SolverError(FIRST)

    def cost(self, n: int, d: int, L: int = 1) -> Cost:
        raise SolverError("solver 'auto' costs what it chooses: see Auto().choose(gp, X, noise_variance).")


FIRST = "solver 'auto' makes its choice first: use it through condition, fit or an estimator."


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
            f"solver: {name(p.solver)} for n = {self.n:,}, d = {self.d}: {self.reason}; {p.says}; about "
            f"{_fit_seconds(p):.2g} s for a fit, {room.text(p.bytes)}"
        )

    def __str__(self) -> str:
        rows = [
            (
                ("* " if p is self.best else "  ") + name(p.solver),
                f"{_fit_seconds(p):.2g}",
                room.text(p.bytes),
                _error(p),
                "" if p.held_out is None else f"{p.held_out:.4f}",
            )
            for p in self.proposals
        ]
        header = ("solver", "fit, s", "memory", "expected loss", "held-out log density")
        return "\n".join([self.why, *text_table(header, rows), "in nats per datum"])


TINY = 500  # up to here the dense solver is chosen without looking further
LADDER = (64, 128, 256, 512, 1024, 2048, 4096)  # inducing inputs to consider
SAMPLE = 1000  # data on which the unexplained variance is estimated


class Task:
    """What a solver needs to know to propose itself. `judged`: approximations will be judged by held-out
    rows, so they need not promise anything.
    """

    def __init__(
        self,
        prior: AbstractPrior,
        X: np.ndarray,
        noise_variance: np.ndarray | float | None,
        several: bool,
        tolerance: float,
        judged: bool = False,
    ):
        self.prior, self.X, self.several, self.tolerance, self.judged = prior, X, several, tolerance, judged
        self.n, self.d = X.shape
        self.kernel = strip(prior.kernel)
        self.gaussian, self.noise_variance = noise_variance is not None, noise_variance
        self.constant_noise = noise_variance is not None and np.ndim(noise_variance) == 0
        self.noise = None if noise_variance is None else float(np.mean(noise_variance))
        self.rounds = 1 if self.gaussian else 10  # factorisations until the sites are found
        self._left: dict[int, np.ndarray] = {}

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


def _score(judge: Judge, solver: AbstractSolver) -> float:
    """What the judge says; minus infinity where the solver fails."""
    try:
        return judge(solver)
    except (SolverError, np.linalg.LinAlgError):
        return -math.inf


def _held_out(p: Proposal) -> float:
    return -math.inf if p.held_out is None or math.isnan(p.held_out) else p.held_out


def _fit_seconds(p: Proposal) -> float:
    """Of a fit on the nominal machine."""
    return EVALUATIONS * p.seconds


def name(solver: AbstractSolver) -> str:
    """A solver with the sizes that matter: VFE(m=256)."""
    if isinstance(solver, WithBasis):
        return name(solver.base)
    fields = [f"{f}={getattr(solver, f)}" for f in ("m", "neighbours", "size") if hasattr(solver, f)]
    return f"{type(solver).__name__}({', '.join(fields)})"


def _error(p: Proposal) -> str:
    return "exact" if p.error == 0.0 else f"{p.error:.2g}" if math.isfinite(p.error) else "no estimate"
