"""Least absolute deviations: against search, the median, and what outliers can and cannot do."""

import numpy as np
import pytest
from sklearn.linear_model import QuantileRegressor
from sklearn.utils.estimator_checks import parametrize_with_checks

from mercer import likelihoods
from mercer.relatives import LeastAbsoluteDeviations


def lines(seed=0, n=31):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2)) * [1.0, 30.0] + [5.0, -200.0]
    return X, 1.0 + X @ [2.0, -0.1] + rng.laplace(0.0, 0.3, n)


@parametrize_with_checks([LeastAbsoluteDeviations()])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("intercept", [True, False])
def test_no_line_has_a_smaller_sum_of_absolute_residuals(intercept):
    X, y = lines()
    model = LeastAbsoluteDeviations(fit_intercept=intercept).fit(X, y)
    other = QuantileRegressor(quantile=0.5, alpha=0.0, fit_intercept=intercept).fit(X, y)
    ours, theirs = (np.abs(y - m.predict(X)).sum() for m in (model, other))
    assert ours == pytest.approx(theirs, rel=1e-8)
    assert model.scale_ == pytest.approx(ours / len(y), rel=1e-12)
    rng = np.random.default_rng(1)
    for _ in range(50):
        moved = X @ (model.coef_ + 0.01 * rng.standard_normal(2)) + model.intercept_
        assert np.abs(y - moved).sum() >= ours


def test_it_is_the_likeliest_under_laplace_noise():
    """5.51: slopes of the log likelihood change sign at the fit, in every direction and in the scale."""
    X, y = lines()
    model = LeastAbsoluteDeviations().fit(X, y)
    best = model.log_density(X, y).sum()
    for scale in (0.9, 1.1):
        assert np.sum(likelihoods.Laplace(scale * model.scale_).log_prob(model.predict(X), y)) < best
    for shift in (-0.01, 0.01):
        assert np.sum(likelihoods.Laplace(model.scale_).log_prob(model.predict(X) + shift, y)) <= best


def test_a_constant_is_the_median():
    y = np.array([3.0, 1.0, 2.0, 1e9, -7.0])
    model = LeastAbsoluteDeviations().fit(np.zeros((5, 1)), y)
    assert model.intercept_ == pytest.approx(2.0, abs=1e-6)


def test_targets_far_off_do_no_harm_and_inputs_far_off_do():
    """The breakdown point is zero: one row is enough."""
    x = np.linspace(-1, 1, 21)[:, None]
    y = 2.0 * x[:, 0] + 0.01 * np.random.default_rng(0).standard_normal(21)
    y[3] += 1e6
    assert LeastAbsoluteDeviations().fit(x, y).coef_[0] == pytest.approx(2.0, abs=0.03)
    leverage = np.vstack([x, [[1e6]]])
    assert LeastAbsoluteDeviations().fit(leverage, np.append(y, -1e6)).coef_[0] == pytest.approx(
        -1.0, abs=0.01
    )
