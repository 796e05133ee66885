"""Several series with shared hyperparameters: one fit for all of them, forecasts for each."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from narwhals.stable.v2.dependencies import is_into_dataframe, is_pandas_dataframe
from sklearn.utils.validation import check_is_fitted

from mercer.estimators import defaults
from mercer.estimators.series import structure
from mercer.estimators.series.clock import Clock
from mercer.estimators.series.design import Design
from mercer.estimators.series.forecaster import GPTimeSeries
from mercer.estimators.series.recorded import Recorded, read_series
from mercer.estimators.series.words import part_rows
from mercer.estimators.shown import AbstractShown
from mercer.inputs import InputError
from mercer.learning import Fit, fit
from mercer.persist import AbstractSavable
from mercer.progress import Progress
from mercer.report import AbstractReported, Report
from mercer.report.reported import keeps_its_data
from mercer.solvers import Markov
from mercer.tables import text_table


class GPPanel(AbstractShown, AbstractSavable, AbstractReported):
    """Several time series of one kind, with Gaussian noise: hyperparameters (how fast trends bend, how much
    seasons change, how large noise is) are learned from all of them together, by the sum of their log
    evidences (GPML 5.4.3); each has a trend and seasons of its own. Short series gain most.

    seasonal, trend, irregular, transform, harmonics, max_evaluations, random_state, progress: as in
        `GPTimeSeries`, one choice for all series; "auto" takes the logarithm where it suits most of them
    scaled: bool. Share hyperparameters relative to the standard deviation of each series; False shares them
        in the units of the series

    names_: of the series, in the order of the table
    series_: a fitted `GPTimeSeries` for each name, also `panel["north"]`: components, updates, draws
    trend_, transform_, seasons_: as in `GPTimeSeries`
    fit_: the fit of all of them, in units of their standard deviations where `scaled`
    log_marginal_likelihood_: the sum over the series

    >>> panel = GPPanel().fit(frame, time="month", value="sales", by="shop")   # a long table
    >>> panel = GPPanel().fit(wide)                                            # a column for each series
    >>> panel.forecast(12), panel["north"].components()
    """

    series_: dict[str, GPTimeSeries]

    def __init__(
        self,
        seasonal: str | Sequence[Any] | Mapping[str, float] | None = "auto",
        trend: str = "auto",
        irregular: bool = True,
        transform: str | None = "auto",
        harmonics: int | None = None,
        scaled: bool = True,
        max_evaluations: int = 200,
        random_state: int | np.random.RandomState | None = 0,
        progress: Progress = None,
    ):
        self.seasonal = seasonal
        self.trend = trend
        self.irregular = irregular
        self.transform = transform
        self.harmonics = harmonics
        self.scaled = scaled
        self.max_evaluations = max_evaluations
        self.random_state = random_state
        self.progress = progress

    def fit(
        self, frame: Any, time: str | None = None, value: str | None = None, by: str | None = None
    ) -> GPPanel:
        """Learn from a long table, whose column `by` says which series a row belongs to; or, without it, from
        a wide one with a column for each series beside the times (`time`, or an index of dates).
        """
        seen = dict(_long(frame, time, value, by) if by is not None else _wide(frame, time))
        members = {name: self._member() for name in seen}
        for one in members.values():
            one._check_settings()
        clocks = _clocks(seen)
        for name, one in members.items():
            one._begin(seen[name], clocks[name])
        clock, span = _longest(clocks, seen)
        self.seasons_ = structure.seasons(self.seasonal, clock, span)
        values = {name: one._y[~np.isnan(one._y)] for name, one in members.items()}
        self.transform_ = self._transform(values, clock)
        for one in members.values():
            one.transform_ = self.transform_
        z = {name: members[name]._forward(y) for name, y in values.items()}
        centre = {name: float(np.mean(column)) for name, column in z.items()}
        scale = {name: defaults.target_scale(column) if self.scaled else 1.0 for name, column in z.items()}
        X = [one._t[~np.isnan(one._y)][:, None] for one in members.values()]
        standard = [(z[name] - centre[name]) / scale[name] for name in members]
        found, names = self._learn_trends(X, standard, clock, span)
        lost = sum(column.size * np.log(scale[name]) for name, column in z.items())
        lost += sum(float(np.sum(column)) for column in z.values()) if self.transform_ == "log" else 0.0
        self.trends_ = {trend: _evidence(one) - lost for trend, one in found.items()}
        self.trend_ = structure.preferred(self.trends_)
        self.fit_, self.names_ = found[self.trend_], tuple(members)
        for i, (name, one) in enumerate(members.items()):
            model = structure.rescaled(self.fit_.model, scale[name], centre[name])
            posterior = model.condition(X[i], z[name], None, Markov())
            one.seasons_, one.component_names_, one._design = self.seasons_, names, Design()
            one._take([dataclasses.replace(self.fit_, model=model, posterior=posterior)])
            one.trend_, one.trends_ = self.trend_, {self.trend_: 0.0}
            one.trends_ = {self.trend_: one.log_marginal_likelihood_}
        self.series_ = members
        return self

    def _member(self) -> GPTimeSeries:
        settings = {k: v for k, v in self.get_params(deep=False).items() if k != "scaled"}
        return GPTimeSeries(**settings, integrate=False)

    def _transform(self, values: Mapping[str, np.ndarray], clock: Clock) -> str | None:
        given = [
            structure.transform(self.transform, "gaussian", y, self.seasons_, clock) for y in values.values()
        ]
        positive = all((y > 0).all() for y in values.values())
        return "log" if positive and given.count("log") > len(given) / 2 else None

    def _learn_trends(
        self, X: list[np.ndarray], z: list[np.ndarray], clock: Clock, span: float
    ) -> tuple[dict[str, Fit], tuple[str, ...]]:
        """What is learned from all series with each of the trends, and the names of the parts."""
        noise, latent = structure.read_likelihood("gaussian", np.concatenate(z))
        found: dict[str, Fit] = {}
        names: tuple[str, ...] = ()
        for trend in structure.TRENDS if self.trend == "auto" else (self.trend,):
            model, names = structure.default_model(
                trend, self.seasons_, bool(self.irregular), self.harmonics, noise, clock, span, latent
            )
            found[trend] = fit(
                model, X, z, solver=Markov(), jacobian=True, max_evaluations=self.max_evaluations,
                progress=self.progress, seed=self._member()._seed(),
            )  # fmt: skip
        return found, names

    # -- what was learned ------------------------------------------------------------------------------------

    def __getitem__(self, name: str) -> GPTimeSeries:
        check_is_fitted(self, "series_")
        if name not in self.series_:
            raise KeyError(f"there is no series {name!r}; there are {', '.join(self.names_)}.")
        return self.series_[name]

    def forecast(self, horizon: Any = 1, level: float = 0.95) -> dict[str, Any]:
        """By name, the table that `GPTimeSeries.forecast` gives: mean, std, lower, upper of what comes next,
        after the end of each series.
        """
        check_is_fitted(self, "series_")
        return {name: one.forecast(horizon, level) for name, one in self.series_.items()}

    def score(
        self, frame: Any, time: str | None = None, value: str | None = None, by: str | None = None
    ) -> float:
        """The mean log predictive density of the values of another table, given as in `fit`, in nats: higher
        is better.
        """
        seen = _long(frame, time, value, by) if by is not None else _wide(frame, time)
        each = [self[name].log_density(part.stamps, part.values) for name, part in seen]
        return float(np.nanmean(np.concatenate(each)))

    @property
    def log_marginal_likelihood_(self) -> float:
        """Log density of all values, without priors."""
        check_is_fitted(self, "series_")
        return sum(one.log_marginal_likelihood_ for one in self.series_.values())

    def summary(self) -> str:
        """What was learned, as text; sizes are those of the first series."""
        check_is_fitted(self, "series_")
        counts = [int((~np.isnan(one._y)).sum()) for one in self.series_.values()]
        first = self.series_[self.names_[0]]
        status = self.fit_.status
        shared = "in standard deviations of each" if self.scaled else "in their units"
        return "\n".join(
            [
                f"{len(counts)} series of {min(counts)} to {max(counts)} values; hyperparameters are shared, "
                f"{shared}",
                "",
                *text_table([f"part of {self.names_[0]}", "what was learned"], part_rows(first)),
                "",
                f"log evidence {self.log_marginal_likelihood_:.3f} of all; optimiser: "
                + ("converged" if status.converged else f"not converged ({status.message})")
                + f", {status.evaluations} evaluations",
            ]
        )

    def _told(self, budget: float | str, X: Any) -> Report:
        from mercer.estimators.reports.others import panel_told

        keeps_its_data(X)
        return panel_told(self)

    # -- what saving asks ------------------------------------------------------------------------------------

    def _learned(self) -> dict[str, Any]:
        check_is_fitted(self, "series_")
        return {
            "trends": self.trends_,
            "members": {name: one._learned() for name, one in self.series_.items()},
        }

    def _relearn(self, learned: dict[str, Any]) -> None:
        members = {}
        for name, said in learned["members"].items():
            members[name] = self._member()
            members[name]._relearn(said)
        if not members:
            raise ValueError("there is no series in it.")
        first = next(iter(members.values()))
        self.series_, self.names_, self.fit_ = members, tuple(members), first.fit_
        self.trends_, self.trend_ = learned["trends"], structure.preferred(learned["trends"])
        self.transform_, self.seasons_ = first.transform_, first.seasons_


def _evidence(found: Fit) -> float:
    return sum(float(post.log_evidence) for post in found.posterior)


def _long(frame: Any, time: str | None, value: str | None, by: str) -> Iterator[tuple[str, Recorded]]:
    """Each series of a long table."""
    table = None if isinstance(frame, dict) else nw.from_native(frame, eager_only=True)
    names = list(frame) if table is None else table.columns
    if by not in names:
        raise InputError(f"there is no column {by!r}; there are {', '.join(names)}.")
    labels = np.asarray(frame[by] if table is None else table[by].to_numpy())
    for label in dict.fromkeys(labels.tolist()):
        rows = labels == label
        if table is None:
            part: Any = {name: np.asarray(column)[rows] for name, column in frame.items() if name != by}
        else:
            part = table.filter(rows.tolist()).drop(by).to_native()
        yield str(label), read_series(part, None, time, value)


def _wide(frame: Any, time: str | None) -> Iterator[tuple[str, Recorded]]:
    """Each column of a wide table, beside the times."""
    if not (isinstance(frame, dict) or is_into_dataframe(frame)):
        raise InputError(f"a panel is a frame or a dict of columns, got {type(frame).__name__}.")
    names = list(frame) if isinstance(frame, dict) else nw.from_native(frame, eager_only=True).columns
    dated = is_pandas_dataframe(frame) and type(frame.index).__name__ in ("DatetimeIndex", "PeriodIndex")
    if time is None and not dated:
        raise InputError(f"which column holds the times? Give time=, one of {', '.join(names)}.")
    for name in names:
        if name != time:
            seen = read_series(frame, None, time, name)
            yield str(name), dataclasses.replace(seen, notes=())


def _clocks(seen: Mapping[str, Recorded]) -> dict[str, Clock]:
    """A clock for each, all counting in one unit."""
    for name, one in seen.items():
        if np.isnan(one.values).all():
            raise InputError(f"every value of the series {name!r} is missing: leave it out.")
    clocks = {name: Clock.of(one.stamps, one.zone) for name, one in seen.items()}
    units = {clock.unit for clock in clocks.values()}
    if len(units) > 1:
        told = "; ".join(f"{name} {clock.words()}" for name, clock in clocks.items())
        raise InputError(f"the series of a panel are counted in one unit of time, but these are not: {told}.")
    return clocks


def _longest(clocks: Mapping[str, Clock], seen: Mapping[str, Recorded]) -> tuple[Clock, float]:
    """The clock of the series that lasts longest, and how long it does."""
    spans = {name: float(np.ptp(clocks[name].read(one.stamps))) for name, one in seen.items()}
    name = max(spans, key=lambda name: spans[name])
    return clocks[name], spans[name]


__all__ = ["GPPanel"]
