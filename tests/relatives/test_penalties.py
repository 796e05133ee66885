"""Penalties of derivatives, their kernels, and their priors on a grid."""

import numpy as np
import pytest
from scipy.sparse.linalg import splu

from mercer import kernels as k
from mercer.kernels.spectral.density import spectral_density
from mercer.kernels.spectral.hankel import hankel
from mercer.relatives import KernelFunction, Penalty, grid_precision

R = np.array([0.0, 0.003, 0.1, 0.7, 2.0])


def test_the_two_examples_of_the_text():
    """B.REL4: exp(-alpha r) / (2 alpha), and the SE as ever more orders are penalised (6.18)."""
    rough = Penalty([4.0, 1.0])
    np.testing.assert_allclose(rough.green(R), np.exp(-2 * R) / 4, rtol=1e-9)
    np.testing.assert_allclose(rough.kernel()(R[:, None], [[0.0]])[:, 0], np.exp(-2 * R) / 4, rtol=1e-9)
    r = np.array([0.3, 0.8, 1.5])
    for d in (1, 2):
        smooth = np.exp(-0.5 * (r / 0.8) ** 2) * (2 * np.pi * 0.64) ** (-d / 2)
        errors = [
            np.abs(Penalty.gaussian(0.8, orders, d).green(r) / smooth - 1).max() for orders in (3, 6, 9)
        ]
        assert errors[0] > 3 * errors[1] and errors[1] > 3 * errors[2] and errors[2] < 0.01


@pytest.mark.parametrize("d, M", [(1, 2), (2, 2), (3, 2), (3, 3), (5, 4)])
def test_powers_are_of_the_matern_class(d, M):
    """(B.30), by closed form; every penalty by the Hankel transform of its spectrum."""
    alpha2 = 2.0
    penalty = Penalty(np.poly(np.full(M, -alpha2))[::-1], d)
    matern = penalty.kernel()
    assert isinstance(matern, k.Matern) and float(matern.nu) == M - d / 2
    x = np.zeros((len(R), d))
    x[:, 0] = R
    np.testing.assert_allclose(penalty.green(R), matern(x, np.zeros((1, d)))[:, 0], rtol=1e-5)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_roots_that_differ(d):
    penalty = Penalty([1.0, 0.3, 0.8], d)  # a pair of complex ones
    r = np.array([0.2, 1.0, 3.0])
    np.testing.assert_allclose(penalty.green(r), hankel(penalty.spectrum, r, d, 0.2), rtol=1e-6)
    np.testing.assert_allclose(penalty.covariance(np.eye(d)), penalty.covariance(np.eye(d)).T)
    if d > 1:
        with pytest.raises(ValueError, match="no kernel in closed form"):
            penalty.kernel()
        return
    kernel = penalty.kernel()
    np.testing.assert_allclose(kernel(r[:, None], [[0.0]])[:, 0], penalty.green(r), rtol=1e-8)
    s = np.linspace(0, 2, 5)
    np.testing.assert_allclose(spectral_density(kernel, s), penalty.spectrum(s), rtol=1e-8)
    at = KernelFunction(kernel, np.zeros((1, 1)), np.ones(1))
    assert at.norm**2 == pytest.approx(penalty.green(0.0), rel=1e-9)


def test_the_operator_makes_nothing_of_its_green_function():
    """a_0 G - a_1 G'' + a_2 G'''' = 0 off the origin, by differences (6.16)."""
    a, h = [1.0, 0.3, 0.8], 0.02
    G = Penalty(a).green(1.0 + h * np.arange(-2, 3))
    second = (G[1] - 2 * G[2] + G[3]) / h**2
    fourth = (G[0] - 4 * G[1] + 6 * G[2] - 4 * G[3] + G[4]) / h**4
    assert a[0] * G[2] - a[1] * second + a[2] * fourth == pytest.approx(0.0, abs=1e-4)


def test_the_inverse_of_the_grids_precision_is_the_kernel():
    """B.REL5: away from the edges, the better the finer the grid; the norm of a smooth function is right."""
    penalty = Penalty([1.0, 0.5, 0.1])
    errors = []
    for n in (101, 201, 401):
        h = 20.0 / (n - 1)
        P = grid_precision(penalty, n, h)
        unit = np.zeros(n)
        unit[n // 2] = 1.0
        column = splu(P).solve(unit)
        r = h * np.abs(np.arange(n) - n // 2)
        errors.append(np.abs(column - penalty.green(r))[r < 5].max())
    assert errors[0] > 1.8 * errors[1] > 3 * errors[2] and errors[2] < 2e-3
    x = np.linspace(-10, 10, 401)
    f, g, c = np.exp(-(x**2)), -2 * x * np.exp(-(x**2)), (4 * x**2 - 2) * np.exp(-(x**2))
    whole = np.sum(1.0 * f**2 + 0.5 * g**2 + 0.1 * c**2) * 0.05
    assert f @ (grid_precision(penalty, 401, 0.05) @ f) == pytest.approx(whole, rel=1e-2)


def test_a_grid_of_two_inputs():
    penalty = Penalty([1.0, 0.5, 0.1], d=2)
    n, h = 41, 0.25
    P = grid_precision(penalty, (n, n), h)
    unit = np.zeros(n * n)
    unit[(n // 2) * n + n // 2] = 1.0
    column = splu(P).solve(unit).reshape(n, n)[n // 2, n // 2 :]
    r = h * np.arange(len(column))
    np.testing.assert_allclose(column[:12], penalty.green(r[:12]), atol=0.08 * penalty.green(0.0))


def test_bad_input_is_named():
    for call, says in (
        (lambda: Penalty([1.0]), "two or more"),
        (lambda: Penalty([0.0, 1.0]), "ThinPlate"),
        (lambda: Penalty([1.0, 1.0], d=2), "order 2 or higher"),
        (lambda: grid_precision(Penalty([1.0, 1.0]), (3, 3), 0.1), "1 sides"),
        (lambda: Penalty([1.0, 1.0]).covariance(np.ones((2, 2))), "1 columns"),
    ):
        with pytest.raises(ValueError, match=says):
            call()
