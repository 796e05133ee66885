"""The sum over every set of outliers, against direct formulas; approximations and samplers against it."""

import itertools

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

import mercer as mc
from mercer.inference import Enumeration
from mercer.solvers.protocol import SolverError

k, lk = mc.kernels, mc.likelihoods
XS = np.linspace(-2.5, 2.5, 6)[:, None]


def data(n=10, seed=3, shift=1.0):
    """A sine with two gross outliers, the third and the third to last."""
    rng = np.random.default_rng(seed)
    X = np.sort(rng.uniform(-2.5, 2.5, (n, 1)), 0)
    y = np.sin(1.5 * X[:, 0]) + 0.2 * rng.standard_normal(n)
    y[[2, -3]] += shift * np.array([2.5, -3.0])
    return X, y


def model(weight=0.15, variance=0.05, ratio=60.0):
    return mc.Model(mc.GP(k.SE(1.0, 1.2), mean=0.1), lk.GaussianMixtureNoise(weight, variance, ratio))


def direct(m, X, y):
    """Log joint probability, mean and covariance of f at XS for every set of outliers,
    one dense inverse each.
    """
    w, s, ratio = (float(x) for x in (m.likelihood.weight, m.likelihood.variance, m.likelihood.ratio))
    K, cross = m.gp.kernel(X), m.gp.kernel(X, XS)
    out = []
    for c in itertools.product((0, 1), repeat=len(y)):
        Q = K + np.diag(s * np.where(c, ratio, 1.0))
        log_p = multivariate_normal(np.full(len(y), 0.1), Q).logpdf(y) + sum(
            np.log(w if i else 1 - w) for i in c
        )
        G = np.linalg.solve(Q, cross)
        out.append((log_p, 0.1 + G.T @ (y - 0.1), 1.2 - np.einsum("ij,ij->j", G, cross), c))
    return tuple(np.array(x) for x in zip(*out, strict=True))


def test_evidence_moments_and_outliers_are_the_sums_over_all_sets():
    X, y = data(7)
    m = model()
    post = m.condition(X, y, Enumeration())
    log_p, means, variances, sets = direct(m, X, y)
    total = logsumexp(log_p)
    w = np.exp(log_p - total)
    np.testing.assert_allclose(post.log_evidence, total, rtol=1e-11)
    np.testing.assert_allclose(mc.log_evidence(m, X, y, inference=Enumeration()), total, rtol=1e-11)
    np.testing.assert_allclose(post.outlier_score(), w @ sets, atol=1e-11)
    mean, variance = post.latent_moments(XS)
    np.testing.assert_allclose(mean, w @ means, atol=1e-11)
    np.testing.assert_allclose(variance, w @ (variances + means**2) - mean**2, rtol=1e-9)
    noise = float(m.likelihood.noise_variance)
    np.testing.assert_allclose(post.variance(XS), variance + noise, rtol=1e-12)


@pytest.mark.slow
def test_predictions_are_those_of_the_mixture():
    X, y = data(7)
    post = model().condition(X, y, Enumeration())
    ys = np.linspace(-25.0, 25.0, 5001)
    for x in XS[:2]:
        density = np.exp(post.log_density(np.tile(x, (ys.size, 1)), ys))
        cdf = np.concatenate([[0.0], np.cumsum(0.5 * (density[1:] + density[:-1]) * np.diff(ys))])
        np.testing.assert_allclose(cdf[-1], 1.0, atol=1e-6)
        q = post.quantile(x[None], [0.025, 0.5, 0.9])[0]
        # interpolation: 0.01^2 / 8
        np.testing.assert_allclose(np.interp(q, ys, cdf), [0.025, 0.5, 0.9], atol=2e-5)
    np.testing.assert_array_equal(post.quantile(XS, 0.5), post.quantile(XS, [0.5])[:, 0])


def test_without_outliers_it_is_exact_gaussian_inference():
    X, y = data(6, shift=0.0)
    post = model(weight=1e-9).condition(X, y, Enumeration())
    exact = mc.Model(mc.GP(k.SE(1.0, 1.2), mean=0.1), lk.Gaussian(0.05)).condition(X, y)
    np.testing.assert_allclose(post.log_evidence, exact.log_evidence, atol=1e-6)
    equal = model(weight=0.3, ratio=1.0 + 1e-12).condition(X, y, Enumeration())
    np.testing.assert_allclose(equal.log_evidence, exact.log_evidence, rtol=1e-9)
    np.testing.assert_allclose(equal.mean(XS), exact.mean(XS), atol=1e-9)
    np.testing.assert_allclose(equal.outlier_score(), 0.3, atol=1e-9)


def test_expectation_propagation_is_close():
    """ROB3: ten data, two outliers. The error of EP is of the order of 0.01 nats."""
    X, y = data()
    m = model()
    exact, ep = m.condition(X, y, Enumeration()), m.condition(X, y, "ep")
    assert ep.status.converged
    assert abs(ep.log_evidence - exact.log_evidence) < 0.05
    np.testing.assert_allclose(ep.mean(X), exact.mean(X), atol=0.05)
    assert exact.outlier_score()[[2, 7]].min() > 0.9
    assert np.delete(exact.outlier_score(), [2, 7]).max() < 0.3


def test_refusals():
    X, y = data(16)
    with pytest.raises(SolverError, match="at most 15 data, got 16"):
        model().condition(X, y, Enumeration())
    with pytest.raises(SolverError, match="not StudentT"):
        mc.Model(mc.GP(k.SE()), lk.StudentT()).condition(X[:5], y[:5], Enumeration())
    with pytest.raises(SolverError, match="a mixture, not a Gaussian posterior"):
        mc.log_evidence_and_gradient(model(), X[:5], y[:5], inference=Enumeration())
