"""Regularised fits for any loss: against kernel ridge, libsvm, Laplace's mode, a general optimiser."""

import dataclasses

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

import mercer as mc
from mercer import kernels as k
from mercer import likelihoods
from mercer.relatives import KernelFunction, KernelRidge, Regularised, RegularisedClassifier, losses
from mercer.relatives.losses import proximal
from mercer.relatives.regularised import minimise, modes

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 2))
Y = np.sin(2 * X[:, 0]) + 0.2 * RNG.normal(size=30)
Y[:2] += 4.0
SIGNS = np.sign(Y)
KERNEL = k.SE(1.0)
K = KERNEL(X)


@pytest.mark.parametrize("name", list(losses.NAMED))
def test_every_loss_comes_to_its_optimum(name):
    """B.REL2: the duality gap says how far it is; no step along random functions lowers the objective."""
    loss = losses.NAMED[name]
    y = SIGNS if loss.labels else Y
    found = minimise(K, y, loss, 0.1, bias=True, tol=1e-8, max_iterations=300)
    assert found.converged and -1e-12 <= found.gap <= 1e-8 * found.objective

    def objective(weights, bias):
        f = K @ weights + bias
        return 0.05 * weights @ K @ weights + np.sum(loss.value(y, f))

    assert objective(found.weights, found.bias) == pytest.approx(found.objective, rel=1e-12)
    assert found.weights.sum() == pytest.approx(0.0, abs=1e-6)
    for scale in (1e-3, 1e-1):
        for _ in range(5):
            other = found.weights + scale * RNG.normal(size=30), found.bias + scale * RNG.normal()
            assert objective(*other) >= found.objective - found.gap


def test_slopes_and_proximal_maps():
    for loss in losses.NAMED.values():
        y = SIGNS if loss.labels else Y
        f = RNG.normal(size=30)
        h = 1e-6
        np.testing.assert_allclose(
            loss.slope(y, f), (loss.value(y, f + h) - loss.value(y, f - h)) / (2 * h), atol=1e-6
        )
        p = proximal(loss, y, f, 0.7)
        cost = loss.value(y, p) + (p - f) ** 2 / 1.4
        for move in (1e-4, -1e-4):
            assert (loss.value(y, p + move) + (p + move - f) ** 2 / 1.4 >= cost - 1e-12).all()


def test_squared_loss_is_kernel_ridge():
    ours = Regularised(KERNEL, penalty=0.3, bias=False).fit(X, Y)
    ridge = KernelRidge(KERNEL, 0.3).fit(X, Y)
    np.testing.assert_allclose(ours.predict(X), ridge.predict(X), atol=1e-9)
    assert ours.objective_ == pytest.approx(0.3 * ridge.objective_, rel=1e-9)
    assert "which is its mode" in ours.summary()


@pytest.mark.parametrize("link", ["logit", "probit"])
def test_minus_log_probabilities_have_the_mode_of_laplace(link):
    """And by the representer theorem its weights are the slopes of log p."""
    loss = losses.LogLikelihood(likelihoods.Bernoulli(link))
    own = losses.Logistic() if link == "logit" else losses.Probit()
    found = Regularised(KERNEL, loss, bias=False, tol=1e-12).fit(X, SIGNS)
    post = mc.Model(mc.GP(KERNEL), likelihoods.Bernoulli(link)).condition(X, SIGNS, "laplace")
    np.testing.assert_allclose(found.predict(X), post.mean(X, latent=True), atol=1e-5)
    np.testing.assert_allclose(found.function_.weights, -own.slope(SIGNS, found.predict(X)), atol=1e-5)
    np.testing.assert_allclose(loss.slope(SIGNS, Y), own.slope(SIGNS, Y), rtol=1e-9)


def test_functions_beside_the_span_cost_more_and_change_nothing():
    """B.REL2: a function orthogonal to all k(., x_i) vanishes at the data and adds to the norm."""
    f = Regularised(KERNEL, "huber", penalty=0.1, bias=False).fit(X, Y).function_
    other = KernelFunction(KERNEL, RNG.normal(size=(3, 2)) + 3.0, np.ones(3))
    beside = other - other.projected(X)
    np.testing.assert_allclose((f + beside)(X), f(X), atol=1e-5)
    assert (f + beside).norm > f.norm


def test_quantiles_and_a_loss_of_ones_own():
    @dataclasses.dataclass(frozen=True)
    class Cosh(losses.AbstractLoss):
        def value(self, y, f):
            return np.logaddexp(f - y, y - f)

        def slope(self, y, f):
            return np.tanh(f - y)

    model = Regularised(KERNEL, Cosh(), penalty=0.2).fit(X, Y)

    def cost(v):
        f = K @ v[:-1] + v[-1]
        u = np.tanh(f - Y)
        return 0.1 * v[:-1] @ K @ v[:-1] + np.sum(np.logaddexp(f - Y, Y - f)), np.append(
            K @ (0.2 * v[:-1] + u), u.sum()
        )

    end = minimize(cost, np.zeros(31), jac=True, method="BFGS", options=dict(gtol=1e-9))
    assert model.objective_ == pytest.approx(end.fun, rel=1e-6)
    for q in (0.1, 0.9):
        flat = Regularised(KERNEL, losses.Pinball(q), penalty=100.0).fit(X, Y)
        assert np.mean(flat.predict(X) > Y) == pytest.approx(q, abs=0.1)


def test_several_minima_are_told():
    """B.REL5, the third case: one datum pulls f up, one down, and t noise lets f follow either."""
    loss = losses.LogLikelihood(likelihoods.StudentT(dof=1.0, scale=0.05))
    x, y = np.array([[0.0], [0.01]]), np.array([-1.0, 1.0])
    found = modes(4.0 * k.SE(1.0)(x), y, loss, 1.0)
    assert len(found) == 2 and found[0].objective == pytest.approx(found[1].objective, rel=1e-3)
    with pytest.warns(UserWarning, match="2 minima were found"):
        model = Regularised(4.0 * k.SE(1.0), loss, bias=False).fit(x, y)
    assert abs(model.predict(x)[0]) == pytest.approx(1.0, abs=0.1)
    assert "lowest of 2 minima" in model.summary() and np.isnan(model.duality_gap_)


def test_hinge_and_squared_loss_of_labels():
    from sklearn.svm import SVC

    labels = np.where(SIGNS > 0, "up", "down")
    model = RegularisedClassifier(KERNEL, "hinge", penalty=0.5, tol=1e-9, link=None).fit(X, labels)
    theirs = SVC(C=2.0, gamma=0.5, tol=1e-8).fit(X, labels)
    np.testing.assert_allclose(model.decision_function(X), theirs.decision_function(X), atol=1e-3)
    with pytest.raises(AttributeError, match="no attribute"):
        model.predict_proba(X)
    assert (model.predict(X) == theirs.predict(X)).all()


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="did you mean 'huber'"):
        Regularised(loss="hubber").fit(X, Y)
    with pytest.raises(ValueError, match="penalty"):
        Regularised(penalty=0.0).fit(X, Y)
    with pytest.raises(ValueError, match="RegularisedClassifier"):
        Regularised(loss="hinge").fit(X, Y)
    with pytest.warns(ConvergenceWarning, match="max_iterations"):
        Regularised(KERNEL, "absolute", max_iterations=1).fit(X, Y)
    for call in (
        lambda: losses.Pinball(1.0),
        lambda: losses.Huber(0.0),
        lambda: losses.EpsilonInsensitive(-1),
    ):
        with pytest.raises(ValueError, match="must"):
            call()


@pytest.mark.slow
@parametrize_with_checks([Regularised(), RegularisedClassifier(max_iterations=300)])
def test_scikit_learn_conventions(estimator, check):
    check(estimator)
