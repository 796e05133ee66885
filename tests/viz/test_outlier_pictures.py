"""Pictures of outliers, and of scores over folds."""

from __future__ import annotations

import numpy as np
import pytest

import mercer as mc
from mercer import likelihoods, viz
from mercer.estimators.regression.robust import outliers

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

X = np.linspace(0, 6, 30)[:, None]
Y = np.sin(X[:, 0]) + 0.05 * np.random.default_rng(0).standard_normal(30)


@pytest.fixture(autouse=True)
def close():
    yield
    plt.close("all")


def posterior(*far):
    """Student-t noise at fixed hyperparameters; `far` is added to rows 5, 12, 20."""
    y = Y.copy()
    y[[5, 12, 20]] += far
    noise = likelihoods.StudentT(0.05, 3.0)
    return mc.Model(mc.GP(mc.kernels.SE(1.0)), noise).condition(X, y, "laplace")


def curves(ax):
    return {line.get_label(): line for line in ax.get_lines()}


def test_outliers_are_ringed_where_they_are():
    post = posterior(1.5, -1.5, 1.0)
    ax = viz.posterior(post, outliers=outliers(post))
    ring = curves(ax)["outliers"]
    assert sorted(ring.get_xdata()) == pytest.approx(X[[5, 12, 20], 0])
    assert ring.get_markerfacecolor() == "none"
    assert "outliers out of view" not in curves(ax)


def test_far_outliers_are_triangles_at_the_edge_and_do_not_flatten_the_rest():
    post = posterior(1e6, -1e5, 1.0)
    ax = viz.posterior(post, outliers=outliers(post))
    low, high = ax.get_ylim()
    assert -2 < low < -1 and 1 < high < 3
    markers = {line.get_marker(): line for line in ax.get_lines()}
    assert markers["^"].get_xdata() == pytest.approx(X[5]) and markers["^"].get_ydata() == pytest.approx(
        [high]
    )
    assert markers["v"].get_xdata() == pytest.approx(X[12]) and markers["v"].get_ydata() == pytest.approx(
        [low]
    )
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels.count("outliers out of view") == 1


def test_no_outliers_no_rings_and_the_band_is_that_of_the_quantiles():
    post = posterior(0.0, 0.0, 0.0)
    grid = np.linspace(0, 6, 5)[:, None]
    ax = viz.posterior(post, grid, level=0.9, outliers=outliers(post))
    assert "outliers" not in curves(ax)
    band = ax.collections[0].get_paths()[0].vertices
    lower, upper = post.quantile(grid, [0.05, 0.95]).T
    assert band[:, 1].max() == pytest.approx(upper.max()) and band[:, 1].min() == pytest.approx(lower.min())
    with pytest.raises(ValueError, match="level"):
        viz.posterior(post, level=1.5)


def test_outliers_draws_scores_and_names():
    model = mc.GPRegressor("SE(1.0)", likelihood=likelihoods.StudentT(mc.fixed(0.05), mc.fixed(3.0)))
    y = Y.copy()
    y[12] += 3.0
    model.fit(X, y)
    ax = viz.outliers(model)
    np.testing.assert_allclose(curves(ax)["regular"].get_ydata(), model.outliers_.score)
    assert list(curves(ax)["outliers"].get_xdata()) == [12]
    assert [text.get_text() for text in ax.texts] == ["12"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("row", "1 - weight")
    numbered = viz.outliers(model.name_rows(range(2, 32)))  # the lines of a file
    assert list(curves(numbered)["outliers"].get_xdata()) == [14]
    assert [text.get_text() for text in numbered.texts] == ["14"]
    named = viz.outliers(model.name_rows(f"row {i}" for i in range(30)))
    assert list(curves(named)["outliers"].get_xdata()) == [12] and named.get_xlabel() == "position of the row"


def test_scores_as_boxes_bars_and_snowflakes():
    values = {"Gaussian": [1.0, 2.0, 3.0], "Student-t": [0.5, 0.7, 0.6]}
    ax = viz.scores(values, ylabel="MAE")
    assert [t.get_text() for t in ax.get_xticklabels()] == [
        "Gaussian",
        "Student-t",
    ] and ax.get_ylabel() == "MAE"
    assert ax.get_lines()[-1].get_ydata()[0] == 0.6
    assert [t.get_text() for t in ax.get_legend().get_texts()] == ["best median, of Student-t"]
    ax = viz.scores(values, kind="bar", best="high")
    assert [patch.get_height() for patch in ax.patches] == [1.0, 2.0, 3.0, 0.5, 0.7, 0.6]
    assert ax.get_lines()[-1].get_ydata()[0] == 2.0
    ax = viz.scores(values, kind="snowflake", ylabel="MAE")
    angle, radius = ax.get_lines()[0].get_data()
    np.testing.assert_allclose(angle, 2 * np.pi * np.array([0, 1, 2, 3]) / 3)
    assert list(radius) == [1.0, 2.0, 3.0, 1.0] and ax.name == "polar"
    with pytest.raises(ValueError, match="three folds"):
        viz.scores({"a": [1.0, 2.0, 3.0], "b": [1.0, 2.0]}, kind="snowflake")
    for wrong in ({}, {"a": []}, {"a": [np.nan]}):
        with pytest.raises(ValueError, match="finite numbers"):
            viz.scores(wrong)
    with pytest.raises(ValueError, match="kind must be"):
        viz.scores(values, kind="pie")


@pytest.mark.slow
def test_raster_of_draws():
    """C.ROB16: dark where a draw took a row for an outlier (Kuss, figure 5.15)."""
    y = Y[:12].copy()
    y[4] += 3.0
    noise = likelihoods.GaussianMixtureNoise(variance=0.05**2, weight=0.1, ratio=1000.0)
    model = mc.Model(mc.GP(mc.kernels.SE(1.0)), noise)
    post = model.condition(X[:12], y, mc.inference.Gibbs(draws=30, tune=20, chains=2))
    ax = viz.raster(post, most=60)
    shown = np.asarray(ax.images[0].get_array())
    np.testing.assert_array_equal(shown, post.given.indicators.reshape(60, 12))
    assert shown[:, 4].mean() > 0.9 > shown.mean() + 0.5
    assert list(ax.images[0].get_extent()) == [-0.5, 11.5, 0, 60]
