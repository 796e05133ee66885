"""Bayesian quadrature: closed forms against nodes, variances against matrices, chosen points."""

import math

import numpy as np
import pytest
from scipy.stats import norm

import mercer as mc
from mercer import kernels, means
from mercer.decide.greedy import Residual
from mercer.decide.measures import NormalMeasure, UniformMeasure
from mercer.decide.quadrature import evidence, integral, integrate
from mercer.theory import normal_nodes, product_nodes, uniform_nodes

SKEW = np.array([[1.0, 0.4], [0.4, 0.5]])
NORMAL, BOX = NormalMeasure([0.3, -0.2], SKEW), UniformMeasure([-1.0, 0.0], [2.0, 0.5])
KERNEL = kernels.SE([0.7, 1.9], variance=1.7) + kernels.Constant(0.4)
X = np.array([[0.0, 0.1], [0.7, -0.3], [-0.8, 0.4], [1.5, 0.2], [0.4, 1.1]])
Y = np.sin(X[:, 0]) + X[:, 1] ** 2


def nodes(measure):
    """A fine rule, made apart from the measure's own."""
    if measure is BOX:
        return product_nodes(uniform_nodes(60, -1.0, 2.0), uniform_nodes(60, 0.0, 0.5))
    at, weights = product_nodes(normal_nodes(60), normal_nodes(60))
    return np.array([0.3, -0.2]) + at @ np.linalg.cholesky(SKEW).T, weights


@pytest.mark.parametrize("measure", [NORMAL, BOX], ids=["normal", "uniform"])
def test_closed_forms_are_fine_quadrature(measure):
    at, weights = nodes(measure)
    kernel = KERNEL.bind(2)
    np.testing.assert_allclose(measure.kernel_mean(kernel, X), weights @ kernel(at, X), rtol=1e-9)
    assert measure.kernel_variance(kernel) == pytest.approx(weights @ kernel(at, at) @ weights, rel=1e-9)


@pytest.mark.parametrize(
    "kernel",
    [KERNEL, pytest.param(kernels.Matern(1.3, nu=2.5), marks=pytest.mark.slow)],
    ids=["se", "matern"],
)
@pytest.mark.parametrize("measure", [NORMAL, BOX], ids=["normal", "uniform"])
def test_mean_and_variance_are_those_of_the_posterior_summed(measure, kernel):
    """Another prior mean than zero is integrated, too."""
    post = mc.GP(kernel, mean=means.Constant(0.5)).condition(X, Y, noise_variance=0.01)
    at, weights = nodes(measure)
    mean, std = integral(post, measure)
    assert mean == pytest.approx(weights @ post.mean(at), abs=1e-5)
    assert std**2 == pytest.approx(weights @ post.covariance(at, latent=True) @ weights, rel=1e-3)


def test_chosen_points_beat_random_ones():
    """Eight points chosen one by one leave less variance than any of 50 random sets; the updates say
    what the posterior says.
    """
    kernel, measure = kernels.SE([0.8, 1.5]).bind(2), NormalMeasure([0.0, 0.0])
    pool = measure.points(256, seed=1, spread=1.3)
    z, prior = measure.kernel_mean(kernel, pool), measure.kernel_variance(kernel)
    residual = Residual(kernel, pool, 1e-6)
    residual.toward(z)
    left, chosen = prior, []
    for _ in range(8):
        gain = residual.gain()
        chosen.append(int(np.argmax(gain)))
        left -= gain[chosen[-1]]
        residual.observe(chosen[-1])

    def variance(rows):
        K = kernel(pool[rows]) + 1e-6 * np.eye(len(rows))
        return prior - z[rows] @ np.linalg.solve(K, z[rows])

    assert left == pytest.approx(variance(chosen), rel=1e-6)
    rng = np.random.default_rng(0)
    assert left < 0.5 * min(variance(rng.choice(256, 8, replace=False)) for _ in range(50))


def test_integrate_says_how_far_it_can_be_relied_upon():
    """The issue's own call: a number is handed in, mean and std come back."""
    found = integrate(lambda x: math.exp(math.sin(x)), measure="normal", evaluations=20)
    at, weights = normal_nodes(80)
    truth = weights @ np.exp(np.sin(at[:, 0]))
    assert abs(found.mean - truth) < 4 * found.std < 1e-3
    assert found.X.shape == (20, 1) and found.y.shape == (20,)
    assert integrate(lambda x: 2.0, "uniform", evaluations=6).mean == pytest.approx(2.0)


@pytest.mark.slow
def test_integrate_in_two_columns_beats_monte_carlo():
    """With noise that is learned, the std is about that of the noise's average."""
    measure = UniformMeasure([0.0, 0.0], [1.0, 2.0])
    found = integrate(lambda x: math.cos(2 * x[0]) * x[1] ** 2, measure, evaluations=25)
    truth = math.sin(2.0) / 2 * 4 / 3
    assert abs(found.mean - truth) < 4 * found.std < 1e-3
    rng = np.random.default_rng(0)
    noisy = integrate(
        lambda x: math.sin(x) + 0.3 * rng.standard_normal(), evaluations=40, noise_variance=None
    )
    assert abs(noisy.mean) < 3 * noisy.std and 0.02 < noisy.std < 0.2


def test_evidence_of_a_normal_likelihood():
    """N(1; 0, 1 + 0.3^2), up to the constant; a likelihood that is zero somewhere is fine."""
    found = evidence(lambda x: -0.5 * ((x - 1.0) / 0.3) ** 2 if x > -1 else -math.inf, evaluations=20)
    truth = norm.logpdf(1.0, 0.0, math.sqrt(1.09)) + math.log(0.3 * math.sqrt(2 * math.pi))
    assert abs(found.log_mean - truth) < 3 * found.log_std + 1e-3
    assert found.log_std < 0.05


@pytest.mark.slow
def test_evidence_in_three_columns_far_from_one():
    """The likelihood itself would underflow."""
    prior = NormalMeasure(np.zeros(3))
    found = evidence(lambda x: -2.0 * np.sum((x - 0.5) ** 2) - 1000, prior, evaluations=60)
    truth = -1000 + 3 * (norm.logpdf(0.5, 0.0, math.sqrt(1.25)) + math.log(0.5 * math.sqrt(2 * math.pi)))
    assert abs(found.log_mean - truth) < max(3 * found.log_std, 0.02)


def test_what_cannot_be_integrated_is_named():
    with pytest.raises(ValueError, match="did you mean 'normal'"):
        integrate(math.sin, "norml")
    with pytest.raises(ValueError, match="low must be below high"):
        UniformMeasure(1.0, 0.0)
    with pytest.raises(ValueError, match="positive definite"):
        NormalMeasure([0.0, 0.0], [[1.0, 2.0], [2.0, 1.0]])
    with pytest.raises(ValueError, match=r"returned nan at "):
        integrate(lambda x: math.nan)
    with pytest.raises(ValueError, match="one number"):
        integrate(lambda x: [1.0, 2.0])
    with pytest.raises(ValueError, match="at least 3"):
        integrate(math.sin, evaluations=2)
    with pytest.raises(ValueError, match="-inf at the first"):
        evidence(lambda x: -math.inf)
    with pytest.raises(ValueError, match="the measure has 1 columns, the data 2"):
        integral(mc.GP(KERNEL).condition(X, Y, noise_variance=0.1))
