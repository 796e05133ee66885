"""Changes of level of a time series: found, listed with their standard error, kept, and rarely seen where
there are none.
"""

import numpy as np
import pandas as pd
import pytest

import mercer as mc

pytestmark = pytest.mark.filterwarnings("ignore:the fit stopped")  # few evaluations on purpose
N, AT, SIZE = 96, 60, 4.0
SETTINGS = dict(seasonal=None, transform=None, integrate=False, max_evaluations=40)


def generated(seed, size=SIZE):
    """Months of noise around a line, whose level changes once."""
    rng, t = np.random.default_rng(seed), np.arange(N)
    y = 0.02 * t + rng.standard_normal(N) + size * (t >= AT)
    return pd.Series(y, pd.date_range("2015-01-01", periods=N, freq="MS"))


@pytest.fixture(scope="module")
def kept():
    return mc.GPTimeSeries(**SETTINGS, trend="linear", changes=True).fit(generated(0))


def test_a_change_is_found_and_kept(kept, tmp_path):
    """At its time, within three standard errors of its size; it is a part, and comes back from a file."""
    table = kept.changes_
    assert list(table.index) == [pd.Timestamp("2020-01-01")]
    assert abs(table["size"].iloc[0] - SIZE) < 3 * table["std"].iloc[0] < SIZE
    assert table["log_odds"].iloc[0] > 1 and kept.component_names_[-1] == "changes"
    step = kept.components()["changes"].to_numpy()
    np.testing.assert_allclose(step, np.where(np.arange(N) >= AT, table["size"].iloc[0], 0.0), atol=1e-12)
    assert "changes of level: 2020-01-01 (+" in kept.summary()
    kept.save(tmp_path / "ts.mercer")
    again = mc.load(tmp_path / "ts.mercer")
    pd.testing.assert_frame_equal(again.changes_, table, rtol=1e-9)
    pd.testing.assert_frame_equal(again.forecast(3), kept.forecast(3), rtol=1e-9)


def test_it_is_listed_without_being_kept(kept):
    """Hyperparameters held: the same time, by a model that has no part for it."""
    ts = mc.GPTimeSeries(**SETTINGS, trend="linear").fit(generated(0))
    assert list(ts.changes_.index) == list(kept.changes_.index) and "changes" not in ts.component_names_
    assert "changes=True (--changes) keeps them" in ts.summary()
    assert kept.log_marginal_likelihood_ > ts.log_marginal_likelihood_ + 5


def test_lone_values_and_noise_are_no_changes():
    y = generated(1, size=0.0)
    y.iloc[40] += 9.0
    assert len(mc.GPTimeSeries(**SETTINGS, trend="linear").fit(y).changes_) == 0


@pytest.mark.slow
def test_changes_are_hardly_ever_seen_where_there_are_none():
    """Of 60 series without a change (noise, lines, autoregressions, walks) at most one shows one."""
    count = 0
    for seed in range(60):
        rng, pole = np.random.default_rng(seed), (0.0, 0.0, 0.7, 1.0)[seed % 4]
        y = np.zeros(N)
        for i, e in enumerate(rng.standard_normal(N)):
            y[i] = pole * y[i - 1] + e
        y = y + (0.3 * rng.standard_normal(N) if pole == 1.0 else 0.05 * np.arange(N) * (seed % 4 == 1))
        count += len(mc.GPTimeSeries(**SETTINGS).fit(y).changes_) > 0
    assert count <= 1, count
