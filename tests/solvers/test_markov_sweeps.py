"""Compiled loops and scans of XLA: the same numbers from the same chain."""

import numpy as np
import pytest

import mercer as mc
from mercer import compiled
from mercer import kernels as k
from mercer.kernels.statespace import state_space
from mercer.params import strip
from mercer.solvers.markov_sweeps import Line, Loops, Scans

N = 41
RNG = np.random.default_rng(0)
TIMES = {
    "irregular": RNG.uniform(0.0, 9.0, N),  # in any order
    "regular": 0.25 * np.arange(N),
    "with gaps": 0.1 * np.cumsum(RNG.integers(0, 3, N)),  # and repetitions
}
KERNELS = {
    "one state": k.Matern(0.8, 1.3, nu=0.5),
    "two states": k.Matern(0.8, 1.3, nu=1.5),
    "steps that depend on time": k.Wiener(0.7) * k.Matern(2.0, nu=0.5) + k.BrownianBridge(20.0),
    "trend and season": k.Matern(2.0, nu=2.5) + k.Seasonal(1.0, harmonics=2) * k.Matern(8.0, nu=0.5),
}
CASES = [(a, b) for a in KERNELS for b in TIMES]
FAST = {("two states", "irregular"), ("trend and season", "with gaps")}
PAIRS = pytest.mark.parametrize(
    ("kernel", "times"),
    [pytest.param(*c, marks=() if c in FAST else pytest.mark.slow, id=", ".join(c)) for c in CASES],
)
EXACT = dict(rtol=1e-10, atol=1e-10)

pytestmark = pytest.mark.skipif(not compiled.ready(), reason="numba is not installed, or does not work here")


def both(kernel, times, z=None):
    form = state_space(strip(KERNELS[kernel].bind(1)), 1e-2)
    line, W = Line(TIMES[times]), RNG.uniform(0.5, 5.0, N)
    W[3] = 0.0
    return [kind(form, line, W, z) for kind in (Scans, Loops)]


@PAIRS
def test_loops_are_the_scans(kernel, times):
    z, V = RNG.normal(size=N), RNG.normal(size=(N, 3))
    scans, loops = both(kernel, times, z)
    np.testing.assert_allclose([loops.logdet, loops.least], [scans.logdet, scans.least], rtol=1e-12)
    for one in (z, z + 1.0):  # given when the filter ran, and later
        (expected, dual), (found, other) = scans.solve(one), loops.solve(one)
        np.testing.assert_allclose(found, expected, rtol=1e-11)
        np.testing.assert_allclose(other(), dual(), **EXACT)
    np.testing.assert_allclose(loops.resolve(V), scans.resolve(V), **EXACT)
    np.testing.assert_allclose(loops.times(V), scans.times(V), **EXACT)
    np.testing.assert_allclose(loops.variances(), scans.variances(), **EXACT)
    np.testing.assert_allclose(loops.turn(z), scans.turn(z), **EXACT)


@PAIRS
def test_their_derivatives_are_the_same(kernel, times):
    scans, loops = both(kernel, times)
    P, Q, direction = RNG.normal(size=(N, 2)), RNG.normal(size=(N, 2)), RNG.normal(size=N)
    for asked in ((P, Q, 0.0, None), (P, Q, -0.5, None), (P, Q, 0.3, direction)):
        found, expected = (_leaves(one.pull(*asked)) for one in (loops, scans))
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


def _leaves(form):
    import jax

    return [np.asarray(leaf) for leaf in jax.tree.leaves(form)]


def test_draws_have_the_covariance_of_the_prior():
    _, loops = both("two states", "irregular")
    t, draws = TIMES["irregular"], 4000
    sample = loops.simulate(np.random.default_rng(1), draws)
    K = np.asarray(k.Matern(0.8, 1.3, nu=1.5)(t[:, None]))
    assert np.abs(sample @ sample.T / draws - K).max() < 5 * 1.3 * np.sqrt(2 / draws)


def test_steps_of_one_length_are_made_once():
    year = 1900 + np.arange(4000) / 12  # months that binary fractions cannot hold
    t0, t1, step = Line(year).different_steps
    assert t1.shape[0] <= 32 and step.shape == (4000,) and step[0] == 0
    gaps = np.asarray(t1)[step] - np.asarray(t0)[step]
    np.testing.assert_allclose(gaps[1:], np.diff(year), atol=1e-12)


def test_many_data_go_through_loops_and_say_the_same(monkeypatch):
    rng = np.random.default_rng(2)
    t = np.sort(rng.uniform(0, 60, 2100))
    y = np.sin(t) + 0.3 * rng.normal(size=t.size)
    model = mc.Model(mc.GP(k.Matern(1.0, nu=1.5)), mc.likelihoods.Gaussian(0.1))

    def answers():
        post = model.condition(t[:, None], y, solver="markov")
        mean, std = post.mean_and_std(np.array([[1.5], [70.0]]))
        gradient = mc.log_evidence_and_gradient(model, t[:, None], y, solver="markov")[1]
        return [post.log_evidence, *mean, *std, *np.concatenate([np.ravel(g) for g in gradient.values()])]

    by_loops = answers()
    monkeypatch.setattr(compiled, "ready", lambda: False)
    np.testing.assert_allclose(by_loops, answers(), rtol=1e-10)
