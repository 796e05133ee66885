"""Backtests: forecasts from earlier origins are those of a series cut there; the plain rivals are what they
say.
"""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.special import ndtri
from typer.testing import CliRunner

import mercer as mc
from mercer import metrics
from mercer.app.cli import app
from mercer.app.tables import read_table, write_table
from mercer.estimators.series import rivals
from mercer.inputs import InputError
from tests.estimators.test_series import N, estimator, monthly

pytestmark = pytest.mark.filterwarnings("ignore:the fit stopped")  # few evaluations on purpose
H, FOLDS = 8, 2


@pytest.fixture(scope="module")
def series():
    series = monthly(N + H * FOLDS)
    series.iloc[N + 3] = np.nan
    return series


@pytest.fixture(scope="module")
def ts(series):
    return estimator(max_evaluations=10).fit(series)


@pytest.fixture(scope="module")
def kept(ts):
    return ts.backtest(H, FOLDS, refit=False, level=0.8)


def test_forecasts_are_those_of_the_series_cut_at_the_origin(ts, kept, series):
    """Of the first fold, learned anew; of the second the same hyperparameters and the values since."""
    cut = estimator(max_evaluations=10).fit(series[:N])
    assert list(kept.origins) == list(series.index[[N - 1, N + H - 1]])
    for fold in range(FOLDS):
        ahead = cut.forecast(H, level=0.8)
        assert list(kept.stamps[fold]) == list(ahead.index)
        for name in ("mean", "lower", "upper"):
            np.testing.assert_allclose(
                getattr(kept.forecasts["GPTimeSeries"], name)[fold], ahead[name], rtol=1e-9
            )
        cut.update(series[N : N + H])
    np.testing.assert_array_equal(kept.values.ravel(), series[N:])


@pytest.mark.slow
def test_learned_anew_at_every_origin(ts, series):
    found = ts.backtest("8mo", FOLDS, level=0.8)
    cut = estimator(max_evaluations=10).fit(series[: N + H])
    np.testing.assert_allclose(found.forecasts["GPTimeSeries"].mean[1], cut.forecast(H)["mean"], rtol=1e-9)
    assert found.refit and "at every origin" in str(found)


def test_scores_and_tables(kept, series):
    """They are the metrics of the values that are there; means of errors over that of the season before."""
    told = ~np.isnan(kept.values)
    naive = kept.forecasts["seasonal naive"]
    filled = series.interpolate()
    np.testing.assert_allclose(naive.mean[0], filled[N - 12 : N - 12 + H])
    steps = filled[:N].to_numpy()
    spread = np.sqrt(np.mean((steps[12:] - steps[:-12]) ** 2))
    np.testing.assert_allclose(naive.upper[0] - naive.mean[0], ndtri(0.9) * spread)
    frame = kept.to_frame()
    assert list(frame.index) == ["GPTimeSeries", "seasonal naive", "exponential smoothing"]
    y, mean = kept.values[told], naive.mean[told]
    assert frame["RMSE"]["seasonal naive"] == pytest.approx(metrics.rmse(y, mean))
    parts = [
        metrics.mase(kept.values[i][told[i]], naive.median[i][told[i]], filled[: N + i * H], 12)
        for i in range(FOLDS)
    ]
    weights = told.sum(1) / told.sum()
    assert frame["MASE"]["seasonal naive"] == pytest.approx(np.sum(weights * parts))
    assert frame["coverage"]["seasonal naive"] == np.mean((naive.lower[told] <= y) & (y <= naive.upper[told]))
    steps_ahead = kept.by_step()
    assert steps_ahead.shape == (H, 3)
    for words in (
        "2 forecasts of 8 steps, made at 2018-12-01 to 2019-08-01",
        "in 80% intervals",
        "season of 12",
    ):
        assert words in str(kept)
    assert (frame["MASE"] < 1.5).all()


def test_what_cannot_be_judged(ts):
    for arguments, message in (
        ((30, 2), "hold out the last 60 of 64 values and leave 4 to learn from"),
        ((0, 2), "horizon must be a whole number"),
        ((4, 2.5), "folds must be a whole number"),
    ):
        with pytest.raises((InputError, ValueError), match=message):
            ts.backtest(*arguments)


def smoothed_by_recursion(s, y, start, horizon):
    """Level, slope and season, step by step, as in the book."""
    level, slope, season = start[0], start[1] if s.phi else 0.0, list(start[1 + bool(s.phi) :]) or [0.0]
    errors, m = [], s.season
    for t, value in enumerate(y):
        error = value - (level + s.phi * slope + season[t % m])
        level, slope = level + s.phi * slope + s.alpha * error, s.phi * slope + s.beta * error
        season[t % m] += s.gamma * error
        errors.append(error)
    growth = np.cumsum(s.phi ** np.arange(1.0, horizon + 1)) if s.phi else np.zeros(horizon)
    return np.array(errors), level + growth * slope + np.array(season)[(len(y) + np.arange(horizon)) % m]


@pytest.mark.parametrize(
    "smoother",
    [
        rivals.Smoother(0.4),
        rivals.Smoother(0.4, 0.1, 0.2, 0.9, 6),
        rivals.Smoother(0.3, 0.05, 0.0, 1.0),
        rivals.Smoother(0.5, 0.0, 0.1, 0.0, 4),
    ],
)
def test_smoothing_is_the_recursion_of_states(smoother):
    """The filter's errors and forecasts are those of level, slope and season; the spread is that of draws."""
    y = np.cumsum(np.random.default_rng(1).standard_normal(40)) + np.tile([1.0, 0, 0, 2], 10)
    errors, start = smoother.errors(y)
    again, ahead = smoothed_by_recursion(smoother, y, start, 9)
    mean, std = smoother.forecast(y, 9)
    np.testing.assert_allclose(errors, again, atol=1e-8)
    np.testing.assert_allclose(mean, ahead, atol=1e-7)
    one = np.sqrt(np.sum(errors**2) / (40 - smoother.parameters + 1))
    impulse = smoothed_by_recursion(smoother, np.eye(9)[0], np.zeros_like(start), 0)  # errors of a lone value
    assert std[0] == pytest.approx(one) and (np.diff(std) >= 0).all() and impulse[0][0] == 1.0
    for other in (start + 0.1, start * 1.1):
        worse, _ = smoothed_by_recursion(smoother, y, other, 1)
        assert np.sum(worse**2) >= np.sum(errors**2)


def test_smoothing_finds_trend_and_season():
    t = np.arange(60.0)
    y = 3 + 0.5 * t + np.tile([2.0, -1, 0, -1], 15) + 0.1 * np.random.default_rng(0).standard_normal(60)
    found = rivals.smoothed(y, 4)
    mean, std = found.forecast(y, 8)
    assert found.season == 4 and found.phi == 1.0
    truth = 3 + 0.5 * (60 + np.arange(8)) + np.tile([2.0, -1, 0, -1], 2)
    np.testing.assert_allclose(mean, truth, atol=0.4)
    assert 0.05 < std[0] < 0.2
    assert rivals.smoothed(np.random.default_rng(0).standard_normal(50), 4).season == 1


def test_on_the_command_line(series, tmp_path):
    data, out = tmp_path / "sales.csv", tmp_path / "judged.csv"
    months = [str(stamp.date()) for stamp in series.index]
    write_table(data, {"month": months, "sales": series.fillna(1.0).to_numpy()})
    options = ["--time", "month", "--target", "sales", "--seasonal", "none", "--out", str(out)]
    said = ["--horizon", "4", "--folds", "1", "--no-refit"]
    result = CliRunner().invoke(app, ["backtest", str(data), *options, *said], env={"COLUMNS": "120"})
    assert result.exit_code == 0, result.output
    assert "1 forecast of 4 steps" in result.output and "last value" in result.output
    table = read_table(out)
    assert list(table["stamp"]) == months[-4:] and "GPTimeSeries upper" in table
    refused = CliRunner().invoke(app, ["backtest", str(data), *options, "--horizon", "60"])
    assert refused.exit_code == 1 and "ask for fewer folds" in refused.output


@pytest.mark.slow
def test_polars_and_irregular_times(series):
    """Stamps at any distances are judged where they stand; tables are polars where the series was."""
    rng = np.random.default_rng(0)
    t = np.sort(rng.uniform(0, 60, N))
    frame = pl.DataFrame({"t": t, "v": np.sin(t) + 0.1 * rng.standard_normal(N)})
    ts = estimator(seasonal=None, trend="level", max_evaluations=10).fit(frame, time="t", value="v")
    found = ts.backtest(5, 2, refit=False)
    np.testing.assert_allclose(found.stamps.ravel(), t[-10:])
    assert isinstance(found.to_frame(), pl.DataFrame) and found.season == 1
    assert isinstance(ts.backtest(5, 1, refit=False).by_step(), pl.DataFrame)


@pytest.mark.slow
@pytest.mark.parametrize(("trend", "damped"), [(None, False), ("add", False), ("add", True)])
def test_smoothing_is_that_of_statsmodels(trend, damped):
    """At its parameters and states: the same errors, forecasts and (exact) spread; learned, no worse."""
    ets = pytest.importorskip("statsmodels.tsa.exponential_smoothing.ets")
    y = np.log(mc.datasets.load("airline").y)
    series = pd.Series(y, pd.period_range("1949-01", periods=y.size, freq="M"))
    model = ets.ETSModel(series, trend=trend, damped_trend=damped, seasonal="add", seasonal_periods=12)
    fit = model.fit(disp=False)
    values = dict(zip(fit.model.param_names, fit.params, strict=True))
    phi = 0.0 if trend is None else values.get("damping_trend", 1.0)
    gamma, beta = values["smoothing_seasonal"], values.get("smoothing_trend", 0.0)
    mine = rivals.Smoother(values["smoothing_level"], beta, gamma, phi, 12)
    slope = [] if trend is None else [values["initial_trend"]]
    season = [values[f"initial_seasonal.{j}"] for j in reversed(range(12))]
    start = np.array([values["initial_level"], *slope, *season])
    errors, ahead = smoothed_by_recursion(mine, y, start, 12)
    np.testing.assert_allclose(errors, fit.resid, atol=1e-8)
    np.testing.assert_allclose(ahead, fit.forecast(12), atol=1e-8)
    best, _ = rivals._learned(
        y, 12, {(None, False): "none", ("add", False): "linear"}.get((trend, damped), "damped")
    ).errors(y)
    assert np.sum(best**2) <= 1.01 * fit.sse
    predicted = fit.get_prediction(start=y.size, end=y.size + 11)
    _, std = mine.forecast(y, 12)
    np.testing.assert_allclose(std / std[0], np.sqrt(predicted.forecast_variance / fit.scale), rtol=1e-6)
