"""Errors of the inputs of training rows: `GPRegressor(input_noise=)`."""

import numpy as np
import pytest

import mercer as mc
from mercer import kernels as k
from mercer.estimators.regression.input_noise import mean_slopes
from mercer.inputs import InputError
from mercer.likelihoods import Gaussian, StudentT
from mercer.params import ParameterError


def function(x):
    """Flat on the left, steep on the right."""
    return np.where(x < 0, 0.3 * x, 2.0 * np.sin(2.0 * x))


def data(seed, n=80):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-4, 4, n)
    return (x + 0.2 * rng.normal(size=n))[:, None], function(x) + 0.05 * rng.normal(size=n)


X, Y = data(0)
XS = np.linspace(-4, 4, 101)[:, None]


@pytest.fixture(scope="module")
def model():
    return mc.GPRegressor(k.SE(1.0), input_noise=0.2).fit(X, Y)


def score(model):
    """Mean log density of the true function."""
    mean, std = model.predict(XS, return_std=True, latent=True)
    return np.mean(-0.5 * ((function(XS[:, 0]) - mean) / std) ** 2 - np.log(std))


def test_the_noise_of_a_row_has_the_slope_of_the_mean(model):
    slopes = mean_slopes(model.posterior_)
    expected = model.noise_variance_ + 0.2**2 * slopes[:, 0] ** 2
    change = np.abs(np.log(model.model_.likelihood.variances / expected))
    assert change.mean() < 0.02 and "settled after" in model.posterior_.notes[-1]
    np.testing.assert_array_equal(model.input_noise_, [0.2])
    assert "errors of the inputs" in model.summary()


def test_it_is_better_than_taking_inputs_for_exact(model):
    """Noise of y is found (it was 0.05), and the flat part is not blurred."""
    plain = mc.GPRegressor(k.SE(1.0)).fit(X, Y)
    assert model.log_marginal_likelihood_ > plain.log_marginal_likelihood_ + 10.0
    assert score(model) > score(plain) + 0.3
    assert np.sqrt(model.noise_variance_) < 0.15 < np.sqrt(plain.noise_variance_)
    assert plain.input_noise_ is None


def test_predictions_are_those_at_a_known_input(model, tmp_path):
    mean, std = model.predict(XS[:3], return_std=True)
    latent = model.predict(XS[:3], return_std=True, latent=True)[1]
    np.testing.assert_allclose(std**2 - latent**2, model.noise_variance_)
    blurred = model.predict_uncertain(XS[:3], model.input_noise_**2)
    assert (blurred.variance > std**2).all()
    mc.save(model, tmp_path / "model.mercer")
    again = mc.load(tmp_path / "model.mercer")
    np.testing.assert_allclose(again.predict(XS[:3], return_std=True), (mean, std))
    np.testing.assert_array_equal(again.input_noise_, model.input_noise_)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_errors_can_be_learned(seed):
    model = mc.GPRegressor(k.SE(1.0), input_noise="learn").fit(*data(seed))
    assert 0.1 < model.input_noise_[0] < 0.35 and np.sqrt(model.noise_variance_) < 0.15


def test_gradients_of_the_noise():
    rng = np.random.default_rng(1)
    slopes, bar, variances = rng.normal(size=(6, 2)), rng.normal(size=6), np.array([0.3, 0.1])
    noise = lambda v: Gaussian(0.2, slopes=slopes, input_variance=v).variances  # noqa: E731
    pulled = Gaussian(0.2, slopes=slopes, input_variance=variances).pull(bar)
    for j, step in enumerate(1e-6 * np.eye(2)):
        difference = bar @ (noise(variances + step) - noise(variances - step)) / 2e-6
        np.testing.assert_allclose(pulled["input_variance"][j], difference, rtol=1e-7)
    with pytest.raises(ParameterError, match="go together"):
        Gaussian(0.2, slopes=slopes)


def test_errors_by_name_and_bad_ones(model):
    table = {"a": X[:20, 0], "b": np.arange(20.0)}
    named = mc.GPRegressor(k.SE([1.0, 9.0]), input_noise={"a": 0.2}, learn=False).fit(table, Y[:20])
    np.testing.assert_array_equal(named.input_noise_, [0.2, 0.0])
    for given, what in (
        ({"c": 0.1}, "names 'c', which is no column"),
        ([0.1, 0.2, 0.3], "one for each of 2 columns"),
        (-0.1, "not negative"),
    ):
        with pytest.raises(InputError, match=what):
            mc.GPRegressor(k.SE([1.0, 9.0]), input_noise=given).fit(table, Y[:20])
    with pytest.raises(ValueError, match="numbers or 'learn'"):
        mc.GPRegressor(input_noise="auto").fit(X, Y)
    with pytest.raises(ValueError, match="Gaussian noise alone"):
        mc.GPRegressor(likelihood=StudentT(), input_noise=0.1).fit(X, Y)
    with pytest.raises(InputError, match="'a'"):
        mc.GPRegressor(input_noise=0.1).fit({"a": list("uvuv")}, Y[:4])
