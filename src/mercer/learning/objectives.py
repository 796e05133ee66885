"""What learning maximises: the log evidence (5.8), leave-one-out and k-fold criteria (5.10-5.14), with exact
gradients.

An objective takes a rule's result and says its value and the bars to pull back; the rule turns those into
derivatives by name. So each
works with every solver and with several data sets (the values add, GPML 5.4.3).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from mercer.gp import Model, sites
from mercer.inference.protocol import AbstractInference, Result
from mercer.learning.labels import loo_probit
from mercer.posteriors.loo import folds, leave_one_out
from mercer.prior import AbstractPrior
from mercer.registry import unknown
from mercer.solvers.protocol import AbstractSolver

_LOG_2PI = float(np.log(2 * np.pi))
Bars = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Objective:
    """A criterion to maximise. `evaluate(result)` gives its value and the cotangents of what the State
    says.
    """

    name: str
    evaluate: Callable[[Result], tuple[float, Bars]]
    scale_free: bool = False  # does not determine the overall scale of the covariance
    # of likelihoods other than Gaussian noise, whose sites depend on hyperparameters too: the value alone,
    # from how to condition on some of the rows; its derivatives are differences
    value: Callable[[Conditioned], float] | None = None
    recipe: tuple[str, int, int] | None = None  # of `by_name`, which makes it again


class Conditioned(Protocol):
    """A rule's result on all rows, and how to condition on some."""

    @property
    def result(self) -> Result: ...

    @property
    def y(self) -> np.ndarray: ...

    @property
    def likelihood(self) -> Any: ...

    def predicted(self, rest: np.ndarray, part: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance (m,) of f at the rows `part` from the rows `rest`."""


def by_name(name: str | Objective, n_folds: int = 10, seed: int = 0) -> Objective:
    """ "evidence", "loo" (log predictive probability), "loo-mse", "loo-probit", "gcv" or "k-fold"."""
    if isinstance(name, Objective):
        return name
    table = {
        "evidence": Objective("evidence", evidence),
        "loo": Objective("loo", loo, value=cavity_loo),
        "loo-mse": Objective("loo-mse", loo_squared_error, scale_free=True),
        "loo-probit": Objective("loo-probit", loo_probit),
        "gcv": Objective("gcv", generalised_cross_validation, scale_free=True),
        "k-fold": Objective(
            "k-fold",
            lambda result: k_fold(result, n_folds, seed),
            value=lambda given: refitted_folds(given, n_folds, seed),
        ),
    }
    if name not in table:
        raise ValueError(unknown("objective", name, table))
    return dataclasses.replace(table[name], recipe=(name, n_folds, seed))


def objective_and_gradient(
    model: Model | AbstractPrior,
    X: Any,
    y: Any = None,
    objective: str | Objective = "evidence",
    noise_variance: Any = None,
    inference: AbstractInference | str | None = None,
    solver: AbstractSolver | str | None = None,
    n_folds: int = 10,
    seed: int = 0,
) -> tuple[float, dict[str, Any]]:
    """What `fit` climbs with `objective=`, without priors on hyperparameters, and its derivative with respect
    to every hyperparameter as people see it: a dict by dotted name (5.13).

    objective: "evidence", "loo", "loo-mse", "loo-probit", "gcv" or "k-fold" (of n_folds folds, drawn by seed)

    >>> value, gradient = learning.objective_and_gradient(Model(GP(kernels.SE())), X, y, "loo")
    >>> gradient["kernel.lengthscale"]
    """
    chosen = by_name(objective, n_folds, seed)
    model, targets, rule, result = sites(model, X, y, noise_variance, inference, solver)
    value, bars = chosen.evaluate(result)
    return value, rule.gradient(model, targets, result, consume=True, **bars)


def evidence(result: Result) -> tuple[float, Bars]:
    """Log marginal likelihood."""
    return result.log_evidence, dict(log_evidence_bar=1.0)


def loo(result: Result) -> tuple[float, Bars]:
    """Sum of the leave-one-out log predictive densities (5.11)."""
    alpha, kappa = (x[:, 0] for x in result.state.dual())
    value = 0.5 * np.sum(np.log(kappa) - alpha**2 / kappa - _LOG_2PI)
    bars = dict(alpha_bar=-alpha / kappa, kappa_bar=0.5 * (1.0 / kappa + (alpha / kappa) ** 2))
    return float(value), dict(log_evidence_bar=0.0, **bars)


def cavity_loo(given: Conditioned) -> float:
    """The same of any likelihood, averaged over the cavities: of EP very accurate, without refits (5.5.3)."""
    return float(np.sum(leave_one_out(given.result.state, given.y, given.likelihood).log_density))


def refitted_folds(given: Conditioned, n_folds: int, seed: int) -> float:
    """Sum of the log probabilities of each datum given the other folds, the rule run on these."""
    total, n = 0.0, len(given.y)
    for part in folds(n, min(n_folds, n), seed):
        mean, variance = given.predicted(np.setdiff1d(np.arange(n), part), part)
        total += float(np.sum(given.likelihood.log_density(given.y[part], mean, variance)))
    return total


def loo_squared_error(result: Result) -> tuple[float, Bars]:
    """Minus the sum of squared leave-one-out errors: uses means only."""
    alpha, kappa = (x[:, 0] for x in result.state.dual())
    error = alpha / kappa
    return float(-np.sum(error**2)), dict(
        log_evidence_bar=0.0, alpha_bar=-2.0 * error / kappa, kappa_bar=2.0 * error**2 / kappa
    )


def generalised_cross_validation(result: Result) -> tuple[float, Bars]:
    """Minus the generalised cross-validation score of Craven and Wahba,
    n |(I - S) y|^2 / tr(I - S)^2 with I - S = noise R.
    """
    alpha, kappa = (x[:, 0] for x in result.state.dual())
    n, trace = alpha.shape[0], np.sum(kappa)
    value = n * alpha @ alpha / trace**2
    return float(-value), dict(
        log_evidence_bar=0.0, alpha_bar=-2.0 * n * alpha / trace**2, kappa_bar=np.full(n, 2.0 * value / trace)
    )


def k_fold(result: Result, n_folds: int, seed: int) -> tuple[float, Bars]:
    """Sum of the log predictive densities of each datum given the other folds."""
    alpha = result.state.alpha
    n = alpha.shape[0]
    value, alpha_bar, R_bar = 0.0, np.zeros(n), np.zeros((n, n))
    R = result.state.apply(np.eye(n))
    for I in folds(n, n_folds, seed):
        P = np.linalg.inv(R[np.ix_(I, I)])  # predictive covariance of the fold
        r, v = P @ alpha[I], np.diag(P)
        value += float(-0.5 * np.sum(np.log(v) + r**2 / v + _LOG_2PI))
        r_bar, v_bar = -r / v, -0.5 / v + 0.5 * (r / v) ** 2
        alpha_bar[I] += P @ r_bar
        P_bar = np.outer(r_bar, alpha[I]) + np.diag(v_bar)
        R_bar[np.ix_(I, I)] -= P @ P_bar @ P
    return value, dict(log_evidence_bar=0.0, alpha_bar=alpha_bar, apply_bar=(np.eye(n), R_bar))
