"""The relevance vector machine against a search in each precision, and as a Gaussian process."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.stats import multivariate_normal
from sklearn.utils.estimator_checks import parametrize_with_checks

from mercer import kernels as k
from mercer.relatives import RVM, RVMClassifier

RNG = np.random.default_rng(0)
X = np.linspace(-10, 10, 60)[:, None]
Y = np.sinc(X[:, 0] / np.pi) + 0.1 * RNG.standard_normal(60)


@pytest.fixture(scope="module")
def sinc():
    return RVM(k.SE(2.0)).fit(X, Y)


def evidence(model, precisions, noise=None):
    Phi = model._active(X, model.weights_)
    noise = model.noise_variance_ if noise is None else noise
    C = (Phi / precisions) @ Phi.T + noise * np.eye(len(X))
    return multivariate_normal(np.zeros(len(X)), C).logpdf(Y)


def test_sinc(sinc):
    """B.REL15: a handful of relevance vectors, an error near the noise's floor, the evidence never falls."""
    assert 3 <= len(sinc.relevance_) <= 12 and sinc.converged_
    assert np.sqrt(np.mean((sinc.predict(X) - np.sinc(X[:, 0] / np.pi)) ** 2)) < 0.06
    assert np.sqrt(sinc.noise_variance_) == pytest.approx(0.1, rel=0.35)
    assert (np.diff(sinc.history_) > -1e-8).all()
    assert sinc.log_evidence_ == pytest.approx(evidence(sinc, sinc.weights_.precisions), rel=1e-8)


def test_every_precision_is_at_its_optimum(sinc):
    best = sinc.weights_.precisions
    for j in range(len(best)):

        def at(log_a, j=j):
            trial = best.copy()
            trial[j] = np.exp(log_a)
            return -evidence(sinc, trial)

        found = minimize_scalar(at, bounds=(np.log(best[j]) - 4, np.log(best[j]) + 4), method="bounded")
        assert -found.fun - sinc.log_evidence_ < 1e-4
    noise = minimize_scalar(
        lambda v: -evidence(sinc, best, np.exp(v)),
        bounds=np.log(sinc.noise_variance_) + np.array([-2, 2]),
        method="bounded",
    )
    assert -noise.fun - sinc.log_evidence_ < 1e-4


def test_the_evidence_never_falls_where_noise_is_small():
    """Basis functions are nearly in the span of others there: what is left of them is rounding."""
    for seed in range(12):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(rng.integers(40, 80), 1))
        y = np.sin(3 * X[:, 0]) + 10 ** rng.uniform(-6, -3) * rng.normal(size=len(X))
        model = RVM(k.SE(10 ** rng.uniform(-1, 0))).fit(X, y)
        assert model.converged_
        assert np.diff(model.history_).min() >= -1e-9 * abs(model.history_[-1])
        assert np.sqrt(np.mean((model.predict(X) - y) ** 2)) < 0.05


def test_it_is_a_gaussian_process_of_finite_rank(sinc):
    """(6.45): kernel sum phi_j phi_j' / alpha_j."""
    places = np.array([[-4.0], [0.5], [30.0]])
    Phi, there, w = sinc._active(X, sinc.weights_), sinc._active(places, sinc.weights_), sinc.weights_
    K = (Phi / w.precisions) @ Phi.T + sinc.noise_variance_ * np.eye(len(X))
    cross = (there / w.precisions) @ Phi.T
    mean, std = sinc.predict(places, return_std=True)
    np.testing.assert_allclose(mean, cross @ np.linalg.solve(K, Y), atol=1e-7)
    prior = np.sum(there**2 / w.precisions, 1)
    variance = prior - np.sum(cross * np.linalg.solve(K, cross.T).T, 1)
    np.testing.assert_allclose(std**2, variance + sinc.noise_variance_, rtol=1e-6)
    assert np.linalg.matrix_rank((Phi / w.precisions) @ Phi.T) == len(w.active)


def test_variances_collapse_far_away_unless_augmented():
    model = RVM(k.SE(2.0), bias=False).fit(X, Y)
    far = np.array([[40.0]])
    _, std = model.predict(far, return_std=True)
    _, more = model.predict(far, return_std=True, augment=True)
    assert std[0] == pytest.approx(np.sqrt(model.noise_variance_), rel=1e-6) and more[0] > 2 * std[0]
    near, plain = model.predict(X, augment=True), model.predict(X)
    assert np.max(np.abs(near - plain)) < 0.1
    assert "far from the relevance vectors" in model.summary()


@pytest.mark.slow
def test_the_default_kernel_and_labels():
    model = RVM().fit(X, Y)
    assert model.log_evidence_ >= RVM(k.SE(model.kernel_.lengthscale)).fit(X, Y).log_evidence_ - 1e-6
    Z = RNG.normal(size=(80, 2))
    labels = np.where((Z**2).sum(1) < 1.4, "in", "out")
    two = RVMClassifier(k.SE(1.0)).fit(Z, labels)
    assert two.score(Z, labels) > 0.9 and len(two.relevance_) < 20
    three = RVMClassifier(k.SE(1.0)).fit(Z, np.digitize(Z[:, 0], [-0.5, 0.5]))
    assert three.score(Z, np.digitize(Z[:, 0], [-0.5, 0.5])) > 0.85
    np.testing.assert_allclose(three.predict_proba(Z).sum(1), 1.0)
    assert "relevance vectors of 80 rows" in two.summary()


@parametrize_with_checks([RVM(k.SE(1.0), max_iterations=100), RVMClassifier(k.SE(1.0), max_iterations=60)])
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="noise_variance"):
        RVM(noise_variance=-1.0).fit(X, Y)
    with pytest.raises(ValueError, match="takes a kernel"):
        RVM(3.0).fit(X, Y)
