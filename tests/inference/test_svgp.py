"""Learning from batches reaches the bound that all data at once reach."""

import numpy as np
import pytest

import mercer as mc
from mercer import kernels as k
from mercer import likelihoods as lik
from mercer.inference import SVGP
from mercer.learning import FitWarning, stochastic
from mercer.learning.stochastic import Batches, Training
from mercer.solvers import VFE

RNG = np.random.default_rng(0)
X = RNG.uniform(0, 10, (600, 1))
Y = np.sin(X[:, 0]) + 0.2 * RNG.normal(size=600)
LABELS = np.where(RNG.random(600) < 1 / (1 + np.exp(-3 * np.sin(X[:, 0]))), 1.0, -1.0)


@pytest.mark.slow
def test_regression_comes_close_to_the_collapsed_bound():
    model = mc.Model(mc.GP(k.SE(1.0)), lik.Gaussian(0.1))
    found = mc.fit(model, X, Y, inference=SVGP(m=15, batch=100, epochs=8))
    best = mc.fit(model, X, Y, solver=VFE(m=15, learn=True))
    exact = mc.fit(model, X, Y)
    assert found.posterior.log_evidence == pytest.approx(best.posterior.log_evidence, abs=1.0)
    assert found.posterior.log_evidence <= exact.posterior.log_evidence
    assert found.history[-1].start == "epoch 8 of 8"
    # what an epoch says of the bound lags behind: q was worse before
    assert best.posterior.log_evidence - 6.0 < found.history[-1].value < found.posterior.log_evidence


def test_batches_estimate_the_bound_of_all_data():
    """Equal batches of all data at one q: their mean is the bound of all. The first step of all data at once
    takes q to its best for Gaussian noise, where that bound is the collapsed one.
    """
    model = mc.Model(mc.GP(k.SE(1.0)), lik.Gaussian(0.1))
    rule, Z = SVGP(m=10, batch=600), X[:10]
    batches = Batches(model, X, Y, rule)
    prior = Training.begin(mc.params.flatten(model).vector, Z, rule)
    _, q = batches.step(prior, np.arange(600), 0)
    whole, _ = batches.step(q, np.arange(600), 1)
    assert whole == pytest.approx(mc.log_evidence(model, X, Y, solver=VFE(inducing=Z)), abs=1e-7)
    parts = [batches.step(q, rows, 1)[0] for rows in np.split(RNG.permutation(600), 6)]
    assert np.mean(parts) == pytest.approx(whole, rel=1e-10) and np.ptp(parts) > 1.0


def test_marginals_under_q_are_those_of_vfe():
    """With Gaussian noise one step of all data at once takes q to its best; the last block overlaps."""
    model = mc.Model(mc.GP(k.SE(1.0)), lik.Gaussian(0.1))
    rule, Z = SVGP(m=10, batch=250), X[:10]
    batches = Batches(model, X, Y, rule)
    prior = Training.begin(mc.params.flatten(model).vector, Z, rule)
    _, q = batches.step(prior, np.arange(600), 0)
    mean, variance = batches.marginals(q)
    same = model.condition(X, Y, solver=VFE(inducing=Z))
    np.testing.assert_allclose(mean[:, 0], same.mean(X, latent=True), atol=1e-6)
    np.testing.assert_allclose(variance[:, 0], same.variance(X, latent=True), atol=1e-6)


def test_the_posterior_is_looked_for_from_the_last_q(monkeypatch):
    """The same one as from anywhere, in fewer iterations."""
    monkeypatch.setattr(stochastic, "FIRST", 60)
    model = mc.Model(mc.GP(k.SE(1.0)), lik.Bernoulli())
    found = mc.fit(model, X[:300], LABELS[:300], inference=SVGP(m=8, batch=100, epochs=4)).posterior
    other = found.model.condition(X[:300], LABELS[:300], SVGP(m=8), found.solver)
    assert found.log_evidence == pytest.approx(other.log_evidence, rel=1e-10)
    np.testing.assert_allclose(found.mean(X, latent=True), other.mean(X, latent=True), atol=1e-5)
    assert found.status.iterations < other.status.iterations


@pytest.mark.slow
def test_classification():
    model = mc.Model(mc.GP(k.SE(1.0)), lik.Bernoulli("logit"))
    found = mc.fit(model, X, LABELS, inference=SVGP(m=12, batch=150, epochs=6))
    full = mc.fit(model, X, LABELS, inference="variational", solver=VFE(m=12))
    assert found.posterior.log_evidence == pytest.approx(full.posterior.log_evidence, abs=1.5)
    grid = np.linspace(0, 10, 30)[:, None]
    np.testing.assert_allclose(found.posterior.probability(grid), full.posterior.probability(grid), atol=0.06)


def test_classes_start_from_small_batches(monkeypatch):
    """A dense fit of classes that do not overlap goes on for as long as the variance can grow."""
    monkeypatch.setattr(stochastic, "FIRST", 60)
    model, labels = mc.Model(mc.GP(k.SE(1.0)), lik.Bernoulli()), np.sign(np.sin(X[:150, 0]))
    found = mc.fit(model, X[:150], labels, inference=SVGP(m=8, batch=50, epochs=1))
    first = [e for e in found.history if e.start in ("given", "data-driven")]
    assert {e.size for e in first} == {50} and set(found.status.starts) == {"given", "data-driven"}
    assert max(found.status.starts.values()) > first[0].value
    assert -0.5 * 150 < found.posterior.log_evidence < 0.0


def test_conditioning_is_that_of_vfe():
    model = mc.Model(mc.GP(k.SE(1.0)), lik.Gaussian(0.04))
    post = model.condition(X, Y, SVGP(m=20))
    same = model.condition(X, Y, solver=VFE(m=20))
    assert post.log_evidence == pytest.approx(same.log_evidence, rel=1e-12)


def test_interruption_keeps_the_last_model(monkeypatch):
    from mercer.learning import climb as optimise

    note = optimise.Recorder.note

    def interrupt(self, start, size, value):
        note(self, start, size, value)
        if start == "epoch 2 of 5":
            raise KeyboardInterrupt

    monkeypatch.setattr(optimise.Recorder, "note", interrupt)
    with pytest.warns(FitWarning, match="interrupted"):
        found = mc.fit(
            mc.Model(mc.GP(k.SE(1.0)), lik.Gaussian(0.1)), X, Y, inference=SVGP(m=10, batch=100, epochs=5)
        )
    assert found.status.interrupted and not found.status.converged
    assert np.isfinite(found.posterior.log_evidence)


def test_bad_settings():
    with pytest.raises(ValueError, match="at least one datum"):
        SVGP(batch=0)
    with pytest.raises(ValueError, match="natural-gradient"):
        SVGP(step=2.0)
    with pytest.raises(ValueError, match="its own solver"):
        mc.fit(mc.Model(mc.GP(k.SE(1.0))), X, Y, inference=SVGP(m=10), solver="dense")
