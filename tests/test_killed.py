"""A process that is killed at any moment leaves whole files, and the same call goes on to the same end.

Processes are forked from one that has loaded everything and computed nothing, so that they are killed at
work, not while they start.
"""

import multiprocessing
import time

import numpy as np
import pytest

import mercer as mc
from mercer.app.tables import write_table

pytestmark = pytest.mark.slow
KILLS = 20


@pytest.fixture(scope="module")
def start():
    """Starts a process that calls a function of this module."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        [__name__, "mercer.estimators", "mercer.learning.fitting", "mercer.app.cli"]
    )

    def started(function, *arguments):
        process = context.Process(target=function, args=arguments)
        process.start()
        return process

    return started


def fit(checkpoint, out):
    import mercer.learning.checkpoint as writing

    writing.EVERY = 0.05
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 5, (900, 4))
    y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.1 * rng.normal(size=900)
    model = mc.Model(mc.GP(mc.kernels.SE([1.0] * 4)), mc.likelihoods.Gaussian(0.1))
    found = mc.fit(model, X, y, checkpoint=checkpoint, restarts=2, progress=False)
    history = [(e.start, e.size, e.value) for e in found.history]
    learned = found.model.gp.kernel.lengthscale.tolist(), found.posterior.mean(X[:5]).tolist()
    out.write_text(repr((history, found.value, learned)))


def save(model, path, times):
    loaded = mc.load(model)
    for _ in range(times):
        loaded.save(path)


def predict(model, new, out):
    from mercer.app.cli import app

    app(["predict", str(model), str(new), "--out", str(out), "--quiet"], standalone_mode=False)


def whole(process):
    """The seconds that a process takes which is left alone."""
    began = time.monotonic()
    process.join()
    assert process.exitcode == 0
    return time.monotonic() - began


def killed(process, seconds, after=None):
    """Kill a process after so long, counted from when the file `after` is there; whether it was running."""
    while after is not None and process.is_alive() and not after.exists():
        time.sleep(0.005)
    process.join(seconds)
    running = process.is_alive()
    process.kill()
    process.join()
    return running


def moments(seconds):
    """Times at which to kill what takes so long, one in each part of it."""
    return seconds * (np.arange(KILLS) + np.random.default_rng(0).uniform(0.1, 0.9, KILLS)) / KILLS


def without_parts(folder):
    """The names of the files in a folder, but for what a killed process had begun to write."""
    return sorted(p.name for p in folder.iterdir() if ".part" not in p.suffixes)


@pytest.fixture(scope="module")
def uninterrupted(start, tmp_path_factory):
    """What a fit finds that nobody kills, and the seconds it takes."""
    folder = tmp_path_factory.mktemp("fit")
    whole(start(fit, folder / "compiled.npz", folder / "out"))
    seconds = whole(start(fit, folder / "whole.npz", folder / "out"))
    return (folder / "out").read_text(), seconds


def test_a_fit_goes_on_to_the_same_end(start, uninterrupted, tmp_path):
    expected, seconds = uninterrupted
    found, out = [], tmp_path / "out"
    for i, moment in enumerate(moments(seconds)):
        checkpoint = tmp_path / f"{i}.npz"
        by_clock = i % 2 == 0  # or when there is something to go on from
        if killed(
            start(fit, checkpoint, out), moment if by_clock else moment / 4, None if by_clock else checkpoint
        ):
            found.append(checkpoint.exists())
        whole(start(fit, checkpoint, out))
        assert out.read_text() == expected
        out.unlink()
    assert sum(found) >= KILLS // 4  # killed on its way


def test_a_fit_that_is_killed_again_and_again_goes_on(start, uninterrupted, tmp_path):
    expected, seconds = uninterrupted
    checkpoint, out = tmp_path / "again.npz", tmp_path / "out"
    for moment in moments(seconds)[1:16:3]:
        killed(start(fit, checkpoint, out), moment)
    whole(start(fit, checkpoint, out))
    assert out.read_text() == expected
    assert without_parts(tmp_path) == ["again.npz", "out"]


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


def test_saving_leaves_a_whole_model(start, model, tmp_path):
    path, times = tmp_path / "m.mercer", 100
    path.write_bytes(model.read_bytes())
    seconds = whole(start(save, model, path, times))
    expected = model.read_bytes()
    running = 0
    for moment in moments(seconds):
        running += killed(start(save, model, path, times), moment)
        assert path.read_bytes() == expected
        assert mc.load(path).n_features_in_ == 4
    assert running >= KILLS // 4 and without_parts(tmp_path) == ["m.mercer"]


def test_predicting_leaves_a_whole_table(start, model, tmp_path):
    new, out = tmp_path / "new.csv", tmp_path / "out.csv"
    rng = np.random.default_rng(1)
    write_table(new, {name: rng.uniform(0, 5, 20_000) for name in "abcd"})
    before = new.read_bytes()
    seconds = whole(start(predict, model, new, out))
    expected, old = out.read_bytes(), b"a\n1\n"
    running = 0
    for moment in moments(seconds):
        out.write_bytes(old)
        running += killed(start(predict, model, new, out), moment)
        assert out.read_bytes() in (old, expected)
    assert running >= KILLS // 4
    whole(start(predict, model, new, out))
    assert out.read_bytes() == expected and new.read_bytes() == before
    assert without_parts(tmp_path) == ["new.csv", "out.csv"]
