"""A fit that was killed goes on from its checkpoint."""

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
from mercer.inference import SVGP
from mercer.learning import climb as optimise

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
    assert resumed.posterior.log_evidence == pytest.approx(whole.posterior.log_evidence, abs=3.0)


def test_another_fit_starts_afresh_and_says_so(tmp_path):
    path = tmp_path / "fit.npz"
    mc.fit(MODEL, X, Y, checkpoint=path)
    with pytest.warns(UserWarning, match="other data"):
        found = mc.fit(MODEL, X[:100], Y[:100], checkpoint=path)
    assert "checkpoint" not in found.status.starts
    path.write_text("not a checkpoint")
    with pytest.raises(ValueError, match="not a checkpoint"):
        mc.fit(MODEL, X, Y, checkpoint=path)


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
