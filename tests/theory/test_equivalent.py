"""Equivalent kernels: closed forms against golden values, Fourier integrals and real weights."""

import numpy as np
import pytest
from scipy.integrate import quad

import mercer as mc
from mercer import kernels as k
from mercer.theory import (
    cutoff_se,
    eigen_smoother,
    eigenfunctions,
    equivalent_kernel,
    equivalent_matern32,
    equivalent_ou,
    equivalent_se,
    equivalent_spline,
    equivalent_weights,
    half_width,
    ou_on_interval,
)

R = np.array([0.0, 0.05, 0.2])


def test_golden_values():
    """B.TH3: the catalogue's values R5."""
    np.testing.assert_allclose(
        equivalent_matern32(R, np.sqrt(3) / 3, 1.0, 1e-3), [6.319781554, 4.666375290, -0.106656349], atol=5e-9
    )
    u = np.array([0.0, 0.7, 2.3])
    np.testing.assert_allclose(equivalent_spline(u, 1.0), [0.353553391, 0.292029240, 0.065557848], atol=5e-10)
    plane = equivalent_spline(np.array([0.5, 2.0]), 1.0, d=2)
    np.testing.assert_allclose(plane, [0.106885546, 0.032212971], atol=5e-10)
    for n, s_c, peak in ((50, 7.44668, 14.50124), (10, 5.91945, 11.15082), (250, 8.71012, 17.18668)):
        assert cutoff_se(0.0632, n, 0.1) == pytest.approx(s_c, abs=5e-6)
        assert equivalent_se(0.0, 0.0632, n, 0.1) == pytest.approx(2 * s_c, rel=1e-6)
        assert equivalent_weights(k.SE(0.0632), 0.0, n, 0.1) == pytest.approx(peak, rel=1e-6)


def test_closed_forms_are_the_fourier_integrals():
    """B.TH2, B.TH3, also with a variance; the spline of the catalogue's general form."""
    ou = equivalent_weights(2.0 * k.Matern(0.3, nu=0.5), R, 100.0, 0.5)
    np.testing.assert_allclose(equivalent_ou(R, 0.3, 100.0, 0.5, 2.0), ou, rtol=1e-6)
    smooth = equivalent_weights(2.0 * k.Matern(0.3, nu=1.5), R, 100.0, 0.5)
    np.testing.assert_allclose(equivalent_matern32(R, 0.3, 100.0, 0.5, 2.0), smooth, atol=1e-6 * smooth[0])
    cubic = [
        quad(lambda s, x=x: np.cos(2 * np.pi * s * x) / (1 + 0.1 * (2 * np.pi * s) ** 4), 0, np.inf)[0]
        for x in R
    ]
    np.testing.assert_allclose(equivalent_spline(R, 0.1), 2 * np.array(cubic), atol=1e-6)
    # order 3 has no closed form here; in one dimension of (7.13) the step is (7.12)
    assert equivalent_spline(0.0, 1.0, order=3) == pytest.approx(1 / 3, rel=1e-6)
    s_c = cutoff_se(0.1, 100.0, 0.1)
    np.testing.assert_allclose(
        equivalent_se(R, 0.1, 100.0, 0.1), 2 * s_c * np.sinc(2 * s_c * R), rtol=1e-9, atol=1e-12
    )


def test_it_integrates_to_the_share_that_is_kept():
    S0 = k.SE(0.3).spectral_density(0.0)
    total, _ = quad(lambda r: float(equivalent_weights(k.SE(0.3), r, 20.0, 1.0)), 0.0, 6.0, limit=200)
    assert 2 * total == pytest.approx(S0 / (S0 + 1 / 20.0), rel=1e-5)


def test_widths_fall_at_the_rates_of_the_book():
    """(7.10-7.13): n^-1/2 for OU, n^-1/4 for Matern 3/2 and the cubic spline, (log n)^-1/2 for the SE."""
    n = np.array([1e6, 1e8])
    ou = [half_width(lambda r, m=m: equivalent_ou(r, 1.0, m, 0.1)) for m in n]
    rough = [half_width(lambda r, m=m: equivalent_matern32(r, 1.0, m, 0.1)) for m in n]
    spline = [half_width(lambda r, m=m: equivalent_spline(r, 1 / m)) for m in n]
    slope = lambda w: np.log(w[1] / w[0]) / np.log(n[1] / n[0])  # noqa: E731
    assert slope(ou) == pytest.approx(-0.5, abs=1e-3)
    assert slope(rough) == pytest.approx(-0.25, abs=1e-3)
    assert slope(spline) == pytest.approx(-0.25, abs=1e-9)
    b = 0.1 / (n * np.sqrt(2 * np.pi))
    ratio = cutoff_se(1.0, n[1], 0.1) / cutoff_se(1.0, n[0], 0.1)
    assert ratio == pytest.approx(np.sqrt(np.log(b[1]) / np.log(b[0])), rel=1e-12)


def test_weights_of_many_data_are_the_equivalent_kernel():
    """B.TH4, exercise 7.7.3: the weights of 1,001 data on (-1/2, 1/2), times their number, for a prediction
    in the middle; and the numerical equivalent kernel on a tenth of the grid.
    """
    n = 1001
    x = np.linspace(-0.5, 0.5, n)[:, None]
    gp = mc.GP(k.Matern(1.0, nu=0.5))
    known = equivalent_ou(x[:, 0], 1.0, n, 1.0)
    weights = gp.condition(x, np.zeros(n), noise_variance=1.0).smoother(np.zeros((1, 1)))[0] * n
    np.testing.assert_allclose(weights, known, atol=2e-3 * known.max())
    smeared = equivalent_kernel(gp, x[::10], n, 1.0)[50] * 101
    np.testing.assert_allclose(smeared, known[::10], atol=2e-2 * known.max())


def test_eigenfunctions_shrink():
    """B.TH1: under the empirical measure it is the smoother matrix; a finite basis ends as the identity on
    its span.
    """
    X = np.linspace(0.0, 1.0, 30)[:, None]
    kernel = k.Matern(0.3, nu=1.5)
    smoother = eigen_smoother(eigenfunctions(kernel, X, 30), 30, 0.1)
    exact = mc.GP(kernel).condition(X, np.zeros(30), noise_variance=0.1).smoother(X)
    np.testing.assert_allclose(smoother(X) / 30, exact, atol=1e-9)
    assert smoother.degrees_of_freedom == pytest.approx(np.trace(exact), rel=1e-9)
    ou = eigen_smoother(ou_on_interval(0.2, 200), 500, 0.1)
    l = ou.expansion.eigenvalues
    assert l[ou.terms - 1] >= 0.1 / 500 > l[ou.terms]
    assert eigen_smoother(ou_on_interval(0.2, 20), 1e12, 0.1).degrees_of_freedom == pytest.approx(
        20, abs=1e-3
    )


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="hides every frequency"):
        equivalent_se(0.0, 0.1, 1.0, 10.0)
    with pytest.raises(ValueError, match="no finite"):
        equivalent_spline(0.0, 1.0, order=1, d=2)
    with pytest.raises(ValueError, match="must be positive"):
        equivalent_ou(0.0, 1.0, 0.0, 1.0)
    with pytest.raises(ValueError, match="never fall"):
        half_width(np.ones_like)
