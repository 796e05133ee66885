"""A low-rank solver on rows that are in several places: all of them by their core, some of them given it (the
notation is that of `mercer.solvers.lowrank`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.prior import AbstractPrior
from mercer.solvers.condensed import Condensed
from mercer.solvers.host import pull_encoding
from mercer.solvers.inducing import Inducing, add_trees
from mercer.solvers.lowrank_core import Core
from mercer.solvers.lowrank_state import LowRankState
from mercer.solvers.protocol import AbstractSolver, AbstractWhole, Cotangents, PriorBar, SiteBars, Sites

if TYPE_CHECKING:
    from mercer.solvers.lowrank import AbstractLowRank

PIECE_BYTES = 64 * 2**20  # of features that are held at a time
TILE = 256


class LowRankWhole(AbstractWhole):
    """All rows, by their core."""

    def __init__(self, solver: AbstractLowRank, core: Core):
        self.solver, self.core = solver, core
        self.log_normaliser, self.n = core.log_normaliser(solver.rest_in_bound), round(core.n)

    def pull(
        self, prior: AbstractPrior, X: np.ndarray, sites: Sites
    ) -> tuple[Cotangents, dict[str, np.ndarray]]:
        parts = [state.pull_part() for state in pieces(self.solver, prior, X, sites, self.core)]
        centre, precision = (
            np.concatenate([np.asarray(getattr(part.sites, name)) for part in parts])
            for name in ("centre", "precision")
        )
        moved = [part.inducing for part in parts if part.inducing is not None]
        inducing = np.sum(moved, axis=0) if moved else None
        kernel, mean = (add_trees(*(getattr(part, name) for part in parts)) for name in ("kernel", "mean"))
        inner = [part.inner for part in parts if part.inner is not None]
        bar = Cotangents(PriorBar(kernel, mean, inducing), SiteBars(centre, precision))
        return bar, {"inner": sum(inner[1:], inner[0])} if inner else {}

    def rest(self, prior: AbstractPrior, sums: dict[str, np.ndarray]) -> PriorBar:
        """By K_mm: inner = 1/2 Psi' Psi_bar is known from the core, but for what FITC's rows said."""
        solver, core = self.solver, self.core
        w, C1 = core.w, core.solve(np.eye(len(core.w)))
        inner = -0.5 * (core.G @ C1) + 0.5 * (w @ w.T) + sums.get("inner", 0.0)
        if solver.rest_in_bound:
            inner = inner + 0.5 * core.G
        inducing = Inducing(prior.kernel, solver.inducing, TILE, solver.jitter)
        kernel, Z_bar = inducing.pull(inner, solver.jitter, solver.learn)
        by_Z = pull_encoding(inducing.kernel, solver.inducing, Z_bar) if solver.learn else None
        return PriorBar(kernel, (), by_Z)

    def condensed(self) -> AbstractSolver:
        return Condensed.of(self.solver, self.core, self.solver.why)


def pieces(
    solver: AbstractLowRank, prior: AbstractPrior, X: np.ndarray, sites: Sites, core: Core | None = None
) -> Iterator[LowRankState]:
    """States of a bounded number of rows at a time, given the core of all or, without it, alone."""
    rows = max(512, int(PIECE_BYTES / (8.0 * solver.m)) // 512 * 512)
    for first in range(0, len(X), rows):
        part = slice(first, first + rows)
        slope = None if sites.slope is None else sites.slope[part]
        some = Sites(sites.centre[part], sites.precision[part], slope)
        yield LowRankState(solver, prior, X[part], some, solver.workspace(prior, X[part]), core)


def sums(solver: AbstractLowRank, prior: AbstractPrior, X: np.ndarray, sites: Sites) -> dict[str, Any]:
    """What rows add to each number of the core."""
    said = [state.core.sums() for state in pieces(solver, prior, X, sites)]
    return {name: sum((one[name] for one in said[1:]), said[0][name]) for name in said[0]}
