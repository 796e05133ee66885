"""Sites visited one after the other: the compiled loop, its twin, and what they should add up to."""

import numpy as np
import pytest

import mercer as mc
from mercer import compiled, kernels
from mercer.compiled import ep as loops
from mercer.inference import EP, pointwise
from mercer.inference.ep import sequential
from mercer.inference.ep.point import OneLatent
from mercer.inference.protocol import begin
from mercer.likelihoods import Bernoulli
from mercer.solvers import Dense
from mercer.solvers.protocol import Sites

LIKELIHOODS = [Bernoulli(), Bernoulli("logit"), Bernoulli(flip=0.1), Bernoulli("logit", flip=0.1)]
needs_numba = pytest.mark.skipif(not compiled.ready(), reason="numba is not to be had: there are no loops")


def problem(likelihood, n=75):
    """Two blocks and a part, with wrong labels far from where the others change."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n, 2))
    y = np.where(rng.random(n) < 0.1, -1.0, 1.0) * np.where(X[:, 0] + 0.2 * rng.normal(size=n) > 0, 1.0, -1.0)
    model = mc.Model(mc.GP(kernels.SE(0.8, variance=9.0)), likelihood)
    model = type(model)(model.gp.bind(mc.inputs.as_inputs(X)), likelihood)
    return OneLatent(model, X, y, Dense(), begin(model, X, Dense(), None))


def joint(given, sites):
    return sequential.Joint.at(given, given.point(sites))


@needs_numba
@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=str)
@pytest.mark.parametrize("longest", (1.0, 0.7))
def test_loop_and_twin_visit_alike(likelihood, longest, monkeypatch):
    given = problem(likelihood)
    sites = Sites(*np.zeros((3, len(given.y), 1)))
    for _ in range(2):
        a, b = joint(given, sites), joint(given, sites)
        for found, least in ((a, 0), (b, 10**9)):
            monkeypatch.setattr(sequential, "LOOPS_FROM", least)
            found.sweep(sequential._visits(given, longest))
        for name in ("mean", "diagonal", "W", "gamma"):
            np.testing.assert_allclose(getattr(a, name), getattr(b, name), rtol=1e-10, atol=1e-12)
        sites = a.sites()
    assert (a.W < 0).any() == (float(likelihood.flip) > 0)


def _dense(given, found):
    """Mean and covariance at the sites that were found, by one inversion."""
    K = np.asarray(given.model.gp.kernel(given.X))
    A = np.linalg.inv(np.linalg.inv(K + 1e-12 * np.eye(len(K))) + np.diag(found.W))
    return A @ (found.gamma + found.W * found.mean), A


@pytest.mark.parametrize("least", [pytest.param(0, marks=needs_numba), 10**9], ids=("loop", "twin"))
def test_rank_one_updates_add_up_to_the_posterior(least, monkeypatch):
    monkeypatch.setattr(sequential, "LOOPS_FROM", least)
    given = problem(Bernoulli())
    found = joint(given, Sites(*np.zeros((3, len(given.y), 1))))
    found.sweep(sequential._visits(given, 1.0))
    mean, A = _dense(given, found)
    np.testing.assert_allclose(found.mean, mean, atol=1e-6)
    np.testing.assert_allclose(found.diagonal, np.diag(A), rtol=1e-6)


@needs_numba
@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=str)
@pytest.mark.parametrize("variance", (1e-3, 1.0, 400.0))
def test_tilted_moments_far_into_both_tails(likelihood, variance):
    """Data that know nothing of each other, from no sites: D = W / (1 + v W) and d = (1 - v D) slope."""
    mean = np.array([-90.0, -40.0, -20.0, -6.0, -5.0, -1.0, 0.0, 2.0, 10.0, 60.0])
    y, n = np.where(np.arange(10) % 2, 1.0, -1.0), 10
    cavities = y * mean, np.full(n, variance)
    found = sequential.Joint(y * mean, np.diag(cavities[1]), cavities[1].copy(), np.zeros(n), np.zeros(n))
    loops.visit(found, y, loops.Probits(*likelihood.probits()), 1.0, 0, np.zeros((n, n)), np.zeros(n))
    _, d, D = (a[:, 0] for a in pointwise.tilted(likelihood, y, *(a[:, None] for a in cavities)))
    rest = 1.0 / (1.0 + variance * found.W)
    np.testing.assert_allclose(found.W * rest, D, rtol=1e-9, atol=1e-12)
    slope = found.gamma + found.W * (found.mean - y * mean)
    np.testing.assert_allclose(slope * rest, d, rtol=1e-9, atol=1e-12)


@needs_numba
def test_ep_ends_where_its_twin_does(monkeypatch):
    given = problem(Bernoulli("logit"))
    ends = []
    for least in (0, 10**9):
        monkeypatch.setattr(sequential, "LOOPS_FROM", least)
        ends.append(given.model.condition(given.X, given.y, EP("sequential")))
    assert ends[0].log_evidence == pytest.approx(ends[1].log_evidence, rel=1e-10)
