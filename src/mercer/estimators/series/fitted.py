"""A series that was learned: its values, its model, and what they say of other times."""

from __future__ import annotations

import abc
import copy
import dataclasses
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer.estimators import defaults
from mercer.estimators.base import AbstractEstimator
from mercer.estimators.series import structure
from mercer.estimators.series.ahead import ahead
from mercer.estimators.series.changes import most_probable
from mercer.estimators.series.clock import ROUNDING
from mercer.estimators.series.design import WEAK, Change, Design
from mercer.estimators.series.effects import carried_variance
from mercer.estimators.series.predictive import Averaged, Predictive
from mercer.estimators.series.recorded import Kind, Recorded, read_series, table
from mercer.estimators.series.regressors import given_columns, match
from mercer.estimators.series.words import stamp_text
from mercer.inputs import InputError
from mercer.online import OnlineMarkov
from mercer.params import flatten
from mercer.solvers import Markov
from mercer.solvers.markov_parts import parts
from mercer.solvers.markov_steps import steps

AT_ONCE = 4096  # values that are filtered at once


class AbstractFittedSeries(AbstractEstimator):
    """An estimator around one series: what its parts ask of its model."""

    likelihood: Any
    fit_: Any
    model_: Any
    notes_: tuple[str, ...]
    _t: np.ndarray  # times of all stamps, in order
    _y: np.ndarray  # NaN where a value is missing
    _R: np.ndarray  # regressors (n, k); NaN where nobody needs to know
    _design: Design
    _others: dict[str, Any]  # series of regressors, once they were needed
    _posterior: Any  # None where values were added since
    _online: OnlineMarkov | None
    _around: list[list[float]]  # hyperparameters that forecasts average over: weights, and their vectors
    _copies: list[Any] | None  # the same series at each of them, once they were needed

    @abc.abstractmethod
    def _learn_from(self, seen: Recorded) -> Self:
        """Learn a series with these settings."""

    @property
    def posterior_(self) -> Any:
        """The posterior given all values so far."""
        check_is_fitted(self)
        if self._posterior is None:
            told = ~np.isnan(self._y)
            self._posterior = self.model_.condition(
                self._inputs_at(told), self._forward(self._y[told]), None, Markov()
            )
            self.fit_ = dataclasses.replace(self.fit_, posterior=self._posterior)  # what files hold
        return self._posterior

    @property
    def _likelihood(self) -> Any:
        return self.model_.likelihood

    @property
    def _prior_mean(self) -> float:
        return float(self.model_.gp.mean.value(np.zeros((1, 1)))[0])

    def _observe(self, series: Any, y: Any) -> Recorded:
        """Another series, in columns of the same names where it is a frame."""
        columns = (
            dict(time=self._kind.time, value=self._kind.value)
            if isinstance(series, dict) or _named(series)
            else {}
        )
        return read_series(series, y, **columns, regressors=list(self.regressors_) or None)

    def _part(self, rows: slice) -> Recorded:
        """Some rows of the series, as they are observed."""
        stamps, others = (
            self.clock_.stamps(self._t[rows]),
            dict(zip(self.regressors_, self._R[rows].T, strict=True)),
        )
        return Recorded(stamps, self._y[rows], self._kind, self.clock_.zone, (), others, self.events_)

    def _forward(self, y: np.ndarray) -> np.ndarray:
        if self.transform_ != "log":
            return y
        if not (y > 0).all():
            raise InputError(
                "the series is modelled by its logarithm, so new values must be positive; the least is "
                f"{y.min():g}."
            )
        return np.log(y)

    def _filter(self, t: np.ndarray, z: np.ndarray) -> OnlineMarkov:
        """The state after all values, by few at a time."""
        online = OnlineMarkov(self.model_.gp, float(self._likelihood.noise_variance))
        for first in range(0, t.size, AT_ONCE):
            online.update(t[first : first + AT_ONCE], z[first : first + AT_ONCE])
        return online

    def _inputs_at(self, rows: np.ndarray) -> np.ndarray:
        """The times of some rows and the columns beside them: (n, 1 + p)."""
        return self._design.inputs(self.clock_, self._t[rows], self._R[rows])

    def _regressors_at(self, t: np.ndarray, given: Any) -> tuple[np.ndarray, np.ndarray]:
        """Means and variances (m, k) of the regressors at times t: as given, else as in the series, else
        forecast by a series of their own.
        """
        if not self.regressors_:
            if given is not None:
                raise ValueError("this series was learned without regressors: name them in fit, first.")
            return np.zeros((t.size, 0)), np.zeros((t.size, 0))
        place, found = match(self._t, t, ROUNDING * self.clock_.step)
        R = np.where(found[:, None], self._R[place], np.nan)
        if given is not None:
            said = given_columns(given, self.regressors_, self.clock_, self._kind.time, t)
            R = np.where(np.isnan(said), R, said)
        unsure = np.zeros(R.shape)
        for j in range(R.shape[1]):
            rows = np.isnan(R[:, j])
            if rows.any():
                other = self._series_of(j)
                at = other.clock_.read(self.clock_.stamps(t[rows]))
                R[rows, j], unsure[rows, j] = other._predictive(at).moments()
        return R, unsure

    def _series_of(self, j: int) -> AbstractFittedSeries:
        """What is learned of a regressor as a series of its own."""
        name = self.regressors_[j]
        if name not in self._others:
            settings = self.get_params() | dict(trend="auto", likelihood="gaussian", transform="auto")
            seen = Recorded(self.clock_.stamps(self._t), self._R[:, j], Kind(), self.clock_.zone, ())
            self._others[name] = type(self)(**settings)._learn_from(seen)
        return self._others[name]

    def _at_settings(self) -> list[AbstractFittedSeries]:
        """This series at the hyperparameters that forecasts average over."""
        if self._copies is None:
            flat, told = flatten(self.model_), ~np.isnan(self._y)
            t, z = self._t[told], self._forward(self._y[told])
            self._copies = []
            for _, *vector in self._around:
                other = copy.copy(self)
                other.model_ = flat.unflatten(np.array(vector))
                other._around, other._copies, other._posterior, other._others = [], None, None, {}
                other._online = None if self._design.columns else other._filter(t, z)
                self._copies.append(other)
        return self._copies

    @property
    def _weights(self) -> np.ndarray:
        """Of the hyperparameters that forecasts average over."""
        return np.array([weight for weight, *_ in self._around])

    def _predictive(self, t: np.ndarray, regressors: Any = None) -> Predictive | Averaged:
        """Of values at times t."""
        R, unsure = self._regressors_at(t, regressors)
        if not self._around:
            return self._by_the_best(t, R, unsure)
        found = tuple(other._by_the_best(t, R, unsure) for other in self._at_settings())
        return Averaged(found, self._weights)

    def _by_the_best(self, t: np.ndarray, R: np.ndarray, unsure: np.ndarray) -> Predictive:
        """The same, with these hyperparameters alone, for regressors of means R and variances (m, k)."""
        self._check_start(t)
        if (
            self._posterior is None
            and self._online is not None
            and t.size
            and (np.diff(t, prepend=self._t[-1]) >= 0).all()
        ):
            moments = self._online.forecast(t)
        else:
            H = self._design.centred(self._design.inputs(self.clock_, t, R))
            mean, variance = parts(self.posterior_.state, t, H)
            carried = carried_variance(self.posterior_.state, unsure)
            moments = mean[:, -1] + self._prior_mean, variance[:, -1] + carried
        return Predictive(self._likelihood, self.transform_, *moments)

    def _next_change(self, posterior: Any) -> Change | None:
        """The most probable change of level besides those that a posterior knows."""
        _, latent = structure.read_likelihood(self.likelihood, np.asarray(posterior.y, float))
        scale = WEAK * defaults.target_scale(latent)
        found = most_probable(steps(posterior.state), scale)
        if found is None:
            return None
        return Change(
            found.time, stamp_text(self.clock_.stamps(np.array([found.time]))[0]), scale, found.odds
        )

    def _check_start(self, t: np.ndarray) -> None:
        if self.trend_ == "linear" and t.size and t.min() < 0:
            raise InputError(
                "a linear trend starts at the first stamp: for earlier ones fit with trend='level'."
            )

    def _ahead(self, horizon: Any) -> np.ndarray:
        check_is_fitted(self)
        return ahead(self.clock_, float(self._t[-1]), horizon)

    def _gaps(self) -> np.ndarray:
        """Times without a stamp that the series would have, were it complete."""
        check_is_fitted(self)
        return self.clock_.gaps(np.unique(self._t))

    def _table(self, stamps: np.ndarray, columns: dict[str, np.ndarray]) -> Any:
        return table(self._kind, stamps, self.clock_.zone, columns)


def _named(series: Any) -> bool:
    """Whether a frame holds its times in a column."""
    return hasattr(series, "columns") and type(getattr(series, "index", None)).__name__ not in (
        "DatetimeIndex",
        "PeriodIndex",
    )
