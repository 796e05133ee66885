"""Distances beyond what float64 can square: predictions there are those of the prior, never NaN."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mercer as mc
from mercer.kernels.distance import FARTHEST, squared_distance

FAR = (1e160, -1e300)


@pytest.mark.parametrize("d", [1, 8, 40])  # plain differences, their stated derivative, matrix products
def test_squares_beyond_the_range_are_the_farthest(d):
    A, B = np.zeros((3, d)), np.zeros((2, d))
    A[0, 0], A[1, -1], A[2] = *FAR, 1.0
    A, B = jnp.asarray(A), jnp.asarray(B)
    r2 = np.asarray(squared_distance(A, B))
    np.testing.assert_array_equal(r2[:2], FARTHEST)
    np.testing.assert_allclose(r2[2], d, rtol=1e-12)
    slope = jax.grad(lambda A: squared_distance(A, B)[2].sum())(A)
    np.testing.assert_allclose(slope[2], 4.0, rtol=1e-12)


@pytest.mark.parametrize("scheme", [None, "softmax", "one-vs-rest", "one-vs-one"])
def test_classes_far_out_are_as_likely_as_in_the_prior(scheme):
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 5, (24, 2))
    labels = np.array(["a", "b", "c"])[np.digitize(X[:, 0], [1.5, 3.0])]
    model = mc.GPClassifier(multi_class=scheme, max_evaluations=0).fit(X, labels)
    p = model.predict_proba([[1e9, -1e9], [FAR[0], 0.0], [FAR[1], FAR[1]]])
    np.testing.assert_allclose(p, 1 / 3, rtol=1e-5)  # softmax averages a finite set of draws


def test_numbers_far_out_are_those_of_the_prior():
    X = np.linspace(0, 1, 12)[:, None]
    model = mc.GPRegressor(max_evaluations=0).fit(X, np.sin(5 * X[:, 0]))
    mean, std = model.predict([[1e9], [FAR[0]], [FAR[1]]], return_std=True)
    np.testing.assert_allclose(mean, mean[0], rtol=1e-12)
    np.testing.assert_allclose(std, std[0], rtol=1e-12)
