"""Several series with shared hyperparameters: the pooled evidence by hand, forecasts of each, files."""

import numpy as np
import pandas as pd
import pytest

import mercer as mc
from mercer.estimators.series import structure
from mercer.inputs import InputError
from mercer.solvers import Markov

pytestmark = pytest.mark.filterwarnings("ignore:the fit stopped")  # few evaluations on purpose
LENGTHS = {"north": 48, "south": 40, "west": 48}
SETTINGS = dict(trend="linear", transform=None, harmonics=2, max_evaluations=30)


@pytest.fixture(scope="module")
def table():
    """Three shops of different size, one that opened later and has a gap."""
    rng, rows = np.random.default_rng(0), []
    for size, (shop, n) in zip((1.0, 10.0, 100.0), LENGTHS.items(), strict=True):
        t = np.arange(n)
        y = size * (5 + 0.02 * t + np.sin(2 * np.pi * t / 12) + 0.2 * rng.standard_normal(n))
        months = pd.date_range("2015-01-01", periods=48, freq="MS")[-n:]
        rows.append(pd.DataFrame({"month": months, "shop": shop, "sales": y}))
    return pd.concat(rows, ignore_index=True).drop(index=[7])


@pytest.fixture(scope="module")
def panel(table):
    return mc.GPPanel(**SETTINGS).fit(table, time="month", value="sales", by="shop")


def test_it_is_the_pooled_fit_by_hand(panel, table):
    """The same hyperparameters as `fit` of the standardised series, the same evidence in units of the series,
    and forecasts of each by the dense posterior.
    """
    parts = [part for _, part in table.groupby("shop", sort=False)]
    y = [part["sales"].to_numpy() for part in parts]
    t = [(p["month"].dt.year * 12 + p["month"].dt.month).to_numpy(float) for p in parts]
    X, z = [(a - a[0])[:, None] for a in t], [(v - v.mean()) / v.std() for v in y]
    noise, latent = structure.read_likelihood("gaussian", np.concatenate(z))
    model, _ = structure.default_model(
        "linear", {"year": 12.0}, True, 2, noise, panel["north"].clock_, 47.0, latent
    )
    hand = mc.fit(model, X, z, solver=Markov(), jacobian=True, max_evaluations=30)
    assert panel.seasons_ == {"year": pytest.approx(12.0)} and panel.names_ == tuple(LENGTHS)
    mine, other = (mc.params.flatten(found.model).vector for found in (panel.fit_, hand))
    np.testing.assert_allclose(mine, other, rtol=1e-9)
    density = sum(
        float(p.log_evidence) - len(v) * np.log(v.std()) for p, v in zip(hand.posterior, y, strict=True)
    )
    assert panel.log_marginal_likelihood_ == pytest.approx(density, rel=1e-9)
    ahead = panel.forecast(6)
    for name, v, post, x in zip(LENGTHS, y, hand.posterior, X, strict=True):
        mean, std = post.mean_and_std(x[-1] + 1 + np.arange(6.0)[:, None])
        np.testing.assert_allclose(ahead[name]["mean"], v.mean() + v.std() * mean, rtol=1e-7)
        np.testing.assert_allclose(ahead[name]["std"], v.std() * std, rtol=1e-6)
    assert "3 series of 40 to 48 values" in panel.summary()


def test_wide_tables_and_files(panel, table, tmp_path):
    """A column for each series, with gaps where one has no value; all comes back from a file."""
    wide = table.pivot(index="month", columns="shop", values="sales")[list(LENGTHS)]
    again = mc.GPPanel(**SETTINGS).fit(wide[["north", "west"]])
    assert again.names_ == ("north", "west") and len(again["north"].impute()) == 1
    panel.save(tmp_path / "panel.mercer")
    loaded = mc.load(tmp_path / "panel.mercer")
    for name, expected in panel.forecast(3).items():
        pd.testing.assert_frame_equal(loaded.forecast(3)[name], expected, rtol=1e-9)
    assert (loaded.names_, loaded.trend_, loaded.seasons_) == (panel.names_, panel.trend_, panel.seasons_)


def test_score_is_the_mean_density_of_every_value(panel, table):
    parts = [panel[shop].log_density(p["month"], p["sales"]) for shop, p in table.groupby("shop")]
    expected = np.mean(np.concatenate(parts))
    assert panel.score(table, time="month", value="sales", by="shop") == pytest.approx(expected, rel=1e-12)


def test_bad_panels(panel, table):
    for call, message in (
        (lambda: mc.GPPanel().fit(table, by="town"), "no column 'town'"),
        (lambda: mc.GPPanel().fit(table), "which column holds the times"),
        (lambda: mc.GPPanel().fit(table["sales"]), "a panel is a frame or a dict of columns"),
    ):
        with pytest.raises(InputError, match=message):
            call()
    with pytest.raises(KeyError, match="there is no series 'east'; there are north, south, west"):
        panel["east"]
