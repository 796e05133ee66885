"""Seasons of few harmonics and local linear trends."""

import numpy as np
import pytest

import mercer as mc
from mercer import kernels as k
from mercer.kernels.statespace import state_space
from mercer.params import ParameterError


def test_seasonal_is_its_fourier_sum():
    """The covariance is that of the definition, repeats, and sums to zero over a period."""
    kernel = k.Seasonal(period=3.0, lengthscale=0.8, variance=1.7, harmonics=4)
    lag = np.linspace(0.0, 3.0, 12, endpoint=False)
    weights = np.exp(-0.5 * 0.8**2 * np.arange(1, 5) ** 2)
    expected = 1.7 * np.cos(2 * np.pi * np.outer(lag, np.arange(1, 5)) / 3.0) @ (weights / weights.sum())
    got = kernel(lag[:, None], np.zeros((1, 1)))[:, 0]
    np.testing.assert_allclose(got, expected, atol=1e-13)
    np.testing.assert_allclose(kernel(lag[:, None] + 3.0, np.zeros((1, 1)))[:, 0], expected, atol=1e-13)
    assert abs(got.sum()) < 1e-12


def test_seasonal_of_long_lengthscale_is_a_sine_wave():
    lag = np.linspace(0.0, 2.0, 9)
    got = k.Seasonal(1.0, 40.0, harmonics=6)(lag[:, None], np.zeros((1, 1)))[:, 0]
    np.testing.assert_allclose(got, np.cos(2 * np.pi * lag), atol=1e-13)


def test_local_linear_is_an_integrated_wiener_and_its_start():
    t = np.array([[0.0], [0.4], [1.3], [2.0]])
    parts = k.IntegratedWiener(1, variance=0.7) + k.Constant(1.5) + k.Linear(0.2)
    np.testing.assert_allclose(k.LocalLinear(0.7, 1.5, 0.2)(t), parts(t), rtol=1e-14)


def test_states_are_exact(rng):
    """The state-space form, from a first time that is not zero, has the covariance of the kernel;
    evidence and marginals follow.
    """
    kernel = k.LocalLinear(0.3, 1.2, 0.1) + k.Seasonal(2.0, 0.7, 0.8, harmonics=2) * k.Matern(
        5.0, mc.fixed(1.0), nu=0.5
    )
    t = np.sort(rng.uniform(0.5, 9.0, 21))
    y = rng.standard_normal(21)
    assert state_space(kernel).size == 6 and state_space(kernel).error() == 0.0
    dense, markov = (mc.GP(kernel).condition(t[:, None], y, 0.05, solver=s) for s in ("dense", "markov"))
    np.testing.assert_allclose(markov.log_evidence, dense.log_evidence, rtol=1e-10)
    at = np.linspace(0.0, 12.0, 7)[:, None]
    np.testing.assert_allclose(markov.mean(at), dense.mean(at), atol=1e-9)
    np.testing.assert_allclose(markov.variance(at), dense.variance(at), rtol=1e-8)


@pytest.mark.slow
def test_parts_are_those_of_the_dense_posterior(rng):
    """Each additive term, and their sum, between, at and beyond unsorted data; one term alone too."""
    from mercer.solvers.markov_parts import parts

    kernel = k.LocalLinear(0.3, 1.2, 0.1) + k.Seasonal(2.0, 0.7, 0.8, harmonics=2)
    t, y, at = rng.uniform(0.0, 9.0, 21), rng.standard_normal(21), np.array([11.0, 0.0, 3.3])
    at[2] = t[4]
    for one in (kernel, kernel.terms[0]):
        dense, markov = (mc.GP(one).condition(t[:, None], y, 0.05, solver=s) for s in ("dense", "markov"))
        mean, variance = parts(markov.state, at)
        for j, part in enumerate(dense.components(at[:, None])):
            np.testing.assert_allclose(mean[:, j], part.mean, atol=1e-9)
            np.testing.assert_allclose(np.sqrt(variance[:, j]), part.std, atol=1e-8)
        np.testing.assert_allclose(mean[:, -1], dense.mean(at[:, None]), atol=1e-9)
        np.testing.assert_allclose(variance[:, -1], dense.variance(at[:, None], latent=True), atol=1e-9)
    with pytest.raises(TypeError, match="solver='markov'"):
        parts(dense.state, at)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: k.Seasonal(harmonics=0), "harmonics must be a whole number of at least 1"),
        (lambda: k.Seasonal()(np.zeros((2, 2))), "reads one column"),
    ],
)
def test_errors(make, message):
    with pytest.raises(ParameterError, match=message):
        make()
