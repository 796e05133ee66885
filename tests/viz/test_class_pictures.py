"""Pictures of classifiers, verdicts' surfaces and chains: labelled, with what they say drawn."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_rgb
from scipy.stats import norm, skewnorm

import mercer as mc
from mercer import datasets, viz
from mercer import kernels as k
from mercer.inference import MCMC
from mercer.likelihoods import Bernoulli, Softmax


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


LINE = datasets.toy_classification_1d(0)


def test_probability_and_latent_along_a_line():
    post = mc.Model(mc.GP(k.SE(2.6, 49.0)), Bernoulli()).condition(LINE.X, LINE.y, "laplace")
    ax = viz.probability(post, label="Laplace")
    assert ax.get_ylabel() == "probability of class 1" and ax.get_legend() is not None
    curve = ax.get_lines()[0].get_ydata()
    assert np.all((curve > 0) & (curve < 1))
    assert viz.latent(post, level=0.9).get_ylabel() == "latent f"


def test_regions_of_two_inputs():
    plane = datasets.toy_classification_2d(0)
    post = mc.Model(mc.GP(k.SE(0.3, 9.0)), Bernoulli("logit")).condition(plane.X, plane.y, "laplace")
    ax = viz.regions(post, count=12)
    assert len(ax.collections) >= 3
    with pytest.raises(ValueError, match="two inputs"):
        viz.regions(mc.Model(mc.GP(k.SE()), Bernoulli()).condition(LINE.X, LINE.y, "laplace"))


def names(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


KERNEL = k.SE(mc.fixed(0.8), mc.fixed(4.0))
PLANE = np.random.default_rng(0).uniform(-1, 1, (40, 2))
THREE = np.array(["low", "middle", "high"])[np.digitize(PLANE[:, 0], [-0.3, 0.3])]


@pytest.fixture(scope="module", params=["softmax", "one-vs-rest"])
def three(request):
    return mc.GPClassifier(KERNEL, multi_class=request.param).fit(PLANE, THREE)


def test_regions_of_three_classes(three):
    ax = viz.regions(three, count=12)
    assert names(ax) == ["high", "low", "middle"] and (ax.get_xlabel(), ax.get_ylabel()) == ("x0", "x1")
    assert sum(len(points.get_offsets()) for points in ax.collections if len(points.get_offsets())) >= 40
    shades = np.asarray(ax.images[0].get_array())
    assert shades.shape == (12, 12, 3)
    left, right = (viz._style.CLASSES[c] for c in (1, 0))  # low is on the left, high on the right
    for column, tint in ((0, left), (-1, right)):
        distance = [
            np.abs(shades[:, column].mean(0) - to_rgb(other)).sum() for other in viz._style.CLASSES[:3]
        ]
        assert viz._style.CLASSES[int(np.argmin(distance))] == tint


def test_regions_of_a_posterior_of_three_classes():
    codes = np.digitize(PLANE[:, 0], [-0.3, 0.3])
    post = mc.Model(mc.GP(KERNEL), Softmax(3)).condition(PLANE, codes)
    assert names(viz.regions(post, count=8)) == ["class 0", "class 1", "class 2"]
    with pytest.raises(ValueError, match="the model predicts none"):
        viz.regions(mc.GP(k.SE()).condition(PLANE, codes, noise_variance=0.1))
    with pytest.raises(TypeError, match="cannot draw a str"):
        viz.regions("model")


def test_confusion_counts_what_is_taken_for_what(three):
    ax = viz.confusion(three)
    predicted = three.classes_[three.loo().probability.argmax(1)]
    found = {tuple(map(int, text.get_position()))[::-1]: int(text.get_text()) for text in ax.texts}
    for i, true in enumerate(three.classes_):
        for j, guess in enumerate(three.classes_):
            assert found.get((i, j), 0) == np.sum((true == THREE) & (predicted == guess))
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["high", "low", "middle"]
    assert "left out one at a time" in ax.get_title(loc="left")
    wrong = np.sum(three.predict(PLANE) != THREE)
    assert viz.confusion(three, PLANE, THREE).get_title(loc="left") == f"{wrong} of 40 wrong, predicted"
    with pytest.raises(ValueError, match="give X with its labels y, or neither"):
        viz.confusion(three, PLANE)
    with pytest.raises(TypeError, match="of a fitted GPClassifier"):
        viz.confusion(three.fit_ if not isinstance(three.fit_, list) else three.fit_[0])
    with pytest.raises(ValueError, match="none of the classes"):
        viz.confusion(three, PLANE, np.full(40, "huge"))


def test_calibration_of_classifiers(three):
    ax = viz.calibration(three, PLANE, THREE)
    curve = mc.metrics.reliability_curve(THREE, three.predict_proba(PLANE))
    points = ax.containers[-1].lines[0]
    np.testing.assert_allclose(points.get_xdata(), curve.claimed)
    np.testing.assert_allclose(points.get_ydata(), curve.observed)
    assert ax.get_xlabel() == "predicted probability of the likeliest class"
    assert "left out one at a time, n = 40" in names(viz.calibration(three))[-1]
    two = mc.GPClassifier(KERNEL).fit(PLANE, THREE == "low")
    assert viz.calibration(two).get_xlabel() == "predicted probability of True"


def test_calibration_of_regressors():
    y = PLANE[:, 0] + 0.1 * np.random.default_rng(1).standard_normal(40)
    model = mc.GPRegressor(KERNEL).fit(PLANE, y)
    ax = viz.calibration(model, PLANE, y, levels=[0.5, 0.9])
    low, high = model.predict_interval(PLANE, 0.9)
    assert ax.lines[-1].get_ydata()[1] == np.mean((low <= y) & (y <= high))
    assert names(viz.calibration(model))[-1] == "left out, n = 40"
    with pytest.raises(TypeError, match="draws GPRegressor and GPClassifier"):
        viz.calibration(model.posterior_)


def test_probability_of_three_classes_along_a_line():
    model = mc.GPClassifier(KERNEL, multi_class="one-vs-rest").fit(PLANE[:, :1], THREE)
    ax = viz.probability(model)
    assert names(ax) == ["high", "low", "middle"]
    curves = [line.get_ydata() for line in ax.get_lines()[::2]]
    np.testing.assert_allclose(np.sum(curves, 0), 1.0)


# -------------------------------------------------------------------------------------------------- effects


def test_effects_have_a_panel_for_each_column():
    y = np.sin(2 * PLANE[:, 0])
    model = mc.GPRegressor(k.SE(mc.fixed([1.0, 3.0])), noise_variance=mc.fixed(0.01)).fit(PLANE, y)
    axes = viz.effects(model)
    assert [ax.get_xlabel() for ax in axes] == ["x0", "x1"] and axes[0].get_ylabel() == "mean of y"
    (found,) = model.effects(["x0"])
    np.testing.assert_array_equal(axes[0].lines[0].get_ydata(), found.mean[:, 0])
    assert axes[0].get_ylim() == axes[1].get_ylim()
    _, given = plt.subplots(1, 2)
    again = viz.effects(model, ["x1", ("x0", "x1")], axes=given)
    assert again[0] is given[0] and (again[1].get_xlabel(), again[1].get_ylabel()) == ("x0", "x1")
    assert names(again[0]) == ["95 % of the average", "average of 40 rows"]
    with pytest.raises(ValueError, match="there are 1 effects, but 2 Axes"):
        viz.effects([found], axes=given)
    with pytest.raises(TypeError, match=r"explain\.effects"):
        viz.effects(model.posterior_)


@pytest.mark.representative("one")
def test_effects_of_classes_and_categories(three):
    (first,) = viz.effects(three, ["x0"])
    (pair,) = viz.effects(three, [("x0", "x1")])
    assert len(first.lines) == 4 and names(pair) == ["high", "low", "middle"]  # three curves and the data
    assert first.get_ylim() == (-0.03, 1.03)
    colours = np.array(["red", "blue"], dtype=object)[(PLANE[:, 1] > 0).astype(int)]
    kernel = k.SE(mc.fixed(1.0)).on("a") + k.Categorical().on("colour")
    table = {"a": PLANE[:, 0], "colour": colours}
    model = mc.GPRegressor(kernel, noise_variance=mc.fixed(0.1)).fit(table, (colours == "red") + PLANE[:, 0])
    bars, shades = viz.effects(model, ["colour", ("a", "colour")])
    assert [tick.get_text() for tick in bars.get_xticklabels()] == ["blue", "red"] and len(bars.patches) == 2
    assert [tick.get_text() for tick in shades.get_yticklabels()] == ["blue", "red"]
    two = mc.GPClassifier(KERNEL).fit(PLANE, THREE == "low")
    assert viz.effects(two)[0].get_ylabel() == "probability of True"


def test_surface_is_marked():
    x, y = np.linspace(0, 1, 5), np.linspace(2, 3, 4)
    ax = viz.surface(x, y, np.add.outer(y, x), xlabel="a", ylabel="b", mark=(0.5, 2.5))
    assert ax.get_xlabel() == "a" and ax.get_lines()[-1].get_marker() == "+"


@pytest.mark.slow
def test_chains():
    rule = MCMC(draws=20, tune=20, chains=2, sampler="hmc")
    post = mc.Model(mc.GP(k.SE(1.0)), Bernoulli()).condition([[0.0], [1.0]], [1, 0], rule)
    axes = viz.chains(post)
    assert axes.shape == (2, 2) and axes[0, 0].get_title(loc="left").startswith("R-hat")
    with pytest.raises(ValueError, match="no quantity named"):
        viz.chains(post, names=["g"])


@pytest.mark.slow
def test_marginals_and_their_skewness():
    """C.CLS6: the posterior of one probit datum is a skew normal, whose skewness is known; the most skewed
    marginal comes first, with the approximations' densities.
    """
    model = mc.Model(mc.GP(k.SE(1e-3, 9.0)), Bernoulli())
    X, y = [[0.0], [1.0], [2.0]], [1, 0, 1]
    post = model.condition(X, y, MCMC(draws=2000, tune=200, chains=2))
    expected = skewnorm(3.0, scale=3.0).stats("s")
    np.testing.assert_allclose(post.marginal_skewness() * [1, -1, 1], expected, atol=0.12)
    assert post.latent_draws().shape == (4000, 3)
    ep = model.condition(X, y, "ep")
    axes = viz.marginals(post, {"EP": ep}, count=2)
    first = int(np.argmax(np.abs(post.marginal_skewness())))
    assert axes[0].get_xlabel() == f"f at row {first}"
    f, density = axes[0].get_lines()[0].get_data()
    mean, std = (a[first] for a in ep.mean_and_std(X, latent=True))
    np.testing.assert_allclose(density, norm(mean, std).pdf(f), rtol=1e-9)
