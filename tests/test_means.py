"""Mean functions and explicit basis functions on their own. A.R16, A.R17, C.GP6, D.EB4."""

import numpy as np
import pytest

import mercer as mc
from mercer import kernels as k
from mercer import means
from mercer.params import ParameterError, fixed, param, parameters

X = np.random.default_rng(1).normal(size=(6, 2))


def test_values():
    """Zero, constant, linear, function, and sums of them."""
    np.testing.assert_array_equal(means.Zero().value(X), np.zeros(6))
    np.testing.assert_array_equal(means.Constant(2.5).value(X), np.full(6, 2.5))
    linear = means.Linear([1.0, -2.0], 0.5)
    np.testing.assert_allclose(linear.value(X), 0.5 + X @ [1.0, -2.0], rtol=1e-14)
    np.testing.assert_allclose(means.Linear(3.0).value(X), 3.0 * X.sum(1), rtol=1e-14)
    function = means.Function(lambda X: np.sin(X[:, 0]), "wave")
    np.testing.assert_array_equal(function.value(X), np.sin(X[:, 0]))
    np.testing.assert_allclose(
        (linear + function + 1.0).value(X), linear.value(X) + np.sin(X[:, 0]) + 1.0, rtol=1e-14
    )


def test_as_mean():
    """None, a number (fixed), a callable or a mean."""
    assert isinstance(means.as_mean(None), means.Zero)
    number = means.as_mean(3.0)
    assert isinstance(number, means.Constant) and parameters(number)[0].status == "fixed"
    assert (
        parameters(means.Constant(3.0))[0].status == parameters(means.as_mean(param(3.0)))[0].status == "free"
    )
    named = means.as_mean(np.cos)
    assert isinstance(named, means.Function) and named.name == "cos"
    linear = means.Linear([1.0, 2.0])
    assert means.as_mean(linear) is linear
    assert [p.name for p in parameters(mc.GP(k.SE(), linear))][-2:] == ["mean.weights", "mean.intercept"]
    with pytest.raises(ParameterError, match=r"unknown mean 'flat'; there are .*'linear'"):
        means.as_mean("flat")


def test_weights_must_fit_the_columns():
    """A linear mean with the wrong number of weights says so."""
    with pytest.raises(ParameterError, match=r"Linear\.weights has 3 entries but there are 2 input columns"):
        mc.GP(k.SE(), means.Linear([1.0, 2.0, 3.0])).condition(X, np.zeros(6), noise_variance=0.1)


def test_polynomial_basis():
    """1, x_d ... x_d^degree for every column, no cross terms."""
    np.testing.assert_array_equal(means.Polynomial(0).features(X), np.ones((6, 1)))
    np.testing.assert_allclose(means.Polynomial(2).features(X), np.column_stack([np.ones(6), X, X**2]))
    features = means.Features(lambda X: np.column_stack([X[:, 0], X[:, 0] * X[:, 1]]), name="cross")
    np.testing.assert_array_equal(features.features(X), np.column_stack([X[:, 0], X[:, 0] * X[:, 1]]))
    for degree in (-1, 1.5):
        with pytest.raises(ParameterError, match="degree of a polynomial basis"):
            means.Polynomial(degree)


def test_prior_of_the_weights():
    """One variance, p variances or a matrix; none is vague. It is data: never learned."""
    b, B = means.Polynomial(1).prior(3)
    assert B is None and b.tolist() == [0.0, 0.0, 0.0]
    np.testing.assert_array_equal(means.Polynomial(1, covariance=2.0).prior(3)[1], 2.0 * np.eye(3))
    np.testing.assert_array_equal(
        means.Polynomial(1, covariance=[1.0, 2.0, 3.0]).prior(3)[1], np.diag([1.0, 2.0, 3.0])
    )
    matrix = np.array([[2.0, 0.5], [0.5, 1.0]])
    basis = means.Polynomial(1, covariance=matrix, weights=[0.1, 0.2])
    np.testing.assert_array_equal(basis.prior(2)[1], matrix)
    np.testing.assert_array_equal(basis.prior(2)[0], [0.1, 0.2])
    assert {p.status for p in parameters(basis)} == {"fixed"}
    for bad in (-1.0, [[1.0, 2.0], [2.0, 1.0]], np.eye(3), [[1.0, 0.3], [0.1, 1.0]]):
        with pytest.raises(
            ParameterError, match=r"Polynomial\.covariance must be a positive-definite \(2, 2\) matrix"
        ):
            means.Polynomial(1, covariance=bad).prior(2)
    with pytest.raises(ParameterError, match=r"Polynomial\.weights must be one number or 2 of them, got 3"):
        means.Polynomial(1, covariance=1.0, weights=[1.0, 2.0, 3.0]).prior(2)


def test_a_learned_mean_has_a_gradient():
    """C.GP6: derivatives of constant and linear means against differences;
    a user's function has nothing to learn.
    """
    y = np.random.default_rng(2).normal(size=6)

    def evidence(c, w0, w1):
        mean = means.Constant(c) + means.Linear([w0, w1], fixed(0.2))
        return mc.log_evidence_and_gradient(mc.GP(k.SE(), mean), X, y, noise_variance=0.3)

    at = np.array([0.4, 0.3, -0.6])
    _, gradient = evidence(*at)
    h = 1e-5 * np.eye(3)
    expected = [(evidence(*(at + e))[0] - evidence(*(at - e))[0]) / 2e-5 for e in h]
    assert gradient["mean.terms.0.constant"] == pytest.approx(expected[0], rel=1e-7)
    np.testing.assert_allclose(gradient["mean.terms.1.weights"], expected[1:], rtol=1e-7)
    names = mc.log_evidence_and_gradient(mc.GP(k.SE(), lambda X: X[:, 0]), X, y, noise_variance=0.3)[1]
    assert not any(name.startswith("mean") for name in names)
