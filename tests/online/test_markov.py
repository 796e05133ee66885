"""Time series as they come are the batch posterior."""

import numpy as np
import pytest

import mercer as mc
from mercer import compiled, means
from mercer import kernels as k
from mercer.inputs import InputError
from mercer.online import OnlineMarkov, markov
from mercer.solvers import SolverError

RNG = np.random.default_rng(0)
T = np.sort(RNG.uniform(0.0, 5.0, 23))
T[4] = T[3]
Y = np.cos(T) + 0.1 * RNG.normal(size=23)
GP = mc.GP(k.Matern(0.8, 1.1, nu=1.5) + k.Linear(0.3), means.Constant(0.4))


@pytest.fixture(scope="module")
def batch():
    return GP.condition(T[:, None], Y, 0.05)


def check(online, batch):
    future = np.array([T[-1], T[-1] + 0.3, T[-1] + 2.0])
    mean, variance = batch.state.predict(future[:, None])
    for a, b in zip(online.forecast(future), (mean[:, 0], variance[:, 0]), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)
    assert online.log_evidence == pytest.approx(batch.log_evidence, rel=1e-10)
    times, means_, variances = online.smoothed()
    mean, variance = batch.state.marginals()
    np.testing.assert_array_equal(times, T[-6:])
    np.testing.assert_allclose(means_, mean[-6:, 0], rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(variances, variance[-6:, 0], rtol=1e-9, atol=1e-11)


needs_numba = pytest.mark.skipif(not compiled.ready(), reason="numba is not to be had: there are no loops")


@pytest.mark.parametrize("least", [pytest.param(0, marks=needs_numba), 10**9], ids=("loop", "scan"))
def test_one_by_one_and_in_pieces_is_the_batch(batch, least, monkeypatch):
    """Forecasts, evidence, and the last six smoothed values, however the data came."""
    monkeypatch.setattr(markov, "LOOPS_FROM", least)
    monkeypatch.setattr(markov, "PIECE", 9)
    online = OnlineMarkov(GP, 0.05, lag=5)
    for t, y in zip(T, Y, strict=True):
        online.update(t, y)
    check(online, batch)
    check(
        OnlineMarkov(GP, 0.05, lag=5).update(T[:7], Y[:7]).update(T[7:8], Y[7:8]).update(T[8:], Y[8:]), batch
    )
    assert online.count == 23


KERNELS = [
    k.Matern(0.8, 1.1, nu=1.5),
    2.0 * k.Matern(0.8, nu=0.5) + k.Matern(2.0, nu=2.5),
    k.Matern(3.0, nu=1.5) * k.Linear(0.3) + k.Constant(2.0),
    k.Wiener(1.3) + k.Cosine(0.7),
    k.SE(0.6),
]


@needs_numba
@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_loops_are_the_scans(kernel, monkeypatch):
    """From the first datum on, and where a loop goes on from what scans have left."""
    found = []
    for least in (10**9, 0, 12):
        monkeypatch.setattr(markov, "LOOPS_FROM", least)
        online = OnlineMarkov(mc.GP(kernel, means.Constant(0.4)), 0.05, lag=3).update(T[:7], Y[:7])
        for t, y in zip(T[7:12], [*Y[7:11], np.nan], strict=True):
            online.update(t, y)
        online.update(T[12:], Y[12:])
        found.append([online.log_evidence, *online.forecast([5.5, 7.0]), *online.smoothed()])
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


def test_missing_values_add_nothing(batch):
    online = OnlineMarkov(GP, 0.05, lag=1).update(T[:-1], Y[:-1])
    before = online.forecast(6.0), online.log_evidence
    online.update(T[-1], np.nan)
    np.testing.assert_allclose(online.forecast(6.0), before[0], rtol=1e-10)
    assert online.log_evidence == before[1] and online.count == 22
    truth = GP.condition(T[:-1, None], Y[:-1], 0.05).state.predict(T[-1:, None])
    np.testing.assert_allclose([a[-1] for a in online.smoothed()[1:]], [a[0, 0] for a in truth], rtol=1e-9)


def test_memory_does_not_grow():
    online = OnlineMarkov(GP, 0.05, lag=2)
    for start in range(0, 400, 100):
        online.update(np.arange(start, start + 100.0), np.zeros(100))
    assert [len(a) for a in online._recent] == [3] * len(online._recent)


def test_before_the_first_observation_it_is_the_prior():
    mean, variance = OnlineMarkov(GP, 0.05).forecast([1.0, 2.0])
    np.testing.assert_allclose(mean, 0.4)
    np.testing.assert_allclose(variance, np.diag(GP.kernel(np.array([[1.0], [2.0]]))), rtol=1e-12)


def test_refusals():
    online = OnlineMarkov(GP, 0.05).update(1.0, 0.0).update([], [])
    for wrong, says in (
        (lambda: online.update(0.5, 1.0), "ascending order from 1"),
        (lambda: online.forecast(0.5), "ascending order from 1"),
        (lambda: online.update([2.0, 3.0], [1.0]), "as many times as values"),
        (lambda: online.update(2.0, np.inf), "infinite"),
        (lambda: online.update(np.nan, 1.0), r"finite|numeric|nan"),
    ):
        with pytest.raises(InputError, match=says):
            wrong()
    with pytest.raises(SolverError, match="nothing to smooth"):
        OnlineMarkov(GP, 0.05).smoothed()
    with pytest.raises(SolverError, match="no state-space form"):
        OnlineMarkov(mc.GP(k.RationalQuadratic()), 0.1)
    with pytest.raises(SolverError, match="basis"):
        OnlineMarkov(mc.GP(k.Wiener(), basis=means.Polynomial(1)), 0.1)
    for keywords in (dict(noise_variance=0.0), dict(noise_variance=0.1, lag=-1)):
        with pytest.raises(ValueError, match="OnlineMarkov"):
            OnlineMarkov(GP, **keywords)
