"""A step at every time at once: slope and information are those of the dense algebra."""

import numpy as np
import pytest

import mercer as mc
from mercer import kernels as k
from mercer import means
from mercer.solvers.markov_steps import steps

RNG = np.random.default_rng(3)
X, Y = np.column_stack([RNG.permutation(11) / 3.0, RNG.normal(size=11)]), RNG.normal(size=11)


@pytest.mark.parametrize("basis", [None, means.Coordinates([1], covariance=2.0)], ids=["alone", "basis"])
def test_slope_and_information_are_those_of_dense_algebra(basis):
    kernel = (k.Matern(0.8, 1.4, nu=1.5) + k.Matern(0.3, 0.5, nu=0.5)).on(0)
    gp = mc.GP(kernel, basis=basis)
    found = steps(gp.condition(X, Y, noise_variance=0.15, solver="markov").state)
    state = gp.condition(X, Y, noise_variance=0.15, solver="dense").state
    order = np.argsort(X[:, 0])
    np.testing.assert_allclose(found.t, X[order, 0])
    H = (X[:, :1] >= X[order, 0]).astype(float)
    alpha, kappa = state.dual()
    np.testing.assert_allclose(found.slope, H.T @ alpha[:, 0], rtol=1e-8)
    np.testing.assert_allclose(found.information, np.sum(H * state.apply(H), 0), rtol=1e-8)
    np.testing.assert_allclose(found.alpha, alpha[order, 0], rtol=1e-8)
    np.testing.assert_allclose(found.kappa, kappa[order, 0], rtol=1e-8)
    with pytest.raises(TypeError, match="solver='markov'; this is a"):
        steps(state)
