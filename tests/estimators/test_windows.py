"""Long series: hyperparameters are learned from windows spread over them, all else from all values."""

import numpy as np
import pytest

import mercer as mc
from mercer.estimators.series import windows
from tests.estimators.test_series import N, dense, estimator, monthly

pytestmark = pytest.mark.filterwarnings("ignore:the fit stopped")  # few evaluations on purpose


def test_windows_are_spread_over_the_series():
    assert windows.windows(windows.MOST) is None
    rows = windows.windows(100_000)
    assert rows.size == windows.MOST and rows[0] == 0 and rows[-1] == 99_999
    steps = np.diff(rows)
    assert (steps == 1).sum() == windows.MOST - windows.WINDOWS  # neighbours
    jumps = steps[steps > 1]
    assert jumps.size == windows.WINDOWS - 1 and np.ptp(jumps) <= 1  # evenly


def test_only_learning_takes_a_part(monkeypatch, tmp_path):
    """Forecasts, evidence and what a file holds are those of all values, with the hyperparameters of some."""
    monkeypatch.setattr(windows, "MOST", N)
    monkeypatch.setattr(windows, "WINDOWS", 4)
    monkeypatch.setattr("mercer.estimators.series.fitted.AT_ONCE", 40)
    series = monthly(N + 16)
    ts = estimator(max_evaluations=10).fit(series)
    rows = windows.windows(N + 16)
    np.testing.assert_array_equal(ts.fit_.one_posterior().inputs.values[:, 0], rows)
    assert "learned from 48 of the 64 values" in ts.summary()
    ahead, evidence = ts.forecast(8), ts.log_marginal_likelihood_
    post = dense(ts)
    assert len(post.y) == N + 16
    np.testing.assert_allclose(ahead["mean"], post.mean(N + 16 + np.arange(8.0)[:, None]), atol=1e-8)
    np.testing.assert_allclose(evidence, post.log_evidence, rtol=1e-9)
    ts.save(tmp_path / "long.mercer")
    again = mc.load(tmp_path / "long.mercer")
    np.testing.assert_allclose(again.forecast(8), ahead, rtol=1e-8)
    assert len(again.components()) == N + 16
