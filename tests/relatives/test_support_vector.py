"""Support vector machines: against scikit-learn, their duality gap, a general optimiser, and each other."""

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn import svm
from sklearn.utils.estimator_checks import parametrize_with_checks

import mercer as mc
from mercer import kernels as k
from mercer import metrics
from mercer.relatives import SVC, SupportVectorRegression
from mercer.relatives.machines import codes, couple, decode

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 2))
LABELS = np.where(X[:, 0] * X[:, 1] + 0.3 * RNG.normal(size=60) > 0, "a", "b")
Y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=60)
CLASS = RNG.integers(0, 4, 60)
Z = X + 2.5 * np.array([[0, 0], [1, 0], [0, 1], [1, 1]])[CLASS]
KERNEL = k.SE(1.0)


@pytest.fixture(scope="module")
def machine():
    return SVC(KERNEL, C=10.0).fit(X, LABELS)


def test_it_is_scikit_learns_with_a_smaller_gap(machine):
    """B.REL10."""
    theirs = svm.SVC(C=10.0, gamma=0.5, tol=1e-6).fit(X, LABELS)
    np.testing.assert_allclose(machine.decision_function(X), theirs.decision_function(X), atol=1e-4)
    np.testing.assert_array_equal(machine.support_, np.sort(theirs.support_))
    assert abs(machine.duality_gap_) < 1e-9
    y, K, a = np.where(LABELS == "b", 1.0, -1.0), KERNEL(X), np.zeros(60)
    a[theirs.support_] = theirs.dual_coef_[0]
    primal = 0.5 * a @ K @ a + 10 * np.sum(np.maximum(1 - y * theirs.decision_function(X), 0))
    assert primal >= machine.objective_ - 1e-9
    assert primal == pytest.approx(machine.objective_, rel=1e-6)
    assert "duality gap" in machine.summary() and np.isnan(machine.errors_)


def test_conditions_of_the_optimum(machine):
    """Rows with a margin above 1 have no weight, those below all of it; without the first nothing changes."""
    y, w = np.where(LABELS == "b", 1.0, -1.0), machine.machines_.weights[:, 0]
    margin = y * machine.decision_function(X)
    assert (w[margin > 1 + 1e-6] == 0).all()
    np.testing.assert_allclose((y * w)[margin < 1 - 1e-6], 10.0)
    assert w.sum() == pytest.approx(0.0, abs=1e-9)
    again = SVC(KERNEL, C=10.0, link=None).fit(X[machine.support_], LABELS[machine.support_])
    np.testing.assert_allclose(again.decision_function(X), machine.decision_function(X), atol=1e-7)


def test_the_hard_margin():
    """(6.33), by a general optimiser; a large C has it too; classes that overlap are refused."""
    x = np.array([[0.0, 0.0], [1.0, 0.5], [3.0, 2.5], [4.0, 2.0]])
    y = np.array([-1.0, -1.0, 1.0, 1.0])
    hard = SVC(k.Linear(), C=np.inf, link=None).fit(x, y)
    slack = {"type": "ineq", "fun": lambda v: y * (x @ v[:2] + v[2]) - 1}
    end = minimize(lambda v: 0.5 * v[:2] @ v[:2], [1.0, 1.0, -3.0], constraints=[slack], tol=1e-12)
    assert hard.margins_[0] == pytest.approx(1 / np.linalg.norm(end.x[:2]), rel=1e-6)
    np.testing.assert_allclose((y * hard.decision_function(x))[hard.support_], 1.0, atol=1e-8)
    soft = SVC(k.Linear(), C=1e4, link=None).fit(x, y)
    assert soft.margins_[0] == pytest.approx(hard.margins_[0], rel=1e-6)
    with pytest.raises(ValueError, match="overlap"):
        SVC(k.Linear(), C=np.inf, link=None).fit([[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1])


@pytest.mark.parametrize("scheme", ["one-vs-one", "one-vs-rest", "error-correcting"])
def test_several_classes(scheme):
    machine = SVC(KERNEL, C=1.0, multi_class=scheme, link="logit").fit(Z, CLASS)
    theirs = svm.SVC(C=1.0, gamma=0.5, tol=1e-6).fit(Z, CLASS)
    if scheme == "one-vs-one":
        np.testing.assert_array_equal(machine.predict(Z), theirs.predict(Z))
    assert np.mean(machine.predict(Z) == CLASS) > 0.75
    p = machine.predict_proba(Z)
    np.testing.assert_allclose(p.sum(1), 1.0)
    assert metrics.information(CLASS, p, CLASS) > 0.8


def test_codes_and_what_is_made_of_them():
    """Probabilities that agree with each other are found again, from any code."""
    p = RNG.dirichlet(np.ones(5), size=7)
    for scheme in ("one-vs-one", "one-vs-rest", "error-correcting"):
        code = codes(5, scheme)
        first, second = p @ (code > 0), p @ (code < 0)
        np.testing.assert_allclose(couple(first / (first + second), code), p, atol=2e-3)
        exact = first / (first + second)
        np.testing.assert_array_equal(decode(2 * exact - 1, code).argmax(1), p.argmax(1))
    assert codes(5, "error-correcting").shape == (5, 15)
    big = codes(20, "error-correcting")
    assert big.shape == (20, 44) and len(np.unique(big, axis=1).T) == 44
    distances = (44 - big @ big.T + 44 * 2 * np.eye(20)) / 2
    assert distances.min() >= 10  # at least four wrong answers are put right
    with pytest.raises(ValueError, match="did you mean 'one-vs-one'"):
        codes(3, "one_vs_one")


def test_settings_by_cross_validation_and_probabilities():
    """C.CLS13."""
    assert not hasattr(mc.relatives.SVC(KERNEL).fit(X, LABELS), "predict_proba")
    machine = mc.relatives.SVC(link="logit").fit(X, LABELS)
    assert machine.errors_ < 0.4 and machine.interior_ and machine.lengthscale_ > 0
    new = np.random.default_rng(1).normal(size=(300, 2))
    truth = np.where(new[:, 0] * new[:, 1] + 0.3 * np.random.default_rng(2).normal(size=300) > 0, "a", "b")
    bits = metrics.information(truth, machine.predict_proba(new), LABELS, classes=machine.classes_)
    assert bits > 0.2
    probit = SVC(KERNEL, C=machine.C_, link="probit").fit(X, LABELS)
    assert (np.diff(probit.predict_proba(X)[np.argsort(probit.decision_function(X)), 1]) >= 0).all()


def test_regression_is_scikit_learns_with_a_smaller_gap():
    """B.REL12."""
    ours = SupportVectorRegression(KERNEL, C=2.0, epsilon=0.1).fit(X, Y)
    theirs = svm.SVR(C=2.0, epsilon=0.1, gamma=0.5, tol=1e-7).fit(X, Y)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), atol=1e-5)
    assert abs(ours.duality_gap_) < 1e-9
    w, off = ours.function_.weights, Y - ours.predict(X)
    assert (np.abs(w) <= 2.0 + 1e-12).all() and w.sum() == pytest.approx(0.0, abs=1e-9)
    assert (w[np.abs(off) < 0.1 - 1e-6] == 0).all()
    np.testing.assert_allclose(w[np.abs(off) > 0.1 + 1e-6], 2.0 * np.sign(off)[np.abs(off) > 0.1 + 1e-6])
    sparser = SupportVectorRegression(KERNEL, C=2.0, epsilon=0.3).fit(X, Y)
    assert len(sparser.support_) < len(ours.support_)


def test_no_epsilon_is_least_absolute_deviations():
    from mercer.relatives import LeastAbsoluteDeviations

    ours = SupportVectorRegression(k.Linear(), C=1e4, epsilon=0.0).fit(X[:20], Y[:20])
    theirs = LeastAbsoluteDeviations().fit(X[:20], Y[:20])
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), atol=2e-3)


def test_bad_input_is_named():
    for call, says in (
        (lambda: SVC(C=-1.0).fit(X, LABELS), "C must be positive"),
        (lambda: SVC(link="cauchy").fit(X, LABELS), "link must be"),
        (lambda: SVC(folds=1).fit(X, LABELS), "folds"),
        (lambda: SupportVectorRegression(C=0.0).fit(X, Y), "C must be positive"),
        (lambda: SupportVectorRegression(epsilon=-1.0).fit(X, Y), "epsilon"),
    ):
        with pytest.raises(ValueError, match=says):
            call()


@pytest.mark.slow
@parametrize_with_checks([SVC(refinements=0), SVC(k.SE(1.0), C=1.0, multi_class="one-vs-rest")])
def test_scikit_learn_conventions(estimator, check):
    check(estimator)
