"""ARMA processes in discrete time. GPML B.3-B.4; published values B.42-B.43."""

import numpy as np
import pytest
from scipy.linalg import toeplitz
from scipy.stats import multivariate_normal

from mercer.series import ARMA, Integers, from_covariances, sample_covariance, yule_walker

PROCESSES = {
    "AR(1)": ARMA([0.6], 1.3),
    "AR(2), complex roots": ARMA([0.5, -0.7]),
    "AR(3)": ARMA([0.5, 0.3, -0.2], 0.4),
    "MA(2)": ARMA([], [1.0, 0.4, -0.3]),
    "ARMA(1, 2)": ARMA([-0.8], [0.7, 0.5, 0.2]),
    "ARMA(2, 1)": ARMA([0.9, -0.3], [0.2, 0.5]),
    "white": ARMA([], 2.0),
}
each = pytest.mark.parametrize("process", PROCESSES.values(), ids=PROCESSES.keys())


def test_yule_walker_equations_of_the_catalogue():
    np.testing.assert_allclose(
        ARMA([0.5, 0.3]).covariance([0, 1, 2]), [2.243589744, 1.602564103, 1.474358974], rtol=5e-10
    )
    a1, a2, b = 0.5, -0.7, 1.4
    k = ARMA([a1, a2], b).covariance([0, 1, -2])
    k0 = (1 - a2) * b**2 / ((1 + a2) * ((1 - a2) ** 2 - a1**2))
    np.testing.assert_allclose(k, [k0, a1 * k0 / (1 - a2), a1**2 * k0 / (1 - a2) + a2 * k0], rtol=1e-13)


def test_first_order():
    """B.42 and B.43."""
    a, b, s, j = 0.6, 1.3, np.linspace(0, 1, 7), np.arange(-5, 6)
    process = ARMA([a], b)
    np.testing.assert_allclose(process.covariance(j), a ** np.abs(j) * b**2 / (1 - a**2), rtol=1e-13)
    np.testing.assert_allclose(
        process.spectrum(s), b**2 / (1 - 2 * a * np.cos(2 * np.pi * s) + a**2), rtol=1e-13
    )


@each
def test_the_spectrum_is_the_transform_of_the_covariance(process):
    lags = np.arange(8)
    np.testing.assert_allclose(
        Integers(reach=300).synthesis(process.spectrum, lags).real, process.covariance(lags), atol=1e-12
    )


@each
def test_the_density_is_that_of_the_covariance_matrix(process, rng):
    x, K = rng.normal(size=12), toeplitz(process.covariance(np.arange(12)))
    assert process.log_density(x) == pytest.approx(multivariate_normal(cov=K).logpdf(x), rel=1e-11)
    noisy = multivariate_normal(cov=K + 0.3 * np.eye(12)).logpdf(x)
    assert process.log_density(x, noise_variance=0.3) == pytest.approx(noisy, rel=1e-11)
    x[[0, 4, 5]] = np.nan
    seen = ~np.isnan(x)
    assert process.log_density(x) == pytest.approx(
        multivariate_normal(cov=K[np.ix_(seen, seen)]).logpdf(x[seen]), rel=1e-11
    )


@each
def test_forecasts_condition_the_covariance_matrix(process, rng):
    x, n, m = rng.normal(size=9), 9, 4
    K = toeplitz(process.covariance(np.arange(n + m)))
    G = np.linalg.solve(K[:n, :n] + 0.1 * np.eye(n), K[:n, n:])
    mean, variance = process.forecast(x, m, noise_variance=0.1)
    np.testing.assert_allclose(mean, G.T @ x, atol=1e-12)
    np.testing.assert_allclose(variance, np.diag(K[n:, n:] - K[n:, :n] @ G), atol=1e-12)


@each
def test_series_start_stationary(process):
    """Sample covariances of 20,000 short series, within five standard errors;
    the same at the start and at the end.
    """
    x, K = process.sample(5, size=20_000, seed=1), toeplitz(process.covariance(np.arange(5)))
    error = np.sqrt((K**2 + np.outer(np.diag(K), np.diag(K))) / 20_000)
    assert (np.abs(x.T @ x / 20_000 - K) < 5 * error).all()
    np.testing.assert_array_equal(x, process.sample(5, size=20_000, seed=1))


def test_a_moving_average_forgets_after_q_steps():
    k = PROCESSES["MA(2)"].covariance(np.arange(6))
    assert k[2] == pytest.approx(-0.3)
    np.testing.assert_array_equal(k[3:], 0.0)


def test_yule_walker_recovers_the_coefficients():
    """Within four standard errors, which shrink as the root of n and agree with the scatter over series."""
    process = ARMA([0.5, -0.7, 0.2], 1.5)
    fits = [yule_walker(3.0 + x, 3) for x in process.sample(2000, size=40, seed=2)]
    found, errors = np.array([f.model.ar for f in fits]), fits[0].standard_errors
    assert (np.abs(found - process.ar) < 4.5 * errors).all()
    np.testing.assert_allclose(found.std(0), errors, rtol=0.4)
    assert fits[0].model.ma[0] == pytest.approx(1.5, rel=0.05)
    assert fits[0].mean == pytest.approx(3.0, abs=0.2)


def test_yule_walker_from_exact_covariances():
    process = PROCESSES["AR(3)"]
    again = from_covariances(process.covariance(np.arange(4)))
    np.testing.assert_allclose(again.ar, process.ar, rtol=1e-12)
    np.testing.assert_allclose(again.ma, process.ma, rtol=1e-12)
    longer = from_covariances(process.covariance(np.arange(7)))
    np.testing.assert_allclose(longer.ar, [0.5, 0.3, -0.2, 0, 0, 0], atol=1e-13)


def test_every_fit_is_stationary(rng):
    """Also to a series with a trend."""
    x = np.arange(30.0) ** 2 + rng.normal(size=30)
    fit = yule_walker(x, 4)
    assert fit.model.stationary
    assert fit.model.covariance([0])[0] == pytest.approx(sample_covariance(x - x.mean(), 0)[0], rel=1e-8)


def test_bad_input():
    with pytest.raises(ValueError, match="modulus 1"):
        ARMA([1.0]).covariance([0])
    assert not ARMA([0.5, 0.6]).stationary
    with pytest.raises(ValueError, match="without noise"):
        ARMA([0.5], 0.0)
    with pytest.raises(ValueError, match="between 0 and n - 1 = 2"):
        yule_walker([1.0, 2.0, 1.5], 3)
    with pytest.raises(ValueError, match="1 not finite"):
        yule_walker([1.0, np.nan, 1.5], 1)
    with pytest.raises(ValueError, match="constant"):
        yule_walker(np.ones(9), 1)
    with pytest.raises(ValueError, match="not a covariance"):
        from_covariances([1.0, 2.0])
    with pytest.raises(ValueError, match="finite coefficients"):
        ARMA([np.nan])
