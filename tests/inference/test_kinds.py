"""Three kinds of inference: what each gives, what it says when asked for something else, and which solvers it
takes.
"""

import inspect

import numpy as np
import pytest

import mercer as mc
from mercer import inference
from mercer import kernels as k
from mercer import likelihoods as lik
from mercer.inference import AIS, EP, MCMC, SVGP, Enumeration, Gibbs, Importance
from mercer.solvers import VFE, Dense, Markov, RandomFeatures, SolverError, Vecchia, WithBasis

RNG = np.random.default_rng(0)
X = RNG.uniform(0, 5, (8, 1))
Y = np.sin(X[:, 0])
LABELS = np.sign(Y - 0.2)
REGRESSION = mc.Model(mc.GP(k.Matern(1.5)), lik.Gaussian(0.1))
CLASSES = mc.Model(mc.GP(k.Matern(1.5)), lik.Bernoulli())
ROBUST = mc.Model(mc.GP(k.Matern(1.5)), lik.GaussianMixtureNoise())
QUICK = dict(draws=20, tune=20, chains=2, progress=False)

RULES = [c for c in map(vars(inference).get, inference.__all__) if inspect.isclass(c)]
RULES = [c for c in RULES if issubclass(c, inference.AbstractInference) and c.__name__[:8] != "Abstract"]


@pytest.mark.parametrize("cls", RULES, ids=lambda c: c.__name__)
def test_every_rule_is_of_a_kind(cls):
    rule = cls()
    assert rule.needs <= Dense().offers and rule.name == cls.__name__
    sites, draws = isinstance(rule, inference.AbstractSiteRule), isinstance(rule, inference.AbstractSampler)
    expected = "batches" if cls is SVGP else "gradient" if sites else "draws" if draws else None
    assert rule.learns == expected
    assert isinstance(rule, inference.AbstractConditioning | inference.AbstractEvidence)


@pytest.mark.parametrize("rule", [AIS(), Importance()])
def test_an_estimator_of_the_evidence_has_no_posterior(rule):
    for ask in (CLASSES.condition, lambda X, y, r: mc.fit(CLASSES, X, y, inference=r)):
        with pytest.raises(SolverError, match=rf"estimates the evidence.*log_evidence\(.*{rule.name}\(\)"):
            ask(X, LABELS, rule)


@pytest.mark.parametrize("rule", [MCMC(), Gibbs()])
def test_a_sampler_has_no_evidence(rule):
    """It is said before anything is drawn."""
    for ask in (mc.log_evidence, mc.log_evidence_and_gradient):
        with pytest.raises(SolverError, match=r"returns draws.*AIS for the evidence"):
            ask(ROBUST, X, Y, inference=rule)


def test_enumeration_has_a_posterior_and_an_evidence_and_learns_nothing():
    post = ROBUST.condition(X, Y, Enumeration())
    assert mc.log_evidence(ROBUST, X, Y, inference=Enumeration()) == post.log_evidence
    for ask in (mc.log_evidence_and_gradient, mc.fit):
        with pytest.raises(SolverError, match="a mixture, not a Gaussian posterior"):
            ask(ROBUST, X, Y, inference=Enumeration())


@pytest.mark.parametrize("solver", [VFE(4), RandomFeatures(50), Vecchia(3)], ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("rule", [MCMC(**QUICK), Gibbs(**QUICK), AIS(), Importance(), Enumeration()])
def test_what_draws_under_the_prior_refuses_a_solver_that_replaces_it(rule, solver):
    if isinstance(rule, AIS | Importance | Enumeration):
        asks = [lambda: mc.log_evidence(ROBUST, X, Y, inference=rule, solver=solver)]
    else:
        asks = [lambda: ROBUST.condition(X, Y, rule, solver)]
        asks += [lambda: mc.fit(ROBUST, X, Y, inference=rule, solver=solver)]
    for ask in asks:
        with pytest.raises(SolverError, match=r"needs \['exact'\].*use solver='dense'"):
            ask()


def test_basis_functions_are_as_exact_as_the_solver_below():
    assert "exact" in WithBasis(Dense()).offers and "exact" not in WithBasis(VFE(4)).offers


@pytest.mark.slow
def test_an_exact_solver_is_used(monkeypatch):
    """Whitening by EP and predictions for Gaussian noise are done by the solver that was given."""
    factor, count = Markov.factor, 0

    def counted(self, *args, **kwargs):
        nonlocal count
        count += 1
        return factor(self, *args, **kwargs)

    monkeypatch.setattr(Markov, "factor", counted)
    a, b = (CLASSES.condition(X, LABELS, MCMC(**QUICK), solver) for solver in (Markov(), Dense()))
    assert count > 0
    np.testing.assert_allclose(a.draws["f"][:, 0], b.draws["f"][:, 0], atol=1e-4)  # the tolerance of EP
    with pytest.warns(mc.learning.FitWarning, match="not be trusted"):
        c = mc.fit(REGRESSION, X, Y, inference=MCMC(**QUICK), solver=Markov()).posterior
    with pytest.warns(mc.learning.FitWarning, match="not be trusted"):
        d = mc.fit(REGRESSION, X, Y, inference=MCMC(**QUICK)).posterior
    count = 0
    np.testing.assert_allclose(c.mean(X), d.mean(X), atol=1e-5)
    assert count == c.used


def test_the_evidence_by_importance_is_on_the_given_solver():
    rule = Importance(draws=2000)
    a, b = (mc.log_evidence(CLASSES, X, LABELS, inference=rule, solver=s) for s in ("markov", None))
    assert a == pytest.approx(b, abs=1e-6)
    assert b == pytest.approx(mc.log_evidence(CLASSES, X, LABELS, inference=EP()), abs=0.05)


def test_evidence_and_gradient_from_batches_are_those_of_the_bound():
    value = mc.log_evidence(REGRESSION, X, Y, inference=SVGP(m=3))
    assert value == mc.log_evidence(REGRESSION, X, Y, solver=VFE(3))
    assert mc.log_evidence_and_gradient(REGRESSION, X, Y, inference=SVGP(m=3))[0] == value
