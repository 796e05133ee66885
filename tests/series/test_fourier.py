"""The four transforms round and round, and sampling against wrapping. GPML B.1."""

import numpy as np
import pytest

from mercer.series import (
    ARMA,
    Circle,
    ContinuousARMA,
    Integers,
    Line,
    Polygon,
    sampled_spectrum,
    wrap,
    wrapped_spectrum,
)

A0, B0 = 1.5, 1.0
OU = ContinuousARMA([A0], B0)


def gauss(x):
    return np.exp(-np.pi * x**2)


def test_the_line():
    """The Gaussian is its own transform; an exponential has the Cauchy spectrum (B.28)."""
    line, s = Line(reach=6.0, band=6.0), np.array([-1.3, 0.0, 0.2, 2.5])
    np.testing.assert_allclose(line.analysis(gauss, s), gauss(s), atol=1e-14)
    np.testing.assert_allclose(line.synthesis(gauss, s), gauss(s), atol=1e-14)
    np.testing.assert_allclose(Line(reach=25.0).analysis(OU.covariance, s), OU.spectrum(s), rtol=1e-12)
    moved = Line(reach=8.0).analysis(lambda x: gauss(x - 0.3), s)
    np.testing.assert_allclose(moved, gauss(s) * np.exp(-2j * np.pi * 0.3 * s), atol=1e-14)


def test_the_circle():
    circle = Circle(length=2.5, harmonics=30)
    coefficients = {-2: 0.3j, 0: 1.0, 2: -0.3j, 5: 0.2}

    def f(x):
        return sum(c * np.exp(2j * np.pi * k * x / 2.5) for k, c in coefficients.items())

    k = np.arange(-6, 7)
    expected = np.array([coefficients.get(int(j), 0.0) for j in k])
    np.testing.assert_allclose(circle.analysis(f, k), expected, atol=1e-14)
    x = np.array([0.0, 0.4, 3.1])
    np.testing.assert_allclose(circle.synthesis(lambda k: circle.analysis(f, k), x), f(x), atol=1e-12)


def test_the_integers():
    """AR(1), for two periods of the spectrum."""
    process, n, s = ARMA([0.6]), np.array([-3, 0, 1, 7]), np.array([0.0, 0.1, 0.45])
    for period in (1.0, 4.0):
        integers = Integers(period, reach=100)
        transform = integers.analysis(process.covariance, period * s)
        np.testing.assert_allclose(transform, process.spectrum(s) / period, rtol=1e-13)
        back = integers.synthesis(lambda s, p=period: process.spectrum(s / p) / p, n)
        np.testing.assert_allclose(back, process.covariance(n), atol=1e-14)


def test_the_polygon(rng):
    f = rng.normal(size=12)
    polygon = Polygon(12)
    np.testing.assert_allclose(polygon.synthesis(polygon.analysis(f)), f, atol=1e-14)
    by_hand = [np.mean(f * np.exp(-2j * np.pi * k * np.arange(12) / 12)) for k in range(12)]
    np.testing.assert_allclose(polygon.analysis(f), by_hand, atol=1e-14)
    with pytest.raises(ValueError, match="12 values"):
        polygon.analysis(f[:5])


@pytest.mark.parametrize("h", [0.5, 0.02, 3.0])
def test_sampling_wraps_the_spectrum(h):
    """B.15: the spectrum of an OU process at times h apart is that of an AR(1),
    alias sums of 1 / s^2 included.
    """
    s = np.array([0.0, 0.3, 0.45 / h])
    by_sum = Integers(1.0 / h, reach=4000).analysis(lambda n: OU.covariance(n * h), s)
    np.testing.assert_allclose(sampled_spectrum(OU.spectrum, s, h), by_sum.real, rtol=1e-11)
    np.testing.assert_allclose(h * OU.sampled(h).spectrum(s * h), by_sum.real, rtol=1e-11)
    if h == 0.5:
        assert sampled_spectrum(OU.spectrum, 0.3, h) == pytest.approx(0.193879, abs=5e-7)


def test_sampling_on_the_circle_wraps_the_coefficients():
    """B.16, for the OU process around a circle at N places."""
    N, length = 8, 2.0
    values = OU.on_circle(length * np.arange(N) / N, length)
    wrapped = wrap(lambda k: wrapped_spectrum(OU.spectrum, k, length), np.arange(N), N)
    np.testing.assert_allclose(Polygon(N).analysis(values).real, wrapped, rtol=1e-11)


def test_wrapping_samples_the_spectrum():
    """B.17-B.18, for the Gaussian, and for the OU process: the factor 1 / l that B.34 lacks."""
    length, k = 1.7, np.arange(-4, 5)
    for f, spectrum in ((gauss, gauss), (OU.covariance, OU.spectrum)):
        found = Circle(length).analysis(lambda x, f=f: wrap(f, x, length), k)
        np.testing.assert_allclose(found, wrapped_spectrum(spectrum, k, length), atol=1e-12)


def test_wrap_refuses_no_period():
    with pytest.raises(ValueError, match="positive"):
        wrap(gauss, 0.0, 0.0)
