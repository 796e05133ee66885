"""Seasons of few harmonics and local linear trends."""

import numpy as np
import pytest
from scipy import integrate

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


@pytest.mark.parametrize("lengthscale", [0.1, 0.9, 1.1, 30.0, 1e4])
def test_zero_sum_periodic_is_the_periodic_kernel_without_its_mean(lengthscale):
    """The mean of the periodic kernel over a period, by points, is taken out, and the variance put back; the
    integral over a period has no variance; long length-scales keep their digits, and leave a cosine.
    """
    kernel, periodic = k.ZeroSumPeriodic(3.0, lengthscale, 1.7), k.Periodic(3.0, lengthscale)
    lag = np.arange(256)[:, None] * 3.0 / 256
    got, whole = (one(lag, np.zeros((1, 1)))[:, 0] for one in (kernel, periodic))
    assert got[0] == pytest.approx(1.7, rel=1e-14) and abs(got.mean()) < 1e-12
    if lengthscale < 100:
        expected = 1.7 * (whole - whole.mean()) / (1 - whole.mean())
        np.testing.assert_allclose(got, expected, atol=1e-15 * lengthscale**2 + 1e-12)
    else:
        np.testing.assert_allclose(got, 1.7 * np.cos(2 * np.pi * lag[:, 0] / 3.0), atol=3e-8)


def test_integrated_ornstein_uhlenbeck_is_the_integral():
    """The double integral of the covariance of the velocity; straight lines over short times, Brownian motion
    over long ones.
    """
    s, t, length, variance = 0.7, 1.9, 0.4, 1.3
    kernel = k.IntegratedOrnsteinUhlenbeck(length, variance)
    inner = lambda u: integrate.quad(  # noqa: E731
        lambda v: variance * np.exp(-abs(u - v) / length), 0.0, t, points=[u], epsabs=1e-12
    )[0]
    expected = integrate.quad(inner, 0.0, s, epsabs=1e-11)[0]
    assert kernel([[s]], [[t]])[0, 0] == pytest.approx(expected, rel=1e-9)
    times = np.array([[0.3], [1.0], [2.0]])
    line = k.IntegratedOrnsteinUhlenbeck(1e9, variance)(times)
    np.testing.assert_allclose(line, variance * times * times.T, rtol=1e-8)
    far = k.IntegratedOrnsteinUhlenbeck(1e-6, variance)(times)
    np.testing.assert_allclose(far, 2e-6 * variance * np.minimum(times, times.T), rtol=1e-5)


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
        (lambda: k.ZeroSumPeriodic()(np.zeros((2, 2))), "reads one input column"),
    ],
)
def test_errors(make, message):
    with pytest.raises(ParameterError, match=message):
        make()
