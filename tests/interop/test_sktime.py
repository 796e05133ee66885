"""`GPTimeSeries` as a forecaster of sktime's. It is not in the `test` extra: sktime 1.2 takes no pandas from
3.1 on, and would hold it back for all other tests. In an environment of its own:

    pip install ".[sktime,test]" && pytest -n 0 -m "slow or not slow" tests/interop/test_sktime.py
"""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest

import mercer as mc

try:
    from mercer.interop.sktime import GPForecaster
except ImportError:
    pytest.skip(
        "sktime is not installed: it holds pandas below 3.1, so it is in an extra of its own, not in `test`: "
        'pip install ".[sktime,test]" in another environment',
        allow_module_level=True,
    )
pytestmark = pytest.mark.filterwarnings("ignore")
SMALL = {"trend": "level", "irregular": False, "max_evaluations": 5, "integrate": False}


@pytest.fixture(scope="module")
def series():
    index = pd.period_range("2020-01", periods=30, freq="M")
    return pd.Series(5 + np.sin(np.arange(30) / 3.0), index=index, name="sales")


def test_forecasts_are_those_of_the_series(series):
    theirs = GPForecaster(**SMALL).fit(series, fh=[1, 2, 3])
    ours = mc.GPTimeSeries(**SMALL, progress=False).fit(
        series.index.to_timestamp().to_numpy(), series.to_numpy()
    )
    _, columns = ours.forecast_columns(3, 0.9)
    np.testing.assert_allclose(theirs.predict().to_numpy(), columns["mean"], rtol=1e-9)
    interval = theirs.predict_interval(coverage=0.9)
    np.testing.assert_allclose(interval["sales", 0.9, "lower"].to_numpy(), columns["lower"], rtol=1e-9)
    np.testing.assert_allclose(theirs.predict_var()["sales"].to_numpy(), columns["std"] ** 2, rtol=1e-9)


def test_new_values(series):
    forecaster = GPForecaster(**SMALL).fit(series[:28], fh=[1])
    forecaster.update(series[28:], update_params=False)
    assert forecaster.predict().index[0] == pd.Period("2022-07", "M")


def test_it_pickles(series):
    forecaster = GPForecaster(**SMALL).fit(series, fh=[1, 2])
    forecaster.predict()
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(forecaster)).predict(), forecaster.predict())


@pytest.mark.slow
def test_what_sktime_asks_of_a_forecaster():
    from sktime.utils import check_estimator

    found = check_estimator(GPForecaster, raise_exceptions=False, verbose=False)
    assert {name: said for name, said in found.items() if said != "PASSED"} == {} and len(found) > 50
