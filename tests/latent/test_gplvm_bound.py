"""The bound of the Bayesian GPLVM and the density of the other one: expectations against quadrature,
gradients against differences, the bound against the evidence, the linear kernel against probabilistic PCA.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.polynomial.hermite_e import hermegauss
from scipy.optimize import minimize
from scipy.stats import multivariate_normal

import mercer.kernels as k
from mercer import latent
from mercer.latent import bayesian, mode
from mercer.latent.learn import BayesianProblem, ModeProblem
from mercer.uncertain.closed import _expected
from mercer.uncertain.terms import kernel_terms, one_term

KERNEL = k.SE([0.8, 1.5], 1.3)


def table(n=6, d=3, empty=True, seed=0):
    rng = np.random.default_rng(seed)
    Y = rng.normal(size=(n, 2)) @ rng.normal(size=(2, d)) + 0.1 * rng.normal(size=(n, d))
    if empty:
        Y[0, 1] = Y[2, 1] = Y[3, 2] = np.nan
    return Y


def variational(n=6, m=4, seed=1):
    rng = np.random.default_rng(seed)
    mu, log_s, Z = rng.normal(size=(n, 2)), 0.5 * rng.normal(size=(n, 2)) - 1.0, rng.normal(size=(m, 2))
    return latent.Variational(KERNEL, 0.2, mu, log_s, Z)


def test_expectations_equal_quadrature_and_those_at_uncertain_inputs():
    at = variational()
    s, weights = np.exp(at.log_s), np.random.default_rng(2).uniform(size=(2, 6))
    one, two = latent.psi1(KERNEL, at.Z, at.mu, s), latent.psi2(KERNEL, at.Z, at.mu, s, jnp.asarray(weights))
    nodes, w = hermegauss(40)
    grid, w = np.stack(np.meshgrid(nodes, nodes), -1).reshape(-1, 2), np.outer(w, w).ravel() / (2 * np.pi)
    Psi1, Psi2 = np.empty((6, 4)), np.empty((6, 4, 4))
    for i in range(6):
        K = np.asarray(KERNEL(at.mu[i] + np.sqrt(s[i]) * grid, at.Z))
        Psi1[i], Psi2[i] = w @ K, (K.T * w) @ K
    np.testing.assert_allclose(one, Psi1, rtol=1e-8)
    np.testing.assert_allclose(two, np.einsum("pi,ijk->pjk", weights, Psi2), rtol=1e-8)
    (term,) = kernel_terms(KERNEL, 2)
    for i in (0, 5):
        given = jnp.asarray(at.Z), jnp.asarray(at.mu[i]), jnp.diag(s[i])
        single = _expected(term, one_term(2), given[0], given[1][None], *given[1:])[:, 0]
        np.testing.assert_allclose(one[i], single, rtol=1e-10)
        pair = _expected(term, term, given[0], *given)
        np.testing.assert_allclose(Psi2[i], pair, rtol=1e-8)


def test_blocks_of_rows_change_nothing(monkeypatch):
    from mercer.latent import expectations

    at = variational()
    whole = latent.psi2(KERNEL, at.Z, at.mu, np.exp(at.log_s), np.ones((1, 6)))
    monkeypatch.setattr(expectations, "BLOCK", 64)  # four rows, and a padded block of two
    parts = latent.psi2(KERNEL, at.Z, at.mu, np.exp(at.log_s), np.ones((1, 6)))
    np.testing.assert_allclose(parts, whole, rtol=1e-12)


@pytest.mark.parametrize("kind", ["bayesian", "map"])
def test_gradients_are_those_of_differences(kind):
    Y, at = latent.grouped(table()), variational()
    if kind == "bayesian":
        problem = BayesianProblem(KERNEL, Y, 2, 4)
        vector = problem.vector(*at)
    else:
        problem = ModeProblem(KERNEL, Y, 2)
        vector = problem.vector(KERNEL, 0.2, at.mu)
    _, gradient, _ = problem.value_and_gradient(vector)
    rng = np.random.default_rng(3)
    for direction in [*np.eye(len(vector))[:4], *rng.normal(size=(4, len(vector)))]:
        up, down = (problem.value_and_gradient(vector + h * direction)[0] for h in (1e-5, -1e-5))
        assert gradient @ direction == pytest.approx((up - down) / 2e-5, rel=1e-5, abs=1e-5)


def evidence_by_columns(kernel, noise, X, Y):
    """log p(Y | X) by dense Gaussians, column by column on the rows it has."""
    K = np.asarray(kernel(X)) + noise * np.eye(len(X))
    total = 0.0
    for y in Y.T:
        own = np.flatnonzero(~np.isnan(y))
        total += multivariate_normal(np.zeros(len(own)), K[np.ix_(own, own)]).logpdf(y[own])
    return total


def test_the_density_of_points_is_that_of_dense_gaussians_on_the_rows_each_column_has():
    Y, X = table(), variational().mu
    value, _ = latent.log_joint_and_gradient(latent.Points(KERNEL, 0.2, X), latent.grouped(Y))
    prior = -0.5 * np.sum(X**2) - 6 * np.log(2 * np.pi)
    assert float(value) == pytest.approx(evidence_by_columns(KERNEL, 0.2, X, Y) + prior, rel=1e-12)


def test_the_bound_is_below_the_evidence():
    """The evidence of three rows by Monte Carlo over latent points from the prior, and between the two the
    bound with the same q(x) and exact functions, E_q[log p(Y | X)] - KL.
    """
    Y, kernel, noise = table(n=3, d=2, empty=False), k.SE([1.0], 1.0), 1.0
    rng = np.random.default_rng(0)

    def log_density(X):
        K = np.exp(-0.5 * (X - X.transpose(0, 2, 1)) ** 2) + noise * np.eye(3)
        half = np.linalg.solve(np.linalg.cholesky(K), np.broadcast_to(Y, (len(X), 3, 2)))
        return -0.5 * np.sum(half**2, (1, 2)) - np.linalg.slogdet(K)[1] - 3 * np.log(2 * np.pi)

    draws = rng.normal(size=(200_000, 3, 1))
    evidence = np.log(np.mean(np.exp(log_density(draws))))
    problem = BayesianProblem(kernel, latent.grouped(Y), 1, 3)
    first = latent.Variational(kernel, noise, *rng.normal(size=(3, 3, 1)))
    vector = problem.vector(*first)

    def loss(free):
        value, gradient, _ = problem.value_and_gradient(np.append(vector[:3], free))  # hyperparameters held
        return -value, -gradient[3:]

    found = minimize(loss, vector[3:], jac=True, method="L-BFGS-B")
    _, _, mu, log_s, _ = problem.parts(np.append(vector[:3], found.x))
    s = np.exp(log_s)
    kl = 0.5 * np.sum(s + mu**2 - 1.0 - log_s)
    between = np.mean(log_density(mu + np.sqrt(s) * draws)) - kl
    assert -loss(vector[3:])[0] < -found.fun < between + 0.01 and between < evidence + 0.01
    assert -found.fun > evidence - 1.0  # and it is no empty bound


def test_with_certain_points_as_inducing_inputs_the_bound_is_the_evidence():
    Y = table()
    at = variational()
    certain = latent.Variational(KERNEL, 0.2, at.mu, np.full((6, 2), np.log(1e-10)), at.mu)
    kl = 0.5 * np.sum(1e-10 + at.mu**2 - 1 + -np.log(1e-10) * np.ones((6, 2)))
    value = float(latent.bound(certain, latent.grouped(Y))) + kl
    assert value == pytest.approx(evidence_by_columns(KERNEL, 0.2, at.mu, Y), abs=2e-4)  # jitter


def test_both_maps_predict_as_dense_regression_does():
    """Given certain points: means and variances of each column from the rows it has."""
    Y, X, new = table(), variational().mu, np.random.default_rng(5).normal(size=(4, 2))
    groups = latent.grouped(Y)
    point = mode.mapping(mode.Points(KERNEL, 0.2, X), groups)
    bound = bayesian.mapping(latent.Variational(KERNEL, 0.2, X, np.full((6, 2), np.log(1e-10)), X), groups)
    K, cross = np.asarray(KERNEL(X)) + 0.2 * np.eye(6), np.asarray(KERNEL(new, X))
    for found, tolerance in ((point, 1e-10), (bound, 1e-4)):
        mean, variance = found.at(jnp.asarray(new))
        for j, y in enumerate(Y.T):
            own = np.flatnonzero(~np.isnan(y))
            inverse = np.linalg.inv(K[np.ix_(own, own)])
            np.testing.assert_allclose(mean[:, j], cross[:, own] @ inverse @ y[own], atol=tolerance)
            left = 1.3 - np.einsum("ki,ij,kj->k", cross[:, own], inverse, cross[:, own])
            np.testing.assert_allclose(variance[:, j], left, atol=tolerance)


def test_a_row_of_the_table_is_at_rest_in_its_own_part_of_the_bound():
    """The gradient of the collapsed bound in q(x_i) is that of the row's part with q(f(Z)) at its best."""
    Y, at = table(), variational()
    groups = latent.grouped(Y)
    _, slope = latent.bound_and_gradient(at, groups)
    found = bayesian.mapping(at, groups)
    row = jax.grad(lambda mu: found.bound(mu, np.exp(at.log_s[0]), groups.Y[0], groups.observed[0]))(at.mu[0])
    np.testing.assert_allclose(row, slope.mu[0], rtol=1e-4)


def test_a_linear_kernel_without_a_prior_is_probabilistic_pca():
    """At the principal solution of Tipping and Bishop the likelihood has no slope, and it is theirs."""
    Y = table(n=12, d=5, empty=False)
    Y = Y - Y.mean(0)
    n, d, q = 12, 5, 2
    values, vectors = np.linalg.eigh(Y @ Y.T / d)
    values, vectors = values[::-1], vectors[:, ::-1]
    noise = values[q:].mean()  # of the dual: over the n - q smallest
    X = vectors[:, :q] * np.sqrt(values[:q] - noise)
    value, slope = latent.log_joint_and_gradient(
        latent.Points(k.Linear([1.0, 1.0]), noise, X), latent.grouped(Y)
    )
    prior = -0.5 * np.sum(X**2) - 0.5 * n * q * np.log(2 * np.pi)
    np.testing.assert_allclose(slope.X + X, 0.0, atol=1e-8)
    assert abs(float(slope.noise_variance)) < 1e-7
    expected = -0.5 * d * (n * np.log(2 * np.pi) + np.log(values[:q]).sum() + (n - q) * np.log(noise) + n)
    assert float(value) - prior == pytest.approx(expected, rel=1e-10)


def test_principal_points_are_those_of_pca_and_of_the_cells_that_are_left():
    rng = np.random.default_rng(0)
    Y = rng.normal(size=(30, 2)) @ rng.normal(size=(2, 6))
    Y -= Y.mean(0)
    points = latent.principal_points(Y, 3)
    np.testing.assert_allclose(points.T @ points / 30, np.diag([1.0, 1.0, 0.0]), atol=1e-10)
    left = Y.copy()
    left[rng.random(Y.shape) < 0.1] = np.nan
    near = latent.principal_points(left, 2)
    assert abs(np.corrcoef(near[:, 0], points[:, 0])[0, 1]) > 0.99


def test_columns_seen_in_the_same_rows_are_one_group():
    Y = table(d=4)
    Y[:, 3] = np.where(np.isnan(Y[:, 1]), np.nan, 1.0)
    found = latent.grouped(Y)
    assert found.rows.shape == (3, 6) and found.columns.sum() == 4
    np.testing.assert_array_equal(found.observed, (~np.isnan(Y)).astype(float))
    assert not np.isnan(found.Y).any()
