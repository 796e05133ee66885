"""Baselines and protocol of the robust experiments: stratified folds, grid search, support vectors,
a sampled network, scores.
"""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.svm import SVR
from sklearn.utils.estimator_checks import parametrize_with_checks

from mercer import metrics
from mercer.relatives import (
    BayesianNeuralNetwork,
    LinearRegression,
    SupportVectorRegression,
    search_grid,
    stratified_folds,
)
from mercer.relatives.neural_network import _network, _shapes


def problem(n, seed, outliers=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 2))
    f = np.sin(2 * X[:, 0]) + X[:, 1]
    y = f + 0.1 * rng.standard_normal(n)
    y[:outliers] += 5.0
    return X, y, f


# ------------------------------------------------------------------------------------------------- folds


@pytest.mark.parametrize("n, k", [(20, 2), (53, 10), (7, 7), (100, 5)])
def test_folds_hold_every_row_once_and_have_equal_sizes(n, k):
    folds = stratified_folds(np.random.default_rng(0).standard_normal(n), k)
    np.testing.assert_array_equal(np.sort(np.concatenate(folds)), np.arange(n))
    sizes = [len(fold) for fold in folds]
    assert max(sizes) - min(sizes) <= 1


def test_every_fold_has_its_share_of_every_range_of_the_targets():
    y = np.exp(2 * np.random.default_rng(0).standard_normal(200))
    order = np.argsort(np.argsort(y))
    for fold in stratified_folds(y, 10, seed=3):
        # one of every ten neighbours
        np.testing.assert_array_equal(np.sort(order[fold] // 10), np.arange(20))


def test_folds_are_random_also_among_equal_targets():
    y = np.repeat([0.0, 1.0], 50)
    one, two = stratified_folds(y, 5, seed=0), stratified_folds(y, 5, seed=1)
    assert all(y[fold].sum() == 10 for fold in one)
    assert any(not np.array_equal(a, b) for a, b in zip(one, two, strict=True))
    assert all(np.array_equal(a, b) for a, b in zip(one, stratified_folds(y, 5, seed=0), strict=True))


@pytest.mark.parametrize(
    "y, k", [(np.ones(3), 4), (np.ones(3), 1), (np.ones((3, 2)), 2), (np.array([1.0, np.nan]), 2)]
)
def test_impossible_folds(y, k):
    with pytest.raises(ValueError, match=r"folds must be|finite numbers"):
        stratified_folds(y, k)


# ------------------------------------------------------------------------------------------------- grid
# search


def test_the_grid_moves_until_the_optimum_is_inside_and_is_refined():
    def bowl(v):
        return (np.log10(v["a"]) - 3.3) ** 2 + (np.log10(v["b"]) + 1.6) ** 2

    coarse = search_grid(bowl, {"a": 1.0, "b": 1.0}, refinements=0)
    assert (coarse.values["a"], coarse.values["b"]) == pytest.approx((1e3, 1e-2)) and coarse.interior
    fine = search_grid(bowl, {"a": 1.0, "b": 1.0}, refinements=3)
    assert np.log10(fine.values["a"]) == pytest.approx(3.25) and np.log10(fine.values["b"]) == pytest.approx(
        -1.625
    )
    assert fine.score == bowl(fine.values) < coarse.score
    assert coarse.tried < fine.tried < 100


def test_a_grid_that_meets_its_limit_says_so():
    found = search_grid(lambda v: -v["a"], {"a": 1.0}, limit=100.0)
    assert found.values["a"] == pytest.approx(100.0) and not found.interior
    assert (
        search_grid(lambda v: np.nan if v["a"] > 5 else v["a"], {"a": 1.0}, refinements=0, limit=10.0).values[
            "a"
        ]
        == 0.1
    )


# ------------------------------------------------------------------------------------------------- support
# vectors


@parametrize_with_checks([SupportVectorRegression(refinements=0, folds=2)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_support_vectors_are_chosen_by_cross_validation():
    X, y, _ = problem(50, 0, outliers=3)
    model = SupportVectorRegression().fit(X, y)
    Xs, _, fs = problem(200, 1)
    linear = LinearRegression().fit(X, y)
    assert metrics.mae(fs, model.predict(Xs)) < 0.5 * metrics.mae(fs, linear.predict(Xs))
    assert model.interior_
    Z, t = (X - X.mean(0)) / X.std(0), (y - y.mean()) / y.std()

    def cross_validated(C, epsilon, lengthscale):
        errors = np.empty(len(t))
        for fold in stratified_folds(t, 5, 0):
            rest = np.setdiff1d(np.arange(len(t)), fold)
            machine = SVR(C=C, epsilon=epsilon, gamma=0.5 / lengthscale**2).fit(Z[rest], t[rest])
            errors[fold] = t[fold] - machine.predict(Z[fold])
        return np.mean(np.abs(errors)) * y.std()

    best = (model.C_ / y.std(), model.epsilon_ / y.std(), model.lengthscale_)
    assert model.loss_ == pytest.approx(cross_validated(*best), rel=1e-10)
    for i in range(3):
        for factor in (np.sqrt(10), 1 / np.sqrt(10)):
            moved = [v * (factor if i == j else 1.0) for j, v in enumerate(best)]
            assert cross_validated(*moved) >= model.loss_ * (1 - 1e-3)


def test_support_vectors_do_not_know_units():
    X, y, _ = problem(40, 0)
    a = SupportVectorRegression(refinements=0, loss="mse").fit(X, y)
    b = SupportVectorRegression(refinements=0, loss="mse").fit(100 * X + 3, 1e-3 * y - 5)
    np.testing.assert_allclose(b.predict(100 * X + 3), 1e-3 * a.predict(X) - 5, rtol=1e-6)
    with pytest.raises(ValueError, match="loss must be"):
        SupportVectorRegression(loss="hinge").fit(X, y)


# ------------------------------------------------------------------------------------------------- the
# network


def test_the_network_is_two_layers_of_tanh_and_a_sum():
    rng = np.random.default_rng(0)
    d, units = 3, 2
    shapes = _shapes(d, units)
    x, X = rng.standard_normal(sum(int(np.prod(s)) for s in shapes) + 4), rng.standard_normal((5, d))
    w1, b1, w2, b2, w3, b3 = x[:6].reshape(3, 2), x[6:8], x[8:12].reshape(2, 2), x[12:14], x[14:16], x[16]
    s1, s2, s3 = np.exp(x[17:20])
    first = np.tanh(s1 * (X @ w1 / np.sqrt(3) + b1))
    second = np.tanh(s2 * (first @ w2 * np.sqrt(2) + b2))
    np.testing.assert_allclose(_network(x, X, shapes), s3 * second @ w3 * np.sqrt(2) + b3, rtol=1e-12)


@pytest.mark.slow
def test_a_tiny_network_learns_a_line_despite_an_outlier():
    x = np.linspace(-1, 1, 12)[:, None]
    y = 2.0 * x[:, 0] + 0.05 * np.random.default_rng(0).standard_normal(12)
    y[4] += 50.0
    model = BayesianNeuralNetwork(units=2, draws=40, tune=80, chains=2, sampler="hmc").fit(x, y)
    assert metrics.mae(2.0 * x[:, 0], model.predict(x)) < 0.15
    assert model.functions(x).shape == (80, 12)
    np.testing.assert_allclose(np.median(model.functions(x), 0), model.predict(x))
    grid = np.linspace(-12.0, 14.0, 6001)
    density = np.exp(model.log_density(np.full((6001, 1), 0.5), grid))
    assert np.trapezoid(density, grid) == pytest.approx(1.0, abs=0.02)


@pytest.mark.experiment
def test_the_network_of_the_experiments_beats_least_squares():
    X, y, _ = problem(60, 0, outliers=3)
    Xs, _, fs = problem(200, 1)
    model = BayesianNeuralNetwork(draws=200, tune=300).fit(X, y)
    assert metrics.mae(fs, model.predict(Xs)) < 0.1
    assert model.chains_.divergent.sum() < 10


# ------------------------------------------------------------------------------------------------- scores


def test_robust_report_by_hand():
    y, mean, log_density = np.array([1.0, 2.0, 4.0]), np.array([1.0, 3.0, 2.0]), np.array([-1.0, -2.0, -6.0])
    report = metrics.robust_report(y, mean, log_density)
    assert report == pytest.approx({"rmse": np.sqrt(5 / 3), "mae": 1.0, "nlp": 3.0})
    assert metrics.robust_report(y, mean, log_density, median=y)["mae_median"] == 0.0
