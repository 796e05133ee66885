"""Moments for planning: equal to `mercer.uncertain`, to draws, and differentiable."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from mercer import kernels as k
from mercer import means, uncertain
from mercer.control.policies import squash
from mercer.control.propagate import Gaussian, Weights, expected_mean, linear_reply, reply, trigonometric

N, D, P = 16, 3, 2
MU = np.array([0.2, -0.3, 0.5])
SIGMA = np.array([[0.3, 0.1, 0.0], [0.1, 0.4, 0.05], [0.0, 0.05, 0.2]])


@pytest.fixture(scope="module")
def weights():
    """Two functions with 12 data among 16 centres: the others are padded."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(12, D)), np.zeros((4, D))])
    lengths, variance = np.array([[1.0, 2.0, 1.5], [0.7, 1.2, 3.0]]), np.array([1.3, 0.6])
    alpha, R = np.zeros((P, N)), np.zeros((P, N, N))
    for i in range(P):
        K = variance[i] * np.exp(-0.5 * (((X[:12, None] - X[None, :12]) / lengths[i]) ** 2).sum(-1))
        R[i, :12, :12] = np.linalg.inv(K + 0.05 * np.eye(12))
        alpha[i, :12] = R[i, :12, :12] @ np.sin(X[:12] @ np.array([1.0, -1.0, 0.5]) + i)
    slope = np.array([[0.3, 0.0, -0.2], [0.0, 0.0, 0.0]])
    return Weights(X, lengths**-2.0, variance, alpha, R, np.array([0.4, 0.0]), slope, np.zeros(P))


def test_moments_are_those_of_the_general_formulas(weights):
    lengths = weights.precision**-0.5
    predictor = uncertain.Predictor.joined(
        [
            uncertain.Predictor.of_one(
                k.SE(lengths[i], weights.variance[i]),
                means.Linear(weights.slope[i], weights.level[i]),
                weights.centres, weights.alpha[i], weights.R[i],
            )
            for i in range(P)
        ]
    )  # fmt: skip
    expected, got = uncertain.moments(predictor, MU, SIGMA), jax.jit(reply)(weights, MU, SIGMA)
    np.testing.assert_allclose(got.mean, expected.mean, atol=1e-12)
    np.testing.assert_allclose(got.covariance, expected.covariance, atol=1e-12)
    np.testing.assert_allclose(SIGMA @ got.slope, expected.cross, atol=1e-12)
    np.testing.assert_allclose(expected_mean(weights, MU, SIGMA), expected.mean, atol=1e-12)
    straight, flat = uncertain.linearised(predictor, MU, SIGMA), linear_reply(weights, MU, SIGMA)
    np.testing.assert_allclose(flat.covariance, straight.covariance, atol=1e-12)


def test_golden_values():
    """T-UI1: two processes on five data, at x ~ N(0.3, 0.5)."""
    X = np.arange(-2.0, 3.0)[:, None]
    variance, lengths = np.array([1.0, 2.0]), np.array([1.0, 1.5])
    R = np.stack(
        [
            np.linalg.inv(v * np.exp(-0.5 * ((X - X.T) / l) ** 2) + 0.01 * np.eye(5))
            for v, l in zip(variance, lengths, strict=True)
        ]
    )
    alpha = np.stack([R[0] @ np.sin(X[:, 0]), R[1] @ np.cos(X[:, 0])])
    zero = np.zeros(2)
    weights = Weights(X, lengths[:, None] ** -2.0, variance, alpha, R, zero, np.zeros((2, 1)), zero)
    got = reply(weights, np.array([0.3]), np.array([[0.5]]))
    np.testing.assert_allclose(got.mean, [0.228824889030375, 0.742273960266720], rtol=1e-11)
    np.testing.assert_allclose(np.diag(got.covariance), [0.305459868190243, 0.110205933897701], rtol=1e-11)
    np.testing.assert_allclose(got.covariance[0, 1], -0.068453113956753, rtol=1e-11)
    np.testing.assert_allclose(0.5 * got.slope[0, 0], 0.369849011197901, rtol=1e-11)


def test_derivatives_in_mean_and_covariance(weights):
    def value(mu, root):
        found = reply(weights, mu, root @ root.T)
        return jnp.sum(jnp.sin(found.mean)) + jnp.sum(found.covariance**2) + jnp.sum(found.slope**2)

    check_grads(value, (MU, np.linalg.cholesky(SIGMA)), order=1, modes=["rev"], atol=1e-6, rtol=1e-6)


def test_sines_cosines_and_squashed_actions_of_a_gaussian_are_exact():
    rng = np.random.default_rng(1)
    draws = rng.multivariate_normal(MU, SIGMA, 400_000)
    found, cross = trigonometric(Gaussian(jnp.asarray(MU), jnp.asarray(SIGMA)), (0, 2))
    turned = np.concatenate([np.sin(draws[:, [0, 2]]), np.cos(draws[:, [0, 2]])], 1)
    np.testing.assert_allclose(found.mean, turned.mean(0), atol=4e-3)
    np.testing.assert_allclose(found.covariance, np.cov(turned.T), atol=4e-3)
    np.testing.assert_allclose(cross, np.cov(draws.T, turned.T)[:3, 3:], atol=4e-3)
    squashed, slope = squash(Gaussian(jnp.asarray(MU), jnp.asarray(SIGMA)))
    values = (9 * np.sin(draws) + np.sin(3 * draws)) / 8
    np.testing.assert_allclose(squashed.mean, values.mean(0), atol=4e-3)
    np.testing.assert_allclose(squashed.covariance, np.cov(values.T), atol=4e-3)
    np.testing.assert_allclose(slope, ((9 * np.cos(draws) + 3 * np.cos(3 * draws)) / 8).mean(0), atol=6e-3)
