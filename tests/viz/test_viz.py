"""Every picture draws what it says, with labels, on the Axes it is given."""

from __future__ import annotations

import subprocess
import sys

import matplotlib.pyplot as plt
import numpy as np
import pytest
from scipy.special import ndtr

import mercer as mc
from mercer import kernels as k
from mercer import viz


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def post():
    data = mc.datasets.ebden()
    return mc.GP(k.SE(1.0, 1.27**2)).condition(data.X, data.y, noise_variance=0.09)


@pytest.fixture(scope="module")
def series():
    rng = np.random.default_rng(1)
    X = np.sort(rng.uniform(0, 5, (30, 1)), 0)
    return X, np.sin(2 * np.pi * X[:, 0]) + 0.5 * X[:, 0] + 0.1 * rng.standard_normal(30)


@pytest.fixture(scope="module")
def fit(series):
    kernel = k.SE(5.0, 4.0) + k.Periodic(period=mc.fixed(1.0))
    return mc.fit(
        mc.Model(mc.GP(kernel), mc.likelihoods.Gaussian(0.01)), *series, max_evaluations=30, restarts=1
    )


def labels(ax) -> list[str]:
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_posterior_shows_mean_both_bands_draws_and_data(post):
    X = np.linspace(-2, 1, 50)[:, None]
    ax = viz.posterior(post, X, samples=2, xlabel="time / s", ylabel="height / m")
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("time / s", "height / m")
    assert labels(ax) == ["95 % of y", "95 % of f", "draws of f", "mean", "data"]
    by_label = {line.get_label(): line for line in ax.lines}
    np.testing.assert_array_equal(by_label["mean"].get_ydata(), post.mean(X))
    np.testing.assert_array_equal(by_label["data"].get_ydata(), post.y)
    wide, narrow = (c.get_datalim(ax.transData).height for c in ax.collections)
    top = np.max(post.mean(X) + 1.959963984540054 * post.std(X))
    bottom = np.min(post.mean(X) - 1.959963984540054 * post.std(X))
    assert wide == pytest.approx(top - bottom, rel=1e-12)
    assert narrow < wide
    assert len(ax.lines) == 4


def test_posterior_of_f_alone_on_given_axes_with_default_grid(post):
    _, given = plt.subplots()
    ax = viz.posterior(post, ax=given, latent=True, level=0.5)
    assert ax is given
    assert labels(ax) == ["50 % of f", "mean", "data"]
    assert ax.get_xlim() == pytest.approx((-1.575, 0.075))


def test_posterior_of_an_estimator_uses_the_name_of_its_column(series):
    pandas = pytest.importorskip("pandas")
    X, y = series
    model = mc.GPRegressor(kernel=k.SE(mc.fixed(0.3))).fit(pandas.DataFrame({"day": X[:, 0]}), y)
    assert viz.posterior(model).get_xlabel() == "day"


def test_noise_known_for_the_data_only_leaves_the_band_of_f(series):
    X, y = series
    known = mc.GP(k.SE(0.3)).condition(X, y, noise_variance=np.full(30, 0.01))
    assert labels(viz.posterior(known)) == ["95 % of f", "mean", "data"]
    assert labels(viz.forecast(known, [6.0, 7.0]))[0] == "95 % of f"


def test_prior_draws_the_sampled_functions():
    gp, X = mc.GP(k.SE(1.0)), np.linspace(-3, 3, 40)[:, None]
    ax = viz.prior(gp, X, samples=8, seed=3)
    np.testing.assert_array_equal([line.get_ydata() for line in ax.lines], gp.sample(X, 8, 3))
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("x", "f(x)")


def test_prior_draws_squashed_functions():
    """A.R20: the functions of figure 3.2, through the cumulative Gaussian; the band as well."""
    gp, X = mc.GP(k.SE(1.0, 4.0)), np.linspace(-3, 3, 40)[:, None]
    ax = viz.prior(gp, X, samples=2, seed=3, likelihood=mc.likelihoods.Bernoulli())
    np.testing.assert_allclose([line.get_ydata() for line in ax.lines], ndtr(gp.sample(X, 2, 3)), rtol=1e-9)
    ends = np.unique(np.round(ax.collections[0].get_paths()[0].vertices[:, 1], 9))
    np.testing.assert_allclose(ends, ndtr(np.array([-1.0, 1.0]) * 1.959964 * 2.0), atol=1e-6)
    assert ax.get_ylabel() == "probability"


def test_components_one_panel_for_each_term(fit):
    X = np.linspace(0, 5, 40)[:, None]
    axes = viz.components(fit, X, ylabel="ppm", xlabel="year", names=["trend", "season"])
    assert [ax.get_title(loc="left") for ax in axes] == ["trend", "season"]
    assert [ax.get_xlabel() for ax in axes] == ["", "year"]
    for ax, part in zip(axes, fit.posterior.components(X), strict=True):
        np.testing.assert_array_equal(ax.lines[0].get_ydata(), part.mean)
    assert "Periodic(" in viz.components(fit)[1].get_title(loc="left")
    with pytest.raises(ValueError, match="2 terms, but 1 names"):
        viz.components(fit, X, names=["trend"])


def test_the_band_of_a_forecast_is_that_of_the_quantiles(fit):
    averaged = mc.learning.integrate(fit)
    at = np.linspace(5, 9, 4)[:, None]
    band = viz.forecast(averaged, at).collections[0].get_paths()[0].vertices[:, 1]
    lower, upper = averaged.quantile(at, [0.025, 0.975]).T
    assert (band.min(), band.max()) == (pytest.approx(lower.min()), pytest.approx(upper.max()))


def test_forecast_marks_the_end_of_the_data(fit, series):
    X, _ = series
    future = np.linspace(5, 7, 21)
    ax = viz.forecast(fit, future, observed_later=np.zeros(21))
    assert labels(ax) == ["95 % of y", "forecast", "data", "observed later"]
    assert any(np.all(np.asarray(line.get_xdata()) == X.max()) for line in ax.lines)
    assert ax.get_xlim()[1] == 7
    ax = viz.forecast(fit, future, observed_later=([5.5, 6.0], [1.0, 2.0]))
    np.testing.assert_array_equal(ax.lines[2].get_xydata(), [[5.5, 1.0], [6.0, 2.0]])
    with pytest.raises(ValueError, match="3 values for 21 inputs"):
        viz.forecast(fit, future, observed_later=[1.0, 2.0, 3.0])


def test_importance_largest_on_top():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((25, 2))
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.standard_normal(25)
    model = mc.GPRegressor().fit(X, y)
    ax = viz.importance(model)
    assert [text.get_text() for text in ax.get_yticklabels()] == ["x1", "x0"]
    assert labels(ax) == ["with interactions", "alone"]
    assert ax.get_xlabel() == "share of the variance of the mean of y"
    found = model.importance(permutation=False, draws=0)
    one = viz.importance(found, top=1)
    assert one.patches[1].get_width() == pytest.approx(found.first_order[0])
    with pytest.raises(TypeError, match="give a fitted estimator"):
        viz.importance(model.posterior_)


def test_calibration_plots_the_curve_of_the_metrics():
    rng = np.random.default_rng(0)
    y = rng.standard_normal(100)
    ax = viz.calibration(y, np.zeros(100), np.ones(100))
    curve = next(line for line in ax.lines if line.get_label() == "predictions, n = 100")
    np.testing.assert_array_equal(
        curve.get_ydata(), mc.metrics.calibration_curve(y, np.zeros(100), np.ones(100))[1]
    )
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("nominal coverage", "observed coverage")


def test_observed_vs_predicted(post):
    loo = post.loo()
    ax = viz.observed_vs_predicted(post.y, loo.mean, np.sqrt(loo.variance), label="height")
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("predicted height", "observed height")
    np.testing.assert_array_equal(ax.lines[1].get_xydata(), np.column_stack([loo.mean, post.y]))
    assert labels(viz.observed_vs_predicted(post.y, loo.mean)) == ["data"]


def test_smoother_weights_reproduce_the_mean(post):
    ax = viz.smoother_weights(post, [-1.0, -0.3])
    curves = [line for line in ax.lines if line.get_label().startswith("x* =")]
    assert [line.get_label() for line in curves] == ["x* = -1", "x* = -0.3"]
    means = [line.get_ydata() @ post.y for line in curves]  # the inputs are in ascending order already
    np.testing.assert_allclose(means, post.mean([[-1.0], [-0.3]]), rtol=1e-12)


def test_posterior_covariance_vanishes_at_noise_free_data():
    X = np.array([[-2.0], [0.0], [1.0]])
    exact = mc.GP(k.SE(1.0)).condition(X, np.zeros(3))
    ax = viz.posterior_covariance(exact, X, [-1.0, 0.5])
    curves = [line for line in ax.lines if line.get_label().startswith("x′ =")]
    np.testing.assert_allclose([line.get_ydata() for line in curves], 0.0, atol=1e-7)
    assert ax.get_ylabel() == "cov(f(x), f(x′))"


def test_fit_history_has_a_curve_for_each_start(fit):
    ax = viz.fit_history(fit)
    assert labels(ax) == list(dict.fromkeys(e.start for e in fit.history))
    assert ax.get_ylabel() == "log evidence below the best / nats"
    assert sum(len(line.get_xdata()) for line in ax.lines) == len(fit.history)
    assert min(line.get_ydata().min() for line in ax.lines) == 1e-4
    with pytest.raises(TypeError, match="cannot draw the history of a GaussianPosterior: give a Fit"):
        viz.fit_history(fit.posterior)


def test_estimators_answer_what_pictures_ask(series):
    X, y = series
    model = mc.GPRegressor(k.SE(1.0)).fit(X, y)
    assert model.course() is model.fit_ and model.fit_.course() is model.fit_
    assert model.outlier_report() is model.outliers_ is model.outliers_.outlier_report()
    assert model.input_importance().names == ("x0",)
    post = model.posterior_
    assert post.course() is post.outlier_report() is post.input_importance() is None
    with pytest.raises(TypeError, match=r"viz\.outliers needs a fitted GPRegressor"):
        viz.outliers(post)


def test_evidence_profile_terms_add_up(series):
    X, y = series
    model = mc.Model(mc.GP(k.SE(1.0)), mc.likelihoods.Gaussian(0.01))
    values = np.geomspace(0.1, 2, 7)
    ax = viz.evidence_profile(model, X, y, "kernel.lengthscale", values)
    fit, complexity, total = (line.get_ydata() for line in ax.lines[:3])
    np.testing.assert_allclose(fit + complexity, total, rtol=1e-12)
    expected = [mc.log_evidence(mc.GP(k.SE(v)), X, y, noise_variance=0.01) for v in values]
    np.testing.assert_allclose(total, expected, rtol=1e-12)
    assert np.all(np.diff(complexity) > 0)  # a longer length-scale is a simpler model
    assert (ax.get_xlabel(), ax.get_xscale()) == ("kernel.lengthscale", "log")
    with pytest.raises(ValueError, match="no hyperparameter named 'lengthscale'"):
        viz.evidence_profile(model, X, y, "lengthscale", values)


def test_what_cannot_be_drawn_says_why(post):
    two = mc.GP(k.SE(1.0)).condition(np.zeros((1, 2)), [0.0], noise_variance=1.0)
    with pytest.raises(ValueError, match="of one input, and the model has 2"):
        viz.posterior(two)
    with pytest.raises(ValueError, match="along one input, but X has 2 columns"):
        viz.posterior(two, np.zeros((3, 2)))
    with pytest.raises(TypeError, match="has not seen data yet"):
        viz.posterior(mc.GPRegressor())
    with pytest.raises(TypeError, match="cannot draw a str"):
        viz.posterior("model")
    with pytest.raises(ValueError, match="level must lie strictly between 0 and 1"):
        viz.posterior(post, level=95)


def test_importing_viz_does_not_import_matplotlib():
    code = "import sys, mercer.viz; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
