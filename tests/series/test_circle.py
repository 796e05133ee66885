"""Around the circle and the polygon. GPML B.2.2, B.3.2 with B.34, B.36, B.48 corrected;
the published N = 3 example.
"""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from mercer.series import ARMA, Circle, Circulant, ContinuousARMA, on_polygon, wrap, wrapped_spectrum


def test_ou_around_a_circle():
    """B.36 by three routes: the closed form, the sum over images, the Fourier series with S(n / l) / l."""
    a, length, t = 1.5, 2.0, np.array([0.0, 0.6, 1.0, 1.9, -0.6])
    process = ContinuousARMA([a])
    found = process.on_circle(t, length)
    closed = np.cosh(a * (length / 2 - np.abs(t))) / np.sinh(a * length / 2) / (2 * a)
    np.testing.assert_allclose(found, closed, rtol=1e-13)
    np.testing.assert_allclose(found, wrap(process.covariance, t, length), rtol=1e-13)
    series = Circle(length, harmonics=200_000).synthesis(
        lambda n: wrapped_spectrum(process.spectrum, n, length), t
    )
    np.testing.assert_allclose(found, series.real, atol=2e-6)
    assert found[1] == pytest.approx(0.18558159277868, rel=1e-13)


@pytest.mark.parametrize(
    "process",
    [ContinuousARMA([4.0, 0.8]), ContinuousARMA.matern(2.0, 3), ContinuousARMA([4.0, 0.8], [0.3, 1.0])],
)
def test_covariances_equal_the_wrapped_line(process):
    t = np.linspace(-1, 4, 11)
    np.testing.assert_allclose(process.on_circle(t, 1.3), wrap(process.covariance, t, 1.3), rtol=1e-10)
    np.testing.assert_allclose(process.on_circle(t, 200.0), process.covariance(t), atol=1e-14)
    coefficients = Circle(1.3).analysis(lambda x: process.on_circle(x, 1.3), np.arange(4))
    np.testing.assert_allclose(
        coefficients, wrapped_spectrum(process.spectrum, np.arange(4), 1.3), atol=1e-12
    )
    K = Circulant(process.on_circle(1.3 * np.arange(16) / 16, 1.3))
    assert K.eigenvalues.min() > 0


def test_a_fast_process_on_a_large_circle():
    assert ContinuousARMA([800.0]).on_circle(0.001, 5.0) == pytest.approx(np.exp(-0.8) / 1600, rel=1e-12)


def test_the_published_triangle():
    """Circular AR(1), N = 3: both matrices as printed, and their product is the identity."""
    a, b = 0.6, 1.0
    K = on_polygon(ARMA([a], b), 3)
    variance = b**2 / (1 - a**2)
    np.testing.assert_allclose(
        K.column, variance / (1 - a**3) * np.array([1 + a**3, a + a**2, a + a**2]), rtol=1e-14
    )
    np.testing.assert_allclose(K.column, [2.4234693878, 1.9132653061, 1.9132653061], rtol=1e-10)
    precision = K.inverse()
    np.testing.assert_allclose(precision.column, [(1 + a**2) / b**2, -a / b**2, -a / b**2], rtol=1e-13)
    np.testing.assert_allclose(precision.matrix() @ K.matrix(), np.eye(3), atol=1e-14)
    np.testing.assert_allclose(
        on_polygon(ARMA([a], b), 6).column[:3], [1.7154353518, 1.1108267320, 0.8024385741], rtol=1e-10
    )


@pytest.mark.parametrize("process", [ARMA([0.6]), ARMA([0.5, -0.7], 1.4), ARMA([0.9, -0.3], [0.2, 0.5])])
def test_covariances_equal_the_wrapped_integers(process):
    """B.49; and the inverse of an AR(p) has 2p + 1 bands."""
    N = 9
    K = on_polygon(process, N)
    images = [process.covariance(n + N * np.arange(-60, 61)).sum() for n in range(N)]
    np.testing.assert_allclose(K.column, images, rtol=1e-12)
    if process.ma.size == 1:
        p = process.ar.size
        np.testing.assert_allclose(K.inverse().column[p + 1 : N - p], 0.0, atol=1e-13)
        assert abs(K.inverse().column[p]) > 0.1


def test_circulant_algebra(rng):
    K = on_polygon(ARMA([0.5, -0.7]), 11)
    M, V = K.matrix(), rng.normal(size=(11, 3))
    np.testing.assert_allclose(K.times(V), M @ V, atol=1e-13)
    np.testing.assert_allclose(K.solve(V), np.linalg.solve(M, V), atol=1e-13)
    np.testing.assert_allclose(K.times(V[:, 0]), M @ V[:, 0], atol=1e-13)
    assert K.logdet() == pytest.approx(np.linalg.slogdet(M)[1], rel=1e-12)
    assert K.log_density(V[:, 0]) == pytest.approx(multivariate_normal(cov=M).logpdf(V[:, 0]), rel=1e-12)
    x = K.sample(20_000, seed=5)
    error = np.sqrt((M**2 + M[0, 0] ** 2) / 20_000)
    assert (np.abs(x.T @ x / 20_000 - M) < 5 * error).all()


def test_bad_input():
    with pytest.raises(ValueError, match="not symmetric"):
        Circulant([1.0, 0.5, 0.2])
    with pytest.raises(ValueError, match="smallest eigenvalue is -1"):
        Circulant([0.0, 1.0]).logdet()
    with pytest.raises(ValueError, match="11 columns"):
        on_polygon(ARMA([0.5]), 11).solve(np.ones(3))
    with pytest.raises(ValueError, match="not stationary"):
        on_polygon(ARMA([1.5]), 4)
    with pytest.raises(ValueError, match="length must be positive"):
        ContinuousARMA([1.0]).on_circle(0.0, 0.0)
