"""Time series with dates: trend, seasons and irregularities learned, forecast, filled in and updated,
all in O(n).
"""

from __future__ import annotations

import copy
import dataclasses
import numbers
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer.estimators import defaults
from mercer.estimators.series import repeats, structure
from mercer.estimators.series.ahead import read
from mercer.estimators.series.carried import Known, begun, known
from mercer.estimators.series.changes import MOST
from mercer.estimators.series.clock import Clock
from mercer.estimators.series.design import check_names, design, read_design
from mercer.estimators.series.events import Event
from mercer.estimators.series.forecasts import AbstractForecasts
from mercer.estimators.series.recorded import Kind, Recorded, read_series
from mercer.estimators.series.windows import windows, words
from mercer.estimators.series.words import stamp_text, summary
from mercer.gp import Model, choose_solver
from mercer.inference import Exact
from mercer.inputs import InputError, Inputs
from mercer.learning import Fit, fit, integration
from mercer.learning.task import ENOUGH
from mercer.likelihoods import AbstractLikelihood, AbstractNoise, Gaussian
from mercer.params import flatten
from mercer.persist.kinds import checked
from mercer.progress import Progress
from mercer.report import AbstractReported, Report
from mercer.report.reported import keeps_its_data
from mercer.solvers import Markov

if TYPE_CHECKING:
    from mercer.estimators.told import Explanation

FEWEST = 8  # values from which a slope is learned
# nats by which a season must raise the evidence to be spoken of; a yearly one of decimal years, to be taken
# (of 104 series without one, five gained 2.7 to 3.7)
REPEATS, YEARLY = 10.0, 5.0
OF_A_PART = 0.1  # nats in the evidence of some values that do not matter to all of them
INTEGRATED = 2000  # values up to which forecasts are averaged over hyperparameters


class GPTimeSeries(AbstractForecasts, AbstractReported):
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
        return self._learn_from(read_series(series, y, time, value, regressors, events))

    def _learn_from(self, seen: Recorded) -> GPTimeSeries:
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
        settings |= dict(max_evaluations=self.max_evaluations, starts="given", curvature=self.fit_.curvature)
        while len(self._design.changes) < MOST and (change := self._next_change(self.posterior_)) is not None:
            self._design = self._design.with_change(change)
            model = structure.with_basis(self.model_, self._design.basis())
            self._take([fit(model, self._inputs_at(told)[rows], z[rows], **settings)])
            if not isinstance(rows, slice):
                self._posterior = None
        names = [name for name in self.component_names_ if name not in self._design.names]
        check_names(names, self._design.names)
        self.component_names_ = (*names, *self._design.names)

    def _learn_trends(
        self,
        tried: Sequence[str],
        seasons: Mapping[str, float],
        t: np.ndarray,
        z: np.ndarray,
        before: Known | None = None,
    ) -> tuple[dict[str, Fit], tuple[str, ...]]:
        """What is learned with each of the trends, and the names of the parts. With Gaussian noise, learning
        begins with what is known: from the priors, and from `before`, which for the second trend is the
        first (of a part of a long series from that alone); there also by a climb that knows nothing.
        """
        still, X = _still(t, z), self._inputs_at(~np.isnan(self._y))
        noise, latent = structure.read_likelihood(self.likelihood, z)
        found: dict[str, Fit] = {}
        names: tuple[str, ...] = ()
        rows = windows(t.size)
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
            starts: list[tuple[Model, Any]] = [(defaults.hold(model) if still else model, None)]
            if not still and isinstance(noise, Gaussian):
                settings |= dict(starts="given", tolerance=ENOUGH if rows is None else OF_A_PART)
                starts = [begun(model, trend, names, before)]
                if before is not None and rows is None:  # the other trend's end may be far from this one's
                    starts += [begun(model, trend, names, None), (model, None)]
            data = X[_all(rows)], z[_all(rows)]
            ends = [
                _with_warnings(fit, start, *data, **settings, curvature=curvature)
                for start, curvature in starts
            ]
            best, said = max(ends, key=lambda end: end[0].value + end[0].log_prior)
            if best.curvature is None and len(starts) > 1:  # that climb ended early
                model, curvature = begun(best.model, trend, names, None)
                best, said = _with_warnings(fit, model, *data, **settings, curvature=curvature)
            for one in said:  # not of climbs that ended lower
                warnings.warn(one, stacklevel=4)
            found[trend] = best
            if best.curvature is not None:
                before = known(best, trend, names)
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
        last, *_ = reversed(found)
        before = None if found[last].curvature is None else known(found[last], last, names)
        other, parts = self._learn_trends(tried, seasons, t, z, before)
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

    def _begin(self, seen: Recorded, clock: Clock) -> None:
        self.clock_, self.unit_, self.step_ = clock, clock.unit, clock.step
        self._kind, self.notes_, self._around, self._copies = seen.kind, seen.notes, [], None
        self._t, self._y = clock.read(seen.stamps), seen.values
        self.regressors_, self.events_ = tuple(seen.others), dict(seen.events)
        self._R = self._regressors_of(seen)
        self._online, self._others = None, {}

    def _regressors_of(self, seen: Recorded) -> np.ndarray:
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

    def _add(self, seen: Recorded) -> GPTimeSeries:
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
            name: copy.copy(other)._add(Recorded(seen.stamps, seen.others[name], Kind(), seen.zone, ()))
            for name, other in self._others.items()
        }
        if late and self._online is not None:
            self._online = copy.copy(self._online).update(t[told], z)
        else:
            self._online, order = None, np.argsort(self._t, kind="stable")
            self._t, self._y, self._R = self._t[order], self._y[order], self._R[order]
        self._posterior = None
        return self

    # -- words and pictures ----------------------------------------------------------------------------------

    def summary(self) -> str:
        """What was learned, as text."""
        check_is_fitted(self)
        return summary(self)

    def explain(self) -> Explanation:
        """The series in plain sentences: how its trend, seasons and other parts go, how strong each is in the
        units of the series, how sure that is, its share of the variance; changes of level, and what does not
        fit.

        >>> print(ts.explain()); ts.explain()["trend"].share
        """
        from mercer.estimators.series.told import told

        check_is_fitted(self)
        return told(self)

    def explanation(self, rows: Any = None) -> Explanation:
        """`explain`, for pictures."""
        if rows is not None:
            raise ValueError("a series is explained as a whole; components(horizon) are its parts at stamps.")
        return self.explain()

    def plot(self, horizon: Any = None, level: float = 0.95, history: Any = "auto") -> Any:
        """The series with its forecast (default: two seasons, or a tenth of the series), by `viz.forecast`;
        returns the Axes. history: how much of the series to draw, "all", "5y" or the last so many steps.
        """
        from mercer import viz

        return viz.forecast(self, self._some() if horizon is None else horizon, level=level, history=history)

    def _told(self, budget: float | str, X: Any) -> Report:
        from mercer.estimators.reports.series import told

        keeps_its_data(X)
        return told(self, budget)

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

    def _some(self) -> int:
        longest = max(self.seasons_.values(), default=0.0) or float(np.ptp(self._t)) / 20
        return max(1, round(2 * longest / self.clock_.grid_step))

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


def _with_warnings(work: Callable[..., Fit], *args: Any, **settings: Any) -> tuple[Fit, list[Warning]]:
    """What comes of it, and what it would have warned of."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = work(*args, **settings)
    return found, [one.message for one in said if isinstance(one.message, Warning)]


def _still(t: np.ndarray, z: np.ndarray) -> bool:
    """Whether there is nothing to learn from."""
    return defaults.constant(z) or np.unique(t).size < 3


def _all(rows: np.ndarray | None) -> Any:
    """An index of some rows, or of all where none are named."""
    return slice(None) if rows is None else rows


def _evidences(found: Mapping[str, Fit]) -> dict[str, float]:
    return {trend: float(one.posterior.log_evidence) for trend, one in found.items()}
