import os

import numpy as np
import pytest
from scipy import stats
from sklearn.utils.estimator_checks import parametrize_with_checks

from mercer import metrics
from mercer.datasets import load
from mercer.relatives import LinearRegression, NadarayaWatson

RNG = np.random.default_rng(0)
X, XS = RNG.normal(size=(40, 3)), RNG.normal(size=(15, 3))
Y = X @ [1.0, -2.0, 0.5] + 3.0 + RNG.normal(0, 0.3, 40)


@parametrize_with_checks([LinearRegression(), NadarayaWatson()])
def test_scikit_learn_accepts_the_estimators(estimator, check):
    check(estimator)


def test_linear_regression_against_scipy():
    x = X[:, :1]
    fitted, reference = LinearRegression().fit(x, Y), stats.linregress(x[:, 0], Y)
    assert fitted.coef_[0] == pytest.approx(reference.slope, rel=1e-12)
    assert fitted.intercept_ == pytest.approx(reference.intercept, rel=1e-12)
    # linregress gives the standard error of the slope: s / sqrt(Sxx), s² the residual variance with n - 2
    spread = ((x - x.mean()) ** 2).sum()
    assert fitted.noise_variance_ == pytest.approx(reference.stderr**2 * spread, rel=1e-11)


def test_linear_regression_solves_the_normal_equations():
    for intercept, design in ((True, np.c_[np.ones(40), X]), (False, X)):
        fitted = LinearRegression(fit_intercept=intercept).fit(X, Y)
        mean, std = fitted.predict(X, return_std=True)
        np.testing.assert_allclose(design.T @ (Y - mean), 0, atol=1e-11)
        np.testing.assert_allclose(std**2, ((Y - mean) ** 2).sum() / (40 - design.shape[1]), rtol=1e-12)
    assert fitted.intercept_ == 0


def test_linear_regression_gives_msll():
    mean, std = LinearRegression().fit(X, Y).predict(X, return_std=True)
    assert metrics.msll(Y, mean, std, Y) == pytest.approx(
        np.log(std[0] / Y.std()) + 0.5 * (36 / 40 - 1), rel=1e-10
    )


def test_linear_regression_without_degrees_of_freedom():
    fitted = LinearRegression().fit(X[:4], Y[:4])
    np.testing.assert_allclose(fitted.predict(X[:4]), Y[:4], rtol=1e-10)
    with pytest.raises(ValueError, match="no residual is left"):
        fitted.predict(XS, return_std=True)


@pytest.mark.parametrize("kernel", ["gaussian", "epanechnikov", "tricube", lambda r: 1 / (1 + r**4)])
def test_smoother_weights_sum_to_one_and_reproduce_constants(kernel):
    smoother = NadarayaWatson(bandwidth=6.0, kernel=kernel).fit(X, np.full(40, 2.5))
    weights = smoother.weights(XS)
    assert weights.shape == (15, 40) and np.all(weights >= 0)
    np.testing.assert_allclose(weights.sum(axis=1), 1, rtol=1e-14)
    np.testing.assert_allclose(smoother.predict(XS), 2.5, rtol=1e-14)


def test_smoother_against_the_formula():
    bandwidth = np.array([0.5, 1.0, 2.0])
    kappa = np.array([[np.exp(-0.5 * sum(((a - b) / bandwidth) ** 2)) for b in X] for a in XS])
    smoother = NadarayaWatson(bandwidth).fit(X, Y)
    np.testing.assert_allclose(smoother.predict(XS), kappa @ Y / kappa.sum(axis=1), rtol=1e-12)
    np.testing.assert_allclose(smoother.weights(XS) @ Y, smoother.predict(XS), rtol=1e-14)
    assert NadarayaWatson(1.0, "epanechnikov").fit([[0.0], [1.0]], [1.0, 5.0]).predict([[0.5]])[
        0
    ] == pytest.approx(3)


def test_smoother_goes_from_the_mean_to_the_nearest_neighbour():
    np.testing.assert_allclose(NadarayaWatson(1e6).fit(X, Y).predict(XS), Y.mean(), rtol=1e-9)
    nearest = Y[np.argmin(((XS[:, None] - X) ** 2).sum(axis=2), axis=1)]
    np.testing.assert_allclose(NadarayaWatson(1e-3).fit(X, Y).predict(XS), nearest, rtol=1e-12)


def test_smoother_predicts_in_blocks(monkeypatch):
    whole = NadarayaWatson(0.7).fit(X, Y).predict(XS)
    monkeypatch.setattr("mercer.relatives.nadaraya_watson._BLOCK", 100)
    np.testing.assert_allclose(NadarayaWatson(0.7).fit(X, Y).predict(XS), whole, rtol=1e-14)
    with pytest.raises(ValueError, match="at row 14 of X"):
        NadarayaWatson(9.0, "tricube").fit(X, Y).predict(np.r_[XS[:14], [[99.0, 0, 0]]])


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"bandwidth": 0.0}, "bandwidth must be positive"),
        ({"bandwidth": [1.0, 2.0]}, "one for each of the 3 columns"),
        ({"kernel": "cubic"}, "Unknown kernel 'cubic'; use one of gaussian"),
    ],
)
def test_bad_parameters_are_named(parameters, says):
    with pytest.raises(ValueError, match=says):
        NadarayaWatson(**parameters).fit(X, Y)


@pytest.mark.skipif(not os.environ.get("MERCER_DATA"), reason="needs the environment variable MERCER_DATA")
def test_sarcos_linear_baseline():
    """GPML table 2.1: SMSE 0.075, MSLL -1.29 (trained on all 44,484 rows;
    here on the 9,489 not in the test set).
    """
    train, test = load("sarcos"), load("sarcos", part="test")
    mean, std = LinearRegression().fit(train.X, train.y).predict(test.X, return_std=True)
    assert metrics.smse(test.y, mean) == pytest.approx(0.075, abs=0.001)
    assert metrics.msll(test.y, mean, std, train.y) == pytest.approx(-1.29, abs=0.01)


def test_a_kernel_must_not_be_negative():
    with pytest.raises(ValueError, match="finite weights that are not negative"):
        NadarayaWatson(kernel=np.cos).fit(X, Y).predict(XS)
