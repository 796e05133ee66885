"""Kernel alignment (5.28). A.M16."""

import numpy as np
import pytest
from scipy.optimize import minimize

from mercer import kernels as k
from mercer.learning import align, alignment, alignment_weights


@pytest.fixture
def labelled(rng):
    X = rng.normal(size=(50, 2))
    return X, np.where(np.sin(2 * X[:, 0]) + 0.7 * X[:, 1] + 0.3 * rng.normal(size=50) > 0, 1.0, -1.0)


def test_alignment(labelled):
    """K = yy' gives 1; scale does not matter; between 0 and 1 for a covariance."""
    X, y = labelled
    np.testing.assert_allclose(alignment(np.outer(y, y), y), 1.0, rtol=1e-14)
    K = k.SE(0.8)(X)
    by_hand = y @ K @ y / (50 * np.sqrt(np.sum(K**2)))
    np.testing.assert_allclose(alignment(K, y), by_hand, rtol=1e-14)
    np.testing.assert_allclose(alignment(7.0 * K, 0.3 * y), by_hand, rtol=1e-14)
    np.testing.assert_allclose(alignment(np.eye(50), y), 1 / np.sqrt(50), rtol=1e-14)
    rng = np.random.default_rng(0)
    for _ in range(20):
        L = rng.normal(size=(50, rng.integers(1, 60)))
        assert 0.0 <= alignment(L @ L.T, rng.normal(size=50)) <= 1.0


def test_combination(labelled):
    """At least as good as every kernel alone, and as good as a general optimiser over the weights finds."""
    X, y = labelled
    kernels = [k.SE(l).on(j) for l in (0.2, 0.8, 3.0) for j in (0, 1)] + [k.Linear(0.7), k.Constant(2.0)]
    found = align(kernels, X, y)
    assert (found.weights >= 0).all() and np.isclose(found.weights.sum(), 1.0) and (found.weights == 0).any()
    assert found.alignment > found.single.max() + 0.01
    np.testing.assert_allclose(found.single, [alignment(kernel(X), y) for kernel in kernels], rtol=1e-13)
    np.testing.assert_allclose(alignment(found.kernel(X), y), found.alignment, rtol=1e-12)
    matrices = np.array([kernel(X) for kernel in kernels])

    def loss(u):
        return -alignment(np.tensordot(u**2, matrices, 1), y)

    rng = np.random.default_rng(0)
    best = min(minimize(loss, rng.uniform(0.1, 1.0, len(kernels)), tol=1e-12).fun for _ in range(5))
    np.testing.assert_allclose(found.alignment, -best, rtol=1e-6)


def test_optimality(labelled):
    """Stationary: the kernels in use have one and the same slope, the others a smaller one."""
    X, y = labelled
    matrices = [k.SE(l)(X) for l in (0.1, 0.5, 1.0, 2.0, 8.0)]
    w = alignment_weights(matrices, y)
    K = sum(wi * Ki for wi, Ki in zip(w, matrices, strict=True))
    slopes = np.array([(y @ Ki @ y) / (y @ K @ y) - np.sum(Ki * K) / np.sum(K * K) for Ki in matrices])
    np.testing.assert_allclose(slopes[w > 0], 0.0, atol=1e-8)
    assert (slopes[w == 0] < 1e-10).all()


def test_dependent_kernels_and_strings(labelled):
    """The same kernel twice, in other units, changes nothing; strings work."""
    X, y = labelled
    once = align([k.SE(0.5), k.Linear()], X, y)
    twice = align([k.SE(0.5), k.SE(0.5, 100.0), k.Linear()], X, y)
    np.testing.assert_allclose(twice.alignment, once.alignment, rtol=1e-10)
    texts = ["aab", "aba", "bbc", "cbb"]
    found = align([k.Spectrum(1), k.Spectrum(2)], texts, [1.0, 1.0, -1.0, -1.0])
    assert 0 < found.alignment <= 1


def test_errors(labelled):
    X, y = labelled
    with pytest.raises(ValueError, match="no kernels to combine"):
        align([], X, y)
    with pytest.raises(ValueError, match="matrix 1 is zero"):
        alignment_weights([np.eye(50), np.zeros((50, 50))], y)
    with pytest.raises(ValueError, match="square covariance matrix"):
        alignment(np.ones((3, 4)), y)
    with pytest.raises(ValueError, match="is not defined"):
        alignment(np.zeros((50, 50)), y)
    with pytest.raises(ValueError, match="no kernel has a positive alignment"):
        alignment_weights([np.array([[1.0, 1.0], [1.0, 1.0]])], [1.0, -1.0])
