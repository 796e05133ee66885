"""Functions of a Hilbert space, and kernel ridge regression."""

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge as Theirs
from sklearn.utils.estimator_checks import parametrize_with_checks

import mercer as mc
from mercer import kernels as k
from mercer.relatives import KernelFunction, KernelRidge, interpolant, mercer_inner
from mercer.theory import eigenfunctions

RNG = np.random.default_rng(0)
X, KERNEL = RNG.normal(size=(8, 2)), k.Matern(1.0, nu=1.5)
F = KernelFunction(KERNEL, X, RNG.normal(size=8))
G = KernelFunction(KERNEL, X[:3] + 0.5, RNG.normal(size=3))


def test_norms_and_inner_products():
    """B.REL1: the reproducing property; a'Ka = f'K^-1 f; |f(x)| <= |f| sqrt(k(x, x))."""
    x = np.array([[0.3, -0.2]])
    at = KernelFunction(KERNEL, x, np.ones(1))
    assert F.inner(at) == pytest.approx(F(x)[0], rel=1e-12)
    assert F.inner(G) == pytest.approx(G.inner(F), rel=1e-12)
    assert (F + G).norm ** 2 == pytest.approx(F.norm**2 + 2 * F.inner(G) + G.norm**2, rel=1e-10)
    values = F(X)
    assert F.norm**2 == pytest.approx(values @ np.linalg.solve(KERNEL(X), values), rel=1e-8)
    places = RNG.normal(size=(200, 2))
    assert (np.abs(F(places)) <= F.norm * (1 + 1e-12)).all()
    np.testing.assert_allclose((F - 2.0 * G)(places), F(places) - 2 * G(places), atol=1e-12)


def test_projection_has_the_least_norm():
    near = F.projected(X[:4])
    np.testing.assert_allclose(near(X[:4]), F(X[:4]), atol=1e-9)
    assert near.norm < F.norm
    assert (F - near).inner(near) == pytest.approx(0.0, abs=1e-8)  # orthogonal to the span
    np.testing.assert_allclose(interpolant(KERNEL, X, F(X)).weights, F.weights, atol=1e-7)


def test_the_norm_does_not_depend_on_the_measure():
    """Exercise 6.7.1: eigenfunctions under any weights of the points give the same norm; and draws of rank N
    have a squared norm of N on average (6.4).
    """
    f = F(X)
    for weights in (np.full(8, 1 / 8), RNG.random(8) + 0.1):
        e = eigenfunctions(KERNEL, (X, weights), 8)
        c = np.linalg.solve(e.at_nodes, f)
        assert mercer_inner(c, c, e.eigenvalues) == pytest.approx(F.norm**2, rel=1e-7)
    draws = np.linalg.cholesky(KERNEL(X)) @ RNG.normal(size=(8, 4000))
    norms = np.sum(draws * np.linalg.solve(KERNEL(X), draws), 0)
    assert norms.mean() == pytest.approx(8.0, abs=4 * norms.std() / np.sqrt(4000))


def test_kernel_ridge_is_the_mean_of_a_gp():
    """B.REL3: to rounding, and scikit-learn's; the objective at the minimum is y'(K + noise)^-1 y / 2."""
    y = RNG.normal(size=8)
    model = KernelRidge(KERNEL, 0.3).fit(X, y)
    post = mc.GP(KERNEL).condition(X, y, noise_variance=0.3)
    places = RNG.normal(size=(5, 2))
    np.testing.assert_allclose(model.predict(places), post.mean(places), atol=1e-10)
    theirs = Theirs(alpha=0.3, kernel="precomputed").fit(KERNEL(X), y)
    np.testing.assert_allclose(model.predict(places), theirs.predict(KERNEL(places, X)), atol=1e-10)
    f = model.function_

    def objective(f):
        return 0.5 * f.norm**2 + 0.5 * np.sum((y - f(X)) ** 2) / 0.3

    assert model.objective_ == pytest.approx(objective(f), rel=1e-10)
    assert objective(f + 0.01 * G) > objective(f)
    linear = KernelRidge(k.Linear(), 0.3).fit(X, y)
    ridge = np.linalg.solve(X.T @ X + 0.3 * np.eye(2), X.T @ y)
    np.testing.assert_allclose(linear.predict(places), places @ ridge, atol=1e-9)


@parametrize_with_checks([KernelRidge()])
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="different spaces"):
        F.inner(KernelFunction(k.SE(1.0), X, np.ones(8)))
    with pytest.raises(ValueError, match="shapes"):
        KernelFunction(KERNEL, X, np.ones(3))
    with pytest.raises(ValueError, match="noise_variance"):
        KernelRidge(noise_variance=0.0).fit(X, X[:, 0])
    with pytest.raises(ValueError, match="takes a kernel"):
        KernelRidge(3).fit(X, X[:, 0])
    with pytest.raises(ValueError, match="eigenvalues"):
        mercer_inner([1.0], [1.0], [0.0])
