import numpy as np
import pytest
from scipy.special import expit, log_expit, log_ndtr, ndtr
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.svm import SVC

from mercer import metrics
from mercer.relatives import PlattScaling, platt

RNG = np.random.default_rng(0)
F = RNG.normal(size=300) * 2 + 0.5
LABELS = np.where(RNG.uniform(size=300) < expit(1.7 * F - 0.8), "yes", "no")
LOG = {"logit": log_expit, "probit": log_ndtr}


def value(slope, intercept, t, link):
    z = slope * F + intercept
    return np.sum(t * LOG[link](z) + (1 - t) * LOG[link](-z))


@pytest.mark.parametrize("link", ["logit", "probit"])
@pytest.mark.parametrize("regularise", [True, False])
def test_the_likelihood_is_stationary_and_largest(link, regularise):
    y = LABELS == "yes"
    n1, n0 = y.sum(), (~y).sum()
    t = np.where(y, (n1 + 1) / (n1 + 2), 1 / (n0 + 2)) if regularise else y.astype(float)
    slope, intercept = platt(F, y, link, regularise)
    h = 1e-5
    for da, db in ((h, 0.0), (0.0, h)):
        gradient = (
            value(slope + da, intercept + db, t, link) - value(slope - da, intercept - db, t, link)
        ) / (2 * h)
        assert abs(gradient) < 1e-5
        for s in (30, -30):
            assert value(slope + s * da, intercept + s * db, t, link) < value(slope, intercept, t, link)


def test_logistic_scaling_against_scikit_learn():
    reference = LogisticRegression(C=np.inf, tol=1e-12, max_iter=1000).fit(F[:, None], LABELS)
    scaling = PlattScaling(regularise=False).fit(F, LABELS)
    assert scaling.slope_ == pytest.approx(reference.coef_[0, 0], rel=1e-5)
    assert scaling.intercept_ == pytest.approx(reference.intercept_[0], rel=1e-5)
    np.testing.assert_allclose(scaling.predict_proba(F), reference.predict_proba(F[:, None]), rtol=1e-4)
    np.testing.assert_array_equal(scaling.predict(F[:, None]), reference.predict(F[:, None]))
    np.testing.assert_array_equal(scaling.classes_, ["no", "yes"])


def test_true_links_are_recovered():
    rng = np.random.default_rng(1)
    f = rng.normal(size=40000)
    for link, s in (("logit", expit), ("probit", ndtr)):
        y = rng.uniform(size=40000) < s(1.3 * f - 0.4)
        np.testing.assert_allclose(platt(f, y, link), [1.3, -0.4], atol=0.05)


def test_units_of_the_scores_do_not_matter():
    for link in LOG:
        plain, moved = PlattScaling(link).fit(F, LABELS), PlattScaling(link).fit(1e-6 * F + 1e-3, LABELS)
        np.testing.assert_allclose(moved.predict_proba(1e-6 * F + 1e-3), plain.predict_proba(F), rtol=1e-8)
        flipped = PlattScaling(link).fit(-F, LABELS)
        assert flipped.slope_ == pytest.approx(-plain.slope_, rel=1e-10)


@pytest.mark.parametrize("link", ["logit", "probit"])
def test_separable_scores_are_certain_unless_regularised(link):
    """Kuss' trap (crabs): held-out scores that separate the classes make unregularised probabilities 0 and
    1.
    """
    f, y = np.array([-2.0, -1.5, -1.0, 1.0, 1.5, 2.0]), np.array([0, 0, 0, 1, 1, 1])
    with pytest.warns(UserWarning, match="separate the two classes.*regularise=True"):
        sure = PlattScaling(link, regularise=False).fit(f, y)
    careful = PlattScaling(link).fit(f, y)
    test = metrics.information([1], sure.predict_proba([-1.0]), classes=[0, 1])
    assert test < -25 and -10 < metrics.information([1], careful.predict_proba([-1.0]), classes=[0, 1]) < 0
    # the targets of Platt are met on average: the intercept's equation of the logistic likelihood
    if link == "logit":
        assert careful.predict_proba(f)[:, 1].mean() == pytest.approx(0.5, abs=1e-12)
    with pytest.warns(UserWarning, match="separate"):
        platt([0.0, 1.0, 1.0, 2.0], [0, 0, 1, 1], link, regularise=False)


def test_scores_that_say_nothing_give_the_frequencies():
    y = np.arange(10) < 3
    for link in LOG:
        proba = PlattScaling(link, regularise=False).fit(np.full(10, 4.2), y).predict_proba([4.2])
        np.testing.assert_allclose(proba, [[0.7, 0.3]], rtol=1e-10)


def test_far_scores_keep_small_probabilities():
    scaling = PlattScaling("probit").fit(F, LABELS)
    assert 0 < scaling.predict_proba([8.0])[0, 0] < 1e-8


def test_support_vector_machine_gets_probabilities():
    rng = np.random.default_rng(2)
    y = rng.integers(0, 2, 240)
    X = rng.normal(size=(240, 2)) + 1.2 * y[:, None]
    held_out = cross_val_predict(SVC(), X[:160], y[:160], method="decision_function", cv=5)
    scores = SVC().fit(X[:160], y[:160]).decision_function(X[160:])
    for link in LOG:
        proba = PlattScaling(link).fit(held_out, y[:160]).predict_proba(scores)
        assert 0.2 < metrics.information(y[160:], proba) < 1


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: platt(F, LABELS == "yes", "cauchy"), "Unknown link 'cauchy'; use one of logit, probit"),
        (lambda: platt(F, np.ones(300)), "both classes are needed"),
        (lambda: platt(F, LABELS), "true or false"),
        (lambda: platt(F[:9], LABELS == "yes"), "each of the 9 scores"),
        (lambda: platt([np.nan, 1.0], [0, 1]), "NaN or infinite"),
        (lambda: platt(np.ones((3, 2)), [0, 1, 1]), r"\(cases,\) or \(cases, 1\)"),
        (lambda: PlattScaling().fit(F, np.zeros(300)), "two classes"),
    ],
)
def test_bad_input_is_named(call, says):
    with pytest.raises(ValueError, match=says):
        call()
