"""A few new rows beside many data have a small tile of their own: the same numbers, whoever asks."""

from __future__ import annotations

import numpy as np
import pytest

import mercer as mc
from mercer import kernels


@pytest.fixture(scope="module")
def posterior():
    X = np.random.default_rng(0).normal(size=(70, 2))
    return mc.GP(kernels.Matern([1.0, 2.0], nu=2.5)).condition(X, np.sin(X[:, 0]), noise_variance=0.01)


def test_few_rows_are_those_of_many(posterior):
    Xs = np.random.default_rng(1).normal(size=(12, 2))
    mean, std = posterior.mean_and_std(Xs)
    for m in (1, 8):
        few, spread = posterior.mean_and_std(Xs[:m])
        np.testing.assert_allclose(few, mean[:m], rtol=0, atol=1e-13)
        np.testing.assert_allclose(spread, std[:m], rtol=1e-11)
        assert np.array_equal(posterior.mean(Xs[:m]), few)
        covariance = posterior.covariance(Xs[:m])
        np.testing.assert_allclose(np.diag(covariance), spread**2, rtol=1e-11)


def test_no_rows(posterior):
    assert posterior.mean(np.zeros((0, 2))).shape == (0,)
