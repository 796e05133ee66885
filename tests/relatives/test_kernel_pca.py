"""Kernel principal components against scikit-learn and against the eigenfunctions. A.S10, D.KA7."""

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.decomposition import KernelPCA as Reference
from sklearn.utils.estimator_checks import check_estimator

from mercer import kernels as k
from mercer import theory
from mercer.relatives import KernelPCA


@pytest.fixture
def data(rng):
    return rng.normal(size=(40, 3)), rng.normal(size=(9, 3))


def test_as_scikit_learn(data):
    X, Xs = data
    kernel = k.SE([0.8, 1.5, 2.0], 1.3)
    ours = KernelPCA(kernel, n_components=5)
    reference = Reference(n_components=5, kernel="precomputed", eigen_solver="dense")
    expected = reference.fit_transform(kernel(X))
    found = ours.fit_transform(X)
    signs = np.sign(np.sum(found * expected, 0))
    np.testing.assert_allclose(found * signs, expected, atol=1e-10)
    np.testing.assert_allclose(ours.eigenvalues_, reference.eigenvalues_, rtol=1e-10)
    np.testing.assert_allclose(ours.transform(Xs) * signs, reference.transform(kernel(Xs, X)), atol=1e-10)
    np.testing.assert_allclose(ours.transform(X), found, atol=1e-10)


def test_linear_kernel_is_pca(data):
    X, Xs = data
    ours, plain = KernelPCA(k.Linear(), 3).fit(X), PCA(3).fit(X)
    np.testing.assert_allclose(np.abs(ours.transform(Xs)), np.abs(plain.transform(Xs)), atol=1e-10)
    assert KernelPCA(k.Linear(), 10).fit(X).eigenvalues_.shape == (3,)


def test_as_eigenfunctions(data):
    """Without centring: phi_i(x) sqrt(lambda_i), with the eigenfunctions of (4.44)."""
    X, Xs = data
    kernel = k.Matern(1.2, nu=1.5)
    ours, functions = KernelPCA(kernel, 4, centre=False).fit(X), theory.eigenfunctions(kernel, X, 4)
    np.testing.assert_allclose(ours.transform(Xs), functions(Xs) * np.sqrt(functions.eigenvalues), atol=1e-10)
    np.testing.assert_allclose(ours.eigenvalues_, 40 * functions.eigenvalues, rtol=1e-12)


def test_strings():
    """The first component of a list of strings tells the two kinds apart."""
    X = ["aaab", "aaba", "abaa", "ccdc", "cdcc", "ccd"]
    Z = KernelPCA(k.Spectrum(2, normalise=True), 1).fit_transform(X)
    assert (
        Z.shape == (6, 1) and len(set(np.sign(Z[:3, 0]))) == 1 and (np.sign(Z[:3]) == -np.sign(Z[3:])).all()
    )


@pytest.mark.filterwarnings("ignore")
def test_estimator():
    check_estimator(KernelPCA())


def test_errors(data):
    with pytest.raises(ValueError, match="n_components must be a whole number of at least 1, got 0"):
        KernelPCA(n_components=0).fit(data[0])
    with pytest.raises(ValueError, match="no direction with variance"):
        KernelPCA().fit(np.ones((4, 2)))
