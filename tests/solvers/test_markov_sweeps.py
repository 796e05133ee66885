"""Compiled loops and scans of XLA: the same numbers from the same chain."""

import pickle

import numpy as np
import pytest

import mercer as mc
from mercer import compiled
from mercer import kernels as k
from mercer.compiled import lanes, matern
from mercer.kernels.statespace import state_space
from mercer.params import strip
from mercer.solvers import markov_sweeps
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
    same_evidence(loops, scans, z, z + 1.0)


@PAIRS
def test_their_derivatives_are_the_same(kernel, times):
    scans, loops = both(kernel, times)
    P, Q, direction = RNG.normal(size=(N, 2)), RNG.normal(size=(N, 2)), RNG.normal(size=N)
    for asked in ((P, Q, 0.0, None), (P, Q, -0.5, None), (P, Q, 0.3, direction)):
        found, expected = (_leaves(one.pull(*asked)) for one in (loops, scans))
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


def same_evidence(loops, scans, *data):
    for z in data:
        (found, variances), (expected, others) = (one.pull_evidence(z) for one in (loops, scans))
        np.testing.assert_allclose(variances, others, **EXACT)
        for a, b in zip(_leaves(found), _leaves(expected), strict=True):
            np.testing.assert_allclose(a, b, **EXACT)


MADE = {  # whose transitions the loops make
    "one state": k.Matern(0.8, 1.3, nu=0.5),
    "two states": k.Matern(0.8, 1.3, nu=1.5),
    "three states": k.Matern(0.8, 1.3, nu=2.5),
    "a sum": k.Matern(2.0, nu=2.5) + 0.7 * k.Matern(0.5, nu=0.5),
    "a season that fades": k.Seasonal(1.0, harmonics=2) * k.Matern(8.0, nu=1.5) + k.Matern(2.0, nu=0.5),
    "the process first": k.Matern(8.0, nu=0.5) * k.Seasonal(1.0, harmonics=2),
    "weights alone": k.Seasonal(1.0, harmonics=1) + k.Linear(),
}
SLOW = {"two states", "three states", "a season that fades", "the process first", "weights alone"}


@pytest.mark.parametrize(
    "kernel", [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in MADE]
)
@pytest.mark.parametrize("once", (0, 256), ids=("made again", "made once"))
def test_blocks_hand_on_what_they_know(kernel, once, monkeypatch):
    """Sixteen steps at a time."""
    monkeypatch.setattr(matern, "SCRATCH", 0)
    monkeypatch.setattr(matern, "LEAST", 16)
    monkeypatch.setattr(matern, "ONCE", once)
    monkeypatch.setitem(KERNELS, "made", MADE[kernel])
    z, V = RNG.normal(size=N), RNG.normal(size=(N, 2))
    scans, loops = both("made", "with gaps", z)
    assert len(list(loops.steps.blocks())) == 3
    loops = pickle.loads(pickle.dumps(loops))
    np.testing.assert_allclose([loops.logdet, loops.least], [scans.logdet, scans.least], rtol=1e-12)
    np.testing.assert_allclose(loops.solve(z)[0], scans.solve(z)[0], rtol=1e-11)
    np.testing.assert_allclose(loops.solve(z)[1](), scans.solve(z)[1](), **EXACT)
    np.testing.assert_allclose(loops.resolve(V), scans.resolve(V), **EXACT)
    np.testing.assert_allclose(loops.times(V), scans.times(V), **EXACT)
    np.testing.assert_allclose(loops.variances(), scans.variances(), **EXACT)
    found, expected = (_leaves(one.pull(V, V + 1.0, -0.5, None)) for one in (loops, scans))
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, **EXACT)
    same_evidence(loops, scans, z)


@pytest.mark.parametrize(
    ("kernel", "why"),
    [
        (k.Matern(2.0, nu=1.5) * k.Seasonal(1.0, harmonics=2), "copies that are not in one piece"),
        (k.Matern(2.0, nu=1.5) * k.Matern(1.0, nu=0.5), "two processes"),
        (k.Wiener(1.0) + k.Matern(1.0), "not a Matern process"),
    ],
)
def test_other_forms_are_not_taken_for_matern_processes(kernel, why):
    assert state_space(strip(kernel.bind(1)), 1e-2).blocks is None, why


@pytest.mark.parametrize("s", (1, 2, 3, 5))
def test_transitions_of_loops_are_those_of_the_form(s):
    """At gaps from none to very long, with all digits."""
    gaps = np.concatenate([[0.0], 10.0 ** np.linspace(-8, 3, 150), [0.7, 1.0, 1.3]])
    form = state_space(strip(k.Matern(0.8, 1.3, nu=s - 0.5).bind(1)), 1e-2)
    steps = matern.MaternSteps(
        form.blocks, np.asarray(form.theta()), None, gaps, np.empty(1000), np.arange(1)
    )
    _, links = next(steps.blocks())
    Phi, Q = map(np.asarray, form.transition(np.zeros(len(gaps)), gaps))
    np.testing.assert_allclose(links.Phi, Phi, rtol=1e-13, atol=1e-300)
    scale = np.sqrt(np.diagonal(Q, axis1=1, axis2=2))
    assert (np.abs(links.Q - Q)[1:] <= 1e-11 * (scale[:, :, None] * scale[:, None, :])[1:]).all()
    np.testing.assert_allclose(links.Q[0], form.covariance(np.zeros(1))[0])


@pytest.mark.parametrize("s", (1, 2))
@pytest.mark.parametrize("lengthscale", (0.05, 3.0, 1e4), ids=("forgets", "remembers some", "remembers all"))
def test_chunks_side_by_side_are_the_chain(s, lengthscale, monkeypatch):
    """In blocks of a few steps, where a chunk forgets where it began and where it does not; silent data,
    times that repeat, and a long gap.
    """
    monkeypatch.setattr(markov_sweeps, "LANES_FROM", 0)
    monkeypatch.setattr(lanes, "SCRATCH", 2**14)
    rng, n = np.random.default_rng(s), 333
    t, W, z = rng.uniform(0.0, 30.0, n), rng.uniform(0.0, 20.0, n), rng.normal(size=n)
    t[:40], t[200], W[50:80], W[7] = 4.0, 900.0, 0.0, 1e9
    form = state_space(strip(k.Matern(lengthscale, 1.3, nu=s - 0.5).bind(1)), 1e-2)
    scans, loops = (kind(form, Line(t), W, z) for kind in (Scans, Loops))
    assert loops.lanes is not None and loops.lanes.layout.blocks > 1
    loops = pickle.loads(pickle.dumps(loops))
    np.testing.assert_allclose(loops.logdet, scans.logdet, rtol=1e-12)
    np.testing.assert_allclose(loops.solve(z)[0], scans.solve(z)[0], rtol=1e-11)
    same_evidence(loops, scans, z)
    np.testing.assert_allclose(loops.solve(z)[1](), scans.solve(z)[1](), **EXACT)


@pytest.mark.parametrize("s", (1, 2))
def test_blocks_after_what_is_forgotten_begin_as_they_did(s, monkeypatch):
    """Where all chunks forget, after a few blocks, derivatives need no filter of the others anew."""
    monkeypatch.setattr(markov_sweeps, "LANES_FROM", 0)
    monkeypatch.setattr(lanes, "SCRATCH", 2**16)
    rng, n = np.random.default_rng(s), 3001
    t, W, z = rng.uniform(0.0, 300.0, n), rng.uniform(0.0, 20.0, n), rng.normal(size=n)
    t[:40], W[50:80] = 4.0, 0.0
    form = state_space(strip(k.Matern(0.05, 1.3, nu=s - 0.5).bind(1)), 1e-2)
    scans, loops = (kind(form, Line(t), W, z) for kind in (Scans, Loops))
    assert loops.lanes is not None and 0 < len(loops.lanes.begins) < loops.lanes.layout.blocks - 1
    np.testing.assert_allclose(loops.logdet, scans.logdet, rtol=1e-12)
    same_evidence(loops, scans, z)
    np.testing.assert_allclose(loops.solve(z)[1](), scans.solve(z)[1](), **EXACT)


def test_gaps_so_long_that_chunks_say_next_to_nothing_of_each_other(monkeypatch):
    """Their information is a number that has no reciprocal."""
    monkeypatch.setattr(markov_sweeps, "LANES_FROM", 0)
    for gap in np.linspace(80.0, 110.0, 40):
        t, z = gap * np.arange(64), RNG.normal(size=64)
        form = state_space(strip(k.Matern(0.5, 1.3, nu=1.5).bind(1)), 1e-2)
        scans, loops = (kind(form, Line(t), np.ones(64), z) for kind in (Scans, Loops))
        assert loops.lanes is not None
        np.testing.assert_allclose(loops.solve(z)[0], scans.solve(z)[0], rtol=1e-12)
        same_evidence(loops, scans, z)


def test_transitions_of_one_state_keep_their_digits():
    """Over gaps of any length, in lanes as one by one."""
    gaps = np.append(0.0, np.geomspace(1e-14, 50.0, 40 * lanes.LANES - 1))
    layout = lanes.Layout.of(len(gaps), 1)
    one = lanes.Lanes(1, np.array([0.7, 1.3]), layout.lanes(gaps), np.ones(len(gaps)), np.zeros(len(gaps)))
    one._make(0)
    Phi, Q = (layout.row(one.made[None], row, len(gaps)) for row in (0, 1))
    np.testing.assert_allclose(Phi, np.exp(-0.7 * gaps), rtol=0.0, atol=3e-16)
    np.testing.assert_allclose(Q[1:], -1.3 * np.expm1(-1.4 * gaps[1:]), rtol=1e-15 * 4)
    assert Q[0] == 1.3  # where the chain begins


def test_sites_of_negative_precision_are_filtered_one_after_the_other(monkeypatch):
    """Whether the posterior is proper is seen in the order of time."""
    monkeypatch.setattr(markov_sweeps, "LANES_FROM", 0)
    _, loops = both("one state", "irregular", np.zeros(N))
    assert loops.lanes is not None
    loops = Loops(loops.form, loops.line, -0.1 * loops.line.back(loops.W), np.zeros(N))
    assert loops.lanes is None and loops.least < 1.0


def test_factors_too_large_to_be_multiplied_have_logarithms_of_their_own():
    D = np.full((8, lanes.LANES), 1e200)
    np.testing.assert_allclose(lanes._log_product(D), D.size * np.log(1e200), rtol=1e-13)


def test_a_climb_filters_once_and_finds_the_same():
    """After the first derivative filters keep what the next one needs."""
    z = RNG.normal(size=N)
    _, first = both("trend and season", "irregular", z)
    (bar, variances), line = first.pull_evidence(z), first.line
    assert line.climbed
    second = Loops(first.form, line, line.back(first.W), z)
    assert "filtered" in vars(second)
    np.testing.assert_array_equal([second.logdet, second.least], [first.logdet, first.least])
    again, others = second.pull_evidence(z)
    np.testing.assert_array_equal(variances, others)
    for a, b in zip(_leaves(bar), _leaves(again), strict=True):
        np.testing.assert_array_equal(a, b)


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
