"""Least-squares classification, and support vectors beside GP classifiers."""

import numpy as np
import pytest
from scipy.special import expit, ndtr
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import parametrize_with_checks

import mercer as mc
from mercer import kernels as k
from mercer import likelihoods, metrics
from mercer.relatives import SVC, LeastSquaresClassifier, ProbabilisticNearestNeighbour, losses

RNG = np.random.default_rng(0)
CLASS = RNG.integers(0, 3, 40)
X = RNG.normal(size=(40, 2)) + 2.0 * np.array([[0, 0], [1, 0], [0, 1]])[CLASS]
TWO = np.where(CLASS == 0, "in", "out")
KERNEL = k.SE(1.0)


@pytest.mark.parametrize("scheme", ["one-vs-rest", "one-vs-one", "error-correcting"])
def test_rows_left_out_are_those_of_fits_without_them(scheme):
    """B.REL13: by closed form, with one factor for all problems of the same rows."""
    model = LeastSquaresClassifier(KERNEL, 0.3, multi_class=scheme, link="probit").fit(X, CLASS)
    signs = model.codes_[CLASS]
    left = model._held_out(KERNEL(X), signs, [], None)
    for i in (0, 7):
        without = np.arange(40) != i
        again = LeastSquaresClassifier(KERNEL, 0.3, multi_class=scheme, link=None).fit(
            X[without], CLASS[without]
        )
        took = signs[i] != 0
        np.testing.assert_allclose(left[i][took], again._scores(X[i : i + 1])[0][took], rtol=1e-8)
    assert np.mean(model.predict(X) == CLASS) > 0.75 and abs(model.duality_gap_) < 1e-20
    p = model.predict_proba(X)
    np.testing.assert_allclose(p.sum(1), 1.0)
    assert metrics.information(CLASS, p, CLASS) > 0.5


def test_it_is_the_joint_fit_of_all_labels():
    """The functions of one-against-the-rest sum to that of their labels, so that a constraint to do so, as in
    a joint objective, changes nothing.
    """
    model = LeastSquaresClassifier(KERNEL, 0.3, link=None).fit(X, CLASS)
    np.testing.assert_allclose(model._scores(X).sum(1), 2.0 - 3.0, atol=1e-10)


def test_it_tends_to_the_difference_of_probabilities():
    """p (f - 1)^2 + (1 - p) (f + 1)^2 is least at 2 p - 1; with balanced targets it is Fisher's."""
    rng = np.random.default_rng(1)
    x = rng.uniform(-2, 2, size=(1500, 1))
    y = rng.uniform(size=1500) < expit(2 * x[:, 0])
    model = LeastSquaresClassifier(k.SE(1.0), 10.0, link=None).fit(x, y)
    grid = np.linspace(-1.5, 1.5, 7)[:, None]
    np.testing.assert_allclose(model.decision_function(grid), 2 * expit(2 * grid[:, 0]) - 1, atol=0.12)
    fisher = LeastSquaresClassifier(k.Linear(), 1e-6, targets="balanced", link=None).fit(X, TWO)
    w = fisher.functions_[0].weights @ X
    theirs = LinearDiscriminantAnalysis().fit(X, TWO).coef_[0]
    assert w @ theirs / np.linalg.norm(w) / np.linalg.norm(theirs) == pytest.approx(1.0, abs=1e-9)
    assert fisher.decision_function(X.mean(0, keepdims=True))[0] == pytest.approx(0.0, abs=1e-7)


def test_settings_by_rows_left_out():
    model = LeastSquaresClassifier().fit(X, TWO)
    assert model.loss_ < 0.7 and model.lengthscale_ > 0
    for factor in (10**0.5, 10**-0.5):
        moved = LeastSquaresClassifier(model.kernel_, factor * model.noise_variance_)
        left = moved.fit(X, TWO)._held_out(
            model.kernel_(X), moved.codes_[(TWO == "out").astype(int)], [], None
        )
        signs = np.where(TWO == "out", 1.0, -1.0)
        assert np.mean((left[:, 0] - signs) ** 2) >= model.loss_ * (1 - 1e-3)
    with pytest.raises(ValueError, match="targets"):
        LeastSquaresClassifier(targets="ones").fit(X, TWO)
    with pytest.raises(ValueError, match="noise_variance"):
        LeastSquaresClassifier(noise_variance=0.0).fit(X, TWO)


def test_losses_beside_each_other():
    """B.REL11: logistic and probit are of probabilities that sum to 1; the hinge is of none (6.39)."""
    f, one = np.linspace(-4, 4, 81), np.ones(81)
    for loss in (losses.Logistic(), losses.Probit()):
        np.testing.assert_allclose(
            np.exp(-loss.value(one, f)) + np.exp(-loss.value(-one, f)), 1.0, rtol=1e-12
        )
    for C in (0.5, 2.0):
        mass = losses.hinge_mass(f, C)
        assert mass.max() == pytest.approx(1.0) and set(np.round(np.abs(f[mass > 1 - 1e-12]), 9)) == {1.0}
        assert losses.hinge_mass(0.0, C) == pytest.approx(1 / np.cosh(C))
        assert losses.hinge_mass(1e3, C) == pytest.approx(1 / (1 + np.exp(-2 * C)))
    with pytest.raises(ValueError, match="C must be"):
        losses.hinge_mass(0.0, 0.0)


def test_rivals_of_section_3_7():
    """A.C21: the linear probit model is IRLS with a Gaussian prior on the weights; all others predict."""
    y = np.where(TWO == "out", 1.0, -1.0)
    post = mc.Model(mc.GP(k.Linear(0.7)), likelihoods.Bernoulli("probit")).condition(X, y, "laplace")
    w = np.zeros(2)
    for _ in range(30):  # Newton's method on the weights
        z = y * (X @ w)
        r = np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi) / ndtr(z)
        H = (X.T * (r * (z + r))) @ X + np.eye(2) / 0.7
        w = w + np.linalg.solve(H, X.T @ (y * r) - w / 0.7)
    np.testing.assert_allclose(post.mean(X, latent=True), X @ w, atol=1e-6)
    logit = mc.Model(mc.GP(k.Linear(0.7)), likelihoods.Bernoulli("logit")).condition(X, y, "laplace")
    theirs = LogisticRegression(C=0.7, fit_intercept=False, tol=1e-10).fit(X, y)
    np.testing.assert_allclose(logit.mean(X, latent=True), theirs.decision_function(X), atol=1e-4)
    for rival in (ProbabilisticNearestNeighbour(), SVC(link="probit"), LeastSquaresClassifier(link="probit")):
        p = rival.fit(X, TWO).predict_proba(X)
        assert metrics.information(TWO, p, TWO) > 0.2


@pytest.mark.slow
@parametrize_with_checks([LeastSquaresClassifier(refinements=0)])
def test_scikit_learn_conventions(estimator, check):
    check(estimator)
