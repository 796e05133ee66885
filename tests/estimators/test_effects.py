"""Regressors and events of a time series: recovered from generated data, equal to the dense posterior, known
or not known ahead, in files and updates.
"""

import numpy as np
import pandas as pd
import polars as pl
import pytest

import mercer as mc
from mercer.estimators.series.clock import Clock
from mercer.estimators.series.events import Event, read_events
from mercer.inputs import InputError

N, AHEAD = 120, 8
FAIR = ["2022-01-20", "2022-02-17", "2022-03-30", "2022-04-21"]
TRUE = {"price": -3.0, "fair": 2.0, "fair +1": 1.0, "may day": -2.0}
pytestmark = pytest.mark.filterwarnings("ignore:the fit stopped")  # few evaluations on purpose


def daily(seed=0, n=N + AHEAD):
    """A trend, a week, a price that wanders, fairs with the day after, and one first of May; noise 0.3."""
    rng, t = np.random.default_rng(seed), np.arange(n)
    days = pd.date_range("2022-01-10", periods=n, freq="D", name="day")
    price = 5 + np.cumsum(0.1 * rng.standard_normal(n))
    y = 20 + 0.01 * t + np.sin(2 * np.pi * t / 7) + TRUE["price"] * price + 0.3 * rng.standard_normal(n)
    fair = pd.to_datetime(FAIR)
    y += TRUE["fair"] * days.isin(fair) + TRUE["fair +1"] * days.isin(fair + pd.Timedelta(days=1))
    y += TRUE["may day"] * days.isin(pd.to_datetime(["2022-05-01"]))
    return pd.DataFrame({"sales": y, "price": price}, days)


def estimator(**settings):
    return mc.GPTimeSeries(
        **dict(seasonal=["week"], trend="linear", transform=None, harmonics=2, max_evaluations=40)
        | dict(integrate=False)
        | settings
    )


EVENTS = {"fair": Event(FAIR, after=1), "may day": (5, 1)}


def learned(frame, **settings):
    return estimator(**settings).fit(frame, value="sales", regressors=["price"], events=EVENTS)


@pytest.fixture(scope="module")
def frame():
    return daily()


@pytest.fixture(scope="module")
def ts(frame):
    return learned(frame[:N])


def dense(ts):
    return ts.model_.condition(*ts._training, None, "dense")


def test_a_regressor_and_holidays_are_recovered(ts):
    """Within three of their standard errors, and named in the summary and among the parts."""
    table = ts.effects_
    assert list(table.index) == list(TRUE)
    assert (np.abs(table["size"] - list(TRUE.values())) < 3 * table["std"]).all()
    assert table["std"].max() < 0.6
    assert ts.component_names_ == ("trend", "week", "irregular", "price", "fair", "may day")
    text = ts.summary()
    assert "price      -" in text and "for each unit" in text and "+1: +" in text


@pytest.mark.slow
def test_standard_errors_of_effects_cover():
    """Of 25 series with four effects each, 95 % intervals hold about that share of the true ones."""
    inside = []
    for seed in range(25):
        table = learned(daily(seed)[:N]).effects_
        inside += list(np.abs(table["size"] - list(TRUE.values())) < 1.96 * table["std"])
    assert 0.88 <= np.mean(inside) <= 0.99


def test_it_is_the_dense_posterior(ts, frame):
    """Forecasts with known regressors, the parts and their sum are those of dense algebra."""
    known = frame[["price"]][N:]
    t = N + np.arange(float(AHEAD))
    X = ts._design.inputs(ts.clock_, t, known.to_numpy())
    mean, std = dense(ts).mean_and_std(X)
    for regressors in (known, {"price": known["price"].to_numpy()}, frame):
        table = ts.forecast(AHEAD, regressors=regressors)
        np.testing.assert_allclose(table["mean"], mean, rtol=1e-8)
        np.testing.assert_allclose(table["std"], std, rtol=1e-7)
    parts = ts.components(known.index, regressors=known)
    np.testing.assert_allclose(parts[list(ts.component_names_)].sum(axis=1), table["mean"], rtol=1e-8)
    weights = dense(ts).state.basis_weights()
    np.testing.assert_allclose(ts.effects_["std"], np.sqrt(np.diag(weights.covariance)), rtol=1e-7)
    assert np.abs(ts.forecast(AHEAD, regressors=known)["mean"] - frame["sales"][N:]).max() < 4 * std.max()


def test_unknown_regressors_are_forecast_and_their_uncertainty_is_carried(ts, frame):
    """The mean is that at their forecast, the variance grows by (b^2 + s) v, and joint draws, in which they
    are drawn, too, have these moments.
    """
    table, own = ts.forecast(AHEAD), ts._series_of(0)
    price = own.forecast_columns(AHEAD)[1]
    known = ts.forecast(AHEAD, regressors={"price": price["mean"]})
    np.testing.assert_allclose(table["mean"], known["mean"], rtol=1e-9)
    b, s = ts.effects_.loc["price"]
    np.testing.assert_allclose(
        table["std"] ** 2, known["std"] ** 2 + (b**2 + s**2) * price["std"] ** 2, rtol=1e-9
    )
    half = pd.DataFrame({"price": [price["mean"][0], np.nan]}, table.index[:2])  # one known, the others not
    mixed = ts.forecast(AHEAD, regressors=half)
    assert mixed["std"].iloc[0] == pytest.approx(known["std"].iloc[0])
    np.testing.assert_allclose(mixed["std"][1:], table["std"][1:], rtol=1e-9)
    paths = ts.sample(AHEAD, 4000)
    assert paths.shape == (4000, AHEAD)
    np.testing.assert_allclose(paths.mean(0), table["mean"], atol=5 * table["std"].max() / 4000**0.5)
    np.testing.assert_allclose(paths.std(0), table["std"], rtol=0.07)
    exact = ts.sample(AHEAD, 4000, regressors={"price": price["mean"]})
    covariance = dense(ts).covariance(
        ts._design.inputs(ts.clock_, N + np.arange(8.0), price["mean"][:, None])
    )
    np.testing.assert_allclose(np.cov(exact.T), covariance, atol=0.08 * covariance.max())
    np.testing.assert_array_equal(ts.sample(3, 2), ts.sample(3, 2))


@pytest.mark.slow
def test_averaged_over_hyperparameters(frame):
    """Forecasts and draws agree, and know less than the best hyperparameters alone."""
    ts = learned(frame[:N], integrate=True)
    table, paths = ts.forecast(AHEAD), ts.sample(AHEAD, 4000)
    np.testing.assert_allclose(paths.mean(0), table["mean"], atol=5 * table["std"].max() / 4000**0.5)
    np.testing.assert_allclose(paths.std(0), table["std"], rtol=0.07)


def test_files_and_updates(ts, frame, tmp_path):
    """All comes back from a file, and new values join with their regressors."""
    ts.save(tmp_path / "ts.mercer")
    again = mc.load(tmp_path / "ts.mercer")
    known = frame[["price"]][N:]
    pd.testing.assert_frame_equal(
        again.forecast(AHEAD, regressors=known), ts.forecast(AHEAD, regressors=known), rtol=1e-10
    )
    pd.testing.assert_frame_equal(again.effects_, ts.effects_, rtol=1e-10)
    assert (again.events_, again.summary()) == (ts.events_, ts.summary())
    new = frame[N : N + 2].copy()
    new.iloc[1, 0] = np.nan  # the value is not there, the price is
    again.update(new)
    X = again._design.inputs(again.clock_, again._t[:-1], again._R[:-1])
    post = again.model_.condition(X, again._y[:-1], None, "dense")
    at = again._design.inputs(again.clock_, again._t[-1:], again._R[-1:])
    np.testing.assert_allclose(again.impute()["mean"], post.mean(at), rtol=1e-8)
    with pytest.raises(InputError, match="no column 'price'"):
        again.update(frame[["sales"]][N + 2 :])


def test_bad_regressors(ts, frame):
    missing = frame.copy()
    missing.iloc[3, 1] = np.nan
    for call, message in (
        (lambda: learned(missing), "'price' is missing at 2022-01-13, where the series has a value"),
        (lambda: learned(frame.assign(price=1.0)), "'price' does not vary"),
        (lambda: estimator().fit(frame, value="sales", regressors=["cost"]), "no column 'cost'"),
        (lambda: estimator().fit(frame["sales"], regressors={"a": [1.0]}), "'a' has 1 rows, but the series"),
        (lambda: ts.forecast(2, regressors={"price": [1.0]}), "'price' has 1 values for 2 times"),
        (lambda: ts.forecast(2, regressors={"cost": [1.0]}), "none of the regressors price"),
        (lambda: ts.forecast(2, regressors=[1.0, 2.0]), "must be a frame or a dict"),
    ):
        with pytest.raises(InputError, match=message):
            call()


# ------------------------------------------------------------------------------------------------- events


def test_days_of_events():
    """Every year, in a window, on local days; by table; stamps that stand for longer count days."""
    days = Clock.of(np.arange("2023-12-20", "2024-01-10", dtype="datetime64[D]").astype("datetime64[us]"))
    t = np.arange(21.0)
    for date in ((12, 25), "12-25", "2023-12-25", np.datetime64("2023-12-25"), pd.Timestamp("2023-12-25")):
        assert np.flatnonzero(Event(date).at(days, t)).tolist() == [5]
    assert np.flatnonzero(Event("01-01", before=1).at(days, t, -1)).tolist() == [11]
    assert Event("2023-12-25", lasting=True).at(days, t).sum() == 16
    assert Event((2, 29)).at(days, t + 60).sum() == 1 and Event((2, 29)).at(days, t + 425).sum() == 0
    hours = Clock.of(
        np.arange("2024-03-30T21", "2024-04-01T03", dtype="datetime64[h]").astype("datetime64[us]"),
        "Europe/Berlin",
    )
    easter = Event("2024-03-31").at(hours, np.arange(30.0))
    assert np.flatnonzero(easter).tolist() == list(range(2, 25))  # 23 hours: the clock goes forward
    months = Clock.of(np.arange("2024-01", "2025-01", dtype="datetime64[M]").astype("datetime64[us]"))
    fair = Event(["2024-03-31", "2024-05-06"], after=2)
    assert fair.offsets(months) == (0,) and fair.at(months, np.arange(5.0)).tolist() == [0, 0, 1, 2, 3]
    plain = Clock.of(np.arange(2.0, 12.0, 0.5))
    assert np.flatnonzero(Event([3.0, 7.5], after=1).at(plain, np.arange(0, 10.0, 0.5), 1)).tolist() == [
        3,
        12,
    ]


def test_tables_of_events():
    rows = {"name": ["a", "a", "b"], "date": ["2024-01-01", "2025-01-01", "12-24"], "after": [1, 1, None]}
    expected = {"a": Event(["2024-01-01", "2025-01-01"], after=1), "b": Event((12, 24))}
    for given in (rows, pd.DataFrame(rows), pl.DataFrame(rows), expected):
        assert read_events(given) == expected
    for given, message in (
        ({"name": ["a"], "date": ["soon"]}, "cannot tell the date of an event, 'soon'"),
        (pd.DataFrame({"name": ["a"], "day": [1]}), "name, date, before, after, lasting, scale, not day"),
        (pd.DataFrame({"name": ["a"]}), "needs the column 'date'"),
        (["2024-01-01"], "a mapping of names to dates"),
        ({**rows, "after": [1, 2, None]}, "'a' differ in more than their dates"),
    ):
        with pytest.raises(InputError, match=message):
            read_events(given)


def test_events_that_say_nothing(ts, frame):
    """An event that no value shows has no effect and is told; one called like a part is refused."""
    again = estimator(max_evaluations=1).fit(frame["sales"][:N], events={"moon": "1969-07-20", **EVENTS})
    assert any("'moon' falls on no value" in note for note in again.notes_)
    assert "moon" not in again.component_names_ and "fair" in again.component_names_
    with pytest.raises(InputError, match="two parts of the series would be called 'week'"):
        estimator(max_evaluations=1).fit(frame["sales"][:N], events={"week": FAIR})
    with pytest.raises(ValueError, match="learned without regressors"):
        again.forecast(2, regressors={"price": [1.0, 1.0]})
