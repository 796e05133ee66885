"""Time series with dates: trend, seasons and irregularities learned, forecast, filled in and updated,
all in O(n).
"""

from __future__ import annotations

import copy
import dataclasses
import numbers
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer.estimators import defaults
from mercer.estimators.base import AbstractEstimator
from mercer.estimators.regression.predictions import seed_of
from mercer.estimators.series import repeats, structure
from mercer.estimators.series.ahead import ahead, read, since
from mercer.estimators.series.backtest import Backtest, backtest
from mercer.estimators.series.changes import MOST, most_probable
from mercer.estimators.series.clock import ROUNDING, Clock
from mercer.estimators.series.design import WEAK, Change, Design, check_names, design, read_design
from mercer.estimators.series.effects import carried_variance, effects, part_moments
from mercer.estimators.series.events import Event
from mercer.estimators.series.observed import Kind, Observed, observe, table
from mercer.estimators.series.predictive import Averaged, Predictive
from mercer.estimators.series.regressors import given_columns, match
from mercer.estimators.series.windows import windows, words
from mercer.estimators.series.words import stamp_text, summary
from mercer.gp import choose_solver
from mercer.inference import Exact
from mercer.inputs import InputError, Inputs
from mercer.learning import Fit, fit, integration
from mercer.likelihoods import AbstractLikelihood, AbstractNoise, Gaussian
from mercer.online import OnlineMarkov
from mercer.params import flatten
from mercer.persist.kinds import checked
from mercer.progress import Progress
from mercer.solvers import Markov
from mercer.solvers.markov_parts import parts
from mercer.solvers.markov_steps import steps

FEWEST = 8  # values from which a slope is learned
# nats by which a season must raise the evidence to be spoken of; a yearly one of decimal years, to be taken
# (of 104 series without one, five gained 2.7 to 3.7)
REPEATS, YEARLY = 10.0, 5.0
AT_ONCE = 4096  # values that are filtered at once
INTEGRATED = 2000  # values up to which forecasts are averaged over hyperparameters


class GPTimeSeries(AbstractEstimator):
    """A time series as trend + seasons + irregular + noise, each a Gaussian process, learned together in
    O(n).

    Of more than 4096 values, hyperparameters are learned from as many, in windows spread over the series
    (`notes_` says so); forecasts, components and the rest take all of them.

    Takes a pandas series or frame with dates, a polars frame, a dict of columns, or arrays (t, y), at any
    distances, with gaps, repeated stamps and missing values (NaN). Tables come back in the library of the
    series. Other columns (regressors) and events by date join it in `fit`, with linear effects.

    seasonal: "auto", None, list or dict. Periods, in the unit of time the series is counted in (`unit_`):
        [12], {"cycle": 11.0}, or names, ["week", "year"]. "auto" takes day, week and year where the series
        has 3 values in a period and lasts 2 of them. Plain numbers that look like years with decimals get a
        yearly season where the evidence is for it; of others that repeat a note says the period.
    trend: "auto", "linear" or "level". A straight line whose slope wanders (it goes on in forecasts), or a
        level that returns to the mean; "auto" keeps the line unless the evidence speaks against it (by more
        than 2 nats).
    irregular: bool. Whether there are irregularities that last a few steps, besides the noise.
    likelihood: str or instance. "gaussian"; "student-t", "laplace", "mixture" against outliers; "poisson" for
        counts, whose log rate is then modelled.
    transform: "auto", "log" or None. Model the logarithm of a positive series, so that parts multiply. "auto"
        does where the swings grow with the level. Forecasts, intervals and evidence are those of the series
        itself all the same.
    harmonics: int or None. Sines and cosines of a season at most (default 6, or 4 where there are several
        seasons).
    anomaly_level: float. `anomalies_` are rows whose value is this improbable (two-sided) given all the
        others.
    changes: bool. Keep changes of level that are found as parts of the model, and learn the rest again
        beside them. `changes_` lists them in any case.
    integrate: bool. Average forecasts and gaps over the uncertainty of the hyperparameters (a few dozen
        settings around the best, `learning.integrate`), of up to 2000 values with Gaussian noise: far ahead,
        the best alone is too sure. It takes about a fifth of the time of learning. Components, anomalies and
        the evidence are those of the best.
    max_evaluations, random_state, progress: as in `GPRegressor`

    unit_, step_: unit of time ("day", "month", ..., "" for numbers) and usual distance between stamps in it
    clock_: these, and the step at which forecasts go on (`clock_.grid_words()`)
    seasons_: periods by name, in that unit
    trend_, trends_: the trend that was kept, and the log evidence of each that was tried (of the values
        learned from)
    transform_: "log" or None
    component_names_: of the parts, in order: the terms of the kernel, regressors, events
    regressors_, events_: names of the regressors, and each `Event` by name
    effects_: table of what was learned of them
    fit_, model_, posterior_, kernel_: as in `GPRegressor`, in the unit of time from the first stamp on, of
        the transformed values
    log_marginal_likelihood_: log density of the values, without priors
    anomalies_: table of the rows that do not fit
    changes_: table of the times at which the level changed, with size, std and log odds
    notes_: what was done to the input

    >>> ts = GPTimeSeries().fit(series)              # pandas, with a DatetimeIndex
    >>> ts.forecast(24)                              # mean, std, lower, upper of the next 24 stamps
    >>> ts.components(), ts.impute(), ts.anomalies_
    >>> ts.backtest(4, folds=3)                      # how good earlier forecasts would have been
    >>> ts.update(new_series)                        # O(1) for each new value, hyperparameters stay
    """

    numeric_targets: ClassVar[bool] = True
    notes_: tuple[str, ...]
    _t: np.ndarray  # times of all stamps, in order
    _y: np.ndarray  # NaN where a value is missing
    _R: np.ndarray  # regressors (n, k); NaN where nobody needs to know
    _design: Design
    _others: dict[str, GPTimeSeries]  # series of regressors, once they were needed
    _posterior: Any  # None where values were added since
    _online: OnlineMarkov | None
    _around: list[list[float]]  # hyperparameters that forecasts average over: weights, and their vectors
    _copies: list[GPTimeSeries] | None  # the same series at each of them, once they were needed

    def __init__(
        self,
        seasonal: str | Sequence[Any] | Mapping[str, float] | None = "auto",
        trend: str = "auto",
        irregular: bool = True,
        likelihood: str | AbstractLikelihood = "gaussian",
        transform: str | None = "auto",
        harmonics: int | None = None,
        anomaly_level: float = 0.001,
        max_evaluations: int = 200,
        changes: bool = False,
        integrate: bool = True,
        random_state: int | np.random.RandomState | None = 0,
        progress: Progress = None,
    ):
        self.seasonal = seasonal
        self.trend = trend
        self.irregular = irregular
        self.likelihood = likelihood
        self.transform = transform
        self.harmonics = harmonics
        self.anomaly_level = anomaly_level
        self.max_evaluations = max_evaluations
        self.changes = changes
        self.integrate = integrate
        self.random_state = random_state
        self.progress = progress

    # -- learning --------------------------------------------------------------------------------------------

    def fit(
        self,
        series: Any,
        y: Any = None,
        time: str | None = None,
        value: str | None = None,
        regressors: Any = None,
        events: Any = None,
    ) -> GPTimeSeries:
        """Learn from a series; or from times and values, `fit(t, y)`; or from columns of a frame, `fit(frame,
        time=, value=)`.

        regressors: names of other columns of the frame, or columns by name (a frame, a dict) with a row for
            each value: each has a linear effect, beta (r - mean of r), beta ~ N(0, (3 std(y) / std(r))^2)
        events: dates by name, {"christmas": "12-25", "launch": ["2024-03-01"]}, with days around them,
            {"easter": Event(dates, before=2, after=1)}; or a table with the columns name and date. Each has
            an effect, N(0, (3 std(y))^2) before it is learned. See `mercer.Event`

        >>> ts.fit(frame, time="day", value="sales", regressors=["price"], events={"christmas": "12-25"})
        """
        return self._learn_from(observe(series, y, time, value, regressors, events))

    def _learn_from(self, seen: Observed) -> GPTimeSeries:
        self._check_settings()
        told = ~np.isnan(seen.values)
        if not told.any():
            raise InputError("every value of the series is missing: there is nothing to learn from.")
        self._begin(seen, Clock.of(seen.stamps, seen.zone))
        t, y = self._t[told], self._y[told]
        self.seasons_ = structure.seasons(self.seasonal, self.clock_, float(np.ptp(self._t)))
        self.transform_ = structure.transform(self.transform, self.likelihood, y, self.seasons_, self.clock_)
        z = np.log(y) if self.transform_ == "log" else y
        _, latent = structure.read_likelihood(self.likelihood, z)
        self._design, notes = design(
            dict(zip(self.regressors_, self._R[told].T, strict=True)), self.events_, self.clock_, t, latent
        )
        self.notes_ += notes
        still = _still(t, z)
        tried = structure.TRENDS if self.trend == "auto" else (self.trend,)
        if self.trend == "auto" and (still or z.size < FEWEST):
            tried = ("level",)
        found, names = self._learn_trends(tried, self.seasons_, t, z)
        if isinstance(self.seasonal, str) and self.seasonal == "auto" and not self.clock_.unit and not still:
            found, names = self._look_for_a_season(found, names, t, z)
        rows = windows(t.size)
        change = float(np.sum(z[_all(rows)])) if self.transform_ == "log" else 0.0  # log |dz / dy| is -z
        self.trends_ = {trend: evidence - change for trend, evidence in _evidences(found).items()}
        self.trend_ = structure.preferred(self.trends_)
        check_names(names, self._design.names)
        self.component_names_ = (*names, *self._design.names)
        if still:
            why = (
                "the values do not vary"
                if t.size > 2 and defaults.constant(z)
                else "there are too few values"
            )
            self.notes_ = (
                *self.notes_,
                f"{why}: nothing was learned, hyperparameters have their starting values",
            )
        self._take([found[self.trend_]])
        if self.changes and not still:
            self._keep_changes(z)
        if self.integrate and not still and t.size <= INTEGRATED and isinstance(self._likelihood, Gaussian):
            models, weights = integration.settings(
                self.fit_, "ccd", Exact(), choose_solver(self.model_, Markov())
            )
            vectors = [flatten(model).vector.tolist() for model in models]
            self._around = [[float(weight), *vector] for weight, vector in zip(weights, vectors, strict=True)]
        if rows is not None:
            self.notes_ += (words(t.size),)
            self._posterior = None
            if isinstance(self._likelihood, Gaussian) and not self._design.columns:
                self._online = self._filter(t, z)
        return self

    def _keep_changes(self, z: np.ndarray) -> None:
        """Changes of level become parts, one after the other, as long as any is found."""
        told, rows = ~np.isnan(self._y), _all(windows(z.size))
        settings: Any = dict(solver=Markov(), progress=self.progress, seed=self._seed(), jacobian=True)
        settings |= dict(max_evaluations=self.max_evaluations, starts="given")
        while len(self._design.changes) < MOST and (change := self._next_change(self.posterior_)) is not None:
            self._design = self._design.with_change(change)
            model = structure.with_basis(self.model_, self._design.basis())
            self._take([fit(model, self._inputs_at(told)[rows], z[rows], **settings)])
            if not isinstance(rows, slice):
                self._posterior = None
        names = [name for name in self.component_names_ if name not in self._design.names]
        check_names(names, self._design.names)
        self.component_names_ = (*names, *self._design.names)

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

    def _at_settings(self) -> list[GPTimeSeries]:
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

    def _filter(self, t: np.ndarray, z: np.ndarray) -> OnlineMarkov:
        """The state after all values, by few at a time."""
        online = OnlineMarkov(self.model_.gp, float(self._likelihood.noise_variance))
        for first in range(0, t.size, AT_ONCE):
            online.update(t[first : first + AT_ONCE], z[first : first + AT_ONCE])
        return online

    def _learn_trends(
        self, tried: Sequence[str], seasons: Mapping[str, float], t: np.ndarray, z: np.ndarray
    ) -> tuple[dict[str, Fit], tuple[str, ...]]:
        """What is learned with each of the trends, and the names of the parts."""
        still, X = _still(t, z), self._inputs_at(~np.isnan(self._y))
        noise, latent = structure.read_likelihood(self.likelihood, z)
        found: dict[str, Fit] = {}
        names: tuple[str, ...] = ()
        rows = _all(windows(t.size))
        settings: Any = dict(solver=Markov(), progress=self.progress, seed=self._seed())
        if not still:
            settings |= dict(jacobian=True, max_evaluations=self.max_evaluations)
        for trend in tried:
            model, names = structure.default_model(
                trend,
                seasons,
                bool(self.irregular),
                self.harmonics,
                noise,
                self.clock_,
                float(np.ptp(self._t)),
                latent,
                self._design.basis(),
            )
            found[trend] = fit(defaults.hold(model) if still else model, X[rows], z[rows], **settings)
        return found, names

    def _look_for_a_season(
        self, found: dict[str, Fit], names: tuple[str, ...], t: np.ndarray, z: np.ndarray
    ) -> tuple[dict[str, Fit], tuple[str, ...]]:
        """Of plain numbers: a yearly season of decimal years is kept where the evidence is for it; any other
        that repeats is told in a note.
        """
        years = repeats.decimal_years(t + self.clock_.origin, self.clock_.step)
        period = 1.0 if years else repeats.suspected(t, z, self.clock_.step)
        if period is None:
            return found, names
        without = max(_evidences(found).values())
        seasons = {"year": 1.0} if years else {f"season {period:g}": period}
        tried = tuple(found) if years else (structure.preferred(_evidences(found)),)
        other, parts = self._learn_trends(tried, seasons, t, z)
        gain = max(_evidences(other).values()) - without
        if years and gain > YEARLY:
            self.seasons_ = seasons
            self.notes_ += (
                f"the times look like years with decimals: a yearly season was added, which the log evidence "
                f"favours by {gain:.1f} (seasonal=None leaves it out)",
            )
            return other, parts
        if not years and gain > REPEATS:
            self.notes_ += (
                f"the values seem to repeat every {period:g}: a season of that period, seasonal=[{period:g}] "
                f"(on the command line --seasonal {period:g}), raises the log evidence by {gain:.1f}",
            )
        return found, names

    def _check_settings(self) -> None:
        if self.trend != "auto" and self.trend not in structure.TRENDS:
            raise ValueError(f"trend must be 'auto', 'linear' or 'level', got {self.trend!r}.")
        if self.transform not in ("auto", "log", None):
            raise ValueError(f"transform must be 'auto', 'log' or None, got {self.transform!r}.")
        if not 0 < self.anomaly_level < 1:
            raise ValueError(f"anomaly_level must lie strictly between 0 and 1, got {self.anomaly_level!r}.")
        if self.harmonics is not None and not (
            isinstance(self.harmonics, numbers.Integral) and int(self.harmonics) >= 1
        ):
            raise ValueError(
                f"harmonics must be a whole number of at least 1, or None, got {self.harmonics!r}."
            )

    def _begin(self, seen: Observed, clock: Clock) -> None:
        self.clock_, self.unit_, self.step_ = clock, clock.unit, clock.step
        self._kind, self.notes_, self._around, self._copies = seen.kind, seen.notes, [], None
        self._t, self._y = clock.read(seen.stamps), seen.values
        self.regressors_, self.events_ = tuple(seen.others), dict(seen.events)
        self._R = self._regressors_of(seen)
        self._online, self._others = None, {}

    def _regressors_of(self, seen: Observed) -> np.ndarray:
        """The regressors (n, k) of a series, known wherever it has a value."""
        if missing := [name for name in self.regressors_ if name not in seen.others]:
            raise InputError(
                f"the series was learned with the regressor {missing[0]!r}: give it with new values, too."
            )
        R = np.column_stack([np.zeros((seen.values.size, 0)), *(seen.others[n] for n in self.regressors_)])
        wrong = np.isnan(R) & ~np.isnan(seen.values)[:, None]
        if wrong.any():
            row, j = np.argwhere(wrong)[0]
            raise InputError(
                f"the regressor {self.regressors_[j]!r} is missing at {stamp_text(seen.stamps[row])}, where "
                "the series has a value: fill it in, or leave that value empty."
            )
        return R

    def _take(self, fits: list[Fit]) -> GPTimeSeries:
        (self.fit_,) = fits
        self._posterior = self.fit_.posterior
        self.model_, self.kernel_ = self.fit_.model, structure.of_time(self.fit_.model.gp.kernel)
        if any(len(row) != 1 + flatten(self.model_).vector.size for row in self._around):
            raise ValueError("the settings of hyperparameters around the best are not those of the model.")
        return self

    def update(self, series: Any, y: Any = None) -> GPTimeSeries:
        """Add new values, given as in `fit`; hyperparameters stay as they are.

        With Gaussian noise each value from the last stamp on takes O(1), however long the series; the rest
        (components, anomalies) is brought up to date when it is next asked for. Earlier values, other noise,
        regressors and events take one more pass over the series.
        """
        check_is_fitted(self)
        return self._add(self._observe(series, y))

    def _add(self, seen: Observed) -> GPTimeSeries:
        t = read(self.clock_, seen.stamps, seen.zone)
        told = ~np.isnan(seen.values)
        z = self._likelihood.targets(self._forward(seen.values[told]))
        if self._copies is not None:  # nothing is changed in place: a copy of this series may share it
            self._copies = [copy.copy(other)._add(seen) for other in self._copies]
        plain = isinstance(self._likelihood, Gaussian) and not self._design.columns
        late = plain and t[0] >= self._t[-1]
        if late and self._online is None:
            X, known = self._training
            self._online = self._filter(X.values[:, 0], known)
        self._t, self._y = np.append(self._t, t), np.append(self._y, seen.values)
        self._R = np.concatenate([self._R, self._regressors_of(seen)])
        self._others = {
            name: copy.copy(other)._add(Observed(seen.stamps, seen.others[name], Kind(), seen.zone, ()))
            for name, other in self._others.items()
        }
        if late and self._online is not None:
            self._online = copy.copy(self._online).update(t[told], z)
        else:
            self._online, order = None, np.argsort(self._t, kind="stable")
            self._t, self._y, self._R = self._t[order], self._y[order], self._R[order]
        self._posterior = None
        return self

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

    # -- predictions -----------------------------------------------------------------------------------------

    def forecast(self, horizon: Any = 1, level: float = 0.95, regressors: Any = None) -> Any:
        """Table of mean, std and the central interval lower, upper of the values to come.

        horizon: how many steps; or a length of time, "2y", "6mo", "6w", "90d", "36h", "15min"; or a date, up
        to whose end; or stamps. A series at irregular distances goes on by a natural step near the usual
        distance (days, weeks, months: `summary` says which).

        regressors: what is known of them, a frame or a dict of columns with their times, or with a row for
        each stamp. Those that are not given, or NaN, are forecast by a series of their own (`GPTimeSeries`
        with the same settings), and what that leaves open is carried on: a regressor r ~ N(m, v) with the
        effect beta ~ N(b, s) adds (b^2 + s) v to the variance, whose square root `std` is, and the interval
        takes f to be normal.

        >>> ts.forecast(24, level=0.9)
        >>> ts.forecast("2y"), ts.forecast("2030-06")
        >>> ts.forecast(pd.date_range("2030-01-01", periods=12, freq="MS"))
        >>> ts.forecast(7, regressors={"price": [2.0] * 7})
        """
        return self._table(*self.forecast_columns(horizon, level, regressors))

    def forecast_columns(
        self, horizon: Any = 1, level: float = 0.95, regressors: Any = None
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """The same as arrays: stamps (numbers, or datetime64 in UTC where there is a zone),
        and the columns by name.
        """
        t = self._ahead(horizon)
        return self.clock_.stamps(t), self._predictive(t, regressors).columns(level)

    def sample(
        self,
        horizon: Any = 1,
        size: int = 1,
        regressors: Any = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> np.ndarray:
        """Joint draws (size, m) of the values to come, a path in each row, noise included: what can be asked
        of a forecast that is not asked of one stamp alone (a sum, a maximum, how long above a limit).

        horizon, regressors: as in `forecast`; regressors that are not known are drawn, too. A path takes
        O(n + m).

        >>> paths = ts.sample(12, size=1000)
        >>> np.quantile(paths.sum(1), [0.05, 0.95])      # of the total of the next 12
        """
        seed = seed_of(self.random_state if random_state is None else random_state)
        return self._sample(self._ahead(horizon), size, regressors, np.random.default_rng(seed))

    def _sample(self, t: np.ndarray, size: int, regressors: Any, rng: np.random.Generator) -> np.ndarray:
        """The same at times t."""
        self._check_start(t)
        R, unsure = self._regressors_at(t, regressors)
        drawn = {}  # regressors that are not known
        for j in np.flatnonzero((unsure > 0).any(0)).tolist():
            rows, other = unsure[:, j] > 0, self._series_of(j)
            drawn[j] = np.repeat(R[None, :, j], size, 0)
            drawn[j][:, rows] = other._sample(other.clock_.read(self.clock_.stamps(t[rows])), size, None, rng)
        if not self._around:
            return self._paths(t, size, R, drawn, rng)
        chosen = rng.choice(len(self._around), size, p=self._weights)
        y = np.empty((size, t.size))
        for i, other in enumerate(self._at_settings()):
            own = chosen == i
            if own.any():
                some = {j: paths[own] for j, paths in drawn.items()}
                y[own] = other._paths(t, int(own.sum()), R, some, rng)
        return y

    def _paths(
        self, t: np.ndarray, size: int, R: np.ndarray, drawn: Mapping[int, np.ndarray], rng: Any
    ) -> np.ndarray:
        """Draws (size, m) of values, with these hyperparameters alone, at regressors R (m, k), or those that
        were drawn (size, m).
        """
        X, some = self._design.inputs(self.clock_, t, R), 1 + np.array(list(drawn), int)
        # the draws' own effects: f at one more unit of a regressor, less f, at the last time
        probes = np.repeat(X[-1:], 1 + some.size if some.size else 0, 0)
        probes[1 + np.arange(some.size), some] += 1.0
        f = self.posterior_.sample(np.concatenate([X, probes]), size, rng, latent=True)
        f, effects = f[:, : t.size], f[:, t.size + 1 :] - f[:, t.size : t.size + 1]
        for effect, (j, paths) in zip(effects.T, drawn.items(), strict=True):
            f += effect[:, None] * (paths - R[:, j])
        y = np.stack([self._likelihood.sample(rng, path) for path in f])
        return np.exp(y) if self.transform_ == "log" else y

    def impute(self, level: float = 0.95) -> Any:
        """The same table for the stamps without a value: those that were NaN, those that a regular series
        skips, and, where distances are irregular, those of its natural step (as in `forecast`) that have no
        value near. For other stamps ask `forecast`.
        """
        return self._table(*self.impute_columns(level))

    def impute_columns(self, level: float = 0.95) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """The same as arrays: stamps, and the columns by name."""
        t = np.unique(np.append(self._t[np.isnan(self._y)], self._gaps()))
        return self.clock_.stamps(t), self._predictive(t).columns(level)

    def components(self, horizon: Any = None, gaps: bool = False, regressors: Any = None) -> Any:
        """Table with the mean of every part, under its name, and its standard deviation, `name_std`.

        At the stamps of the series; `horizon` (as in `forecast`) adds those after the last, or names stamps
        instead; `gaps` adds those that `impute` fills. With transform_ = "log" and for counts parts are of
        the logarithm. Their sum is the mean of the series without noise. Regressors are parts, and so are
        events; `regressors` says what is known of them at other stamps, as in `forecast`.
        """
        return self._table(*self.components_columns(horizon, gaps, regressors))

    def components_columns(
        self, horizon: Any = None, gaps: bool = False, regressors: Any = None
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """The same as arrays: stamps, and the columns by name."""
        check_is_fitted(self)
        t = np.zeros(0) if horizon is None else self._ahead(horizon)
        if horizon is None or isinstance(horizon, numbers.Integral | str):
            own = np.sort(np.append(self._t, self._gaps())) if gaps else self._t
            t = np.append(own, t)
        self._check_start(t)
        R, unsure = self._regressors_at(t, regressors)
        H = self._design.centred(self._design.inputs(self.clock_, t, R))
        mean, variance = parts(self.posterior_.state, t, H)
        mean[:, 0] += self._prior_mean
        of_kernel = [(mean[:, j], variance[:, j]) for j in range(mean.shape[1] - 1)]
        found = [*of_kernel, *part_moments(self._design, self.posterior_.state, H, unsure)]
        columns: dict[str, np.ndarray] = {}
        for name, (m, v) in zip(self.component_names_, found, strict=True):
            columns |= {name: m, f"{name}_std": np.sqrt(v)}
        return self.clock_.stamps(t), columns

    @property
    def effects_(self) -> Any:
        """Table of what was learned of regressors and events, by name: size, the posterior mean of the effect
        (of one unit of a regressor; of a day of an event, "christmas +1" one day later), and its std. With
        transform_ = "log" and for counts, of the logarithm.
        """
        check_is_fitted(self)
        labels, size, std = effects(self._design, self.posterior_.state)
        kind = Kind(self._kind.library, "effect")
        return table(kind, np.array(labels, object), None, {"size": size, "std": std})

    @property
    def anomalies_(self) -> Any:
        """Table of the rows whose value is less probable than `anomaly_level` given all others: value,
        expected (median), tail.
        """
        return self._table(*self.anomalies_columns())

    def anomalies_columns(self) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """The same as arrays: stamps, and the columns by name."""
        told, others = ~np.isnan(self._y), self._by_others()
        tail = others.tail(self._y[told])
        odd = tail < self.anomaly_level
        columns = {"value": self._y[told], "expected": others.quantile(0.5), "tail": tail}
        return self.clock_.stamps(self._t[told][odd]), {name: c[odd] for name, c in columns.items()}

    @property
    def changes_(self) -> Any:
        """Table of the times from which on the level is another one: size of the change, its std, and the log
        odds with which it was found, among all times and with hyperparameters held (those above 1 are
        listed). With changes=True they are parts of the model. With transform_ = "log" and for counts, of the
        logarithm.
        """
        return self._table(*self.changes_columns())

    def changes_columns(self) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """The same as arrays: stamps, and the columns by name."""
        check_is_fitted(self)
        told, found, posterior = ~np.isnan(self._y), self._design, self.posterior_
        while len(found.changes) < MOST and (change := self._next_change(posterior)) is not None:
            found = found.with_change(change)
            model = structure.with_basis(self.model_, found.basis())
            X = found.inputs(self.clock_, self._t[told], self._R[told])
            posterior = model.condition(X, self._forward(self._y[told]), None, Markov())
        _, size, std = effects(found, posterior.state)
        own = len(found.changes)
        columns = {"size": size[size.size - own :], "std": std[std.size - own :]}
        columns["log_odds"] = np.array([change.odds for change in found.changes], float)
        return self.clock_.stamps(np.array([change.time for change in found.changes], float)), columns

    def _left_out(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The values that are there (n,), what the others predict for each (the mean), and whether it lies in
        the interval of this level.
        """
        y, others = self._y[~np.isnan(self._y)], self._by_others()
        found = others.columns(level)
        return y, found["mean"], (found["lower"] <= y) & (y <= found["upper"])

    def _by_others(self) -> Predictive:
        """Of each value that is there, given all others."""
        return Predictive(self._likelihood, self.transform_, *self.posterior_.loo_latent())

    def log_density(self, series: Any, y: Any = None) -> np.ndarray:
        """Log predictive density (n,) of each value of another series, given as in `fit`;
        NaN where there is none.
        """
        check_is_fitted(self)
        seen = self._observe(series, y)
        out, told = np.full(seen.values.shape, np.nan), ~np.isnan(seen.values)
        known = {name: column[told] for name, column in seen.others.items()}
        t = read(self.clock_, seen.stamps[told], seen.zone)
        out[told] = self._predictive(t, known or None).log_density(seen.values[told])
        return out

    def score(self, series: Any, y: Any = None) -> float:
        """The mean of `log_density`, in nats: higher is better."""
        return float(np.nanmean(self.log_density(series, y)))

    def observed(self, history: Any = None) -> tuple[np.ndarray, np.ndarray]:
        """Stamps and values so far, in the order of time; NaN where a value is missing.

        history: only the last of them: so many steps, a length of time ("5y"), or from a date on
        """
        check_is_fitted(self)
        first = -np.inf if history is None else since(self.clock_, float(self._t[-1]), history)
        shown = self._t >= min(first, self._t[-1])
        return self.clock_.stamps(self._t[shown]), self._y[shown]

    def backtest(
        self,
        horizon: int | str,
        folds: int = 5,
        every: int | None = None,
        refit: bool = True,
        level: float = 0.9,
    ) -> Backtest:
        """How good forecasts of this series would have been: made at `folds` earlier times, and judged by
        what came, beside the value one season before and exponential smoothing.

        horizon: how many steps each forecast looks ahead, or a length of time ("1y")
        every: steps from one origin to the next (default: the horizon); the last ends with the series
        refit: learn everything again at each origin; False keeps what the first has learned, which is faster
        level: of the intervals

        Exponential smoothing is Holt-Winters with additive errors, by least squares, with trend (damped or
        not) and season where Akaike's criterion is for them; of the logarithm where `transform_` is "log".
        Its season and the naive one are the shortest that was seen twice. Regressors are taken as not known
        ahead: they are forecast, too.

        >>> found = ts.backtest(12, folds=4)
        >>> print(found)         # MASE, RMSE, coverage of the intervals, interval score
        >>> found.to_frame(), found.by_step()
        """
        check_is_fitted(self)
        steps = self._ahead(horizon).size if isinstance(horizon, str) else horizon
        counts = {"horizon": steps, "folds": folds, "every": steps if every is None else every}
        for name, count in counts.items():
            if not (isinstance(count, numbers.Integral) and count >= 1):
                raise ValueError(f"{name} must be a whole number of at least 1, got {count!r}.")
        return backtest(self, **counts, refit=refit, level=level, progress=self.progress)

    # -- words and pictures ----------------------------------------------------------------------------------

    def summary(self) -> str:
        """What was learned, as text."""
        check_is_fitted(self)
        return summary(self)

    def plot(self, horizon: Any = None, level: float = 0.95, history: Any = "auto") -> Any:
        """The series with its forecast (default: two seasons, or a tenth of the series), by `viz.forecast`;
        returns the Axes. history: how much of the series to draw, "all", "5y" or the last so many steps.
        """
        from mercer import viz

        return viz.forecast(self, self._some() if horizon is None else horizon, level=level, history=history)

    @property
    def time_name_(self) -> str:
        """What the times are called in the table they came from."""
        return self._kind.time

    @property
    def value_name_(self) -> str:
        """What the values are called in the table they came from."""
        return self._kind.value

    @property
    def logarithmic_(self) -> bool:
        """Whether the parts are those of a logarithm."""
        return self.transform_ == "log" or not isinstance(self._likelihood, Gaussian | AbstractNoise)

    @property
    def log_marginal_likelihood_(self) -> float:
        """Log density of the values, without priors."""
        evidence = (
            self._online.log_evidence if self._online is not None else float(self.posterior_.log_evidence)
        )
        told = self._y[~np.isnan(self._y)]
        return evidence - float(np.sum(np.log(told))) if self.transform_ == "log" else evidence

    # -- inside ----------------------------------------------------------------------------------------------

    @property
    def _likelihood(self) -> Any:
        return self.model_.likelihood

    @property
    def _prior_mean(self) -> float:
        return float(self.model_.gp.mean.value(np.zeros((1, 1)))[0])

    def _observe(self, series: Any, y: Any) -> Observed:
        """Another series, in columns of the same names where it is a frame."""
        columns = (
            dict(time=self._kind.time, value=self._kind.value)
            if isinstance(series, dict) or _named(series)
            else {}
        )
        return observe(series, y, **columns, regressors=list(self.regressors_) or None)

    def _part(self, rows: slice) -> Observed:
        """Some rows of the series, as they are observed."""
        stamps, others = (
            self.clock_.stamps(self._t[rows]),
            dict(zip(self.regressors_, self._R[rows].T, strict=True)),
        )
        return Observed(stamps, self._y[rows], self._kind, self.clock_.zone, (), others, self.events_)

    def _forward(self, y: np.ndarray) -> np.ndarray:
        if self.transform_ != "log":
            return y
        if not (y > 0).all():
            raise InputError(
                "the series is modelled by its logarithm, so new values must be positive; the least is "
                f"{y.min():g}."
            )
        return np.log(y)

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

    def _series_of(self, j: int) -> GPTimeSeries:
        """What is learned of a regressor as a series of its own."""
        name = self.regressors_[j]
        if name not in self._others:
            settings = self.get_params() | dict(trend="auto", likelihood="gaussian", transform="auto")
            seen = Observed(self.clock_.stamps(self._t), self._R[:, j], Kind(), self.clock_.zone, ())
            self._others[name] = GPTimeSeries(**settings)._learn_from(seen)
        return self._others[name]

    def _predictive(self, t: np.ndarray, regressors: Any = None) -> Predictive | Averaged:
        """Of values at times t."""
        R, unsure = self._regressors_at(t, regressors)
        if not self._around:
            return self._by_the_best(t, R, unsure)
        found = tuple(other._by_the_best(t, R, unsure) for other in self._at_settings())
        return Averaged(found, self._weights)

    @property
    def _weights(self) -> np.ndarray:
        """Of the hyperparameters that forecasts average over."""
        return np.array([weight for weight, *_ in self._around])

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

    def _some(self) -> int:
        longest = max(self.seasons_.values(), default=0.0) or float(np.ptp(self._t)) / 20
        return max(1, round(2 * longest / self.clock_.grid_step))

    def _table(self, stamps: np.ndarray, columns: dict[str, np.ndarray]) -> Any:
        return table(self._kind, stamps, self.clock_.zone, columns)

    # -- what saving asks ------------------------------------------------------------------------------------

    solver: ClassVar[str] = "markov"
    inference: ClassVar[None] = None

    @property
    def _training(self) -> tuple[Inputs, np.ndarray]:
        return self.posterior_.inputs, self.posterior_.y

    def _problems(self, inputs: Inputs, y: np.ndarray) -> list[tuple[Inputs, np.ndarray]]:
        return [(inputs, y)]

    def _targets(self, y, n: int) -> np.ndarray:
        return np.asarray(y, float)

    def _labels(self) -> Any:
        said: dict[str, Any] = dict(
            clock=dataclasses.asdict(self.clock_), kind=dataclasses.asdict(self._kind), trends=self.trends_
        )
        said |= dict(
            seasons=self.seasons_,
            transform=self.transform_,
            names=list(self.component_names_),
            notes=list(self.notes_),
        )
        gone = np.isnan(self._y)
        unknown = [[None if np.isnan(r) else r for r in row] for row in self._R[gone].tolist()]
        said |= dict(missing=self._t[gone].tolist(), missing_regressors=unknown)
        return said | dict(
            regressors=list(self.regressors_),
            events={name: dataclasses.asdict(event) for name, event in self.events_.items()},
            design=dataclasses.asdict(self._design),
            around=self._around,
        )

    def _restore(self, inputs: Inputs, y: np.ndarray, labels: Any) -> None:
        said = checked(_Labels, labels)
        self.clock_, self._kind = checked(Clock, said.clock), checked(Kind, said.kind)
        self.unit_, self.step_, self._online = self.clock_.unit, self.clock_.step, None
        self.seasons_, self.transform_, self.trends_ = said.seasons, said.transform, said.trends
        self.component_names_, self.notes_ = tuple(said.names), tuple(said.notes)
        self._around, self._copies = said.around, None
        self.trend_ = structure.preferred(self.trends_)
        self.regressors_, self._design = tuple(said.regressors), read_design(said.design)
        self.events_ = {name: checked(Event, one) for name, one in said.events.items()}
        if [r.name for r in self._design.regressors] != said.regressors or inputs.values.shape[1] != 1 + len(
            self._design.columns
        ):
            raise ValueError("the columns beside the times are not those that are said.")
        k, gone = len(said.regressors), len(said.missing)
        unknown = np.array(said.missing_regressors, float).reshape(gone, k)
        values = np.exp(y) if self.transform_ == "log" else y
        t = np.append(inputs.values[:, 0], said.missing)
        order = np.argsort(t, kind="stable")
        self._t, self._y = t[order], np.append(values, np.full(gone, np.nan))[order]
        self._R = np.concatenate([inputs.values[:, 1 : 1 + k], unknown])[order]
        self._others = {}


@dataclasses.dataclass(frozen=True)
class _Labels:
    """What a file says of a series besides its model."""

    clock: dict
    kind: dict
    trends: dict[str, float]
    seasons: dict[str, float]
    transform: str | None
    names: list[str]
    notes: list[str]
    missing: list[float]
    missing_regressors: list[list]
    regressors: list[str]
    events: dict[str, dict]
    design: dict
    around: list[list[float]]  # weights, and vectors of hyperparameters

    def __post_init__(self) -> None:
        sizes = {len(row) for row in self.around}
        if len(sizes) > 1 or 0 in sizes or not all(np.isfinite(row).all() for row in self.around):
            raise ValueError("the settings of hyperparameters around the best are not weights and vectors.")


def _still(t: np.ndarray, z: np.ndarray) -> bool:
    """Whether there is nothing to learn from."""
    return defaults.constant(z) or np.unique(t).size < 3


def _all(rows: np.ndarray | None) -> Any:
    """An index of some rows, or of all where none are named."""
    return slice(None) if rows is None else rows


def _evidences(found: Mapping[str, Fit]) -> dict[str, float]:
    return {trend: float(one.posterior.log_evidence) for trend, one in found.items()}


def _named(series: Any) -> bool:
    """Whether a frame holds its times in a column."""
    return hasattr(series, "columns") and type(getattr(series, "index", None)).__name__ not in (
        "DatetimeIndex",
        "PeriodIndex",
    )
