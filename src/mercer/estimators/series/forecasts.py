"""What a series that was learned says of times: forecasts, gaps, parts, effects, anomalies, changes of level,
and how good earlier forecasts would have been.
"""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer.distributed import Parallel
from mercer.estimators.regression.predictions import seed_of
from mercer.estimators.series import structure
from mercer.estimators.series.ahead import read, since
from mercer.estimators.series.changes import MOST
from mercer.estimators.series.effects import effects, part_moments
from mercer.estimators.series.fitted import AbstractFittedSeries
from mercer.estimators.series.predictive import Predictive
from mercer.estimators.series.recorded import Kind, table
from mercer.progress import Progress
from mercer.solvers import Markov
from mercer.solvers.markov_parts import parts

if TYPE_CHECKING:
    from mercer.estimators.series.backtest import Backtest


class AbstractForecasts(AbstractFittedSeries):
    """A series that is asked about other times."""

    anomaly_level: float
    random_state: Any
    progress: Progress

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
        y = self._likelihood.sample(rng, f)
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
        parallel: Parallel = None,
    ) -> Backtest:
        """How good forecasts of this series would have been: made at `folds` earlier times, and judged by
        what came, beside the value one season before and exponential smoothing.

        horizon: how many steps each forecast looks ahead, or a length of time ("1y")
        every: steps from one origin to the next (default: the horizon); the last ends with the series
        refit: learn everything again at each origin; False keeps what the first has learned, which is faster
        level: of the intervals
        parallel: with `refit`, who learns and forecasts at the origins: None (this process), a number of
            processes, or a `dask.distributed.Client`

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
        from mercer.estimators.series.backtest import backtest

        return backtest(self, **counts, refit=refit, level=level, progress=self.progress, parallel=parallel)
