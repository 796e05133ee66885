"""Processes in continuous time, and what they become when sampled. GPML B.2, B.4; catalogue GM3-GM5, GM10."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import multivariate_normal

import mercer as mc
from mercer import kernels as k
from mercer.kernels.algebra.conditioned import tied_down
from mercer.kernels.statespace import state_space
from mercer.series import ARMA, ContinuousARMA, from_covariances, sampled_spectrum

T = np.array([0.0, 0.05, 0.4, 1.3, -2.0])
PROCESSES = {
    "OU": ContinuousARMA([1.5]),
    "overdamped": ContinuousARMA([2.0, 3.0]),
    "underdamped": ContinuousARMA([4.0, 0.8], 1.7),
    "Matern 5/2": ContinuousARMA.matern(2.0, 3),
    "ARMA(2, 1)": ContinuousARMA([4.0, 0.8], [0.3, -1.0]),
    "ARMA(3, 1), fast": ContinuousARMA(np.poly([-30.0, -20.0 + 50j, -20.0 - 50j]).real[:0:-1], [2.0, 1.0]),
}
each = pytest.mark.parametrize("process", PROCESSES.values(), ids=PROCESSES.keys())


def test_closed_forms_of_the_second_order():
    """OU (B.29) and the three regimes of an AR(2)."""
    t, b = np.abs(T), 1.7
    np.testing.assert_allclose(
        ContinuousARMA([1.5], b).covariance(T), b**2 / 3.0 * np.exp(-1.5 * t), rtol=1e-13
    )
    one, two = 1.0, 2.0  # overdamped: minus the roots
    over = b**2 * (one * np.exp(-two * t) - two * np.exp(-one * t)) / (2 * one * two * (one**2 - two**2))
    np.testing.assert_allclose(ContinuousARMA([one * two, one + two], b).covariance(T), over, rtol=1e-12)
    critical = b**2 * np.exp(-1.3 * t) * (1 + 1.3 * t) / (4 * 1.3**3)
    np.testing.assert_allclose(ContinuousARMA([1.3**2, 2.6], b).covariance(T), critical, rtol=1e-12)
    a0, a1 = 4.0, 0.8
    beta = np.sqrt(a0 - a1**2 / 4)
    under = (
        b**2 / (2 * a0 * a1) * np.exp(-a1 * t / 2) * (np.cos(beta * t) + a1 / (2 * beta) * np.sin(beta * t))
    )
    np.testing.assert_allclose(ContinuousARMA([a0, a1], b).covariance(T), under, rtol=1e-12)


def test_published_matern_forms():
    """(B.30): p = 1, 2 as printed, p = 3, and the library's Matern kernel of order p - 1/2."""
    alpha, t = 1.7, np.abs(T)
    decay = np.exp(-alpha * t)
    printed = [
        decay / (2 * alpha),
        (1 + alpha * t) * decay / (4 * alpha**3),
        (3 + 3 * alpha * t + (alpha * t) ** 2) * decay / (16 * alpha**5),
    ]
    for p, expected in enumerate(printed, 1):
        process, nu = ContinuousARMA.matern(alpha, p), p - 0.5
        np.testing.assert_allclose(process.covariance(T), expected, rtol=1e-12)
        np.testing.assert_allclose(process.spectrum(T), (4 * np.pi**2 * T**2 + alpha**2) ** -p, rtol=1e-12)
        kernel = k.Matern(lengthscale=np.sqrt(2 * nu) / alpha, variance=expected[0], nu=nu)
        np.testing.assert_allclose(kernel(T[:, None], [[0.0]])[:, 0], process.covariance(T), rtol=1e-12)


@each
def test_the_variance_is_the_integral_of_the_spectrum(process):
    total = 2 * quad(lambda s: float(process.spectrum(s)), 0, np.inf, limit=500, epsabs=0, epsrel=1e-10)[0]
    assert process.covariance(0.0) == pytest.approx(total, rel=1e-9)
    assert process.stationary


@each
def test_the_density_is_that_of_the_covariance_matrix(process, rng):
    t = np.sort(rng.uniform(0, 3, 10))
    x, K = rng.normal(size=10), process.covariance(t[:, None] - t)
    noisy = multivariate_normal(cov=K + 0.2 * np.eye(10)).logpdf(x)
    assert process.log_density(t, x, noise_variance=0.2) == pytest.approx(noisy, rel=1e-10)
    far = 3.0 * np.arange(10)
    K = process.covariance(far[:, None] - far)
    x[3] = np.nan
    seen = np.arange(10) != 3
    exact = multivariate_normal(cov=K[np.ix_(seen, seen)]).logpdf(x[seen])
    assert process.log_density(far, x) == pytest.approx(exact, rel=1e-10)


@each
def test_paths_have_the_covariance(process):
    t = np.array([0.0, 0.01, 0.4, 0.4, 1.5])
    x, K = process.sample(t, size=20_000, seed=3), process.covariance(t[:, None] - t)
    error = np.sqrt((K**2 + np.outer(np.diag(K), np.diag(K))) / 20_000)
    assert (np.abs(x.T @ x / 20_000 - K) < 5 * error).all()
    np.testing.assert_allclose(x[:, 2], x[:, 3], atol=1e-12)


@each
@pytest.mark.parametrize("h", [0.01, 0.5])
def test_a_sampled_process_is_an_arma(process, h):
    """Theorem B.1 and B.54: covariances at h, 2h, ... and the wrapped spectrum."""
    discrete, s = process.sampled(h), np.array([0.0, 0.1, 0.37])
    p = process.ar.size
    assert (discrete.ar.size, discrete.ma.size) == (p, p)
    np.testing.assert_allclose(
        discrete.covariance(np.arange(9)), process.covariance(h * np.arange(9)), rtol=1e-7
    )
    wrapped = sampled_spectrum(process.spectrum, s / h, h) / h
    np.testing.assert_allclose(discrete.spectrum(s), wrapped, rtol=1e-6)


def test_sampled_values_of_the_catalogue():
    """OU becomes an AR(1); an AR(2) becomes an ARMA(2, 1) and no AR(2):
    its Yule-Walker fit misses the third lag.
    """
    ou = PROCESSES["OU"].sampled(0.5)
    np.testing.assert_allclose([ou.ar[0], ou.ma[0] ** 2], [0.4723665527, 0.2589566133], rtol=1e-9)
    process = PROCESSES["overdamped"]
    kh = process.covariance(0.5 * np.arange(4))
    np.testing.assert_allclose(kh, [0.0833333333, 0.0704318232, 0.0500352999, 0.0330394377], rtol=2e-9)
    sampled = process.sampled(0.5)
    np.testing.assert_allclose(sampled.ar, [0.9744101009, -0.2231301601], rtol=1e-9)
    np.testing.assert_allclose(sampled.ma, [0.1407603973, 0.0351408886], rtol=1e-8)
    assert abs(from_covariances(kh[:3]).covariance([3])[0] - kh[3]) > 1e-4 * kh[0]
    assert abs(kh[1] - ARMA(sampled.ar, sampled.ma[:1]).covariance([1])[0]) > 0.1 * kh[1]


def test_the_state_space_of_kernels_is_this_process(rng):
    """The Kalman filter of a Matern kernel gives this process's density."""
    t, x = np.sort(rng.uniform(0, 4, 30)), rng.normal(size=30)
    process = ContinuousARMA.matern(np.sqrt(3.0) / 0.7, 2, b=2.0)
    variance = float(process.covariance(0.0))
    gp = mc.GP(k.Matern(0.7, variance, nu=1.5))
    assert state_space(gp.kernel).size == 2
    evidence = gp.condition(t[:, None], x, noise_variance=0.1, solver="markov").log_evidence
    assert process.log_density(t, x, 0.1) == pytest.approx(evidence, rel=1e-11)


def test_paths_started_at_zero(rng):
    """Wiener process tied down at one is the bridge; Karhunen-Loeve;
    the integrated process has variance t^3 / 3 (GM5).
    """
    t = rng.uniform(0.05, 0.95, (6, 1))
    np.testing.assert_allclose(tied_down(k.Wiener(), [[1.0]])(t), k.BrownianBridge()(t), atol=1e-9)
    np.testing.assert_allclose(k.BrownianBridge()(t), np.minimum(t, t.T) - t * t.T, atol=1e-15)
    j = np.arange(1, 20_001)
    for kernel, frequency in ((k.Wiener(), (j - 0.5) * np.pi), (k.BrownianBridge(), j * np.pi)):
        functions = np.sqrt(2) * np.sin(t * frequency)
        np.testing.assert_allclose((functions / frequency**2) @ functions.T, kernel(t), atol=2e-5)
    integrated = k.IntegratedWiener(order=1)
    np.testing.assert_allclose(np.diag(integrated(t)), t[:, 0] ** 3 / 3, rtol=1e-13)
    x, w = np.polynomial.legendre.leggauss(60)
    for a, b in ((0.3, 0.8), (0.5, 0.5)):  # the double integral of min(s, t), inner part in closed form
        s = 0.5 * a * (x + 1)
        inner = np.where(s < b, s * b - s**2 / 2, b**2 / 2)
        assert integrated([[a]], [[b]])[0, 0] == pytest.approx(0.5 * a * float(w @ inner), rel=1e-12)


def test_bad_input():
    with pytest.raises(ValueError, match="real part"):
        ContinuousARMA([-1.0, 1.0]).covariance(0.0)
    with pytest.raises(ValueError, match="q < p"):
        ContinuousARMA([1.0], [1.0, 1.0])
    with pytest.raises(ValueError, match="ascending"):
        PROCESSES["OU"].sample([1.0, 0.0])
    with pytest.raises(ValueError, match="one value for each"):
        PROCESSES["OU"].log_density([0.0, 1.0], [1.0])
    with pytest.raises(ValueError, match="already determined"):
        PROCESSES["OU"].log_density([0.0, 0.0], [1.0, 1.0])
    with pytest.raises(ValueError, match="h must be positive"):
        PROCESSES["OU"].sampled(0.0)
