"""A fit that was killed goes on from its checkpoint."""

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
from mercer.learning.checkpoint import fingerprint, without_values

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


def test_a_fit_goes_on(tmp_path, monkeypatch):
    path = tmp_path / "fit.npz"
    monkeypatch.setattr("mercer.learning.checkpoint.EVERY", 0.0)
    whole = mc.fit(MODEL, X, Y)
    with monkeypatch.context() as m:
        kill_when(m, lambda recorder, _: len(recorder.history) == 12)
        with pytest.raises(Killed):
            mc.fit(MODEL, X, Y, checkpoint=path)
    assert path.exists()
    resumed = mc.fit(MODEL, X, Y, checkpoint=path)
    assert list(resumed.status.starts) == ["checkpoint"]
    assert resumed.posterior.log_evidence == pytest.approx(whole.posterior.log_evidence, abs=1e-4)
    again = mc.fit(MODEL, X, Y, checkpoint=path)  # nothing is left to do
    assert again.status.evaluations <= 3


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


def test_another_fit_starts_afresh_and_says_so(tmp_path):
    path = tmp_path / "fit.npz"
    mc.fit(MODEL, X, Y, checkpoint=path)
    with pytest.warns(UserWarning, match="other data"):
        found = mc.fit(MODEL, X[:100], Y[:100], checkpoint=path)
    assert "checkpoint" not in found.status.starts


def test_a_damaged_file_is_not_read(tmp_path):
    path = tmp_path / "fit.npz"
    mc.fit(MODEL, X, Y, checkpoint=path)
    whole = path.read_bytes()
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 0xFF
    for damaged in (b"", b"not a checkpoint", whole[: len(whole) // 2], whole[:-1], bytes(flipped)):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"fit\.npz is damaged, or not a checkpoint .*remove it"):
            mc.fit(MODEL, X, Y, checkpoint=path)


def test_what_a_mark_tells_apart():
    """Models of the same hyperparameters are told apart, not their values: those are what is looked for."""

    def mark(kernel, **more):
        return fingerprint(without_values(mc.Model(mc.GP(kernel, **more), lik.Gaussian(0.1))))

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
    assert mark(k.SE([3.0, 0.2], variance=7.0)) == marks[0]
    assert mark(k.SE(l), mean=mc.means.Function(lambda x: x[:, 1])) == marks[-1]


def test_the_checkpoint_of_another_model_is_not_taken(tmp_path):
    path = tmp_path / "fit.npz"
    rough, smooth = (mc.Model(mc.GP(k.Matern([1.0, 1.0], nu=nu)), lik.Gaussian(0.1)) for nu in (1.5, 2.5))
    mc.fit(rough, X, Y, checkpoint=path)
    with pytest.warns(UserWarning, match="another model"):
        found = mc.fit(smooth, X, Y, checkpoint=path)
    assert "checkpoint" not in found.status.starts
    with pytest.warns(UserWarning, match="other settings"):
        mc.fit(smooth, X, Y, checkpoint=path, jacobian=True)


def test_the_mark_is_the_same_in_another_process():
    code = """
import mercer as mc
from mercer.learning.checkpoint import fingerprint, without_values
mean = mc.means.Function(lambda x: x[:, 0])
model = mc.Model(mc.GP(mc.kernels.SE([1.0, 1.0]), mean=mean), mc.likelihoods.Gaussian(0.1))
print(fingerprint(without_values(model), mc.inference.SVGP(m=12), mc.solvers.VFE(3)))
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
print(list(found.status.starts), found.status.evaluations)
"""


def test_a_killed_process(tmp_path):
    path = tmp_path / "fit.npz"
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    first = subprocess.Popen([sys.executable, "-c", PROGRAM, str(path)], env=environment)
    began = time.monotonic()
    while not path.exists() and first.poll() is None and time.monotonic() - began < 120:
        time.sleep(0.05)
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    assert path.exists()
    second = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(path)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "checkpoint" in second.stdout


@pytest.mark.parametrize("rule, noise", [(MCMC(), lik.Gaussian(0.1)), (Gibbs(), lik.StudentT())])
def test_draws_cannot_go_on_and_say_so(rule, noise, tmp_path):
    path = tmp_path / "draws.npz"
    said = f"{type(rule).__name__} cannot go on from a file: .* gradient and from batches .* Leave it out"
    with pytest.raises(ValueError, match=said):
        mc.fit(mc.Model(mc.GP(k.SE()), noise), X, Y, inference=rule, checkpoint=path)
    assert not path.exists()
