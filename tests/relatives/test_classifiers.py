import os

import numpy as np
import pytest
from scipy import stats
from scipy.special import softmax
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.model_selection import cross_val_predict
from sklearn.neighbors import KNeighborsClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from mercer import datasets, metrics
from mercer.relatives import GaussianClassConditional, ProbabilisticNearestNeighbour

needs_data = pytest.mark.skipif(
    not os.environ.get("MERCER_DATA"), reason="needs the environment variable MERCER_DATA"
)
RNG = np.random.default_rng(0)
NAMES = np.array(["cat", "dog", "eel"])
Y = RNG.choice(NAMES, size=90, p=[0.5, 0.3, 0.2])
X = (
    RNG.normal(size=(90, 3)) @ [[1, 0, 0], [0.5, 2, 0], [0, 0.3, 0.4]]
    + (Y == "dog")[:, None] * [1.0, -1, 0.2]
    + (Y == "eel")[:, None]
)
XS = RNG.normal(size=(25, 3))


@parametrize_with_checks(
    [GaussianClassConditional(), GaussianClassConditional("separate"), ProbabilisticNearestNeighbour()]
)
def test_scikit_learn_accepts_the_estimators(estimator, check):
    check(estimator)


@pytest.mark.parametrize("covariance", ["shared", "separate"])
def test_generative_classifier_is_bayes_rule(covariance):
    """(3.1) with densities of scipy."""
    within = sum(np.cov(X[c == Y].T, ddof=0) * np.mean(c == Y) for c in NAMES)
    joint = np.column_stack(
        [
            np.mean(c == Y)
            * stats.multivariate_normal(
                X[c == Y].mean(0), within if covariance == "shared" else np.cov(X[c == Y].T, ddof=0)
            ).pdf(XS)
            for c in NAMES
        ]
    )
    model = GaussianClassConditional(covariance, ridge=0.0).fit(X, Y)
    np.testing.assert_allclose(model.predict_proba(XS), joint / joint.sum(axis=1, keepdims=True), rtol=1e-10)
    np.testing.assert_array_equal(model.predict(XS), NAMES[joint.argmax(axis=1)])


def test_shared_covariance_is_linear_softmax():
    """(3.4), (3.8): exactly the softmax of weights on the inputs and a constant."""
    model = GaussianClassConditional().fit(X, Y)
    weights = np.column_stack([model.coef_, model.intercept_])
    linear = softmax(np.column_stack([XS, np.ones(25)]) @ weights.T, axis=1)
    np.testing.assert_allclose(model.predict_proba(XS), linear, rtol=1e-11)
    other = LinearDiscriminantAnalysis(solver="lsqr").fit(X, Y)
    np.testing.assert_allclose(model.predict_proba(XS), other.predict_proba(XS), rtol=1e-6)
    two = GaussianClassConditional().fit(X, Y == "cat")
    w, b = two.coef_[1] - two.coef_[0], two.intercept_[1] - two.intercept_[0]
    np.testing.assert_allclose(two.predict_proba(XS)[:, 1], 1 / (1 + np.exp(-XS @ w - b)), rtol=1e-11)


def test_given_priors_shift_the_odds():
    free, even = (
        GaussianClassConditional().fit(X, Y),
        GaussianClassConditional(priors=[0.2, 0.3, 0.5]).fit(X, Y),
    )
    odds = free.predict_proba(XS) * [0.2, 0.3, 0.5] / free.priors_
    np.testing.assert_allclose(even.predict_proba(XS), odds / odds.sum(axis=1, keepdims=True), rtol=1e-10)
    none = GaussianClassConditional(priors=[0.0, 0.5, 0.5]).fit(X, Y)
    assert (none.predict_proba(XS)[:, 0] == 0).all()


def test_change_of_units_and_far_inputs():
    scale = np.array([1e-3, 1.0, 1e4])
    for covariance in ("shared", "separate"):
        model, other = (GaussianClassConditional(covariance).fit(x, Y) for x in (X, X * scale))
        np.testing.assert_allclose(model.predict_proba(XS), other.predict_proba(XS * scale), rtol=1e-7)
        assert np.isfinite(model.predict_log_proba(1e4 * XS)).all()


def test_constant_and_repeated_columns_need_the_ridge():
    wide = np.column_stack([X, X[:, 0], np.full(90, 7.0)])
    with pytest.raises(ValueError, match=r"singular.*Raise ridge \(now 0\)"):
        GaussianClassConditional(ridge=0.0).fit(wide, Y)
    found = (
        GaussianClassConditional()
        .fit(wide, Y)
        .predict_proba(np.column_stack([XS, XS[:, 0], np.full(25, 7.0)]))
    )
    np.testing.assert_allclose(found, GaussianClassConditional().fit(X, Y).predict_proba(XS), atol=1e-5)


@pytest.mark.parametrize("k", [1, 4, 7])
def test_neighbours_against_brute_force(k):
    def vote(x, among):
        nearest = Y[among][np.argsort(((X[among] - x) ** 2).sum(axis=1))[:k]]
        counts = [np.sum(nearest == label) for label in nearest]
        return nearest[np.argmax(counts)]

    everyone = np.arange(90)
    right = np.mean([vote(X[i], np.delete(everyone, i)) == Y[i] for i in range(90)])
    model = ProbabilisticNearestNeighbour(k).fit(X, Y)
    assert model.pi_ == pytest.approx(right, rel=1e-15)
    assert model.errors_ == {k: pytest.approx(1 - right, rel=1e-12)}
    labels = np.array([vote(x, everyone) for x in XS])
    np.testing.assert_array_equal(model.predict(XS), labels)
    expected = np.where(labels[:, None] == NAMES, right, (1 - right) / 2)
    np.testing.assert_allclose(model.predict_proba(XS), expected, rtol=1e-14)


def test_distance_is_to_the_nearest_training_case():
    model = ProbabilisticNearestNeighbour(3).fit(X, Y)
    np.testing.assert_allclose(
        model.distance(XS), np.sqrt(((XS[:, None] - X) ** 2).sum(axis=2)).min(axis=1), rtol=1e-13
    )
    assert (model.distance(X) == 0).all()


def test_rejecting_on_distance_refuses_the_strangers():
    rng = np.random.default_rng(3)
    y = rng.integers(0, 2, 120)
    x = rng.normal(size=(120, 2)) * 0.3 + 3 * y[:, None]
    model = ProbabilisticNearestNeighbour().fit(x[:60], y[:60])
    test = np.concatenate([x[60:], [[30.0, 30.0], [-20.0, 0.0]]])
    labels = np.concatenate([y[60:], [0, 1]])
    curve = metrics.error_reject_curve(
        labels, model.predict_proba(test), model.classes_, by=-model.distance(test)
    )
    np.testing.assert_allclose(curve.error[:3], [2 / 62, 1 / 61, 0], atol=1e-14)
    np.testing.assert_allclose(curve.rejected[:3], [0, 1 / 62, 2 / 62], atol=1e-14)


def test_number_of_neighbours_by_cross_validation():
    model = ProbabilisticNearestNeighbour(range(1, 20, 2)).fit(X, Y)
    assert sorted(model.errors_) == list(range(1, 20, 2))
    assert model.errors_[model.k_] == min(model.errors_.values()) < model.errors_[1]
    assert model.pi_ == pytest.approx(1 - model.errors_[model.k_], rel=1e-14)
    folded = ProbabilisticNearestNeighbour([1, 5], folds=6, random_state=2).fit(X, Y)
    part = np.random.default_rng(2).permutation(np.arange(90) % 6)
    splits = [(np.flatnonzero(part != i), np.flatnonzero(part == i)) for i in range(6)]
    nearest = cross_val_predict(KNeighborsClassifier(1), X, Y, cv=splits)
    assert folded.errors_[1] == pytest.approx(np.mean(nearest != Y), rel=1e-14)
    assert folded.pi_ == pytest.approx(
        1 - ProbabilisticNearestNeighbour(folded.k_).fit(X, Y).errors_[folded.k_], rel=1e-14
    )


def test_smoothing_keeps_probabilities_from_zero():
    x, y = np.array([[0.0], [0.1], [5.0], [5.1]]), [0, 0, 1, 1]
    assert ProbabilisticNearestNeighbour().fit(x, y).pi_ == 1.0
    assert ProbabilisticNearestNeighbour(smoothing=1).fit(x, y).pi_ == pytest.approx(5 / 6, rel=1e-15)


@pytest.mark.parametrize(
    ("estimator", "says"),
    [
        (GaussianClassConditional("full"), '"shared" or "separate"'),
        (GaussianClassConditional(priors=[0.5, 0.5]), "each of the classes"),
        (GaussianClassConditional(priors=[0.5, 0.5, 0.5]), "sum to 1"),
        (GaussianClassConditional(ridge=-1), "ridge must not be negative"),
        (ProbabilisticNearestNeighbour(0), "whole number of at least 1"),
        (ProbabilisticNearestNeighbour([]), "whole number of at least 1"),
        (ProbabilisticNearestNeighbour(1.5), "whole number of at least 1"),
        (ProbabilisticNearestNeighbour(90), "only 89 of 90"),
        (ProbabilisticNearestNeighbour(folds=1), "folds must be None or a whole number from 2"),
        (ProbabilisticNearestNeighbour(smoothing=-1), "smoothing must not be negative"),
    ],
)
def test_bad_parameters_are_named(estimator, says):
    with pytest.raises(ValueError, match=says):
        estimator.fit(X, Y)


def test_one_class_is_refused():
    for estimator in (GaussianClassConditional(), ProbabilisticNearestNeighbour()):
        with pytest.raises(ValueError, match=r"at least two classes; y has only one class, .*cat"):
            estimator.fit(X, np.full(90, "cat"))


@needs_data
def test_nearest_neighbour_on_usps():
    """GPML §3.7.4: π = 0.967, error 3.0 %, information 2.98 bits of 3.27."""
    train, test = datasets.load("usps"), datasets.load("usps", "test")
    model = ProbabilisticNearestNeighbour().fit(train.X, train.y)
    proba = model.predict_proba(test.X)
    assert model.pi_ == pytest.approx(0.967, abs=5e-4)
    assert metrics.error_rate(test.y, model.predict(test.X)) == pytest.approx(0.030, abs=5e-4)
    assert metrics.information(test.y, proba, train.y) == pytest.approx(2.98, abs=5e-3)


@needs_data
@pytest.mark.parametrize(
    ("name", "published", "cases"),
    [("ionosphere", 0.1263, 351), ("crabs", 0.05, 200), ("sonar", 0.1393, 208)],
)
def test_neighbours_of_kuss_table_6_2(name, published, cases):
    """k by cross-validation, standardised inputs, 10 folds; the folds of the thesis are not known,
    so several are drawn.
    """
    data = datasets.load(name)
    spread = data.X.std(0)
    z = (data.X - data.X.mean(0)) / np.where(spread > 0, spread, 1)
    errors = []
    for seed in range(6):
        part = np.random.default_rng(seed).permutation(np.arange(cases) % 10)
        wrong = np.zeros(cases, dtype=bool)
        for i in range(10):
            out = part == i
            model = ProbabilisticNearestNeighbour(range(1, 16), folds=5).fit(z[~out], data.y[~out])
            wrong[out] = model.predict(z[out]) != data.y[out]
        errors.append(wrong.mean())
    assert abs(np.mean(errors) - published) < 3 * np.std(errors, ddof=1)
