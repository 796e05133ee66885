"""Whether data tell two processes apart."""

import numpy as np
import pytest

from mercer import kernels as k
from mercer.linalg.gaussian import GaussianVector
from mercer.theory import model_probability, periodic_divergence, symmetric_divergence, tell_apart

OU, ALIKE, OTHER = k.Matern(1.0, nu=0.5), 0.5 * k.Matern(0.5, nu=0.5), k.Matern(0.5, nu=0.5)


def grid(n):
    return np.linspace(0.0, 1.0, n + 1)[:, None]


def test_golden_values():
    """B.TH6, the catalogue's R8."""
    for n, known in ((10, 0.62231862), (100, 0.62497200)):
        assert symmetric_divergence(OU, ALIKE, grid(n)) == pytest.approx(known, abs=5e-9)
    for n, known in ((10, 2.1598), (100, 24.6287)):
        assert symmetric_divergence(OU, OTHER, grid(n)) == pytest.approx(known, abs=5e-5)


def test_it_is_both_divergences():
    X, shift = grid(7), np.linspace(-1.0, 1.0, 8)
    p, q = (
        GaussianVector(shift, OU(X) + 0.1 * np.eye(8)),
        GaussianVector(np.zeros(8), ALIKE(X) + 0.1 * np.eye(8)),
    )
    both = symmetric_divergence(OU, ALIKE, X, shift, noise_variance=0.1)
    assert both == pytest.approx(p.kl(q) + q.kl(p), rel=1e-10)
    assert both == pytest.approx(symmetric_divergence(ALIKE, OU, X, shift, 0.1), rel=1e-10)


def test_growth_decides():
    alike, other = tell_apart(OU, ALIKE), tell_apart(OU, OTHER)
    assert not alike.orthogonal and "settles" in str(alike)
    assert other.orthogonal and other.growth == pytest.approx(1.0, abs=0.02) and "n^1" in str(other)
    assert tell_apart(OU, OU).growth == 0.0


def test_periodic_processes():
    """The corrected (7.19): the limit of (7.18) on even grids of a circle."""
    p, q = np.array([0.5, 0.3, 0.2]), np.array([0.6, 0.3, 0.1])
    x = np.arange(5) * 2 * np.pi / 5

    def cov(w):
        return sum(v * np.cos(j * (x[:, None] - x)) for j, v in enumerate(w))

    A, B = cov(p), cov(q)
    direct = 0.5 * np.trace((A - B) @ (np.linalg.inv(B) - np.linalg.inv(A)))
    assert periodic_divergence(p, q) == pytest.approx(direct, rel=1e-9)


def test_probability_of_a_model():
    assert model_probability(-10.0, -10.0) == pytest.approx(0.5)
    assert model_probability(-10.0, -12.0, 0.25) == pytest.approx(
        0.25 * np.e**2 / (0.25 * np.e**2 + 0.75), rel=1e-12
    )


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="singular to rounding"):
        symmetric_divergence(k.SE(1.0), k.SE(0.9), grid(200))
    with pytest.raises(ValueError, match="growing"):
        tell_apart(OU, ALIKE, sizes=[5, 4, 3])
    with pytest.raises(ValueError, match="same frequencies"):
        periodic_divergence([1.0, 2.0], [1.0])
    with pytest.raises(ValueError, match="prior"):
        model_probability(0.0, 0.0, 1.0)
