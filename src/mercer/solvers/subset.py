"""Subset of data: any solver on m chosen data, the rest unused (GPML 8.3.3)."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

import numpy as np

from mercer.selection import AbstractSelection, Pool
from mercer.selection import by_name as selection_by_name
from mercer.solvers.dense import Dense
from mercer.solvers.protocol import (
    AbstractSolver,
    AbstractState,
    AbstractWorkspace,
    Cost,
    Proposal,
    Sites,
    SolverError,
)


@dataclasses.dataclass(frozen=True)
class SubsetOfData(AbstractSolver):
    """An exact GP on a subset of the data, chosen once, before learning. m^3 flops whatever n is.

    m: how many data are kept (all of them where there are fewer)
    select: how they are chosen, an object of `mercer.selection` or its name
    base: the solver that works on the subset

    "entropy" gives the informative vector machine for every likelihood of one latent function: sites are
    taken in one by one where they change the posterior most (noise that is added to f enters by its
    variance), then the inference rule runs on those chosen. That prefers surprising labels: good where
    classes are separate, but where they overlap a random subset represents them better.

    >>> model.condition(X, y, solver=SubsetOfData(500, "entropy"))

    The evidence is that of the subset (8.31), which favours longer length-scales than that of all data.
    """

    m: int = 1000
    select: str | AbstractSelection = "random"
    base: AbstractSolver = Dense()
    seed: int = 0

    def __post_init__(self):
        if self.m < 1:
            raise ValueError(f"SubsetOfData needs at least one datum, got m={self.m}.")
        selection_by_name(self.select)

    @property
    def offers(self) -> frozenset[str]:  # type: ignore[override]
        """What its base offers."""
        return self.base.offers

    @classmethod
    def propose(cls, task: Any) -> Iterable[Proposal]:
        """Some thousand rows at random, exact on those: fewer where sites are found by many rounds."""
        m = 4000 if task.gaussian else 2000
        if task.n <= m or (task.gaussian and not task.constant_noise):
            return []
        cost = Dense().cost(m, task.d)
        seconds, rows = 3e-3 + task.rounds * cost.seconds, f"exact on {m:,} rows at random, the others unused"
        return [Proposal(cls(m), seconds, cost.bytes * (1.1 if task.gaussian else 3.0), np.inf, rows)]

    def rows(self, pool: Pool) -> np.ndarray | slice:
        if self.m >= pool.n:
            return slice(None)
        return np.sort(selection_by_name(self.select).rows(pool, self.m, self.seed))

    def prepare(self, prior: Any, X: np.ndarray, y: np.ndarray, noise_variance: Any = None) -> SubsetOfData:
        return dataclasses.replace(self, base=self.base.prepare(prior, X, y, noise_variance))

    def workspace(self, prior: Any, X: np.ndarray) -> AbstractWorkspace:
        self._check(X)
        return self.base.workspace(prior, X)

    def _check(self, X):
        if X.shape[0] > self.m:
            raise SolverError(
                f"SubsetOfData(m={self.m}) was handed {X.shape[0]} data uncut: choose them with its `rows` "
                "first."
            )

    def factor(self, prior: Any, X: np.ndarray, sites: Sites, workspace: Any = None) -> AbstractState:
        self._check(X)
        return self.base.factor(prior, X, sites, workspace)

    def cost(self, n: int, d: int, L: int = 1) -> Cost:
        return self.base.cost(min(n, self.m), d, L)
