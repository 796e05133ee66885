"""Power EP: between EP and the variational bound, and right at both ends."""

import numpy as np
import pytest

import mercer as mc
from mercer import likelihoods as lk
from mercer.inference import EP, KL
from mercer.solvers.protocol import SolverError

from .conformance import CASES, CLASSES, COUNTS, LABELS, SOLVERS, XS, X, one_latent
from .test_conformance import quadrature

OF_ONE = [case for case in CASES if "ep" in CASES[case].rules and one_latent(case)]
KERNEL = SOLVERS["dense"][1]


def conditioned(case, rule):
    return CASES[case].model(KERNEL).condition(X, CASES[case].y, rule)


def power_quadrature(likelihood, y, mean, variance, power):
    """log Z, mean and variance of p(y|f)^power N(f|mean, variance), on a fine grid."""

    class Powered:
        @staticmethod
        def log_prob(f, y):
            return power * np.asarray(likelihood.log_prob(f, y))

    return quadrature(Powered, y, mean, variance)


@pytest.mark.representative("probit", "laplace", "custom")
@pytest.mark.parametrize("case", OF_ONE)
def test_moments_match_at_the_fixed_point(case):
    """Of every datum: the marginal has the moments of its cavity, without half the site, times the root of
    its likelihood. The cavity is worked out here from the marginal and the site.
    """
    post = conditioned(case, EP(tol=1e-10, power=0.5))
    assert post.status.converged
    mean, variance = (np.asarray(a)[:, 0] for a in post.state.marginals())
    W, alpha, y = post.state.sites.precision[:, 0], post.state.alpha, post.y
    for i in range(0, len(y), 4):
        v = 1.0 / (1.0 / variance[i] - 0.5 * W[i])
        likelihood = post.model.likelihood.at_rows(np.array([i]), len(y))
        _, m, s = power_quadrature(likelihood, y[i], mean[i] - 0.5 * v * alpha[i], v, 0.5)
        assert m == pytest.approx(mean[i], abs=1e-6) and s == pytest.approx(variance[i], rel=1e-5)


@pytest.mark.representative("probit", "student-t")
@pytest.mark.parametrize("case", OF_ONE)
def test_the_limits_are_ep_and_kl(case):
    """First-order in the distance to each: a tenth of it is a tenth of the difference."""
    ep, kl = (conditioned(case, rule) for rule in (EP(tol=1e-10), KL(tol=1e-9)))
    assert conditioned(case, EP(tol=1e-10, power=1.0)).log_evidence == ep.log_evidence
    if ep.state.sites.slope is None:
        return  # EP has no fixed point here
    for end, powers in ((ep, (0.99, 0.999)), (kl, (0.01, 0.001))):
        near = [conditioned(case, EP(tol=1e-10, power=power)) for power in powers]
        off = [post.log_evidence - end.log_evidence for post in near]
        assert abs(off[1]) < 0.01 and abs(off[0]) < 0.1
        assert abs(off[1]) <= 0.2 * abs(off[0]) + 1e-6
        for p, q in zip(near[1].latent_moments(XS), end.latent_moments(XS), strict=True):
            np.testing.assert_allclose(p, q, rtol=0.01, atol=0.01)


def test_the_evidence_lies_between_the_bound_and_ep():
    values = [conditioned("probit", rule).log_evidence for rule in (KL(), EP(power=0.3), EP(power=0.7), EP())]
    assert np.all(np.diff(values) > 0)


def test_gaussian_noise_is_exact_at_any_power():
    exact = conditioned("gaussian", "exact")
    for power in (0.001, 0.3):
        post = conditioned("gaussian", EP(tol=1e-11, power=power))
        assert post.log_evidence == pytest.approx(exact.log_evidence, abs=1e-9)
        for p, q in zip(post.latent_moments(XS), exact.latent_moments(XS), strict=True):
            np.testing.assert_allclose(p, q, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize(("likelihood", "y"), [(lk.Bernoulli(), LABELS), (lk.Poisson(), COUNTS)])
def test_schedules_share_the_fixed_point(likelihood, y):
    model = mc.Model(mc.GP(KERNEL), likelihood)
    a, b = (model.condition(X, y, EP(s, tol=1e-10, power=0.4)) for s in ("parallel", "sequential"))
    assert a.status.converged and b.status.converged
    assert a.log_evidence == pytest.approx(b.log_evidence, abs=1e-9)


def test_refusals():
    with pytest.raises(ValueError, match=r"inference\.KL"):
        EP(power=0.0)
    with pytest.raises(ValueError, match="between"):
        EP(power=1.2)
    with pytest.raises(SolverError, match="power=1"):
        mc.Model(mc.GP(KERNEL), lk.MultinomialProbit(3)).condition(X, CLASSES, EP(power=0.5))
