"""Forecasts averaged over hyperparameters are those of the averaged posterior."""

import copy

import numpy as np
import pytest

import mercer as mc
from mercer.learning import integrate
from mercer.solvers import Markov
from tests.estimators.test_series import N, estimator, monthly

pytestmark = pytest.mark.filterwarnings("ignore:the fit stopped")  # few evaluations on purpose


@pytest.fixture(scope="module")
def series():
    series = monthly(N + 16)
    series.iloc[7] = np.nan
    return series


@pytest.fixture(scope="module")
def ts(series):
    return estimator(integrate=True).fit(series[:N])


def test_forecasts_are_those_of_the_averaged_posterior(ts, series):
    """Mean, std, interval and density; gaps, too. They are wider than those of the best alone."""
    post = integrate(ts.fit_, solver=Markov())
    t = N + np.arange(16.0)[:, None]
    ahead = ts.forecast(16, level=0.8)
    mean, std = post.mean_and_std(t)
    np.testing.assert_allclose(ahead["mean"], mean, atol=1e-7)
    np.testing.assert_allclose(ahead["std"], std, atol=1e-7)
    np.testing.assert_allclose(ahead[["lower", "upper"]], post.quantile(t, [0.1, 0.9]), atol=1e-6)
    np.testing.assert_allclose(ts.impute()["mean"], post.mean([[7.0]]), atol=1e-7)
    later = series[N:]
    np.testing.assert_allclose(ts.log_density(later), post.log_density(t, later.to_numpy()), atol=1e-6)
    assert np.mean(ahead["std"]) > np.mean(ts.posterior_.mean_and_std(t)[1])


def test_files_and_updates_keep_the_settings(ts, series, tmp_path):
    """New values change the states, not the hyperparameters nor their weights."""
    ts.save(tmp_path / "ts.mercer")
    again = mc.load(tmp_path / "ts.mercer")
    np.testing.assert_allclose(again.forecast(16), ts.forecast(16), rtol=1e-8)
    one, two = mc.load(tmp_path / "ts.mercer"), again
    new = series[N : N + 4]
    one.update(new)  # before its forecasts were asked for
    two.update(new[:1]).update(new[1:])
    np.testing.assert_allclose(one.forecast(8), two.forecast(8), rtol=1e-7)
    assert one._around == ts._around
    before, other = ts.forecast(8), copy.copy(ts)
    other.update(new)
    np.testing.assert_array_equal(ts.forecast(8), before)  # copies share nothing that changes
    np.testing.assert_allclose(other.forecast(8), one.forecast(8), rtol=1e-7)
    assert np.abs(one.forecast(4)["mean"].to_numpy() - ts.forecast(8)["mean"].to_numpy()[4:]).max() > 1e-4
