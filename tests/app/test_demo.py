"""The parts that `mercer demo` draws can be read: the band of the season is the season's."""

import numpy as np
import pytest

import mercer as mc
from mercer.app import demo


@pytest.mark.slow
def test_the_season_holds_no_level():
    """A season that sums to zero over a year cannot trade a constant with the trend, so its band is narrow;
    that of a periodic kernel, which holds one, is as wide as the constant is unknown.
    """
    t = np.arange(0, 8, 1 / 12)[:, None]
    y = 0.1 * t[:, 0] ** 2 + 3 * np.sin(2 * np.pi * t[:, 0])
    trend, season, irregular = demo.kernel().terms
    periodic = mc.kernels.Periodic(period=1.0, lengthscale=1.0, variance=4.0) * season.factors[1]
    bands = []
    for yearly in (season, periodic):
        parts = mc.GP(trend + yearly + irregular).condition(t, y, noise_variance=0.04).components(t)
        np.testing.assert_allclose(np.ptp(parts[1].mean), 6.0, rtol=0.05)
        bands.append(1.96 * parts[1].std.max())
    assert bands[0] < 0.5 < 2.0 < bands[1]
    year = np.linspace(3, 4, 25)[:-1, None]
    shape = season.factors[0]
    np.testing.assert_allclose(shape(year).mean(0), 0.0, atol=1e-6)
