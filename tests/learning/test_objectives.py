"""Objectives: values against brute force, gradients against differences, on every solver."""

import numpy as np
import pytest

import mercer as mc
from mercer import kernels as k
from mercer.inference import Exact
from mercer.learning.objectives import by_name
from mercer.learning.problem import LearningProblem
from mercer.posteriors.loo import folds
from mercer.solvers import Dense, WeightSpace, WithBasis

NAMES = ["evidence", "loo", "loo-mse", "loo-probit", "gcv", "k-fold"]


def _data(n=14, d=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.sin(X[:, 0]) + 0.3 * X[:, 1] + 0.2 * rng.normal(size=n)


def _problem(model, X, y, name, solver):
    inputs, y = mc.gp.prepare(model, X, y)
    return LearningProblem(model.bind(inputs), [(inputs, y)], Exact(), solver, by_name(name, n_folds=4))


SMOOTH = mc.Model(
    mc.GP(k.SE([0.8, 1.5], variance=1.3), mean=mc.means.Constant(0.2)), mc.likelihoods.Gaussian(0.15)
)
FINITE = mc.Model(
    mc.GP(k.Linear([1.2, 0.7]) + k.Constant(0.5), mean=mc.means.Constant(0.2)), mc.likelihoods.Gaussian(0.15)
)
BASIS = mc.Model(
    mc.GP(k.SE([0.8, 1.5], variance=1.3), basis=mc.means.Polynomial(1)), mc.likelihoods.Gaussian(0.15)
)
CASES = {
    "dense": (SMOOTH, Dense()),
    "jax": (SMOOTH, Dense("jax")),
    "weight_space": (FINITE, WeightSpace()),
    "basis": (BASIS, WithBasis(Dense())),
    "basis on weights": (
        mc.Model(
            mc.GP(k.Polynomial(2), basis=mc.means.Polynomial(0, covariance=4.0)),
            mc.likelihoods.Gaussian(0.15),
        ),
        WithBasis(WeightSpace()),
    ),
}


@pytest.mark.representative("lapack", "weights")
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("case", CASES)
def test_gradient_against_differences(case, name):
    """A.M3, A.M9, D.GI1: every objective's gradient, every solver."""
    model, solver = CASES[case]
    X, y = _data()
    problem = _problem(model, X, np.sign(y) if name == "loo-probit" else y, name, solver)
    v = problem.flat.vector
    value, gradient, _ = problem.value_and_gradient(v)
    h = 1e-5
    numeric = np.array(
        [
            (problem.value_and_gradient(v + h * e)[0] - problem.value_and_gradient(v - h * e)[0]) / (2 * h)
            for e in np.eye(len(v))
        ]
    )
    assert np.isfinite(value)
    np.testing.assert_allclose(gradient, numeric, rtol=2e-6, atol=2e-7 * max(1, np.abs(numeric).max()))


def test_the_gradient_of_leave_one_out_is_public():
    """By name and in the user's units; the value is that of predictions from the other data."""
    X, y = _data()

    def at(lengthscale, noise):
        gp = mc.GP(k.SE(lengthscale))
        return mc.learning.objective_and_gradient(gp, X, y, "loo", noise_variance=noise)

    value, gradient = at(0.8, 0.2)
    posterior = mc.GP(k.SE(0.8)).condition(X, y, noise_variance=0.2)
    np.testing.assert_allclose(value, np.sum(posterior.loo().log_density), rtol=1e-10)
    h = 1e-6
    numeric = (at(0.8 + h, 0.2)[0] - at(0.8 - h, 0.2)[0]) / (2 * h)
    np.testing.assert_allclose(gradient["kernel.lengthscale"], numeric, rtol=1e-6)
    numeric = (at(0.8, 0.2 + h)[0] - at(0.8, 0.2 - h)[0]) / (2 * h)
    np.testing.assert_allclose(gradient["likelihood.noise_variance"], numeric, rtol=1e-6)


def _refit(model, X, y, keep):
    return model.condition(X[keep], y[keep])


@pytest.mark.parametrize("model", [SMOOTH, BASIS], ids=["plain", "basis"])
def test_loo_and_k_fold_equal_refits(model):
    """A.M7, A.M8, C.GP5: closed forms equal leaving out and conditioning again."""
    X, y = _data()
    solver = WithBasis(Dense()) if model.gp.basis else Dense()
    n = len(y)
    loo, kfold, mse = 0.0, 0.0, 0.0
    for i in range(n):
        post = _refit(model, X, y, np.arange(n) != i)
        loo += post.log_density(X[i : i + 1], y[i : i + 1])[0]
        mse -= (y[i] - post.mean(X[i : i + 1])[0]) ** 2
    for I in folds(n, 4, 0):
        kfold += _refit(model, X, y, ~np.isin(np.arange(n), I)).log_density(X[I], y[I]).sum()
    for name, expected in (("loo", loo), ("loo-mse", mse), ("k-fold", kfold)):
        problem = _problem(model, X, y, name, solver)
        np.testing.assert_allclose(problem.value_and_gradient(problem.flat.vector)[2], expected, rtol=1e-10)


def test_k_fold_with_n_folds_is_leave_one_out():
    X, y = _data()
    inputs, y = mc.gp.prepare(SMOOTH, X, y)
    values = [
        LearningProblem(
            SMOOTH, [(inputs, y)], Exact(), Dense(), by_name(name, n_folds=len(y))
        ).value_and_gradient(mc.params.flatten(SMOOTH).vector)[0]
        for name in ("loo", "k-fold")
    ]
    assert values[0] == pytest.approx(values[1], rel=1e-12)


def test_squared_error_and_gcv_do_not_see_the_overall_scale():
    """A.M10: scaling signal and noise together leaves them unchanged; the fit says so."""
    X, y = _data()
    zero = mc.Model(mc.GP(k.SE([0.8, 1.5], variance=1.3)), mc.likelihoods.Gaussian(0.15))
    scaled = mc.Model(mc.GP(k.SE([0.8, 1.5], variance=1.3 * 7)), mc.likelihoods.Gaussian(0.15 * 7))
    for name in ("loo-mse", "gcv"):
        values = [_problem(m, X, y, name, Dense()) for m in (zero, scaled)]
        a, b = (p.value_and_gradient(p.flat.vector)[0] for p in values)
        assert a == pytest.approx(b, rel=1e-12)
    with pytest.warns(mc.learning.FitWarning, match="overall scale"):
        mc.fit(zero, X, y, objective="loo-mse")


def test_gcv_by_its_definition():
    X, y = _data()
    model = mc.Model(mc.GP(k.SE([0.8, 1.5], variance=1.3)), mc.likelihoods.Gaussian(0.15))
    S = model.condition(X, y).smoother(X)
    n = len(y)
    expected = np.sum((y - S @ y) ** 2) / n / (np.trace(np.eye(n) - S) / n) ** 2
    problem = _problem(model, X, y, "gcv", Dense())
    # ours is n |alpha|^2 / tr(R)^2: the noise cancels
    assert -problem.value_and_gradient(problem.flat.vector)[0] == pytest.approx(expected, rel=1e-10)


def test_unknown_objective_names_the_known():
    with pytest.raises(ValueError, match="loo-mse"):
        mc.fit(SMOOTH, *_data(), objective="aic")


def test_expected_loo_exceeds_expected_evidence():
    """A.M21: under the model itself each datum is better predicted from all the others than from those before
    it.
    """
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (12, 1))
    model = mc.Model(mc.GP(k.SE(0.7)), mc.likelihoods.Gaussian(0.1))
    gaps = []
    for seed in range(40):
        y = model.gp.sample(X, 1, seed=seed)[0] + np.sqrt(0.1) * np.random.default_rng(
            seed + 999
        ).standard_normal(12)
        post = model.condition(X, y)
        gaps.append(post.loo().log_density.sum() - post.log_evidence)
    assert np.mean(gaps) > 4 * np.std(gaps) / np.sqrt(len(gaps))


def test_classifiers_by_rows_left_out():
    """C.CLS19: by EP's cavities, or by refits of ten parts; each is the highest of its own."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(24, 1))
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=24) > 0, 1.0, -1.0)
    model = mc.Model(mc.GP(k.SE(1.0, mc.fixed(4.0))), mc.likelihoods.Bernoulli())
    found = {
        name: mc.fit(model, X, y, objective=name, inference="ep", n_folds=4)
        for name in ("evidence", "loo", "k-fold")
    }
    best = found["loo"]
    assert best.value == pytest.approx(best.posterior.loo().log_density.sum(), abs=1e-4)
    for factor in (0.7, 1.4):
        scale = factor * float(best.model.gp.kernel.lengthscale)
        other = mc.Model(mc.GP(k.SE(scale, 4.0)), mc.likelihoods.Bernoulli()).condition(X, y, "ep")
        assert other.loo().log_density.sum() <= best.value + 1e-3
    assert (
        found["loo"].posterior.loo().log_density.sum()
        >= found["evidence"].posterior.loo().log_density.sum() - 1e-3
    )
    parts = folds(24, 4, 0)
    again = mc.Model(found["k-fold"].model.gp, mc.likelihoods.Bernoulli())
    total = 0.0
    for part in parts:
        rest = np.setdiff1d(np.arange(24), part)
        total += again.condition(X[rest], y[rest], "ep").log_density(X[part], y[part]).sum()
    assert found["k-fold"].value == pytest.approx(total, abs=1e-3)
