"""The two directions of KL (Kuss figure 5.8)."""

import numpy as np
import pytest

from mercer.theory import gaussian_fits


def mixture(x):
    return np.logaddexp(np.log(0.6) - 0.5 * (x + 3) ** 2 / 0.5, np.log(0.4) - 0.5 * (x - 3) ** 2 / 0.5)


def test_moments_and_modes():
    """KL(p||q) has the moments of p; KL(q||p) has a local minimum for each well-separated mode,
    the heavier one deeper.
    """
    fits = gaussian_fits(mixture, -10, 10)
    assert fits.moments == pytest.approx((-0.6, 0.5 + 0.6 * 2.4**2 + 0.4 * 3.6**2), rel=1e-6)
    single = [f for f in fits.reverse if f[1] < 1.0]
    assert [round(f[0]) for f in single] == [-3, 3]
    assert single[0][2] == pytest.approx(-np.log(0.6), abs=1e-3) and single[1][2] == pytest.approx(
        -np.log(0.4), abs=1e-3
    )
    assert fits.forward_divergence(*fits.moments) < fits.forward_divergence(
        fits.moments[0], 0.8 * fits.moments[1]
    )
    assert fits.forward_divergence(*fits.moments) > 0


def test_gaussian_is_its_own_best():
    fits = gaussian_fits(lambda x: -0.5 * (x - 1) ** 2 / 0.3, -6, 8)
    assert fits.moments == pytest.approx((1.0, 0.3), rel=1e-6)
    assert len(fits.reverse) == 1 and fits.reverse[0][:2] == pytest.approx((1.0, 0.3), rel=1e-3)
    assert fits.reverse[0][2] == pytest.approx(0.0, abs=1e-8) and float(
        fits.forward_divergence(1.0, 0.3)
    ) == pytest.approx(0.0, abs=1e-8)
