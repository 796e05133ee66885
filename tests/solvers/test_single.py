"""A factor in single precision: solutions to double precision, the rest to the rounding that is stated."""

import numpy as np
import pytest

import mercer as mc
from mercer import kernels as k
from mercer.linalg.cholesky import NotPositiveDefinite
from mercer.solvers import SinglePrecision

RNG = np.random.default_rng(0)
X, XS = RNG.normal(size=(120, 2)), RNG.normal(size=(7, 2))
Y = np.sin(2 * X[:, 0]) + 0.1 * RNG.normal(size=120)
GP = mc.GP(k.SE([0.8, 1.3], 1.5))


def test_close_to_double_precision():
    exact = GP.condition(X, Y, 0.01)
    post = GP.condition(X, Y, 0.01, solver=SinglePrecision())
    np.testing.assert_allclose(post.state.alpha, exact.state.alpha, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(post.mean(XS), exact.mean(XS), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(post.variance(XS), exact.variance(XS), atol=2e-5)
    np.testing.assert_allclose(post.covariance(XS), exact.covariance(XS), atol=2e-5)
    assert post.log_evidence == pytest.approx(exact.log_evidence, abs=2e-3)
    assert "single precision" in post.notes[-1]
    assert post.state.U.nbytes == 4 * 120**2


def test_gradient_and_learning():
    model = mc.Model(GP, mc.likelihoods.Gaussian(0.05))
    _, exact = mc.log_evidence_and_gradient(model, X, Y)
    _, found = mc.log_evidence_and_gradient(model, X, Y, solver="single")
    for name, value in exact.items():
        np.testing.assert_allclose(found[name], value, rtol=2e-4, atol=2e-3)
    learned = mc.GPRegressor(k.SE([1.0, 1.0]), solver="single").fit(X, Y)
    double = mc.GPRegressor(k.SE([1.0, 1.0])).fit(X, Y)
    assert learned.log_marginal_likelihood_ == pytest.approx(double.log_marginal_likelihood_, abs=0.02)


def test_almost_no_noise_is_refused():
    with pytest.raises(NotPositiveDefinite, match="single precision"):
        GP.condition(X, Y, 1e-8, solver=SinglePrecision())
