"""Data at random and by clusters."""

import numpy as np
import pytest

import mercer as mc
from mercer import kernels as k
from mercer.inputs import InputError
from mercer.selection import Biased, Clusters, Pool, Random, centres
from mercer.selection.clusters import scaled

from .problem import GP, POOL, M, N, X


def test_random_is_uniform():
    """How often each datum is taken over 400 seeds: 80 times give or take four standard deviations."""
    counts = np.bincount(np.concatenate([Random().rows(POOL, M, seed=s) for s in range(400)]), minlength=N)
    assert np.all(np.abs(counts - 80.0) < 4 * np.sqrt(400 * 0.2 * 0.8))


def test_biased():
    """Uniform for a stationary kernel (Drineas and Mahoney); a dot-product kernel prefers large norms."""
    np.testing.assert_array_equal(
        Biased().rows(POOL, M, seed=3),
        np.random.default_rng(3).choice(N, M, replace=False, p=np.full(N, 1 / N)),
    )
    Z = X.copy()
    Z[:20] = 0.0
    linear = mc.GP(k.Linear([1.0, 1.0]))
    assert np.all(Biased().rows(Pool(linear, Z), 10) >= 20)
    pool = Pool(linear, X)
    first = np.array([Biased().rows(pool, 1, seed=s)[0] for s in range(300)])
    weight = np.sum(X**2, 1) ** 2
    assert abs(np.mean(weight[first]) - np.sum(weight**2) / weight.sum()) < 4 * np.std(
        weight[first]
    ) / np.sqrt(300)
    with pytest.raises(ValueError, match="only 10 data have prior variance"):
        Biased().rows(Pool(linear, Z), 11)


def test_clusters():
    """Well separated clouds: one centre and one datum for each, in units of the length-scales."""
    clouds = np.repeat(np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 400.0], [4.0, 400.0]]), 15, 0)
    Z = clouds + np.random.default_rng(0).normal(size=(60, 2)) * [0.1, 10.0]
    gp = mc.GP(k.SE([1.0, 100.0]))
    found = centres(Z, 4, gp)
    order = np.lexsort((found[:, 0] > 2, found[:, 1] > 200))
    np.testing.assert_allclose(found[order], [Z[i : i + 15].mean(0) for i in range(0, 60, 15)], rtol=1e-10)
    rows = Clusters().rows(Pool(gp, Z), 4)
    np.testing.assert_array_equal(np.sort(rows // 15), np.arange(4))
    for i in rows:  # each is the nearest of its cloud to the cloud's mean
        cloud = scaled(Z, gp)[i // 15 * 15 : i // 15 * 15 + 15]
        assert np.argmin(np.sum((cloud - cloud.mean(0)) ** 2, 1)) == i % 15
    np.testing.assert_allclose(scaled(Z, gp), Z / [1.0, 100.0])
    np.testing.assert_allclose(scaled(Z).std(0), 1.0)


def test_clusters_of_many_and_of_coinciding_inputs():
    """A sample of 20 m rows is clustered; where there are just m distinct inputs, those are the centres."""
    Z = np.random.default_rng(0).normal(size=(3000, 3))
    found = centres(Z, 8)
    assert found.shape == (8, 3)
    np.testing.assert_array_equal(found, centres(Z, 8))
    grid = np.repeat(np.arange(5.0)[:, None], 1000, 0)
    np.testing.assert_allclose(np.sort(centres(grid, 5)[:, 0]), np.arange(5.0), atol=1e-14)
    assert len(np.unique(grid[Clusters().rows(Pool(GP, grid), 5)])) == 5
    with pytest.raises(ValueError, match="only 5 distinct inputs"):
        centres(grid, 6)
    np.testing.assert_array_equal(centres(np.zeros((3, 1)), 1), [[0.0]])


def test_errors():
    with pytest.raises(ValueError, match="cannot make 31 clusters"):
        centres(X, N + 1)
    with pytest.raises(InputError, match="numeric inputs"):
        centres(np.array([["a"], ["b"]], dtype=object), 1)
