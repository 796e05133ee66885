"""Draws weighted to stand for another prior, against a grid on which both posteriors are known."""

import numpy as np
import pytest

import mercer as mc
from mercer import hyperpriors as hp
from mercer.inference import MCMC
from mercer.sampling import HMC

k = mc.kernels
RNG = np.random.default_rng(2)
X = RNG.uniform(-3, 3, (8, 1))
Y = np.sin(2 * X[:, 0]) + 0.3 * RNG.standard_normal(8)
NEW = hp.LogNormal(0.5, 0.4)


def model(prior):
    return mc.Model(
        mc.GP(k.SE(mc.param(1.0, prior=prior), mc.fixed(1.0))), mc.likelihoods.Gaussian(mc.fixed(0.1))
    )


@pytest.fixture(scope="module")
def post():
    rule = MCMC(draws=800, tune=200, sampler="hmc", progress=False)
    return mc.fit(model(hp.LogNormal(0.0, 0.6)), X, Y, inference=rule).posterior


@pytest.mark.slow
def test_medians_under_the_new_prior(post):
    found = post.under({"kernel.lengthscale": NEW})
    a = np.linspace(-2.5, 2.5, 401)
    log_p = np.array(
        [float(mc.log_evidence(mc.GP(k.SE(np.exp(i), 1.0)), X, Y, noise_variance=0.1)) for i in a]
    )
    for column, (mean, sd) in ((found.before, (0.0, 0.6)), (found.after, (0.5, 0.4))):
        w = np.exp(log_p - log_p.max() - 0.5 * ((a - mean) / sd) ** 2)
        exact = np.interp([0.05, 0.5, 0.95], np.cumsum(w) / w.sum(), a)
        # about four standard errors of 800 effective draws
        np.testing.assert_allclose(np.log(column[0]), exact, atol=0.08)
    assert found.trusted and 0.1 < found.share < 1.0
    assert found.after[0, 1] > found.before[0, 1] and found.shift()[0] > 0
    assert "kernel.lengthscale" in str(found) and "% of the draws" in str(found)
    lengths = [float(m.gp.kernel.lengthscale) for m in found.posterior.models]
    np.testing.assert_allclose(np.median(lengths), found.after[0, 1], rtol=0.05)
    assert found.posterior.mean(X).shape == (8,)


@pytest.mark.slow
def test_the_same_prior_changes_nothing(post):
    same = post.under({"kernel.lengthscale": hp.LogNormal(0.0, 0.6)})
    assert same.share == pytest.approx(1.0)
    np.testing.assert_allclose(same.after, same.before, rtol=2e-3)


@pytest.mark.slow
def test_what_cannot_be_answered_is_said(post):
    far = post.under({"kernel.lengthscale": hp.LogNormal(9.0, 0.1)})
    assert not far.trusted and "fit again" in str(far)
    with pytest.raises(ValueError, match="no free hyperparameter"):
        post.under({"kernel.variance": NEW})
    fixed = mc.Model(mc.GP(k.SE(1.0, 1.0)), mc.likelihoods.Gaussian(0.1))
    with pytest.raises(ValueError, match="fixed hyperparameters"):
        fixed.condition(X, Y, MCMC(draws=20, tune=0, chains=2, sampler="hmc", progress=False)).under(
            {"kernel.lengthscale": NEW}
        )


@pytest.mark.slow
def test_divergent_chains_are_said_and_not_trusted():
    """A step far beyond the stable one: every trajectory is lost, and the status says so."""
    rule = MCMC(draws=30, tune=0, chains=2, sampler=HMC(8), step_size=60.0, progress=False)
    stuck = mc.Model(mc.GP(k.SE(1.0, 100.0)), mc.likelihoods.Poisson()).condition(
        X, np.abs(np.round(3 * Y)), rule
    )
    assert (
        stuck.diagnostics.divergences > 0
        and not stuck.status.converged
        and "divergences" in stuck.status.message
    )
    assert any("divergent" in note for note in stuck.notes)
    for bad in (0, 1):
        with pytest.raises(ValueError, match="too few"):
            MCMC(draws=bad)
    with pytest.raises(ValueError, match="step_size"):
        MCMC(step_size=0.0)
