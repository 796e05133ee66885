"""Importance sampling with a Gaussian approximation as the proposal (Kuss 4.31-4.32): the evidence,
corrected by weights.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import numpy as np

from mercer.inference.ep import EP
from mercer.inference.estimate import Estimate
from mercer.inference.laplace import Laplace
from mercer.inference.protocol import AbstractEvidence, AbstractSiteRule
from mercer.inputs import Inputs
from mercer.sampling.importance import Weighted, latent_importance
from mercer.sampling.target import whiten
from mercer.solvers.protocol import AbstractSolver

LEAST = 30.0  # effective draws below which the estimate is not to be trusted


@dataclasses.dataclass(frozen=True)
class Importance(AbstractEvidence):
    """The evidence by draws from the Gaussian of Laplace or EP, for `mercer.log_evidence(model, X, y,
    inference=Importance())`.

    Good for few data; the effective number of draws falls quickly with their number, and the estimate says
    so. AIS is for more.
    """

    draws: int = 10_000
    proposal: str = "ep"
    seed: int = 0

    needs: ClassVar[frozenset[str]] = frozenset({"exact"})

    def __post_init__(self):
        if self.draws < 2 or self.proposal not in ("ep", "laplace"):
            raise ValueError(
                f"Importance needs draws >= 2 and proposal 'ep' or 'laplace', got {self.draws} and "
                f"{self.proposal!r}."
            )

    def weighted(self, model: Any, inputs: Inputs, y: np.ndarray, solver: AbstractSolver) -> Weighted:
        """The weighted draws of f (S, n, L)."""
        self.check(solver)
        rule: AbstractSiteRule = EP() if self.proposal == "ep" else Laplace()
        sites = rule.run(model, inputs.values, y, solver).state.sites
        white = whiten(model, inputs.values, sites)
        return latent_importance(model.likelihood, y, white, self.draws, self.seed)

    def evidence(self, model: Any, inputs: Inputs, y: np.ndarray, solver: AbstractSolver) -> Estimate:
        """The log of the mean weight."""
        w = self.weighted(model, inputs, y, solver)
        ess = w.effective_sample_size
        notes = (
            ()
            if ess >= LEAST
            else (f"the weights are worth only {ess:.1f} draws: the estimate may be far off; use AIS",)
        )
        return Estimate(
            w.log_normaliser, standard_error=w.standard_error, forward=w.log_normaliser, notes=notes
        )
