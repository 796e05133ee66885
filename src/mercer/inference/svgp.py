"""Stochastic variational inference with inducing inputs (Hensman and others):
learning from small batches of many data.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import numpy as np

from mercer.inference.exact import Exact
from mercer.inference.protocol import AbstractSiteRule, Result
from mercer.inference.variational import KL
from mercer.likelihoods.base import AbstractLikelihood
from mercer.likelihoods.gaussian import Gaussian
from mercer.selection import AbstractSelection
from mercer.solvers.protocol import AbstractSolver, AbstractWorkspace


@dataclasses.dataclass(frozen=True)
class SVGP(AbstractSiteRule):
    """The variational bound with m inducing inputs, its hyperparameters learned from batches (`mercer.fit`).

    Learning starts where the exact evidence of 1,600 data is highest, for Gaussian noise; for other noise,
    where steps on small batches with few inducing inputs lead, from the values given and from those that the
    data suggest. Each batch then moves q by a natural-gradient step, and hyperparameters and inducing inputs
    by Adam. When learning ends, q is found for all data at once: the posterior is that of `solvers.VFE` with
    the learned inducing inputs, and so is `log_evidence`.

    m, select: how many inducing inputs there are, and how they are chosen among the data
    batch: data in a batch
    epochs: passes over the data
    rate: of Adam, per unit of log parameter (and of a column's standard deviation, for inducing inputs)
    step: of the natural gradient
    learn_inducing: whether inducing inputs move

    >>> model = mercer.Model(mercer.GP(kernels.SE()))
    >>> mercer.fit(model, X, y, inference=SVGP(m=10, epochs=10)).posterior.mean(Xs)      # (m,)
    """

    m: int = 512
    batch: int = 1024
    epochs: int = 10
    rate: float = 0.02
    step: float = 0.1
    learn_inducing: bool = True
    select: str | AbstractSelection = "k-means"
    seed: int = 0

    needs: ClassVar[frozenset[str]] = frozenset()
    learns: ClassVar[str | None] = "batches"
    lower_bound: ClassVar[bool] = True

    def __post_init__(self):
        if self.batch < 1 or self.epochs < 1:
            raise ValueError(
                f"SVGP needs batches of at least one datum and one epoch, got batch={self.batch}, "
                f"epochs={self.epochs}."
            )
        if not 0 < self.step <= 1:
            raise ValueError(
                f"SVGP.step is a share of the natural-gradient step and lies in (0, 1], got {self.step}."
            )

    def solver(self) -> AbstractSolver:
        """The low-rank solver whose bound this is."""
        from mercer.solvers.lowrank import VFE

        return VFE(m=self.m, select=self.select, seed=self.seed)

    def rule(self, likelihood: AbstractLikelihood) -> AbstractSiteRule:
        """How q is found for all data at once."""
        return Exact() if isinstance(likelihood, Gaussian) else KL()

    def run(
        self,
        model: Any,
        X: np.ndarray,
        y: np.ndarray,
        solver: AbstractSolver,
        workspace: AbstractWorkspace | None = None,
    ) -> Result:
        self.check_single(model)
        return self.rule(model.likelihood).run(model, X, y, solver, workspace)

    def foresee(self, model: Any, y: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> dict[str, Any]:
        return self.rule(model.likelihood).foresee(model, y, mean, variance)

    def gradient(
        self, model: Any, y: np.ndarray, result: Result, consume: bool = False, **bars: Any
    ) -> dict[str, np.ndarray]:
        return self.rule(model.likelihood).gradient(model, y, result, consume, **bars)
