"""Data that are no longer there: what a low-rank solver knows of all of them is in m x m numbers."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from mercer.solvers.lowrank_core import Core
from mercer.solvers.protocol import AbstractSolver, AbstractState, Cost, Sites

if TYPE_CHECKING:
    from mercer.solvers.lowrank import AbstractLowRank

SUMS = ("quadratic", "log_s", "unexplained", "n")


@dataclasses.dataclass(frozen=True)
class Condensed(AbstractSolver):
    """A low-rank solver that has seen its data, in chunks: predictions need no more than what all rows said
    of the m weights. Of the rows themselves some are kept, for what is asked of single rows.

    It belongs to the hyperparameters at which it was made. `mercer.fit` makes it from a source of chunks.

    base: the solver, with its inducing inputs
    G, p: Psi' Lambda Psi (m, m) and Psi' (Lambda delta + s g) (m, 1)
    sums: (4,), the other numbers of `lowrank_core.Core`
    """

    base: AbstractLowRank
    G: Any = dataclasses.field(compare=False, repr=False)
    p: Any = dataclasses.field(compare=False, repr=False)
    sums: Any = dataclasses.field(compare=False, repr=False)

    offers: ClassVar[frozenset[str]] = frozenset({"variance", "logdet", "sample"})

    def __post_init__(self) -> None:
        m = self.base.m
        if np.shape(self.G) != (m, m) or np.shape(self.p) != (m, 1) or np.shape(self.sums) != (len(SUMS),):
            raise ValueError(f"Condensed needs G ({m}, {m}), p ({m}, 1) and sums ({len(SUMS)},).")

    @classmethod
    def of(cls, base: AbstractLowRank, core: Core, why: str = "") -> Condensed:
        """From the core of all data."""
        sums = np.array([getattr(core, name) for name in SUMS])
        return cls(base, core.G, core.p, sums, why=why)

    @property
    def core(self) -> Core:
        """What all rows said."""
        rest = dict(zip(SUMS, map(float, self.sums), strict=True))
        return Core(np.asarray(self.G), np.asarray(self.p), **rest)

    def learned_from(self, n: int) -> int:
        return round(self.core.n)

    def inducing_inputs(self) -> np.ndarray | None:
        return self.base.inducing_inputs()

    def factor(self, prior: Any, X: np.ndarray, sites: Sites, workspace: Any = None) -> AbstractState:
        from mercer.solvers.lowrank_state import LowRankState

        return LowRankState(self.base, prior, X, sites, workspace or self.workspace(prior, X), self.core)

    def workspace(self, prior: Any, X: np.ndarray) -> Any:
        return self.base.workspace(prior, X)

    def cost(self, n: int, d: int, L: int = 1) -> Cost:
        return self.base.cost(n, d, L)
