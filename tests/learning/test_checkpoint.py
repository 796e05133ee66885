"""A fit that was killed goes on from its checkpoint."""

import contextlib
import dataclasses
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import mercer as mc
from mercer import kernels as k
from mercer import likelihoods as lik
from mercer.hyperpriors import LogNormal
from mercer.inference import MCMC, SVGP, Gibbs
from mercer.learning import climb as optimise
from mercer.learning.checkpoint import CheckpointError, fingerprint
from mercer.learning.problem import LearningProblem
from mercer.params import parameters

RNG = np.random.default_rng(0)
X = RNG.uniform(0, 5, (150, 2))
Y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.1 * RNG.normal(size=150)
MODEL = mc.Model(mc.GP(k.SE([1.0, 1.0])), lik.Gaussian(0.1))


class Killed(Exception):
    """Stands for the end of the process."""


def kill_when(monkeypatch, condition):
    note = optimise.Recorder.note

    def noted(self, start, size, value):
        note(self, start, size, value)
        if condition(self, start):
            raise Killed

    monkeypatch.setattr(optimise.Recorder, "note", noted)


@contextlib.contextmanager
def counted(monkeypatch):
    """How often the objective is computed."""
    compute, counter = LearningProblem.value_and_gradient, Counter()

    def computing(self, vector):
        counter.count += 1
        return compute(self, vector)

    with monkeypatch.context() as m:
        m.setattr(LearningProblem, "value_and_gradient", computing)
        yield counter


class Counter:
    count = 0

    def __eq__(self, other):
        return self.count == other

    __hash__ = None


def assert_same(found, other):
    """Two fits that nothing tells apart but their time."""
    assert [(e.start, e.size, e.value) for e in found.history] == [
        (e.start, e.size, e.value) for e in other.history
    ]
    assert found.status.starts == other.status.starts and found.value == other.value
    for one, two in zip(parameters(found.model), parameters(other.model), strict=True):
        np.testing.assert_array_equal(one.value, two.value)


def test_a_fit_goes_on(tmp_path, monkeypatch):
    path = tmp_path / "fit.npz"
    monkeypatch.setattr("mercer.learning.checkpoint.EVERY", 0.0)
    whole = mc.fit(MODEL, X, Y)
    with monkeypatch.context() as m:
        kill_when(m, lambda recorder, _: len(recorder.history) == 12)
        with pytest.raises(Killed):
            mc.fit(MODEL, X, Y, checkpoint=path)
    assert path.exists()
    with counted(monkeypatch) as computed:
        resumed = mc.fit(MODEL, X, Y, checkpoint=path)
    assert computed == len(whole.history) - 12
    assert_same(resumed, whole)
    with counted(monkeypatch) as computed:  # nothing is left to do
        assert_same(mc.fit(MODEL, X, Y, checkpoint=path), whole)
    assert computed == 0
    with counted(monkeypatch) as computed:  # one more start: the others are known
        more = mc.fit(MODEL, X, Y, checkpoint=path, restarts=1)
    assert set(more.status.starts) == {*whole.status.starts, "random 1"}
    assert computed == len(more.history) - len(whole.history)


@pytest.mark.parametrize("inference", ["laplace", "ep"])
def test_rules_that_remember_their_last_sites_go_on(tmp_path, monkeypatch, inference):
    """What they compute depends a little on where they come from; where they end does not."""
    path, model = tmp_path / "fit.npz", mc.Model(mc.GP(k.SE([1.0, 1.0])), lik.Bernoulli())
    labels = np.sign(Y - np.median(Y))
    monkeypatch.setattr("mercer.learning.checkpoint.EVERY", 0.0)
    whole = mc.fit(model, X, labels, inference=inference)
    with monkeypatch.context() as m:
        kill_when(m, lambda recorder, _: len(recorder.history) == 7)
        with pytest.raises(Killed):
            mc.fit(model, X, labels, inference=inference, checkpoint=path)
    resumed = mc.fit(model, X, labels, inference=inference, checkpoint=path)
    assert [e.value for e in resumed.history[:7]] == [e.value for e in whole.history[:7]]
    assert resumed.posterior.log_evidence == pytest.approx(whole.posterior.log_evidence, abs=1e-5)


@pytest.mark.slow
def test_a_comparison_of_solvers_goes_on(tmp_path, monkeypatch):
    """Candidates that were judged before the end are not judged again, however often it comes."""
    monkeypatch.setattr("mercer.learning.checkpoint.EVERY", 0.0)
    monkeypatch.setattr("mercer.solvers.auto.QUICK", 0.01)
    monkeypatch.setattr("mercer.learning.by_gradient.PILOT", 500)
    x = RNG.uniform(0, 5, (700, 1))
    y = np.sin(2 * x[:, 0]) + 0.1 * RNG.normal(size=700)
    model, auto = mc.Model(mc.GP(k.SE(1.0)), lik.Gaussian(0.1)), mc.solvers.Auto(say=False)
    whole = mc.fit(model, x, y, solver=auto)
    labels = list(dict.fromkeys(e.start for e in whole.history if "(" in e.start))
    assert len(labels) >= 3
    path = tmp_path / "fit.npz"
    for label in labels[1:]:
        with monkeypatch.context() as m:
            kill_when(m, lambda _, start, label=label: start == label)
            with pytest.raises(Killed):
                mc.fit(model, x, y, solver=auto, checkpoint=path)
    computed = []
    answer = LearningProblem.value_and_gradient
    monkeypatch.setattr(
        LearningProblem, "value_and_gradient", lambda self, v: computed.append(self.size) or answer(self, v)
    )
    resumed = mc.fit(model, x, y, solver=auto, checkpoint=path)
    assert len(computed) < 0.5 * len(whole.history) and len(resumed.history) == len(whole.history)
    assert resumed.posterior.notes == whole.posterior.notes
    assert resumed.posterior.log_evidence == pytest.approx(whole.posterior.log_evidence, abs=1e-9)


def test_neighbours_are_those_where_the_fit_began(tmp_path, monkeypatch):
    """They depend on hyperparameters, so a fit that goes on must find the ones it had."""
    monkeypatch.setattr("mercer.learning.checkpoint.EVERY", 0.0)
    path, solver = tmp_path / "fit.npz", mc.solvers.Vecchia(8)
    whole = mc.fit(MODEL, X, Y, solver=solver)
    with monkeypatch.context() as m:
        kill_when(m, lambda recorder, _: len(recorder.history) == 12)
        with pytest.raises(Killed):
            mc.fit(MODEL, X, Y, solver=solver, checkpoint=path)
    resumed = mc.fit(MODEL, X, Y, solver=solver, checkpoint=path)
    assert resumed.value == pytest.approx(whole.value, abs=1e-9)


def test_batches_go_on_after_the_last_epoch(tmp_path, monkeypatch):
    path = tmp_path / "svgp.npz"
    rule = SVGP(m=12, batch=50, epochs=4)
    whole = mc.fit(MODEL, X, Y, inference=rule)
    with monkeypatch.context() as m:
        kill_when(m, lambda _, start: start == "epoch 2 of 4")
        with pytest.raises(Killed):
            mc.fit(MODEL, X, Y, inference=rule, checkpoint=path)
    resumed = mc.fit(MODEL, X, Y, inference=rule, checkpoint=path)
    assert [e.start for e in resumed.history] == ["epoch 3 of 4", "epoch 4 of 4"]
    # the order of the batches goes on too: nothing tells the runs apart
    values, expected = ([e.value for e in f.history[-2:]] for f in (resumed, whole))
    assert values == pytest.approx(expected, rel=1e-12)
    assert resumed.posterior.log_evidence == pytest.approx(whole.posterior.log_evidence, abs=1e-10)
    again = mc.fit(MODEL, X, Y, inference=rule, checkpoint=path)  # nothing is left to do
    assert not again.history and again.value == resumed.value
    longer = mc.fit(MODEL, X, Y, inference=dataclasses.replace(rule, epochs=5), checkpoint=path)
    assert [e.start for e in longer.history] == ["epoch 5 of 5"]


OTHERS = {
    "data": lambda: (MODEL, X[:100], Y[:100], {}),
    "targets": lambda: (MODEL, X, Y + 1e-12, {}),
    "a kernel of the same parameters": lambda: (model_of(k.Matern([1.0, 1.0], nu=2.5)), X, Y, {}),
    "a start": lambda: (model_of(k.SE([1.0, 2.0])), X, Y, {}),
    "settings": lambda: (MODEL, X, Y, {"jacobian": True}),
    "an objective": lambda: (MODEL, X, Y, {"objective": "loo"}),
    "a rule": lambda: (MODEL, X, Y, {"inference": SVGP(m=12, batch=50, epochs=1)}),
}


def model_of(kernel):
    return mc.Model(mc.GP(kernel), lik.Gaussian(0.1))


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """The checkpoint of a fit."""
    path = tmp_path_factory.mktemp("kept") / "fit.npz"
    mc.fit(MODEL, X, Y, checkpoint=path)
    return path


@pytest.mark.parametrize("other", OTHERS)
def test_the_checkpoint_of_another_fit_is_refused(kept, tmp_path, other):
    path, before = tmp_path / "fit.npz", kept.read_bytes()
    path.write_bytes(before)
    model, inputs, targets, settings = OTHERS[other]()
    with pytest.raises(CheckpointError, match=r"fit\.npz is the checkpoint of a fit of other .*remove it"):
        mc.fit(model, inputs, targets, checkpoint=path, **settings)
    assert path.read_bytes() == before


def test_a_damaged_file_is_not_read(kept, tmp_path):
    path, whole = tmp_path / "fit.npz", kept.read_bytes()
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 0xFF
    for damaged in (b"", b"not a checkpoint", whole[: len(whole) // 2], whole[:-1], bytes(flipped)):
        path.write_bytes(damaged)
        with pytest.raises(CheckpointError, match=r"fit\.npz is damaged, or not a checkpoint .*remove it"):
            mc.fit(MODEL, X, Y, checkpoint=path)


def test_what_a_mark_tells_apart():
    """Models of the same hyperparameters, and their values."""

    def mark(kernel, **more):
        return fingerprint(mc.Model(mc.GP(kernel, **more), lik.Gaussian(0.1)))

    l = [1.0, 1.0]
    marks = [
        mark(k.SE(l)),
        mark(k.SE(mc.param(l, prior=LogNormal(0, 1)))),
        mark(k.SE(mc.param(l, bounds=(0.1, 10.0)))),
        mark(k.SE(l, variance=mc.fixed(1.0))),
        mark(k.SE(l, variance=mc.fixed(2.0))),
        mark(k.Matern(l, nu=1.5)),
        mark(k.Matern(l, nu=2.5)),
        mark(k.SE(l), mean=mc.means.Function(np.sin)),
        mark(k.SE(l), mean=mc.means.Function(np.cos)),
        mark(k.SE(l), mean=mc.means.Function(lambda x: x[:, 0])),
        mark(k.SE(l), mean=mc.means.Function(lambda x: x[:, 1])),
    ]
    assert len(set(marks)) == len(marks)
    assert mark(k.SE([3.0, 0.2], variance=7.0)) not in marks
    assert mark(k.SE(l)) == marks[0]
    assert mark(k.SE(l), mean=mc.means.Function(lambda x: x[:, 1])) == marks[-1]


def test_the_mark_is_the_same_in_another_process():
    code = """
import mercer as mc
from mercer.learning.checkpoint import fingerprint
mean = mc.means.Function(lambda x: x[:, 0])
model = mc.Model(mc.GP(mc.kernels.SE([1.0, 1.0]), mean=mean), mc.likelihoods.Gaussian(0.1))
print(fingerprint(model, mc.inference.SVGP(m=12), mc.solvers.VFE(3)))
"""
    marks = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    ]
    assert marks[0] == marks[1]


PROGRAM = """
import sys, numpy as np, mercer as mc
from mercer import kernels as k, likelihoods as lik
rng = np.random.default_rng(0)
X = rng.uniform(0, 5, (700, 6))
y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=700)
found = mc.fit(mc.Model(mc.GP(k.SE([1.0] * 6)), lik.Gaussian(0.1)), X, y, checkpoint=sys.argv[1])
print(repr(found.value), found.status.evaluations, found.model.gp.kernel.lengthscale.tolist())
"""


@pytest.mark.slow
def test_a_killed_process(tmp_path):
    path = tmp_path / "fit.npz"
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}

    def whole(checkpoint):
        command = [sys.executable, "-c", PROGRAM, str(checkpoint)]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

    first = subprocess.Popen([sys.executable, "-c", PROGRAM, str(path)], env=environment)
    began = time.monotonic()
    while not path.exists() and first.poll() is None and time.monotonic() - began < 120:
        time.sleep(0.05)
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    assert path.exists()
    assert whole(path) == whole(tmp_path / "another.npz")


@pytest.mark.parametrize("rule, noise", [(MCMC(), lik.Gaussian(0.1)), (Gibbs(), lik.StudentT())])
def test_draws_cannot_go_on_and_say_so(rule, noise, tmp_path):
    path = tmp_path / "draws.npz"
    said = f"{type(rule).__name__} cannot go on from a file: .* gradient and from batches .* Leave it out"
    with pytest.raises(ValueError, match=said):
        mc.fit(mc.Model(mc.GP(k.SE()), noise), X, Y, inference=rule, checkpoint=path)
    assert not path.exists()
