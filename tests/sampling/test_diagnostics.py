"""Diagnostics against chains whose autocorrelation is known."""

import numpy as np
import pytest

from mercer.sampling import autocorrelation, autocorrelation_time, effective_sample_size, r_hat


def ar1(rng, phi, chains, draws, quantities=1):
    """Stationary autoregressive chains with unit variance: autocorrelation phi^lag,
    integrated time (1 + phi) / (1 - phi).
    """
    x = np.empty((chains, draws, quantities))
    x[:, 0] = rng.standard_normal((chains, quantities))
    noise = np.sqrt(1 - phi**2) * rng.standard_normal((chains, draws, quantities))
    for t in range(1, draws):
        x[:, t] = phi * x[:, t - 1] + noise[:, t]
    return x


@pytest.mark.parametrize("phi", [0.0, 0.6, 0.9, -0.5])
def test_effective_sample_size_of_autoregressive_chains(rng, phi):
    x = ar1(rng, phi, 4, 4000, 20)
    known = (1 + phi) / (1 - phi)
    # the mean over 20 independent quantities: each is known to about 10 %, so 8 % is more than three standard
    # errors
    np.testing.assert_allclose(np.mean(autocorrelation_time(x)), known, rtol=0.08)
    np.testing.assert_allclose(np.mean(16000 / effective_sample_size(x, "mean")), known, rtol=0.08)
    np.testing.assert_allclose(np.mean(16000 / effective_sample_size(x, "bulk")), known, rtol=0.1)


def test_autocorrelation_function(rng):
    x = ar1(rng, 0.8, 1, 50_000)[0, :, 0]
    # standard error about 0.01
    np.testing.assert_allclose(autocorrelation(x)[:6], 0.8 ** np.arange(6), atol=0.03)


def test_r_hat_sees_shifts_and_scales(rng):
    x = rng.standard_normal((4, 500))
    assert r_hat(x) < 1.01
    shifted = x.copy()
    shifted[0] += 1.0
    wide = x.copy()
    wide[0] *= 4.0  # same mean: only the folded values show it
    trend = x + np.linspace(0, 2, 500)  # all chains alike, but each half differs
    assert r_hat(shifted) > 1.1
    assert r_hat(wide) > 1.1
    assert r_hat(trend) > 1.1


def test_r_hat_does_not_need_moments(rng):
    x = rng.standard_cauchy((4, 1000))
    assert r_hat(x) < 1.02
    assert effective_sample_size(x) > 2500


def test_tail_size_falls_where_tails_are_sticky(rng):
    x = rng.standard_normal((4, 2000))
    assert 5000 < effective_sample_size(x, "tail") < 12000
    # signs are independent, sizes come in runs of 200
    scale = np.repeat(rng.choice([0.5, 3.0], (4, 10)), 200, axis=1)
    assert effective_sample_size(scale * x) > 4000
    assert effective_sample_size(scale * x, "tail") < 3000 < 0.7 * effective_sample_size(scale * x)


def test_degenerate_draws_are_not_called_good():
    constant = np.ones((2, 100))
    assert np.isnan(r_hat(constant))
    assert np.isnan(effective_sample_size(constant))
    stuck = np.stack([np.zeros(100), np.ones(100)])
    assert r_hat(stuck) > 1e6
    with pytest.raises(ValueError, match="at least one chain of 4 draws"):
        r_hat(np.ones((2, 3)))
    with pytest.raises(ValueError, match="bulk"):
        effective_sample_size(np.ones((2, 30)), "middle")
