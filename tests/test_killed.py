"""A process that is killed at any moment leaves whole files, and the same call goes on to the same end."""

import subprocess
import sys
import time

import numpy as np
import pytest

import mercer as mc
from mercer.app.tables import write_table

pytestmark = pytest.mark.slow
KILLS = 20

FIT = """
import sys, numpy as np, mercer as mc
from mercer import kernels as k, likelihoods as lik
import mercer.learning.checkpoint as checkpoint
checkpoint.EVERY = 0.05
rng = np.random.default_rng(0)
X = rng.uniform(0, 5, (900, 4))
y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.1 * rng.normal(size=900)
model = mc.Model(mc.GP(k.SE([1.0] * 4)), lik.Gaussian(0.1))
found = mc.fit(model, X, y, checkpoint=sys.argv[1], restarts=2)
print([(e.start, e.size, e.value) for e in found.history])
print(repr(found.value), found.model.gp.kernel.lengthscale.tolist(), found.posterior.mean(X[:5]).tolist())
"""
SAVE = """
import sys, mercer as mc
model = mc.load(sys.argv[1])
print("loaded", flush=True)
for _ in range(int(sys.argv[3])):
    model.save(sys.argv[2])
"""


def command(program, *arguments):
    return [sys.executable, "-c", program, *map(str, arguments)]


def whole(call):
    """What a call that is left alone prints, and the seconds it takes."""
    began = time.monotonic()
    done = subprocess.run(call, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout, time.monotonic() - began


def killed(call, seconds):
    """Kill a call after so long; whether it was still running."""
    with subprocess.Popen(call, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        time.sleep(seconds)
        running = process.poll() is None
        process.kill()
    return running


def moments(seconds):
    """Times at which to kill what takes so long."""
    return seconds * np.random.default_rng(0).uniform(0.1, 0.9, KILLS)


def without_parts(folder):
    """The names of the files in a folder, but for what a killed process had begun to write."""
    return sorted(p.name for p in folder.iterdir() if ".part" not in p.suffixes)


def test_a_fit_goes_on_to_the_same_end(tmp_path):
    expected, seconds = whole(command(FIT, tmp_path / "whole.npz"))
    found = []
    for i, moment in enumerate(moments(seconds)):
        call = command(FIT, tmp_path / f"{i}.npz")
        if killed(call, moment):
            found.append((tmp_path / f"{i}.npz").exists())
        assert whole(call)[0] == expected
    assert any(found)  # killed on its way


def test_a_fit_that_is_killed_again_and_again_goes_on(tmp_path):
    expected, seconds = whole(command(FIT, tmp_path / "whole.npz"))
    call = command(FIT, tmp_path / "again.npz")
    for moment in moments(seconds)[:5]:
        killed(call, moment)
    assert whole(call)[0] == expected
    assert without_parts(tmp_path) == ["again.npz", "whole.npz"]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A saved model."""
    rng = np.random.default_rng(0)
    X = {name: rng.uniform(0, 5, 1500) for name in "abcd"}
    y = np.sin(X["a"]) + 0.1 * rng.normal(size=1500)
    path = tmp_path_factory.mktemp("model") / "m.mercer"
    kernel = mc.kernels.SE([1.0] * 4)
    mc.GPRegressor(kernel, noise_variance=mc.fixed(0.01), max_evaluations=0).fit(X, y).save(path)
    return path


def test_saving_leaves_a_whole_model(model, tmp_path):
    path, times = tmp_path / "m.mercer", 100
    path.write_bytes(model.read_bytes())
    _, seconds = whole(command(SAVE, model, path, times))
    expected = model.read_bytes()
    running = 0
    for moment in moments(seconds):
        running += killed(command(SAVE, model, path, times), moment)
        assert path.read_bytes() == expected
        assert mc.load(path).n_features_in_ == 4
    assert running >= KILLS // 4 and without_parts(tmp_path) == ["m.mercer"]


def test_predicting_leaves_a_whole_table(model, tmp_path):
    new, out = tmp_path / "new.csv", tmp_path / "out.csv"
    rng = np.random.default_rng(1)
    write_table(new, {name: rng.uniform(0, 5, 20_000) for name in "abcd"})
    before = new.read_bytes()
    call = [sys.executable, "-m", "mercer.app.cli", "predict", str(model), str(new), "--out", str(out)]
    _, seconds = whole(call)
    expected, old = out.read_bytes(), b"a\n1\n"
    running = 0
    for moment in moments(seconds):
        out.write_bytes(old)
        running += killed(call, moment)
        assert out.read_bytes() in (old, expected)
    assert running >= KILLS // 4
    whole(call)
    assert out.read_bytes() == expected and new.read_bytes() == before
    assert without_parts(tmp_path) == ["new.csv", "out.csv"]
