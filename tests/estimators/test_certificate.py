"""PAC-Bayes certificates of classifiers, and intervals calibrated on held-out rows."""

import numpy as np
import pytest

import mercer as mc
from mercer import kernels as k
from mercer.linalg.gaussian import GaussianVector
from mercer.theory import mcallester, seeger

GIVEN = dict(kernel=4.0 * k.SE(2.0), learn=False)


def rows(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, np.where(X[:, 0] + 0.3 * rng.normal(size=n) > 0, "a", "b")


@pytest.mark.parametrize("inference", ("laplace", "ep", "variational"))
def test_the_divergence_is_that_of_two_gaussians(inference):
    X, y = rows(30)
    kernel = 4.0 * k.Matern(0.7, nu=1.5)  # whose covariance matrix can be inverted
    post = mc.GPClassifier(kernel, learn=False, inference=inference).fit(X, y).posterior_
    q = GaussianVector(post.mean(X, latent=True), post.covariance(X, latent=True))
    p = GaussianVector(np.zeros(30), kernel(X))
    assert post.prior_divergence() == pytest.approx(q.kl(p), rel=1e-9)


def test_a_certificate_of_a_given_prior():
    """B.TH13."""
    X, y = rows(60)
    found = mc.GPClassifier(**GIVEN).certificate(X, y, delta=0.05)
    mean, variance = found.classifier.latent(X)
    from scipy.stats import norm

    sign = np.where(y == found.classifier.classes_[1], 1.0, -1.0)
    assert found.risk == pytest.approx(np.mean(norm.cdf(-sign * mean / np.sqrt(variance))), rel=1e-9)
    assert (found.n, found.split) == (60, 0)
    assert found.gibbs == seeger(found.risk, found.divergence, 60, 0.05)
    assert found.mcallester == mcallester(found.risk, found.divergence, 60, 0.05) > found.gibbs
    assert found.vote == min(1.0, 2 * found.gibbs) and "hyperparameters were given" in str(found)
    with pytest.raises(ValueError, match="delta"):
        mc.GPClassifier(**GIVEN).certificate(X, y, delta=1.0)
    with pytest.raises(ValueError, match="two classes"):
        mc.GPClassifier(**GIVEN).certificate(X, np.arange(60) % 3)
    with pytest.raises(ValueError, match="too few"):
        mc.GPClassifier(**GIVEN).certificate(X[:4], y[:4])


def test_learned_hyperparameters_take_a_part_of_the_rows():
    X, y = rows(60)
    found = mc.GPClassifier(max_evaluations=3).certificate({"u": X[:, 0], "v": X[:, 1]}, y)
    assert (found.n, found.split) == (30, 30) and len(found.classifier.posterior_.y) == 30
    assert "learned from 30 other rows" in str(found) and found.vacuous and "guessing" in str(found)
    assert found.classifier.predict({"v": X[:2, 1], "u": X[:2, 0]}).shape == (2,)


@pytest.mark.slow
def test_bounds_are_violated_no_more_often_than_said():
    """Of 100 training sets none errs more on fresh rows than certified with delta = 0.1."""
    Xs, ys = rows(4000, 1)
    violated = 0
    for seed in range(100):
        found = mc.GPClassifier(**GIVEN).certificate(*rows(60, 100 + seed), delta=0.1)
        violated += np.mean(found.classifier.predict(Xs) != ys) > found.vote
    assert violated <= 10


@pytest.fixture(scope="module")
def wrong():
    """A model whose Gaussian noise is not that of the data."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (60, 1))
    model = mc.GPRegressor(k.SE(1.0), noise_variance=0.01, learn=False)
    return model.fit(X, np.sin(X[:, 0]) + 0.1 * rng.standard_t(1.5, 60)), rng


def test_calibrated_intervals_cover(wrong):
    model, rng = wrong

    def more(n):
        X = rng.uniform(-2, 2, (n, 1))
        return X, np.sin(X[:, 0]) + 0.1 * rng.standard_t(1.5, n)

    inside, own = [], []
    for _ in range(40):
        calibrated, (Xs, ys) = model.calibrate(*more(49)), more(100)
        for found, who in ((inside, calibrated), (own, model)):
            lower, upper = who.predict_interval(Xs, level=0.9)
            found.append(np.mean((lower <= ys) & (ys <= upper)))
    # with 49 rows the 45th score is exactly the level 0.9
    assert np.mean(inside) == pytest.approx(0.9, abs=4 * np.std(inside) / np.sqrt(40))
    assert np.mean(own) < 0.85
    np.testing.assert_array_equal(calibrated.predict(Xs), model.predict(Xs))


def test_what_calibration_promises_and_what_not(wrong):
    model, _ = wrong
    X = np.linspace(-1, 1, 9)[:, None]
    calibrated = model.calibrate(X, np.sin(X[:, 0]))
    assert calibrated.factor(0.9) == calibrated.scores[-1] and np.isinf(calibrated.factor(0.95))
    assert np.isinf(calibrated.predict_interval(X, 0.95)).all() and "calibrated on 9 rows" in str(calibrated)
    with pytest.raises(ValueError, match="level"):
        calibrated.factor(1.0)
    with pytest.raises(ValueError, match="rows"):
        model.calibrate(X, [1.0])
