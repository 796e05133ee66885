"""GPTimeSeries: what it says equals the dense posterior of the same model; forecasts, parts, gaps, anomalies,
updates, files.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.signal import lfilter
from scipy.stats import norm

import mercer as mc
from mercer import viz
from mercer.estimators.series.repeats import suspected
from mercer.inputs import InputError

N = 48  # everywhere the same, so that little is compiled


def monthly(n=N, seed=0):
    """Trend, season and noise of a pandas series."""
    rng, t = np.random.default_rng(seed), np.arange(n)
    y = 0.1 * t + np.sin(2 * np.pi * t / 12) + 0.1 * rng.standard_normal(n)
    return pd.Series(y, pd.date_range("2015-01-01", periods=n, freq="MS", name="month"), name="sales")


def estimator(**settings):
    """Of the best hyperparameters alone, where nothing else is said."""
    usual = dict(trend="linear", transform=None, harmonics=2, max_evaluations=40, integrate=False)
    return mc.GPTimeSeries(**usual | settings)


pytestmark = pytest.mark.filterwarnings("ignore:the fit stopped")  # few evaluations on purpose


@pytest.fixture(scope="module")
def series():
    return monthly(N + 16)


@pytest.fixture(scope="module")
def ts(series):
    """Two values missing, one of them with its stamp, and one gone astray."""
    given = series[:N].copy()
    given.iloc[[7, 30]] = [np.nan, given.iloc[30] + 3.0]
    return estimator(anomaly_level=1e-4).fit(given.drop(given.index[20]))


@pytest.fixture
def again(ts, tmp_path):
    """A copy, by way of a file."""
    mc.save(ts, tmp_path / "ts.mercer")
    return mc.load(tmp_path / "ts.mercer")


def dense(ts):
    return ts.model_.condition(*ts._training, None, "dense")


def test_forecast_is_that_of_the_dense_posterior(ts, series):
    """Stamps go on by months; mean, std and interval are those of the same model by dense algebra."""
    table = ts.forecast(16, level=0.8)
    assert list(table.index) == list(series.index[N:]) and table.index.name == "month"
    mean, std = dense(ts).mean_and_std(N + np.arange(16.0)[:, None])
    np.testing.assert_allclose(table["mean"], mean, atol=1e-8)
    np.testing.assert_allclose(table["std"], std, atol=1e-8)
    np.testing.assert_allclose(table["upper"], mean + norm.ppf(0.9) * std, atol=1e-7)
    for same in (series.index[N:], "16mo", series.index[N + 15], "2020-04-30"):
        np.testing.assert_allclose(ts.forecast(same), ts.forecast(16), atol=1e-12)
    assert np.sqrt(np.mean((table["mean"] - series[N:]) ** 2)) < 0.3


def test_components_are_those_of_the_dense_posterior(ts):
    """Trend, year and irregular, each with its own uncertainty; the means sum to that of the series."""
    table = ts.components(3)
    assert (
        list(table) == ["trend", "trend_std", "year", "year_std", "irregular", "irregular_std"]
        and len(table) == N - 1 + 3
    )
    t = ts.clock_.read(table.index.to_numpy().astype("datetime64[us]"))
    post = dense(ts)
    for name, part in zip(ts.component_names_, post.components(t[:, None]), strict=True):
        np.testing.assert_allclose(
            table[name], part.mean + (post.y.mean() if name == "trend" else 0.0), atol=1e-8
        )
        np.testing.assert_allclose(table[f"{name}_std"], part.std, atol=1e-7)
    np.testing.assert_allclose(
        table[["trend", "year", "irregular"]].sum(axis=1), post.mean(t[:, None]), atol=1e-8
    )
    pd.testing.assert_frame_equal(ts.components(table.index[-3:]), table[-3:])


def test_missing_values_and_skipped_stamps_are_filled_in(ts, series):
    table = ts.impute()
    assert list(table.index) == list(series.index[[7, 20]])
    assert list(ts.components(gaps=True).index) == list(series.index[:N])
    assert (np.abs(table["mean"] - series.iloc[[7, 20]]) < 4 * table["std"]).all()
    mean, _ = dense(ts).mean_and_std([[7.0], [20.0]])
    np.testing.assert_allclose(table["mean"], mean, atol=1e-8)


def test_the_stray_value_is_the_anomaly(ts, series):
    """Tails are those of the leave-one-out prediction."""
    table = ts.anomalies_
    assert list(table.index) == [series.index[30]]
    loo = dense(ts).loo()
    z = np.abs(ts._training[1] - loo.mean) / np.sqrt(loo.variance)
    np.testing.assert_allclose(table["tail"], [2 * norm.sf(z.max())], rtol=1e-6)
    np.testing.assert_allclose(table["expected"], [loo.mean[z.argmax()]], atol=1e-8)


def test_update_is_conditioning_on_all(again, series):
    """Value by value, with a gap in between, forecasts and evidence are those of the same hyperparameters and
    all the data.
    """
    new = series[N : N + 4].copy()
    new.iloc[1] = np.nan
    again.forecast(1)
    same = again.update(new[:1]).update(new[1:])
    assert same is again and again._posterior is None
    ahead, evidence = again.forecast(8), again.log_marginal_likelihood_
    assert ahead.index[0] == series.index[N + 4] and again._posterior is None  # by the filter alone
    post = dense(again)
    assert len(post.y) == N - 2 + 3
    np.testing.assert_allclose(ahead["mean"], post.mean(N + 4 + np.arange(8.0)[:, None]), atol=1e-8)
    np.testing.assert_allclose(evidence, post.log_evidence, rtol=1e-9)
    assert list(again.impute().index) == list(series.index[[7, 20, N + 1]])
    again.update(series[20:21])  # the past filled in
    assert len(again.impute()) == 2
    np.testing.assert_allclose(
        again.forecast(8)["mean"], dense(again).mean(N + 4 + np.arange(8.0)[:, None]), atol=1e-8
    )


def test_files(ts, again):
    """All that was said of the series comes back."""
    for what in ("forecast", "components", "impute"):
        pd.testing.assert_frame_equal(getattr(again, what)(), getattr(ts, what)(), rtol=1e-10)
    assert again.summary() == ts.summary()
    assert (again.clock_, again.seasons_, again.trends_) == (ts.clock_, ts.seasons_, ts.trends_)


def test_score_is_the_mean_log_density(ts, series):
    later = series[N:]
    table = ts.forecast(16)
    expected = norm.logpdf(later, table["mean"], table["std"])
    np.testing.assert_allclose(ts.log_density(later), expected, rtol=1e-8)
    np.testing.assert_allclose(ts.score(later), expected.mean(), rtol=1e-8)


def test_summary_opens_with_what_was_found(ts):
    text = ts.summary()
    y, mean, inside = ts._left_out()
    assert y.shape == mean.shape == (46,) and text.startswith("each value predicted from the others: RMSE ")
    assert f"{inside.sum()} of 46 lie in their 95 % interval" in text.splitlines()[0]
    for words in (
        "46 values from 2015-01-01 to 2018-12-01, every month; 1 missing",
        "trend",
        "a line",
        "period 12 months",
        "noise",
    ):
        assert words in text


def test_pictures(ts, series):
    ax = viz.forecast(ts, 16, observed_later=series[N:])
    assert (
        ax.get_legend_handles_labels()[1] == ["95 % of y", "forecast", "data", "observed later"]
        and ax.get_ylabel() == "sales"
    )
    axes = viz.decomposition(ts, horizon=2)
    assert [a.get_title("left") for a in axes] == ["", "trend", "year", "irregular"]
    assert len(axes[1].lines[0].get_xdata()) == N + 2  # in the gap too
    recent = viz.forecast(ts, "6mo", history="2y")
    assert len(recent.lines[0].get_xdata()) == 6 and len(recent.lines[1].get_xdata()) == 25
    assert len(ts.plot().lines[0].get_xdata()) == 24
    with pytest.raises(ValueError, match="4 Axes are needed, but 2 were given"):
        viz.decomposition(ts, axes=plt.subplots(2)[1])
    with pytest.raises(ValueError, match="2 values for 16 stamps"):
        viz.forecast(ts, 16, observed_later=[1.0, 2.0])
    plt.close("all")


def test_logarithm(series):
    """A multiplicative series is modelled by its logarithm: quantiles are carried back, the mean is
    log-normal, the evidence is that of the values.
    """
    y = np.exp(series[:N])
    ts = estimator(transform="auto").fit(y)
    assert ts.transform_ == "log" and "logarithm" in ts.summary()
    plain = estimator().fit(series[:N])
    np.testing.assert_allclose(
        ts.log_marginal_likelihood_, plain.log_marginal_likelihood_ - series[:N].sum(), rtol=1e-9
    )
    mine, logs = ts.forecast(3), plain.forecast(3)
    np.testing.assert_allclose(mine["upper"], np.exp(logs["upper"]), rtol=1e-8)
    np.testing.assert_allclose(mine["mean"], np.exp(logs["mean"] + 0.5 * logs["std"] ** 2), rtol=1e-8)
    np.testing.assert_allclose(mine["std"], mine["mean"] * np.sqrt(np.expm1(logs["std"] ** 2)), rtol=1e-7)
    later = np.exp(series[N:])
    np.testing.assert_allclose(ts.log_density(later), plain.log_density(series[N:]) - series[N:], rtol=1e-7)
    with pytest.raises(InputError, match="new values must be positive"):
        ts.update(-later)
    with pytest.raises(InputError, match="needs positive values, but the least is"):
        estimator(transform="log").fit(series - 9.0)


def test_a_yearly_season_of_decimal_years():
    """Plain numbers that look like years with decimals get the season that dates would have, and say so."""
    y = monthly().to_numpy()
    stamps = np.round(2015.0 + np.arange(N) / 12, 3)
    ts = estimator().fit(stamps, y)
    assert ts.seasons_ == {"year": 1.0} and "look like years with decimals" in ts.notes_[0]
    np.testing.assert_allclose(ts.forecast(3).index, 2019.0 + np.arange(3) / 12, atol=2e-3)
    assert estimator(seasonal=None).fit(stamps, y).seasons_ == {}
    rng = np.random.default_rng(1)
    assert estimator().fit(stamps, rng.standard_normal(N)).seasons_ == {}


def test_a_hint_of_what_repeats():
    """Other plain numbers get no season, but a note where one would be much more probable."""
    ts = estimator().fit(monthly().to_numpy())
    assert (
        ts.seasons_ == {} and "seem to repeat every 12: " in ts.notes_[0] and "--seasonal 12" in ts.notes_[0]
    )
    assert estimator().fit(np.random.default_rng(0).standard_normal(N)).notes_ == ()


@pytest.mark.parametrize("pole", [0.0, 0.5, 0.9, 1.0])
def test_what_does_not_repeat_is_hardly_ever_suspected(pole):
    """Of noise, autoregressions and walks at most two of fifty, before the evidence is asked."""
    rng = np.random.default_rng(3)
    series = lfilter([1.0], [1.0, -pole], rng.standard_normal((50, 96)), axis=1)
    t = np.arange(96.0)
    assert sum(suspected(t, y, 1.0) is not None for y in series) <= 2
    wave = np.sin(2 * np.pi * t / 12)
    assert all(suspected(t, y + 4 * np.std(y) * wave, 1.0) == 12.0 for y in series[:5])


def test_a_season_is_looked_for_after_a_gap_of_ages():
    """Frequencies between one in the whole span and one in three steps would fill the memory."""
    months = np.arange(60.0)
    t = np.concatenate([months, 1e9 + months])
    y = np.sin(2 * np.pi * t / 12) + 0.1 * np.random.default_rng(0).normal(size=120)
    assert suspected(t, y, 1.0) == 12.0
    assert suspected(t[40:80], y[40:80], 1.0) is None  # too few after it


@pytest.mark.slow
def test_gaps_of_an_irregular_series():
    """At irregular distances forecasts and gaps go by a natural step, and a gap is filled with it."""
    rng = np.random.default_rng(0)
    days = np.cumsum(rng.exponential(5.0, N))
    days[24:] += 120.0
    stamps = pd.Timestamp("2020-01-01") + pd.to_timedelta(days, "D")
    ts = estimator(seasonal=None, irregular=False).fit(
        stamps, np.sin(days / 40) + 0.1 * rng.standard_normal(N)
    )
    assert "forecasts go on and gaps are filled every week" in ts.summary()
    table = ts.impute()
    inside = table[(table.index > stamps[23]) & (table.index < stamps[24])]
    assert (
        len(inside) >= 15
        and (inside.index.day_of_week == 0).all()
        and (np.diff(inside.index).astype("m8[D]") == 7).all()
    )
    ahead = ts.forecast("6w")
    assert len(ahead) == 6 and (ahead.index.day_of_week == 0).all() and ahead.index[0] > stamps[-1]
    axes = viz.decomposition(ts)
    assert np.isin(inside.index.to_numpy(), axes[1].lines[0].get_xdata()).all()
    plt.close("all")


def test_trend_by_evidence():
    """Noise around a level has no slope, and the table of evidences says so;
    names and kinds of polars are kept.
    """
    rng = np.random.default_rng(3)
    frame = pl.DataFrame(
        {"day": pd.date_range("2024-01-01", periods=N).to_numpy(), "y": 5.0 + rng.standard_normal(N)}
    )
    ts = estimator(trend="auto", seasonal=None, irregular=False).fit(frame)
    assert set(ts.trends_) == {"linear", "level"} and ts.trend_ == "level"
    ahead = ts.forecast(5)
    assert isinstance(ahead, pl.DataFrame) and ahead.columns == ["day", "mean", "std", "lower", "upper"]
    np.testing.assert_allclose(ahead["mean"], frame["y"].mean(), atol=0.5)
    before = ts.forecast(np.array(["2023-12-31"], "datetime64[D]"))  # a level has no beginning
    assert np.isfinite(before["mean"][0])


@pytest.mark.slow
def test_counts():
    """Poisson counts: intervals are whole numbers, parts are of the log rate,
    and a count out of all proportion is an anomaly.
    """
    rng, t = np.random.default_rng(5), np.arange(N, dtype=float)
    y = rng.poisson(np.exp(1.0 + 0.5 * np.sin(t / 8)))
    y[10] = 25
    ts = estimator(likelihood="poisson", trend="level", irregular=False).fit(t, y)
    assert list(ts.anomalies_.index) == [10.0] and ts.logarithmic_ and "logarithm of the rate" in ts.summary()
    ahead = ts.forecast(4)
    assert (ahead["lower"] == ahead["lower"].round()).all() and (ahead["lower"] >= 0).all()
    post = ts.model_.condition(*ts._training, None, "dense")
    np.testing.assert_allclose(ahead["mean"], post.mean(N + np.arange(4.0)[:, None]), rtol=1e-6)
    ts.update([48.0], [3])
    assert len(ts.posterior_.y) == N + 1
    with pytest.raises(InputError, match="counts"):
        ts.update([49.0], [0.5])


@pytest.mark.slow
def test_heavy_tails():
    """With Student-t noise a stray value hardly moves the forecast."""
    clean = monthly().to_numpy() - 0.1 * np.arange(N)
    stray = clean.copy()
    stray[-2] += 30.0
    settings = dict(likelihood="student-t", trend="level", irregular=False)
    with_, without = (estimator(**settings).fit(np.arange(N), y) for y in (stray, clean))
    np.testing.assert_allclose(with_.forecast(2)["mean"], without.forecast(2)["mean"], atol=0.5)
    assert list(with_.anomalies_.index) == [N - 2.0]


@pytest.mark.parametrize("y", [[3.0], [3.0, 4.0], [3.0, 3.0, 3.0, 3.0]])
def test_too_little_to_learn_from(y):
    """One value, two values, or equal ones: predictions are of their size,
    and a note says that nothing was learned.
    """
    ts = estimator(trend="auto").fit(pd.date_range("2024-01-01", periods=len(y)), y)
    ahead = ts.forecast(2)
    assert np.isfinite(ahead.to_numpy()).all() and (np.abs(ahead["mean"] - 3.5) < 1.5).all()
    assert "nothing was learned" in ts.notes_[-1] and "note:" in ts.summary()


def test_repeated_stamps_are_repeated_measurements():
    t = np.repeat(np.arange(N / 2), 2)
    y = np.random.default_rng(0).standard_normal(N) + t / 5
    ts = estimator(trend="level", irregular=False).fit(t, y)
    np.testing.assert_allclose(ts.forecast(2)["mean"], dense(ts).mean([[24.0], [25.0]]), atol=1e-8)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (dict(trend="cubic"), "trend must be"),
        (dict(transform="sqrt"), "transform must be"),
        (dict(anomaly_level=0.0), "anomaly_level must lie"),
        (dict(harmonics=0), "harmonics must be"),
        (dict(likelihood="probit"), "a series has one number for each time"),
        (dict(likelihood="poisson", transform="log"), "goes with Gaussian noise"),
        (dict(seasonal=["moon"]), "cannot tell the period"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        estimator(**settings).fit(np.arange(9), np.arange(9) % 2)


def test_bad_questions(ts, series):
    with pytest.raises(InputError, match="nothing to learn from"):
        estimator().fit([0.0, 1.0], [np.nan, np.nan])
    with pytest.raises(ValueError, match="horizon must be a number of steps of at least 1"):
        ts.forecast(0)
    for horizon, message in (
        ("3m", "months or minutes"),
        ("2 moons", "cannot tell how long"),
        ("0d", "cannot tell how long"),
        ("1.3mo", "no whole number of months"),
        ("2020-13", "cannot tell how far"),
        (
            "2018-06",
            "nothing to forecast up to 2018-06: forecasts are made every month, and the next is for 2019",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            ts.forecast(horizon)
    with pytest.raises(ValueError, match="level must lie strictly between"):
        ts.forecast(1, level=90)
    with pytest.raises(InputError, match="a linear trend starts at the first stamp"):
        ts.forecast(series.index[:1] - pd.Timedelta(days=40))
    with pytest.raises(InputError, match="has no time zone: give stamps alike"):
        ts.forecast(series.index.tz_localize("UTC"))
    with pytest.raises(ValueError, match="dates, but numbers were given"):
        ts.update([1.0], [2.0])


def test_periodogram_is_that_of_scipy():
    from scipy.signal import lombscargle

    from mercer.estimators.series.repeats import periodogram

    rng = np.random.default_rng(3)
    t, y = np.sort(rng.uniform(0, 40, 150)), rng.standard_normal(150)
    frequency = np.linspace(0.05, 1.2, 70)
    expected = lombscargle(t, y, 2 * np.pi * frequency)
    np.testing.assert_allclose(periodogram(t, y, frequency), expected, rtol=1e-9)
