"""Annealed importance sampling and importance sampling against exact evidences."""

import pickle

import numpy as np
import pytest
from scipy.special import logsumexp

import mercer as mc
from mercer import hyperpriors as hp
from mercer.inference import AIS, Estimate, Importance
from mercer.sampling import thermodynamic
from mercer.sampling.anneal import Ladder, StepSizes, anneal
from mercer.sampling.paths import fixed_path
from mercer.sampling.target import whiten

pytestmark = pytest.mark.slow  # chains and compilations of its own

k = mc.kernels


def data(n=12, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, (n, 1))
    return X, np.sin(2 * X[:, 0]) + 0.3 * rng.standard_normal(n)


def exchangeable(a, b, m):
    """K = a I + b 11', all labels +1: exact evidences by one-dimensional quadrature (Kuss 6.3)."""
    return (
        mc.Model(mc.GP(k.Constant(b) + k.SE(1e-3, a)), mc.likelihoods.Bernoulli()),
        np.arange(float(m))[:, None],
        np.ones(m),
    )


def close(estimate, exact):
    """Within 4.5 standard errors, and an error small enough to mean something."""
    assert estimate.standard_error < 0.15
    assert abs(estimate - exact) < 4.5 * max(estimate.standard_error, 0.02), (estimate, exact)


def test_exact_evidence_for_gaussian_noise_with_a_bracket():
    X, y = data()
    model = mc.Model(mc.GP(k.SE(0.8, 1.5), mean=0.2), mc.likelihoods.Gaussian(0.1))
    exact = mc.log_evidence(model, X, y)
    found = mc.log_evidence(model, X, y, inference=AIS(steps=2000, runs=6, progress=False))
    close(found, exact)
    assert abs(found.reverse - exact) < 0.3
    assert abs(found.thermodynamic - exact) < 0.3
    assert found.forward == float(found)
    assert found.runs.shape == found.reverse_runs.shape == (6,)
    assert found.temperatures[1] == pytest.approx((1 / 2000) ** 4)
    assert found.path[-1] > found.path[0]  # the fit improves from prior to posterior
    again = mc.log_evidence(model, X, y, inference=AIS(steps=2000, runs=6, progress=False))
    assert again == found


@pytest.mark.slow
@pytest.mark.representative("25.0")
@pytest.mark.parametrize(("a", "b", "m", "exact"), [(1.0, 4.0, 10, -1.849497), (25.0, 100.0, 10, None)])
def test_exchangeable_probit(a, b, m, exact):
    if exact is None:
        from scipy.special import log_ndtr

        u = np.linspace(-12, 12, 20001)
        exact = float(
            logsumexp(-0.5 * u**2 + m * log_ndtr(np.sqrt(b) * u / np.sqrt(1 + a)))
            + np.log(u[1] - u[0])
            - 0.5 * np.log(2 * np.pi)
        )
    model, X, y = exchangeable(a, b, m)
    found = mc.log_evidence(model, X, y, inference=AIS(steps=1000, runs=8, progress=False))
    close(found, exact)
    assert abs(found.reverse - exact) < 0.3
    assert not found.notes


@pytest.mark.slow
def test_weights_are_unbiased_however_short_the_schedule():
    """One datum, prior N(0, 25), probit: E[w] = 1/2 even with five temperatures;
    weights that use f_t instead are too large.
    """
    model = mc.Model(mc.GP(k.SE(1.0, 25.0)), mc.likelihoods.Bernoulli())
    path = fixed_path(model.likelihood, np.ones(1), whiten(model, np.zeros((1, 1))), None)
    rng = np.random.default_rng(0)
    ladder = Ladder(np.linspace(0, 1, 6), progress=False)
    pilot = StepSizes(ladder.temperatures, np.full(6, np.log(0.4)))
    out = anneal(path, ladder, path.prior_draws(rng, 4000), pilot, rng)
    w = np.exp(out.log_weights)
    assert abs(w.mean() - 0.5) < 4 * w.std() / np.sqrt(4000)
    wrong = np.exp(np.sum(np.diff(ladder.temperatures)[:, None] * out.log_likelihood[1:], 0))
    assert wrong.mean() - 0.5 > 8 * wrong.std() / np.sqrt(4000)


def test_error_falls_with_the_number_of_temperatures():
    X, y = data()
    model = mc.Model(mc.GP(k.SE(0.8, 1.5)), mc.likelihoods.Gaussian(0.01))
    exact = mc.log_evidence(model, X, y)
    short, long = (
        mc.log_evidence(model, X, y, inference=AIS(steps=t, runs=6, reverse=False, progress=False))
        for t in (60, 3000)
    )
    assert abs(long - exact) < 4 * long.standard_error < 2 * short.standard_error
    assert any("more steps" in note for note in short.notes)
    assert np.isnan(long.reverse)


@pytest.mark.slow
def test_hyperparameters_integrated_out():
    X, y = data(10)
    priors = hp.LogNormal(0.0, 0.5), hp.LogNormal(-2.0, 0.5)
    gp = mc.GP(k.SE(mc.param(1.0, prior=priors[0]), mc.fixed(1.0)))
    model = mc.Model(gp, mc.likelihoods.Gaussian(mc.param(0.1, prior=priors[1])))
    a, b = np.linspace(-2, 2, 31), np.linspace(-4, 0, 31)
    log_p = np.array(
        [[mc.log_evidence(mc.GP(k.SE(np.exp(i), 1.0)), X, y, noise_variance=np.exp(j)) for j in b] for i in a]
    )
    log_p += norm_log(a[:, None], 0.0, 0.5) + norm_log(b[None], -2.0, 0.5)
    exact = float(logsumexp(log_p) + 2 * np.log(a[1] - a[0]))
    found = mc.log_evidence(
        model, X, y, inference=AIS(steps=500, runs=6, hyperparameters="integrate", progress=False)
    )
    close(found, exact)
    assert abs(found.reverse - exact) < 0.4


def norm_log(x, mean, sd):
    return -0.5 * ((x - mean) / sd) ** 2 - np.log(sd) - 0.5 * np.log(2 * np.pi)


@pytest.mark.slow
def test_latents_and_hyperparameters_integrated_out():
    X, y = data(6)
    labels = np.where(y > 0, 1, -1)
    model = mc.Model(
        mc.GP(k.SE(mc.param(1.0, prior=hp.LogNormal(0.0, 0.5)), mc.fixed(1.0))), mc.likelihoods.Bernoulli()
    )
    a = np.linspace(-2, 2, 31)
    fixed = [mc.Model(mc.GP(k.SE(np.exp(i), 1.0)), mc.likelihoods.Bernoulli()) for i in a]
    log_p = np.array([mc.log_evidence(m, X, labels, inference="ep") for m in fixed]) + norm_log(a, 0.0, 0.5)
    near = float(logsumexp(log_p) + np.log(a[1] - a[0]))  # EP is within 0.01 nat here
    rule = AIS(steps=500, runs=6, hyperparameters="integrate", reverse=False, progress=False)
    close(mc.log_evidence(model, X, labels, inference=rule), near)


@pytest.mark.parametrize("proposal", ["ep", "laplace"])
def test_importance_sampling_with_a_gaussian_proposal(proposal):
    model, X, y = exchangeable(1.0, 4.0, 10)
    found = mc.log_evidence(model, X, y, inference=Importance(proposal=proposal))
    assert found.standard_error < 0.05
    assert abs(found + 1.849497) < 4.5 * max(found.standard_error, 0.005)
    hard = mc.log_evidence(*exchangeable(25.0, 100.0, 100), inference=Importance(2000, proposal="laplace"))
    assert any("AIS" in note for note in hard.notes)


def test_an_estimate_is_a_float_that_knows_more():
    e = Estimate(-3.5, standard_error=0.1, forward=-3.5, reverse=-3.4, runs=np.array([-3.6, -3.4]))
    assert isinstance(e, float)
    assert e + 1 == -2.5
    assert "-3.500 +- 0.1" in repr(e)
    back = pickle.loads(pickle.dumps(e))
    assert (back, back.reverse) == (e, -3.4)


def test_thermodynamic_integration_of_the_same_runs():
    """The trapezoidal rule against the exact Gaussian evidence; the left rule errs downwards,
    by the first order of the steps.
    """
    X, y = data()
    model = mc.Model(mc.GP(k.SE(0.8, 1.5)), mc.likelihoods.Gaussian(0.1))
    exact = mc.log_evidence(model, X, y)
    found = mc.log_evidence(model, X, y, inference=AIS(steps=400, runs=8, reverse=False, progress=False))
    best = found.thermodynamic
    assert best.standard_error < 0.15 and abs(best - exact) < 4.5 * max(best.standard_error, 0.02)
    left = thermodynamic(found.temperatures, found.log_likelihood, "left")
    np.testing.assert_allclose(left, found.runs.mean(), rtol=1e-9)  # 4.46: the mean log weight of AIS
    np.testing.assert_allclose(best.cumulative[-1], best, rtol=1e-12)
    assert (
        best.terms.shape == (400,)
        and float(pickle.loads(pickle.dumps(best)).standard_error) == best.standard_error
    )
    tau = np.linspace(0, 1, 101)
    line = thermodynamic(tau, np.stack([2 * tau, 2 * tau], 1))
    np.testing.assert_allclose(line, 1.0, rtol=1e-12)
    np.testing.assert_allclose(thermodynamic(tau, 2 * tau[:, None], "left"), 0.99, rtol=1e-12)
    for bad in (
        (tau[:5], np.zeros((101, 2)), "left"),
        (tau[1:], np.zeros((100, 2)), "left"),
        (tau, np.zeros((101, 2)), "right"),
    ):
        with pytest.raises(ValueError, match=r"temperatures|rule"):
            thermodynamic(*bad)
    assert np.isnan(Estimate(-1.0).thermodynamic)


class Stop:
    """Raises KeyboardInterrupt once so many temperatures are done in all, counted over passes."""

    def __init__(self, passes):
        self.passes = passes

    def __call__(self, done, total, text):
        self.passes -= done == total
        if self.passes < 0:
            raise KeyboardInterrupt


@pytest.mark.slow
def test_interrupting_keeps_finished_runs():
    X, y = data(8)
    model = mc.Model(mc.GP(k.SE(0.8, 1.5)), mc.likelihoods.Gaussian(0.1))
    half = mc.log_evidence(model, X, y, inference=AIS(steps=400, runs=16, progress=Stop(1)))
    assert half.interrupted and half.runs.shape == (8,) and np.isnan(half.reverse)
    assert any("8 of 16 forward runs" in note for note in half.notes)
    close(half, mc.log_evidence(model, X, y))
    ahead = mc.log_evidence(model, X, y, inference=AIS(steps=200, runs=8, progress=Stop(1)))
    assert ahead.interrupted and ahead.runs.shape == (8,) and np.isnan(ahead.reverse)
    assert any("0 of 8 reverse" in note for note in ahead.notes)
    with pytest.raises(KeyboardInterrupt):
        mc.log_evidence(model, X, y, inference=AIS(steps=200, runs=4, progress=Stop(0)))
    assert not mc.log_evidence(
        model, X, y, inference=AIS(steps=20, runs=2, reverse=False, progress=False)
    ).interrupted


def test_bad_requests():
    X, y = data(5)
    model = mc.Model(mc.GP(k.SE()), mc.likelihoods.Gaussian())
    for bad in ({"steps": 1}, {"runs": 0}, {"power": 0.0}, {"hyperparameters": "some"}):
        with pytest.raises(ValueError, match="AIS"):
            AIS(**bad)
    with pytest.raises(ValueError, match="proper prior"):
        mc.log_evidence(model, X, y, inference=AIS(hyperparameters="integrate"))
    with pytest.raises(ValueError, match="log_evidence"):
        model.condition(X, y, AIS())
    bounded = mc.param(1.0, prior=hp.LogNormal(0, 1), bounds=(0.1, 10.0))
    with pytest.raises(ValueError, match="bounds"):
        mc.log_evidence(
            mc.Model(mc.GP(k.SE(bounded, mc.fixed(1.0))), mc.likelihoods.Gaussian(mc.fixed(0.1))),
            X,
            y,
            inference=AIS(hyperparameters="integrate"),
        )
    with pytest.raises(ValueError, match="Importance"):
        Importance(proposal="prior")
