"""What the estimators share: kernels as people give them, tables, frames and objects as inputs,
saving.
"""

from __future__ import annotations

import abc
import dataclasses
import numbers
from typing import Any, ClassVar

import numpy as np
from narwhals.stable.v2.dependencies import is_into_dataframe
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from mercer.conditioned import AbstractConditioned
from mercer.estimators import saving
from mercer.inference import by_name as inference_by_name
from mercer.inputs import InputError, Inputs, Targets, as_inputs
from mercer.kernels import AbstractKernel
from mercer.learning import Fit, fit
from mercer.persist import AbstractSavable
from mercer.posteriors import AbstractPosterior
from mercer.progress import shown

INTEGRATED = ("ccd", "grid")  # ways to integrate hyperparameters out without sampling


class AbstractEstimator(BaseEstimator, AbstractConditioned, AbstractSavable):
    """An estimator of scikit-learn's kind around one fitted model, or several of one kind."""

    numeric_targets: ClassVar[bool]

    # -- what pictures ask -----------------------------------------------------------------------------------

    def course(self) -> Fit:
        check_is_fitted(self)
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
        self.n_features_in_ = inputs.values.shape[1]
        self._name_features(inputs)

    def _labels(self) -> Any:
        """What a file must say of the targets besides their numbers."""
        return None

    def _learned(self) -> dict[str, Any]:
        return saving.learned(self)

    def _relearn(self, learned: dict[str, Any]) -> None:
        saving.relearn(self, learned)

    def one_posterior(self) -> AbstractPosterior:
        """`posterior_`, where there is one."""
        try:
            check_is_fitted(self)
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
        if isinstance(inference, str) and inference in INTEGRATED:
            from mercer.learning import integrate

            found = fit(model, inputs, targets, inference=None, **settings)
            return dataclasses.replace(
                found, posterior=integrate(found, how=inference, solver=settings.get("solver"))
            )
        if isinstance(inference, str) and inference == "mcmc":
            rule: Any = inference_by_name("mcmc", model.likelihood)
            inference = dataclasses.replace(rule, seed=settings["seed"], progress=settings["progress"])
        return fit(model, inputs, targets, inference=inference, **settings)

    # -- settings --------------------------------------------------------------------------------------------

    def _solver(self) -> Any:
        """The solver as learning takes it: "auto" with the memory it may use."""
        if self.memory is None:
            return self.solver
        if self.solver != "auto":
            raise ValueError("memory= is a limit for solver='auto'; other solvers take what they need.")
        from mercer.solvers.auto import Auto

        return Auto(memory=self.memory)

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

    def _training_data(self, X, y, objects: bool) -> tuple[Inputs, np.ndarray]:
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        if objects:
            return self._objects(X, y)
        if _is_frame(X):
            values = self._frame(X, reset=True)
        else:
            values, y = validate_data(
                self, X, y, dtype=np.float64, y_numeric=self.numeric_targets, ensure_all_finite=False
            )
            values = as_inputs(values).values
        names = getattr(self, "feature_names_in_", None)
        return Inputs(values, None if names is None else tuple(names)), self._targets(y, values.shape[0])

    def _inputs(self, X) -> np.ndarray:
        check_is_fitted(self)
        if any(found.model.reads_objects() for found in self._fits):
            return as_inputs(X, "X", self._training[0].names, objects=True).values
        if _is_frame(X):
            return self._frame(X)
        return as_inputs(
            validate_data(self, X, reset=False, dtype=np.float64, ensure_all_finite=False)
        ).values

    def _objects(self, X, y) -> tuple[Inputs, np.ndarray]:
        """Text, categories and other objects, which scikit-learn's checks do not know:
        the kernel reads them.
        """
        inputs = as_inputs(X, objects=True)
        if inputs.values.shape[0] == 0:
            raise InputError("X has no rows.")
        y = self._targets(y, inputs.values.shape[0])
        self.n_features_in_ = inputs.values.shape[1]
        self._name_features(inputs)
        return inputs, y

    def _name_features(self, inputs: Inputs) -> None:
        if inputs.names is not None:
            self.feature_names_in_ = np.array(inputs.names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def _frame(self, X, reset: bool = False) -> np.ndarray:
        """A frame's values. scikit-learn checks the names;
        what stands in the columns is checked so that errors name the column.
        """
        if isinstance(X, dict):
            return self._dict(X, reset)
        validate_data(self, X, reset=reset, skip_check_array=True)
        values = as_inputs(X).values
        if values.shape[0] == 0:
            raise InputError("X has no rows.")
        return values

    def _dict(self, X: dict, reset: bool) -> np.ndarray:
        """Columns by name, which scikit-learn does not know; they are brought into the order of `fit`."""
        if reset:
            self.n_features_in_, self.feature_names_in_ = len(X), np.array(list(map(str, X)), dtype=object)
        names = getattr(self, "feature_names_in_", None)
        if names is None:
            raise InputError(
                "the model was fitted without column names: predict from an array, not from named columns."
            )
        values = as_inputs(X, columns=tuple(names)).values
        if values.shape[0] == 0:
            raise InputError("X has no rows.")
        return values


def read_kernel(given: Any) -> AbstractKernel | None:
    """A kernel, its formula as text, or None."""
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


def _is_frame(X) -> bool:
    return type(X) is dict or is_into_dataframe(X)
