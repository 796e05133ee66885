"""A solver from another package: through the conformance suite, and every inference rule as with Dense."""

import numpy as np
import pytest

import mercer as mc
from mercer import kernels as k
from mercer import likelihoods as lik
from mercer.solvers import Dense, WithBasis

from ..solvers import test_conformance as suite
from ..solvers import test_coupled as coupled
from ..solvers.conformance import FULL, GAUSSIAN, KINDS, MEAN, Case
from .eigen_solver import EigenSolver

CASES = [
    Case("eigen", EigenSolver(), mc.GP(FULL, MEAN)),
    Case("basis-eigen", WithBasis(EigenSolver()), mc.GP(FULL, MEAN, GAUSSIAN)),
]
each = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
VIEWS = ["log_normaliser", "marginals", "dual", "apply_and_cross", "predict"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("what", VIEWS)
@each
def test_conforms(case, what, kind):
    getattr(suite, f"test_{what}")(case, kind)


@pytest.mark.parametrize("kind", ["per-datum", "general"])
@pytest.mark.parametrize("quantity", list(suite.BARS))
@each
def test_pulls_back_as_it_declares(case, quantity, kind):
    suite.test_pullback(case, quantity, kind)


@each
def test_joint_pass_and_draws(case):
    suite.test_joint_pullback_is_the_sum(case)
    suite.test_sample(case)


@each
def test_negative_precisions(case):
    coupled.test_negative_precision(case)
    for bar in coupled.BARS:
        coupled.test_negative_pullback(case, bar)


RNG = np.random.default_rng(0)
X, XS = RNG.normal(size=(30, 2)), RNG.normal(size=(6, 2))
F = np.sin(2 * X[:, 0]) + 0.3 * X[:, 1]
GP = mc.GP(k.SE([0.8, 1.3], 1.5) + k.Constant(0.4))
PROBLEMS = {
    "exact": (lik.Gaussian(0.1), F + 0.3 * RNG.normal(size=30), "exact"),
    "laplace": (lik.Bernoulli(), (F > 0).astype(int), "laplace"),
    "laplace-student-t": (lik.StudentT(4.0, 0.3), F + 0.2 * RNG.standard_t(3, size=30), "laplace"),
    "laplace-softmax": (lik.Softmax(3), np.digitize(F, [-0.4, 0.4]), "laplace"),
    "ep": (lik.Bernoulli(), (F > 0).astype(int), "ep"),
    "kl": (lik.Poisson(), RNG.poisson(np.exp(F)), "kl"),
}
close = dict(rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", PROBLEMS)
def test_every_rule_as_with_dense(name):
    """Evidence, its gradient, predictions and leave-one-out, to 1e-9."""
    likelihood, y, rule = PROBLEMS[name]
    model = mc.Model(GP, likelihood)
    ours, theirs = (model.condition(X, y, rule, solver) for solver in (EigenSolver(), Dense()))
    assert ours.log_evidence == pytest.approx(theirs.log_evidence, rel=1e-9)
    for a, b in zip(ours.latent_moments(XS), theirs.latent_moments(XS), strict=True):
        np.testing.assert_allclose(a, b, **close)
    np.testing.assert_allclose(ours.mean(XS), theirs.mean(XS), **close)
    if likelihood.latents == 1:
        np.testing.assert_allclose(ours.loo().log_density, theirs.loo().log_density, **close)
    ours, theirs = (
        mc.log_evidence_and_gradient(model, X, y, inference=rule, solver=solver)
        for solver in (EigenSolver(), Dense())
    )
    assert ours[0] == pytest.approx(theirs[0], rel=1e-9)
    assert ours[1].keys() == theirs[1].keys()
    for key, value in theirs[1].items():
        np.testing.assert_allclose(ours[1][key], value, rtol=1e-7, atol=1e-8, err_msg=key)


def test_fit():
    """Learning through an estimator ends where it ends with Dense."""
    y = PROBLEMS["exact"][1]
    fits = [mc.GPRegressor(k.SE([1.0, 1.0]), solver=solver).fit(X, y) for solver in (EigenSolver(), Dense())]
    ends = [fit.log_marginal_likelihood_ for fit in fits]
    assert ends[0] == pytest.approx(ends[1], abs=0.02)
    assert "condition number" in fits[0].fit_.summary()
