"""Jobs are the same wherever they are done; errors name them, what cannot be sent is refused."""

import os
import signal
import time
import warnings

import numpy as np
import pytest

import mercer as mc
from mercer import kernels as k
from mercer.distributed import JobError, team, wire
from mercer.distributed.work import address, answer, done
from mercer.learning import FitWarning, Objective
from mercer.learning.checkpoint import fingerprint
from mercer.learning.unconverged import UnconvergedWarning
from mercer.linalg import lapack
from mercer.linalg.identities import parallel_sum
from mercer.params import flatten
from mercer.progress import Deadline, DeadlineReached, shown, within

A = np.diag([1.0, 2.0, 3.0])
JOBS = [{"B": np.diag([1.0, 1.0, s])} for s in (1.0, 2.0, 5.0)]
PLAIN = mc.Model(mc.GP(k.SE()), mc.likelihoods.Gaussian(0.1))


@pytest.fixture(scope="module")
def two():
    """Two processes, for the whole module."""
    with team(2) as workers:
        yield workers


# ------------------------------------------------------------------------------------------------- the wire


def test_what_goes_over_the_wire_comes_back_with_every_bit(rng):
    X = rng.normal(size=(40, 3))
    value = {
        "kernel": k.Matern(mc.param(0.1, prior=mc.hyperpriors.Gamma(2.0, 1.0)), mc.fixed(2.0), nu=1.5),
        "X": X, "pair": (1, None), "inf": -np.inf, "text": "é", "small": np.array([1, 2]),
    }  # fmt: skip
    back = wire.unpack(wire.pack(value))
    assert fingerprint(back["kernel"]) == fingerprint(value["kernel"])
    assert back["X"].tobytes() == X.tobytes()
    assert (back["pair"], back["inf"], back["text"]) == ((1, None), -np.inf, "é")
    assert back["small"].dtype == np.int64


def test_code_of_the_user_is_refused_with_a_remedy():
    with pytest.raises(wire.WireError, match=r"your functions \['u'\].*leave out parallel="):
        wire.pack(mc.means.Function(lambda X: X[:, 0], name="u"), "the model")

    class Mine(k.AbstractStationary):
        def profile(self, r2):
            return 1.0 / (1.0 + r2)

    with pytest.raises(wire.WireError, match=r"would not find.*entry points of 'mercer.classes'"):
        wire.pack(Mine(1.0))
    with pytest.raises(wire.WireError, match="files cannot hold object"):
        wire.pack([object()])
    with pytest.raises(TypeError, match="Mercer's own modules"):
        address(lambda: None)


def test_errors_and_warnings_travel():
    said = done("mercer.linalg.identities:parallel_sum", {"A": A}, wire.pack({"B": np.eye(2)}))
    with pytest.raises(ValueError, match="broadcast") as caught:
        answer(said, "job 1", "process 7")
    assert any("in job 1, process 7" in note and "parallel_sum" in note for note in caught.value.__notes__)
    packed = wire.pack({"value": 1, "warnings": [["builtins:RuntimeWarning", "careful"]]})
    with pytest.warns(RuntimeWarning, match="careful"):
        assert answer(packed, "", "") == 1
    strange = {"error": "elsewhere.module:Odd", "message": "what", "traceback": "", "warnings": []}
    with pytest.raises(JobError, match="what"):
        answer(wire.pack(strange), "", "")


# ------------------------------------------------------------------------------------------------ who works


@pytest.mark.parametrize("parallel", [True, 0, -2, 1.5, "two", object()])
def test_what_parallel_may_be(parallel):
    with pytest.raises((TypeError, ValueError), match="parallel must be None"), team(parallel):
        pass


def test_here_errors_name_their_job():
    with team(None) as workers, pytest.raises(ValueError, match="broadcast") as caught:
        assert workers.here and workers.size == 1
        workers.map(parallel_sum, [{"B": np.eye(2)}], {"A": A}, ["the sum"])
    assert caught.value.__notes__ == ["in the sum"]


def test_teams_within_are_the_same():
    with team(2) as outer, team(2) as inner, team(None) as here:
        assert inner is outer and here.here
        assert outer._others.crew == []  # nothing was needed: no process was started


def test_processes_do_the_same_in_order_and_tell(two):
    with team(None) as here:
        expected = here.map(parallel_sum, JOBS, {"A": A})
    heard = []
    with shown("adding", lambda done, total, text: heard.append((done, total, text))):
        found = two.map(parallel_sum, JOBS, {"A": A}, what="sums")
    assert all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))
    assert heard == [(1, 3, "sums"), (2, 3, "sums"), (3, 3, "sums")]
    first = {process.pid for process in two._others.crew}
    two.map(parallel_sum, JOBS, {"A": A})
    assert {process.pid for process in two._others.crew} == first  # they are used again
    with pytest.raises(ValueError, match="broadcast"):
        two.map(parallel_sum, [{"B": np.eye(2)}], {"A": A})
    assert np.array_equal(two.map(parallel_sum, JOBS, {"A": A})[0], expected[0])  # and after an error


def nap(workers, seconds):
    """A job that takes so long."""
    args = wire.pack({"args": ["sleep", str(seconds)]})
    return workers._others.each("subprocess:run", wire.pack({}), [args], ["a nap"])


def test_each_process_has_its_share_of_threads(two):
    assert two._others.threads == max(1, min(lapack.thread_count(), os.cpu_count() or 1) // 2)
    asked = [wire.pack({"key": name}) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")]
    for _, said, who in two._others.each("os:getenv", wire.pack({}), asked, ["one", "other"]):
        assert answer(said, "it", who) == str(two._others.threads)


def test_a_lost_process_changes_nothing_and_one_that_always_ends_is_an_error(two, monkeypatch):
    victim = two._others.crew[0]
    os.kill(victim.pid, signal.SIGKILL)
    found = two.map(parallel_sum, JOBS, {"A": A})
    with team(None) as here:
        assert np.array_equal(found, here.map(parallel_sum, JOBS, {"A": A}))
    assert victim not in two._others.crew
    monkeypatch.setattr("mercer.distributed.local.TRIES", 1)
    os.kill(two._others.crew[0].pid, signal.SIGKILL)
    with pytest.raises(JobError, match=r"job . of 3: 1 processes ended.*exit code -9.*fewer"):
        two.map(parallel_sum, JOBS, {"A": A})


def test_a_deadline_ends_jobs(two):
    before = time.perf_counter()
    with pytest.raises(DeadlineReached), within(Deadline.after(0.3)):
        list(nap(two, 60))
    assert time.perf_counter() - before < 30
    assert len(two.map(parallel_sum, JOBS, {"A": A})) == 3  # others are started where those were ended


# --------------------------------------------------------------------------------------------- what uses it


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(40, 2))
    return X, np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=40)


def vector(found):
    return flatten(found.model).vector


@pytest.mark.parametrize("likelihood", ["gaussian", "bernoulli"])
def test_restarts_are_the_same(two, data, likelihood, tmp_path):
    X, y = data
    classes = likelihood == "bernoulli"
    model = mc.Model(
        mc.GP(k.SE(1.0, mc.param(1.0, prior=mc.hyperpriors.Gamma(2.0, 1.0)))),
        mc.likelihoods.Bernoulli() if classes else mc.likelihoods.Gaussian(0.1),
    )
    y = np.where(y > 0, 1.0, -1.0) if classes else y
    settings = dict(restarts=2, max_evaluations=15, progress=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        here = mc.fit(model, X, y, **settings)
        there = mc.fit(model, X, y, parallel=2, **settings)
        kept = mc.fit(model, X, y, parallel=2, checkpoint=tmp_path / "fit.npz", **settings)
        again = mc.fit(model, X, y, checkpoint=tmp_path / "fit.npz", **settings)
    assert here.status.starts == there.status.starts and len(there.status.starts) == 4
    for other in (there, kept, again):
        assert np.array_equal(vector(here), vector(other)) and here.value == other.value
        pairs = [sorted((e.start, e.value) for e in one.history) for one in (here, other)]
        assert pairs[0] == pairs[1]


def test_interrupted_it_keeps_what_is_done(two, data):
    X, y = data
    told = []

    def press(done, total, text):
        told.append((done, total, text))
        if text == "climbs" and done == 2:
            raise KeyboardInterrupt

    with pytest.warns(UnconvergedWarning, match="interrupted"):
        found = mc.fit(
            mc.Model(mc.GP(k.SE()), mc.likelihoods.Gaussian(0.1)),
            X,
            y,
            restarts=4,
            parallel=2,
            progress=press,
        )
    assert found.status.interrupted and told[-1][1] in (6, None)
    whole = mc.fit(mc.Model(mc.GP(k.SE()), mc.likelihoods.Gaussian(0.1)), X, y, restarts=4)
    assert any(found.value == pytest.approx(end, abs=1e-12) for end in whole.status.starts.values())


def mixture(data, parallel):
    found = mc.GaussianMixture(2, restarts=2, parallel=parallel).fit(data[0])
    return [found.means_, found.covariances_, found.history_]


def hmm(data, parallel):
    found = mc.HMM(2, restarts=1, max_evaluations=5, tol=0.0, parallel=parallel).fit(
        [data[0][:25], data[0][25:]]
    )
    return [found.transition_, found.means_, found.history_]


def gplvm(data, parallel):
    rows = np.column_stack([data[0], data[1], data[0] ** 2])[:15]
    found = mc.GPLVM(1, "map", restarts=1, max_evaluations=8, parallel=parallel).fit(rows)
    return [found.embedding_, found.objective_]


def classifier(data, parallel):
    found = mc.GPClassifier(restarts=1, max_evaluations=5, parallel=parallel).fit(data[0], data[1] > 0)
    return [found.predict_proba(data[0])]


def compared(data, parallel):
    gp = {"a": mc.GP(k.SE()), "b": mc.GP(k.Matern(nu=1.5))}
    models = {name: mc.Model(prior, mc.likelihoods.StudentT()) for name, prior in gp.items()}
    found = mc.compare(models, *data, parallel=parallel)
    return [found.log_evidence, found.probability]


def searched(data, parallel):
    found = mc.search(data[0][:, :1], data[1], max_models=8, parallel=parallel)
    return [[model.log_evidence for model in found.ranking.models]]


def backtested(data, parallel):
    y = np.sin(np.arange(40) / 3) + 0.1 * data[1]
    series = mc.GPTimeSeries(max_evaluations=3).fit(y)
    found = series.backtest(3, folds=2, parallel=parallel)
    own = found.forecasts["GPTimeSeries"]
    return [own.mean, own.lower, found.values]


@pytest.mark.filterwarnings("ignore:.*converged", "ignore:the fit stopped", "ignore:the classes can")
@pytest.mark.representative("mixture", "hmm", "searched")
@pytest.mark.parametrize("work", [mixture, hmm, gplvm, classifier, compared, searched, backtested])
def test_the_same_numbers(two, data, work):
    for here, there in zip(work(data, None), work(data, 2), strict=True):
        np.testing.assert_array_equal(here, there)


def test_what_cannot_be_sent_says_so(two, data):
    X, y = data
    model = mc.Model(
        mc.GP(k.SE(), mc.means.Function(lambda X: X[:, 0], name="u")), mc.likelihoods.Gaussian(0.1)
    )
    with pytest.raises(
        wire.WireError, match=r"what the jobs share cannot be sent.*\['u'\].*leave out parallel="
    ):
        mc.fit(model, X, y, restarts=1, parallel=2)
    with pytest.raises(ValueError, match=r"function of yours.*leave out parallel="):
        own = Objective("mine", lambda result: (result.log_evidence, dict(log_evidence_bar=1.0)))
        mc.fit(PLAIN, X, y, objective=own, restarts=1, parallel=2)
