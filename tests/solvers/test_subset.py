"""Subset of data: an exact model on the data that were chosen. GPML 8.3.3, (8.31);
informative vector machine for two classes.
"""

import functools
import itertools

import numpy as np
import pytest

import mercer as mc
from mercer import kernels as k
from mercer import likelihoods
from mercer.inference import pointwise
from mercer.selection import Pool
from mercer.solvers import Dense, Sites, SolverError, SubsetOfData, WeightSpace, by_name

rng = np.random.default_rng(5)
X = rng.uniform(-2, 2, size=(40, 2))
Y = np.sin(2 * X[:, 0]) + 0.2 * rng.normal(size=40)
LABELS = np.where(Y > 0, 1.0, -1.0)
XS = rng.uniform(-2, 2, size=(7, 2))
GP = mc.GP(k.SE([1.0, 2.0], 1.3))
BINARY = mc.Model(GP, likelihoods.Bernoulli())


@pytest.mark.parametrize("select", ["random", "k-means", "entropy", "information-gain", "evidence"])
def test_the_model_sees_the_chosen_data_only(select):
    """Evidence (8.31), gradient and predictions are those of a GP on the chosen rows."""
    solver = SubsetOfData(12, select)
    model = mc.Model(GP, likelihoods.Gaussian(0.05))
    rows = solver.rows(Pool(GP, X, Y, 0.05))
    assert rows.shape == (12,) and np.all(np.diff(rows) > 0)
    post, exact = model.condition(X, Y, solver=solver), model.condition(X[rows], Y[rows])
    assert post.log_evidence == pytest.approx(exact.log_evidence, rel=1e-13)
    np.testing.assert_allclose(post.mean(XS), exact.mean(XS), rtol=1e-13)
    np.testing.assert_allclose(post.variance(XS), exact.variance(XS), rtol=1e-13)
    value, gradient = mc.log_evidence_and_gradient(model, X, Y, solver=solver)
    expected = mc.log_evidence_and_gradient(model, X[rows], Y[rows])
    assert value == pytest.approx(expected[0], rel=1e-13)
    for name in gradient:
        np.testing.assert_allclose(gradient[name], expected[1][name], rtol=1e-10)


def test_all_data_is_the_base_solver():
    for m in (40, 1000):
        post, exact = GP.condition(X, Y, 0.05, solver=SubsetOfData(m)), GP.condition(X, Y, 0.05)
        assert post.log_evidence == exact.log_evidence
        np.testing.assert_array_equal(post.mean(XS), exact.mean(XS))


def test_more_data_never_raise_the_variance():
    """Greedy sets are nested, so variances fall with m."""
    variances = [
        GP.condition(X, Y, 0.05, solver=SubsetOfData(m, "entropy")).variance(XS) for m in (3, 8, 20, 40)
    ]
    for fewer, more in itertools.pairwise(variances):
        assert np.all(more <= fewer + 1e-12)


def test_informative_vector_machine():
    """EP on the data that entropy picks; with all of them it is EP itself (SP16)."""
    solver = SubsetOfData(15, "entropy")
    hook = functools.partial(pointwise.tilted, BINARY.likelihood, LABELS)
    rows = solver.rows(Pool(GP, X, LABELS, tilted=hook))
    post, exact = BINARY.condition(X, LABELS, solver=solver), BINARY.condition(X[rows], LABELS[rows])
    assert post.log_evidence == pytest.approx(exact.log_evidence, rel=1e-12)
    np.testing.assert_allclose(post.probability(XS), exact.probability(XS), rtol=1e-10)
    everything = BINARY.condition(X, LABELS)
    again = BINARY.condition(X, LABELS, solver=SubsetOfData(40, "entropy"))
    np.testing.assert_allclose(again.probability(XS), everything.probability(XS), rtol=1e-12)


def test_silent_sites_change_nothing():
    """SP16: a site of precision zero can be dropped from the model without any effect."""
    c, W = Y[:, None], np.where(np.arange(40) % 3 == 0, 0.0, 20.0)[:, None]
    keep = np.flatnonzero(W[:, 0])
    all_, some = Dense().factor(GP, X, Sites(c, W)), Dense().factor(GP, X[keep], Sites(c[keep], W[keep]))
    assert all_.log_normaliser == pytest.approx(some.log_normaliser, rel=1e-11)
    for a, b in zip(all_.predict(XS), some.predict(XS), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-11)


def test_fit():
    """Through the estimators: learned on the chosen rows, which do not change while hyperparameters do."""
    regressor = mc.GPRegressor(solver=SubsetOfData(25, "entropy")).fit(X, Y)
    assert regressor.score(X, Y) > 0.9
    classifier = mc.GPClassifier(solver=SubsetOfData(25, "entropy")).fit(X, LABELS)
    assert classifier.score(X, LABELS) > 0.85


def test_other_bases_and_cost():
    linear = mc.GP(k.Linear([1.0, 1.0]))
    solver = SubsetOfData(10, base=WeightSpace())
    rows = solver.rows(Pool(linear, X, Y, 0.1))
    np.testing.assert_allclose(
        linear.condition(X, Y, 0.1, solver=solver).mean(XS),
        linear.condition(X[rows], Y[rows], 0.1).mean(XS),
        rtol=1e-9,
    )
    assert solver.offers == WeightSpace().offers
    assert SubsetOfData(100).cost(10_000, 3) == Dense().cost(100, 3) == SubsetOfData(1000).cost(100, 3)
    assert isinstance(by_name("subset"), SubsetOfData)


def test_errors():
    with pytest.raises(ValueError, match="at least one datum"):
        SubsetOfData(0)
    with pytest.raises(ValueError, match="unknown selection 'best'"):
        SubsetOfData(5, "best")
    with pytest.raises(SolverError, match="cut X, y and it first"):
        GP.condition(X, Y, np.full(40, 0.1), solver=SubsetOfData(5))
    with pytest.raises(ValueError, match="give noise_variance"):
        BINARY.condition(X, LABELS, solver=SubsetOfData(5, "matching"))
    with pytest.raises(SolverError, match="handed 40 data uncut"):
        SubsetOfData(5).factor(GP, X, Sites(Y[:, None], np.ones((40, 1))))
