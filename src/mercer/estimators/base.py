"""What the estimators share: kernels as people give them, tables, frames and objects as inputs,
saving.
"""

from __future__ import annotations

import abc
import dataclasses
import numbers
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from narwhals.stable.v2.dependencies import is_into_dataframe
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from mercer.columns import Columns
from mercer.conditioned import AbstractConditioned
from mercer.estimators import reading, saving
from mercer.estimators.defaults import hold
from mercer.estimators.many import solver_for
from mercer.estimators.shown import AbstractShown
from mercer.inference import by_name as inference_by_name
from mercer.inputs import Inputs, Targets
from mercer.kernels import AbstractKernel
from mercer.learning import Fit, fit
from mercer.persist import AbstractSavable
from mercer.posteriors import AbstractPosterior
from mercer.progress import shown

INTEGRATED = ("ccd", "grid")  # ways to integrate hyperparameters out without sampling


class AbstractEstimator(AbstractShown, AbstractConditioned, AbstractSavable):
    """An estimator of scikit-learn's kind around one fitted model, or several of one kind."""

    numeric_targets: ClassVar[bool]
    missing: str
    _grouping: Sequence[str | int] = ()  # columns that say which group a row is of
    noise_covariance_: np.ndarray | None = None  # known, of the errors of the training rows
    columns_: Columns | None = None
    target_name_: str | None = None  # what y is called, where it has a name

    def name_target(self, name: str | None) -> Self:
        """Call the target so in explanations and reports, where y had no name of its own."""
        fitted(self)
        self.target_name_ = None if name is None else str(name)
        return self

    # -- what pictures ask -----------------------------------------------------------------------------------

    def course(self) -> Fit:
        fitted(self)
        if len(self._fits) > 1:
            raise ValueError("this model is made of several fits: choose one of them, fit_[i].")
        return self._fits[0]

    # -- what `mercer.save` asks -----------------------------------------------------------------------------

    @property
    def _fits(self) -> list[Fit]:
        return self.fit_ if isinstance(self.fit_, list) else [self.fit_]

    @property
    @abc.abstractmethod
    def _training(self) -> tuple[Inputs, np.ndarray]:
        """Inputs and targets (n,), numbers."""

    @abc.abstractmethod
    def _problems(self, inputs: Inputs, y: np.ndarray) -> list[tuple[Inputs, np.ndarray]]:
        """What each model is conditioned on."""

    @abc.abstractmethod
    def _take(self, found: list[Fit]) -> Any:
        """Set the learned attributes."""

    def _restore(self, inputs: Inputs, y: np.ndarray, labels: Any) -> None:
        """Set what `fit` knows before it learns, from a saved model; `labels` is what `_labels` gave."""
        if self.columns_ is None:
            raise ValueError("it does not say what the columns are.")
        reading.name_features(self, self.columns_)

    def _labels(self) -> Any:
        """What a file must say of the targets besides their numbers."""
        return None

    def _learned(self) -> dict[str, Any]:
        fitted(self)
        return saving.learned(self)

    def _relearn(self, learned: dict[str, Any]) -> None:
        saving.relearn(self, learned)

    def one_posterior(self) -> AbstractPosterior:
        """`posterior_`, where there is one."""
        try:
            fitted(self)
        except NotFittedError:
            raise TypeError(f"this {type(self).__name__} has not seen data yet: fit it first.") from None
        if len(self._fits) > 1:
            raise ValueError(
                f"this {type(self).__name__} holds several posteriors (one for each contest): choose one, "
                "posterior_[i]."
            )
        return self.posterior_

    # -- learning --------------------------------------------------------------------------------------------

    def _learn(self, model: Any, inputs: Inputs, y: np.ndarray, inference: Any, **settings) -> Fit:
        """`mercer.fit`; "mcmc" samples the hyperparameters,
        "ccd" and "grid" integrate over them around the best.
        """
        targets = Targets(y)
        integrated = isinstance(inference, str) and inference in INTEGRATED
        rule_of = inference_by_name(None if integrated else inference, model.likelihood)
        solver = self._solver(model, inputs) if rule_of.learns == "gradient" else self.solver
        settings["solver"] = solver
        if not self.learn:
            if integrated:
                raise ValueError(
                    f"inference={inference!r} integrates over hyperparameters, which learn=False holds: "
                    "leave out one of them."
                )
            if rule_of.learns == "gradient":
                settings["max_evaluations"] = 0
            else:
                model = hold(model)
        if integrated:
            from mercer.learning import integrate

            found = fit(model, inputs, targets, inference=None, **settings)
            return dataclasses.replace(
                found, posterior=integrate(found, how=inference, solver=found.posterior.solver)
            )
        if isinstance(inference, str) and inference == "mcmc":
            rule: Any = inference_by_name("mcmc", model.likelihood)
            inference = dataclasses.replace(rule, seed=settings["seed"], progress=settings["progress"])
        return fit(model, inputs, targets, inference=inference, **settings)

    # -- settings --------------------------------------------------------------------------------------------

    def _solver(self, model: Any, inputs: Inputs) -> Any:
        """The solver as learning takes it."""
        if self.noise_covariance_ is not None:
            from mercer.solvers import CorrelatedNoise

            return CorrelatedNoise(self.noise_covariance_)
        shape = inputs.values.shape
        return solver_for(self.solver, self.memory, shape, model.likelihood.latents, self.progress)

    def _telling(self) -> Any:
        """Around predictions: a line with the time left, as `progress` says."""
        return shown("predicting", self.progress)

    def _seed(self) -> int:
        seed = self.random_state
        return (
            int(seed)
            if isinstance(seed, numbers.Integral)
            else int(check_random_state(seed).randint(2**31 - 1))
        )

    # -- what comes in ---------------------------------------------------------------------------------------

    @abc.abstractmethod
    def _targets(self, y, n: int) -> np.ndarray:
        """y checked: n entries."""

    def _training_data(self, X, y, kernels: Sequence[AbstractKernel | None]) -> tuple[Inputs, np.ndarray]:
        return reading.training_data(self, X, y, kernels)

    def _inputs(self, X) -> np.ndarray:
        fitted(self)
        return reading.new_inputs(self, X)


def fitted(estimator: AbstractEstimator) -> None:
    """scikit-learn's error unless it has seen data; what it says of its tags does not count."""
    check_is_fitted(estimator, "fit_")


def read_kernel(given: Any) -> AbstractKernel | None:
    """A kernel, its formula as text, or None."""
    if isinstance(given, str) and given == "search":
        raise ValueError("kernel='search' is for GPRegressor: 'auto' chooses among a few kernels.")
    if isinstance(given, str):
        from mercer.kernels.words.reader import parse

        return parse(given)
    if given is not None and not isinstance(given, AbstractKernel):
        raise TypeError(f"kernel must be a kernel, its formula or None, got {type(given).__name__}.")
    return given


def frame_index(X: Any) -> tuple[str, ...] | None:
    """Labels of the rows of a pandas frame that has other ones than their positions."""
    index = getattr(X, "index", None)
    if not is_into_dataframe(X) or index is None:
        return None
    labels = tuple(map(str, index))
    return None if labels == tuple(map(str, range(len(labels)))) else labels


def evidence_of(posterior: AbstractPosterior) -> float | None:
    """Its log evidence; None where hyperparameters were sampled or integrated over."""
    return float(posterior.log_evidence) if posterior.can("log_evidence") else None


def column_lines(columns: Columns | None) -> list[str]:
    """What is said of the columns of a table: what each was read as where they are not all numbers, and
    notes.
    """
    if columns is None:
        return []
    said = "; ".join(f"{c.name} {c.words()}" for c in columns.columns)
    return [*([] if columns.plain else [f"columns: {said}"]), *(f"note: {note}" for note in columns.notes)]
