"""Errors with a known covariance: solvers.CorrelatedNoise, GPRegressor.fit(noise_covariance=...)."""

import numpy as np
import pytest

import mercer as mc
from mercer import kernels as k
from mercer.inputs import InputError
from mercer.params import flatten, parameters
from mercer.solvers import CorrelatedNoise, SolverError

N = 25


@pytest.fixture(scope="module")
def drawn():
    rng = np.random.default_rng(0)
    t = np.sort(rng.uniform(0, 5, N))
    C = 0.3 * np.exp(-np.abs(t[:, None] - t) / 0.4)  # continuous AR(1)
    y = np.sin(2 * t) + np.linalg.cholesky(C) @ rng.normal(size=N) + 0.1 * rng.normal(size=N)
    return t[:, None], y, C


def by_hand(X, y, C, Xs, noise, kernel):
    K, Ks = kernel(X), kernel(X, Xs)
    A = K + C + noise * np.eye(len(y))
    mean = Ks.T @ np.linalg.solve(A, y)
    variance = np.diag(kernel(Xs)) - np.einsum("ij,ij->j", Ks, np.linalg.solve(A, Ks))
    evidence = -0.5 * (y @ np.linalg.solve(A, y) + np.linalg.slogdet(A)[1] + len(y) * np.log(2 * np.pi))
    return mean, variance, evidence


def test_as_by_hand(drawn):
    X, y, C = drawn
    Xs = np.vstack([X[:2], [[1.234]]])  # at the data, too: f is without the errors there
    model = mc.Model(mc.GP(k.SE(0.7, 1.3)), mc.likelihoods.Gaussian(0.02))
    post = model.condition(X, y, solver=CorrelatedNoise(C))
    mean, variance, evidence = by_hand(X, y, C, Xs, 0.02, k.SE(0.7, 1.3))
    np.testing.assert_allclose(post.mean(Xs), mean, atol=1e-9)
    np.testing.assert_allclose(post.variance(Xs, latent=True), variance, atol=1e-9)
    np.testing.assert_allclose(post.variance(Xs), variance + 0.02, atol=1e-9)
    assert post.log_evidence == pytest.approx(evidence, abs=1e-9)
    rest = np.delete(np.arange(N), 7)
    A = k.SE(0.7, 1.3)(X) + C + 0.02 * np.eye(N)
    weights = np.linalg.solve(A[np.ix_(rest, rest)], A[rest, 7])
    assert post.loo().mean[7] == pytest.approx(weights @ y[rest], abs=1e-9)
    assert post.loo().variance[7] == pytest.approx(A[7, 7] - weights @ A[rest, 7], abs=1e-9)


def test_the_regressor_learns_beside_it(drawn, tmp_path):
    X, y, C = drawn
    model = mc.GPRegressor(k.SE(0.7), mean=None).fit(X, y, noise_covariance=C)
    at = {p.name: float(p.value) for p in parameters(model.model_)}
    kernel = k.SE(at["kernel.lengthscale"], at["kernel.variance"])
    *_, evidence = by_hand(X, y, C, X, model.noise_variance_, kernel)
    assert model.log_marginal_likelihood_ == pytest.approx(evidence, abs=1e-7)
    value, gradient = model.log_marginal_likelihood(model.theta_ + 0.1, eval_gradient=True)
    steps = 1e-5 * np.eye(len(model.theta_))
    at = model.theta_ + 0.1
    slopes = [
        (model.log_marginal_likelihood(at + h) - model.log_marginal_likelihood(at - h)) / 2e-5 for h in steps
    ]
    np.testing.assert_allclose(gradient, slopes, rtol=1e-5, atol=1e-6)
    assert value < model.log_marginal_likelihood_
    free = mc.GPRegressor(k.SE(0.7), mean=None).fit(X, y)
    assert model.log_marginal_likelihood_ > free.log_marginal_likelihood_
    model.save(tmp_path / "m.mercer")
    again = mc.load(tmp_path / "m.mercer")
    np.testing.assert_allclose(
        again.predict(X, return_std=True), model.predict(X, return_std=True), rtol=1e-9
    )
    assert len(flatten(model.model_).vector) == 3


def test_a_diagonal_is_the_known_error_of_each_row(drawn):
    X, y, _ = drawn
    errors = np.linspace(0.1, 0.5, N)
    one = mc.GPRegressor(k.SE(0.7)).fit(X, y, noise_covariance=np.diag(errors**2))
    other = mc.GPRegressor(k.SE(0.7)).fit(X, y, y_error=errors)
    assert one.log_marginal_likelihood_ == pytest.approx(other.log_marginal_likelihood_, abs=0.05)
    np.testing.assert_allclose(one.predict(X), other.predict(X), atol=0.02)


def test_what_cannot_be(drawn):
    X, y, C = drawn
    with pytest.raises(InputError, match="not positive semi-definite"):
        CorrelatedNoise([[1.0, 2.0], [2.0, 1.0]])
    with pytest.raises(InputError, match=r"not symmetric: 0.5 and 0.2"):
        CorrelatedNoise([[1.0, 0.5], [0.2, 1.0]])
    with pytest.raises(InputError, match=r"must be \(n, n\)"):
        mc.GPRegressor().fit(X, y, noise_covariance=np.ones(N))
    with pytest.raises(InputError, match="is of 24 rows, but there are 25"):
        mc.GPRegressor().fit(X, y, noise_covariance=C[1:, 1:])
    with pytest.raises(ValueError, match="noise_covariance goes with Gaussian noise"):
        mc.GPRegressor(likelihood="student-t").fit(X, y, noise_covariance=C)
    with pytest.raises(SolverError, match="is of 25 data, but there are 20"):
        mc.GP(k.SE()).condition(X[:20], y[:20], 0.1, solver=CorrelatedNoise(C))
