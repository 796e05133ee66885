"""Eigenfunctions: golden values, convergence of Nystrom's method, bounds, decay, degeneracy. A.S7-S9,
A.S11-S12, D.KA6-KA9.
"""

import math

import numpy as np
import pytest
from scipy.special import ive

from mercer import kernels as k
from mercer import theory as t

# a = 1, b = 3 (figure 4.7): sd^2 = 1/4, lengthscale^2 = 1/6
SD, LENGTHSCALE = 0.5, math.sqrt(1 / 6)
GOLDEN = [0.548584, 0.247640, 0.111789, 0.050463, 0.022780]


def test_se_under_gaussian():
    """A.S8, D.KA6: (4.40-4.41), the golden values, sum 1, orthonormal under the density, k zeros."""
    exact = t.se_under_gaussian(LENGTHSCALE, SD, 60)
    np.testing.assert_allclose(exact.eigenvalues[:5], GOLDEN, atol=5e-7)
    np.testing.assert_allclose(exact.eigenvalues.sum(), 1.0, rtol=1e-12)
    nodes, weights = t.normal_nodes(120, SD)
    phi = exact(nodes)[:, :12]
    np.testing.assert_allclose((phi * weights[:, None]).T @ phi, np.eye(12), atol=1e-12)
    grid = np.linspace(-2.5, 2.5, 4000)[:, None]
    for i, values in enumerate(exact(grid)[:, :8].T):
        assert np.sum(np.sign(values[1:]) != np.sign(values[:-1])) == i
    # the normaliser of the unnormalised functions exp(-(c-a)x^2) H_k(sqrt(2c) x)
    c = math.sqrt(7)
    unnormalised = np.exp(-(c - 1) * grid[:, 0] ** 2) * np.polynomial.hermite.hermval(
        math.sqrt(2 * c) * grid[:, 0], [0, 0, 1]
    )
    np.testing.assert_allclose(exact(grid)[:, 2] * math.sqrt(4.918305), unnormalised, rtol=1e-6, atol=1e-9)


def test_expansion_is_the_kernel():
    """A.S7: Mercer's theorem (4.37), and the kernel of its first terms: of that rank,
    and its error is the rest of the series.
    """
    exact = t.se_under_gaussian(LENGTHSCALE, SD, 60, variance=1.7)
    X = np.random.default_rng(0).normal(0, SD, (30, 1))
    K = k.SE(LENGTHSCALE, 1.7)(X)
    np.testing.assert_allclose(exact.truncated(X), K, atol=1e-10)
    np.testing.assert_allclose(exact.truncated(X[:4], X), K[:4], atol=1e-10)
    four = exact.truncated(X, terms=4)
    assert np.linalg.matrix_rank(four) == 4
    assert np.linalg.eigvalsh(K - four).min() > -1e-10
    nodes, weights = t.normal_nodes(60, SD)
    left = weights @ np.diag(k.SE(LENGTHSCALE, 1.7)(nodes) - exact.truncated(nodes, terms=4))
    np.testing.assert_allclose(left, exact.eigenvalues[4:].sum(), rtol=1e-9)


@pytest.mark.parametrize("d", [2, 3])
def test_se_in_several_columns(d):
    """D.KA6: products with degeneracy C(k+d-1, d-1); the C(k+d, d)-th eigenvalue is (2a/A)^(d/2) B^k."""
    exact = t.se_under_gaussian(LENGTHSCALE, [SD] * d, math.comb(4 + d, d))
    a, c = 1.0, math.sqrt(7)
    A = a + 3 + c
    values = [(2 * a / A) ** (d / 2) * (3 / A) ** order for order in range(5)]
    expected = np.repeat(values, [math.comb(order + d - 1, d - 1) for order in range(5)])
    np.testing.assert_allclose(exact.eigenvalues, expected, rtol=1e-12)
    nodes = t.product_nodes(*[t.normal_nodes(30, SD)] * d)
    phi = exact(nodes[0])[:, :10]
    np.testing.assert_allclose((phi * nodes[1][:, None]).T @ phi, np.eye(10), atol=1e-5)
    mixed = t.se_under_gaussian([0.4, 2.0], [0.5, 1.5], 8, mean=[1.0, -2.0])
    by_hand = np.outer(
        t.se_under_gaussian(0.4, 0.5, 20).eigenvalues, t.se_under_gaussian(2.0, 1.5, 20).eigenvalues
    )
    np.testing.assert_allclose(mixed.eigenvalues, np.sort(by_hand.ravel())[::-1][:8], rtol=1e-12)
    X = np.array([[1.3, -2.5]])
    first, second = (
        t.se_under_gaussian(l, s, 9, mean=m)(x)
        for l, s, m, x in ((0.4, 0.5, 1.0, X[:, :1]), (2.0, 1.5, -2.0, X[:, 1:]))
    )
    expected = [first[0, i] * second[0, j] for i, j in mixed.orders]
    np.testing.assert_allclose(mixed(X)[0], expected, rtol=1e-12)


def test_quadrature_gives_the_exact_eigenfunctions():
    """A.S12, D.KA7: the symmetrised problem on Gauss-Hermite nodes."""
    exact = t.se_under_gaussian(LENGTHSCALE, SD, 8, variance=2.0)
    found = t.eigenfunctions(k.SE(LENGTHSCALE, 2.0), t.normal_nodes(80, SD), 8)
    np.testing.assert_allclose(found.eigenvalues, exact.eigenvalues, rtol=1e-9)
    X = np.linspace(-1.5, 1.5, 31)[:, None]
    signs = np.sign(np.sum(found(X) * exact(X), 0))
    np.testing.assert_allclose(found(X) * signs, exact(X), atol=2e-6)
    np.testing.assert_allclose(found.total, 2.0, rtol=1e-13)
    np.testing.assert_allclose(found.explained, np.cumsum(exact.eigenvalues) / 2.0, rtol=1e-9)
    # phi~ = p^1/2 phi solves the symmetric problem with the same eigenvalues
    nodes, p = t.normal_nodes(80, SD)
    K = np.sqrt(p)[:, None] * k.SE(LENGTHSCALE, 2.0)(nodes) * np.sqrt(p)
    left = K @ (np.sqrt(p)[:, None] * found.at_nodes)
    np.testing.assert_allclose(left, np.sqrt(p)[:, None] * found.at_nodes * found.eigenvalues, atol=1e-13)


def test_samples_converge():
    """A.S9, D.KA7: (4.42-4.44): the extension is exact at the samples, more samples come closer,
    large eigenvalues are better.
    """
    exact = t.se_under_gaussian(LENGTHSCALE, SD, 5)
    kernel, rng = k.SE(LENGTHSCALE), np.random.default_rng(3)
    errors = []
    for n in (50, 400, 1600):
        rounds = []
        for _ in range(4):
            X = rng.normal(0, SD, (n, 1))
            found = t.eigenfunctions(kernel, X, 5)
            rounds.append(np.abs(found.eigenvalues / exact.eigenvalues - 1))
        errors.append(np.mean(rounds, 0))
        np.testing.assert_allclose(found(X), found.at_nodes, atol=1e-8)
        np.testing.assert_allclose(found.at_nodes.T @ found.at_nodes / n, np.eye(5), atol=1e-10)
    assert errors[0].max() > 2 * errors[2].max() and errors[2].max() < 0.1 and errors[2][0] < errors[2][4]
    grid = np.linspace(-1.0, 1.0, 21)[:, None]
    for i in range(3):
        assert abs(np.corrcoef(found(grid)[:, i], exact(grid)[:, i])[0, 1]) > 0.99


def test_sums_of_sampled_eigenvalues():
    """A.S9: in expectation partial sums of matrix eigenvalues are above the true ones, the rest below."""
    exact = t.se_under_gaussian(LENGTHSCALE, SD, 40).eigenvalues
    sampled = t.sampled_eigenvalues(
        k.SE(LENGTHSCALE), lambda rng, n: rng.normal(0, SD, (n, 1)), n=12, m=12, repeats=400
    )
    sums = np.cumsum(sampled, 1)
    error = sums.std(0) / math.sqrt(len(sums))
    excess = sums.mean(0) - np.cumsum(exact)[:12]
    assert (excess > -2 * error)[:-1].all() and (excess > 5 * error)[:3].all()
    rest = 1.0 - sums.mean(0)
    assert (rest[:5] < 1.0 - np.cumsum(exact)[:5]).all()
    np.testing.assert_allclose(sums[:, -1], 1.0, rtol=1e-12)


def test_ornstein_uhlenbeck():
    """D.KA8: the exact spectrum on [0, 1]; its eigenfunctions; i^2 lambda_i -> 2 / (l pi^2)."""
    exact = t.ou_on_interval(0.8, 2000)
    np.testing.assert_allclose(
        exact.eigenvalues[:5], [0.690857875, 0.157698435, 0.054531075, 0.026234192, 0.015204765], atol=5e-10
    )
    np.testing.assert_allclose(exact.eigenvalues[-1] * 2000**2, 2 / (0.8 * math.pi**2), rtol=2e-3)
    np.testing.assert_allclose(exact.eigenvalues.sum(), 1.0, atol=2e-4)
    few = t.ou_on_interval(0.8, 6)
    nodes, weights = t.uniform_nodes(200)
    phi = few(nodes)
    np.testing.assert_allclose((phi * weights[:, None]).T @ phi, np.eye(6), atol=1e-12)
    found = t.eigenfunctions(k.Matern(0.8, nu=0.5), (nodes, weights), 6)
    np.testing.assert_allclose(found.eigenvalues, few.eigenvalues, rtol=2e-3)
    np.testing.assert_allclose(np.abs(found(nodes[::20])), np.abs(phi[::20]), atol=2e-2)
    elsewhere = t.ou_on_interval(1.6, 6, variance=3.0, low=1.0, high=3.0)
    np.testing.assert_allclose(elsewhere.eigenvalues, 3.0 * few.eigenvalues, rtol=1e-13)
    np.testing.assert_allclose(elsewhere(1.0 + 2.0 * nodes), phi, rtol=1e-9, atol=1e-12)


def test_waves_are_eigenfunctions_of_stationary_kernels():
    """A.S7: (4.38) on a circle: the eigenvalues of a periodic kernel are its Fourier coefficients,
    in pairs.
    """
    grid = np.arange(64)[:, None] / 64
    found = t.eigenfunctions(k.Periodic(1.0, 0.7), grid, 7)
    coefficients = ive([0, 1, 1, 2, 2, 3, 3], 1 / 0.7**2)
    np.testing.assert_allclose(found.eigenvalues, coefficients, rtol=1e-10)
    X = np.linspace(0, 1, 9)[:, None]
    waves = np.hstack([np.cos(2 * np.pi * X), np.sin(2 * np.pi * X)])
    left = np.linalg.lstsq(waves, found(X)[:, 1:3], rcond=None)[1]
    np.testing.assert_allclose(left, 0.0, atol=1e-20)


@pytest.mark.parametrize(
    ("kernel", "slope"), [(k.Matern(0.8, nu=0.5), -2), (k.Matern(0.8, nu=1.5), -4), (k.Wiener(), -2)]
)
def test_decay(kernel, slope):
    """A.S11, D.KA8: on [0, 1] the eigenvalues of a process with r derivatives fall as i^-(2r + 2)."""
    found = t.eigenfunctions(kernel, t.uniform_nodes(500), 100)
    decay = t.spectrum_decay(found.eigenvalues, 50, 100)
    np.testing.assert_allclose(decay.slope, slope, rtol=0.03)
    np.testing.assert_allclose(decay.smoothness, -slope / 2 - 1, atol=0.06)
    assert decay.residual < 0.02


def test_decay_of_smooth_processes():
    exact = t.ou_on_interval(0.8, 300).eigenvalues
    np.testing.assert_allclose(t.spectrum_decay(exact, 50).slope, -2.0, atol=0.03)
    smooth = t.spectrum_decay(t.se_under_gaussian(LENGTHSCALE, SD, 40).eigenvalues, 5)
    assert smooth.slope < -8 and smooth.residual > 0.1


def test_degeneracy(rng):
    """D.KA9: kernels of finite rank are recognised by what they state and by their matrix;
    fast decay is not mistaken for it.
    """
    X = rng.normal(size=(60, 2))
    found = t.degeneracy(k.Polynomial(2), X)
    assert found.degenerate and found.stated == found.numerical == 6 and found.gap > 1e10
    times = k.ObjectKernel(lambda A, B: np.multiply.outer(A, B), "times", blocks=True)
    hidden = t.degeneracy(times, np.linspace(1.0, 3.0, 25).astype(object)[:, None])
    assert hidden.degenerate and hidden.stated is None and hidden.numerical == 1
    smooth = t.degeneracy(k.SE(3.0), rng.normal(size=(60, 1)))
    assert not smooth.degenerate and smooth.numerical < 60 and "no sign of a finite rank" in str(smooth)
    rough = t.degeneracy(k.Matern(nu=0.5), X)
    assert not rough.degenerate and rough.numerical == 60
    assert "rank 6 stated, numerical rank 6 on 60 inputs" in str(found)


def test_strings_have_eigenfunctions():
    X = ["gattaca", "tacat", "cattag", "gagataca", "tta"]
    found = t.eigenfunctions(k.Spectrum(2), X, 5)
    np.testing.assert_allclose(found.truncated(X), k.Spectrum(2)(X), atol=1e-10)


def test_errors():
    with pytest.raises(ValueError, match="one positive number for each of the 3 nodes"):
        t.eigenfunctions(k.SE(), (np.zeros((3, 1)), [0.5, 0.5, 0.0]))
    with pytest.raises(ValueError, match="m must be at least 1"):
        t.eigenfunctions(k.SE(), np.zeros((3, 1)), 0)
    with pytest.raises(ValueError, match="zero at all nodes"):
        t.eigenfunctions(k.Linear(), np.zeros((3, 1)))
    with pytest.raises(ValueError, match="must be positive"):
        t.se_under_gaussian(-1.0, 1.0)
    with pytest.raises(ValueError, match="must be positive, high above low"):
        t.ou_on_interval(1.0, low=2.0)
    with pytest.raises(ValueError, match="X has 2 columns, the expansion 1"):
        t.se_under_gaussian(1.0, 1.0)(np.zeros((3, 2)))
    with pytest.raises(ValueError, match="places 5 to 9 need that many"):
        t.spectrum_decay(np.ones(8), 5, 9)
