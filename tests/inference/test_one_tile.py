"""The evidence of few data by two programs is that by a State, to rounding."""

import numpy as np
import pytest

import mercer as mc
from mercer import hyperpriors, likelihoods, means
from mercer import kernels as k
from mercer.inference import Exact, Laplace
from mercer.inference.one_tile import OneTile
from mercer.inputs import Inputs
from mercer.learning.objectives import by_name
from mercer.learning.problem import LearningProblem
from mercer.linalg.cholesky import NotPositiveDefinite
from mercer.params import fixed, flatten, param
from mercer.solvers import VFE, Dense

KERNELS = {
    "ARD Matern": k.Matern(np.full(3, 0.7), 1.3),
    "sum": k.SE(param(1.0, tie="l")) + 0.5 * k.Periodic(fixed(1.0), param(1.0, tie="l")).on(0),
    "product": k.Linear() * k.RationalQuadratic(0.8, alpha=0.5) + k.Matern(0.5, nu=0.5).on(1),
    "bounded": k.GammaExponential(0.9, gamma=1.5),
    "factor": k.LinearCovariance(k.lower_factor(np.eye(3) + 0.3)),
}
MEANS = {"none": None, "constant": means.Constant(0.3), "line": means.Linear([0.1, -0.2, 0.5], 0.1)}


def data(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] + 0.2 * rng.normal(size=n)


def problem(model, X, y, objective="evidence", solver=None, rule=None):
    return LearningProblem(
        model, [(Inputs(X), y)], rule or Exact(), solver or Dense(), by_name(objective), False
    )


def by_state(asked, vector):
    asked.short_cuts = [None]
    return asked.value_and_gradient(vector)


@pytest.mark.parametrize("mean", MEANS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_as_by_a_state(kernel, mean):
    for seed, n in enumerate((1, 2, 31, 33, 100, 256)):
        X, y = data(n, seed)
        prior = mc.GP(KERNELS[kernel]) if MEANS[mean] is None else mc.GP(KERNELS[kernel], MEANS[mean])
        asked = problem(mc.Model(prior, likelihoods.Gaussian(0.1)), X, y)
        (short_cut,) = asked.short_cuts
        assert isinstance(short_cut, OneTile)
        for _ in range(2):
            vector = asked.flat.vector + np.random.default_rng(n).normal(size=asked.flat.vector.size)
            value, gradient = short_cut(vector)
            expected, slope, _ = by_state(asked, vector)
            assert value == pytest.approx(expected, rel=1e-11, abs=1e-10)
            np.testing.assert_allclose(gradient, slope, rtol=1e-9, atol=1e-9 * np.abs(slope).max())


def test_what_is_fixed_counts_and_stays():
    X, y = data(40, 0)
    kernel = k.Matern(fixed([0.5, 1.0, 2.0]), param(1.0, prior=hyperpriors.LogNormal(0.0, 1.0)))
    asked = problem(mc.Model(mc.GP(kernel), likelihoods.Gaussian(fixed(0.2))), X, y)
    assert asked.flat.names == ("kernel.variance",)
    value, gradient, evidence = asked.value_and_gradient(np.array([0.4]))
    expected = by_state(asked, np.array([0.4]))
    assert value == pytest.approx(expected[0], rel=1e-12) and evidence == pytest.approx(
        expected[2], rel=1e-12
    )
    np.testing.assert_allclose(gradient, expected[1], rtol=1e-9)


def test_who_takes_it():
    """Gaussian noise of one variance, few data, dense algebra, the evidence; nobody else."""
    model, (X, y) = mc.Model(mc.GP(k.SE()), likelihoods.Gaussian(0.1)), data(40, 0)
    assert problem(model, X, y).short_cuts != [None]
    weighted = mc.Model(model.gp, likelihoods.Gaussian(0.1, weight=np.arange(1.0, 41.0)))
    noise_free = mc.Model(model.gp, likelihoods.Gaussian(0.0))
    warped = mc.Model(model.gp, likelihoods.Warped(mc.warps.Log()))
    labels = mc.Model(model.gp, likelihoods.Bernoulli())
    others = [
        problem(weighted, X, y),
        problem(noise_free, X, y),
        problem(warped, X, np.exp(y)),
        problem(model, *data(257, 0)),
        problem(model, X, y, "loo"),
        problem(model, X, y, solver=VFE(8)),
        problem(model, X, y, solver=Dense("jax")),
        problem(labels, X, np.sign(y), rule=Laplace()),
    ]
    assert all(asked.short_cuts == [None] for asked in others)


def test_jitter_and_its_end_are_those_of_all():
    X = np.repeat(data(10, 0)[0], 4, 0)  # of rank 10, and next to no noise
    y = X[:, 0]
    model = mc.Model(mc.GP(k.SE(1.0)), likelihoods.Gaussian(1e-18))
    asked = problem(model, X, y)
    assert asked.short_cuts[0](asked.flat.vector)[0] == pytest.approx(
        by_state(asked, asked.flat.vector)[0], rel=1e-5
    )
    with np.errstate(all="ignore"), pytest.raises(NotPositiveDefinite):
        OneTile(flatten(model), X, y)(np.array([0.0, 800.0, 0.0]))
