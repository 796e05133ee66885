"""What learning returns."""

from __future__ import annotations

import dataclasses
from typing import Any

from mercer.conditioned import AbstractConditioned, ClassFunction
from mercer.gp import Model
from mercer.html import card, lines, table
from mercer.learning.climb import Evaluation
from mercer.learning.summary import summary
from mercer.params import listed
from mercer.posteriors.protocol import AbstractPosterior


@dataclasses.dataclass(frozen=True)
class Status:
    """How a fit ended.

    `converged` is judged by the final gradient, not by the optimiser's word: it is small, or one more Newton
    step with the curvature the optimiser has learned promises less than 0.01 (`expected_gain`, in nats for
    the evidence). `starts`: the objective at the end of the climb from each start, by its name.
    """

    converged: bool
    message: str
    interrupted: bool
    gradient_norm: float
    expected_gain: float
    evaluations: int
    seconds: float
    starts: dict[str, float]


@dataclasses.dataclass(frozen=True, eq=False)
class Fit(AbstractConditioned):
    """A fitted model: `model`, its `posterior` (a list of them for pooled data), the `history` of
    evaluations, the `status`. `curvature` (p, p): minus the Hessian of objective and log prior in
    unconstrained coordinates, about, where `fit` was given one to begin with.
    """

    model: Model
    posterior: Any
    history: list[Evaluation]
    status: Status
    objective: str
    value: float
    log_prior: float
    gradient: dict[str, float]
    curvature: Any = None

    def __repr__(self) -> str:
        n = sum(len(one.y) for one in self.posteriors)
        return f"Fit({self.objective} {self.value:.4f}, n={n}, {self.ended()})"

    def ended(self) -> str:
        """How the search for hyperparameters ended, in words."""
        how = "converged" if self.status.converged else f"not converged ({self.status.message})"
        return f"{how}, {self.status.evaluations} evaluations"

    def _repr_html_(self) -> str:
        """As notebooks show it: what was learned, and how the search for it ended."""
        said = lines(f"{self.objective}: {self.value:.4f}; {self.ended()}")
        return card("Fit", said, table(("hyperparameter", "value", "status"), listed(self.model)))

    def summary(self) -> str:
        """Values, gradients, bounds, conditioning and jitter, as a text table; for draws, their intervals and
        diagnostics.
        """
        one = self.posteriors[0]
        return one.summary() if one.averages else summary(self)

    @property
    def posteriors(self) -> list[AbstractPosterior]:
        """One for each data set."""
        return self.posterior if isinstance(self.posterior, list) else [self.posterior]

    def class_function(self) -> ClassFunction | None:
        """That of the `posterior`."""
        return self.one_posterior().class_function()

    def one_posterior(self) -> AbstractPosterior:
        """The `posterior`, where there is one."""
        if len(self.posteriors) > 1:
            raise ValueError(
                "this fit pooled several data sets: choose one of its posteriors, fit.posterior[i]."
            )
        return self.posteriors[0]

    def course(self) -> Fit:
        return self


class FitWarning(UserWarning):
    """Something about a fit that a person should know; where it did not converge an `UnconvergedWarning`."""
