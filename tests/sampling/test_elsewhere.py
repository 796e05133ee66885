"""Chains and annealing runs that others make are the same, draw for draw."""

import numpy as np
import pytest

import mercer as mc
from mercer import hyperpriors as hp
from mercer import kernels as k
from mercer.distributed import Team, jobs
from mercer.distributed.wire import unpack
from mercer.distributed.work import done
from mercer.inference import AIS, MCMC, Gibbs
from mercer.sampling import chains

X = np.linspace(-3, 3, 40)[:, None]
y = np.sin(2 * X[:, 0]) + 0.3 * np.random.default_rng(1).standard_normal(40)
PRIOR = {"prior": hp.LogNormal(0.0, 1.0)}
SE = k.SE(mc.param(1.0, **PRIOR), mc.param(1.0, **PRIOR))
MODEL = mc.Model(mc.GP(SE), mc.likelihoods.Gaussian(mc.param(0.1, **PRIOR)))


class Wired:
    """Others, in this process: everything goes over the wire."""

    count = 2

    def __init__(self):
        self.jobs = 0

    def each(self, function, shared, jobs, names):
        for i in reversed(range(len(jobs))):  # in another order
            self.jobs += 1
            yield i, done(function, unpack(shared), jobs[i]), "somebody"

    def close(self):
        pass


@pytest.fixture
def others():
    """Who works in this test wherever nobody else is asked for."""
    wired = Wired()
    token = jobs._open.set((None, Team(wired)))
    yield wired
    jobs._open.reset(token)


def drawn(rule, model=MODEL):
    with pytest.warns(UserWarning, match="should not be trusted"):
        return mc.fit(model, X, y, inference=rule, progress=False).posterior


def test_chains_of_hyperparameters(request):
    rule = MCMC(draws=60, tune=40, chains=2, thin=2, sampler="hmc")
    alone = drawn(rule)
    others = request.getfixturevalue("others")
    shared = drawn(rule)
    assert others.jobs == 2 * chains.ROUNDS
    for name in ("draws", "log_density", "acceptance", "divergent", "evaluations"):
        assert np.array_equal(getattr(alone.chains, name), getattr(shared.chains, name)), name
    assert np.array_equal(alone.mean(X[:3]), shared.mean(X[:3]))


def test_a_deadline_keeps_whole_rounds(others, monkeypatch):
    rule = MCMC(draws=100, tune=0, chains=2, sampler="hmc")
    real = Wired.each

    def late(self, *args):
        if self.jobs == 2 * 2:
            raise KeyboardInterrupt
        return real(self, *args)

    monkeypatch.setattr(Wired, "each", late)
    found = drawn(rule)
    assert found.chains.interrupted and found.chains.draws.shape[:2] == (2, 50)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "likelihood"),
    [
        (
            MCMC(draws=50, tune=0, chains=2, sampler="metropolis", updates="interleaved"),
            mc.likelihoods.StudentT(4.0, 0.3),
        ),
        (Gibbs(draws=50, tune=0, chains=2), mc.likelihoods.StudentT(4.0, 0.3)),
    ],
    ids=["joint", "scales"],
)
def test_chains_of_every_kind(request, rule, likelihood):
    model = mc.Model(mc.GP(SE), likelihood)
    alone = drawn(rule, model)
    others = request.getfixturevalue("others")
    assert np.array_equal(alone.chains.draws, drawn(rule, model).chains.draws)
    assert others.jobs


@pytest.mark.parametrize("integrated", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_annealing(request, integrated):
    rule = AIS(
        steps=20, runs=10, reverse=False, progress=False,
        hyperparameters="integrate" if integrated else "fixed",
    )  # fmt: skip
    alone = mc.log_evidence(MODEL, X, y, inference=rule)
    others = request.getfixturevalue("others")
    shared = mc.log_evidence(MODEL, X, y, inference=rule)
    assert others.jobs == (10 if integrated else 2)  # eight at a time where they go side by side
    assert float(alone) == float(shared)
    assert np.array_equal(alone.runs, shared.runs)
    assert np.array_equal(alone.log_likelihood, shared.log_likelihood)


def test_parallel_is_checked_where_it_is_given():
    with pytest.raises(TypeError, match="parallel must be None"):
        mc.log_evidence(MODEL, X, y, parallel="many")


@pytest.mark.slow
def test_two_processes_draw_the_same():
    rule = MCMC(draws=60, tune=40, chains=2, thin=2, sampler="hmc")
    alone = drawn(rule)
    with pytest.warns(UserWarning, match="should not be trusted"):
        shared = mc.fit(MODEL, X, y, inference=rule, progress=False, parallel=2).posterior
    assert np.array_equal(alone.chains.draws, shared.chains.draws)
