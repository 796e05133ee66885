"""After os.fork() a child computes, or is told at once why it cannot: it never hangs."""

import os
import subprocess
import sys

import pytest

COMMON = """
import os, signal, sys, warnings
import numpy as np
import mercer as mc
from mercer.processes import ForkError

warnings.simplefilter("ignore")  # JAX warns of every fork
rng = np.random.default_rng(0)
X = rng.uniform(0, 5, (30, 1))
y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=30)
model = mc.GPRegressor(mc.kernels.SE(1.0))
hmm = mc.HMM(2)

def in_child(*calls):
    pid = os.fork()
    if pid == 0:
        signal.alarm(60)  # a child that hangs is killed
        said = []
        for call in calls:
            try:
                call()
                said.append("works")
            except ForkError as error:
                said.append("spawn" if "spawn" in str(error) else "?")
        print(*said, flush=True)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
"""
AFTER = """
model.fit(X, y)
hmm.fit(X)
post, kernel = model.posterior_, model.kernel_
in_child(
    lambda: model.predict(X),
    lambda: model.predict(X, return_std=True),
    lambda: model.predict_interval(X),
    lambda: model.loo(),
    lambda: model.sample_y(X),
    lambda: mc.GPRegressor().fit(X, y),
    lambda: mc.GPClassifier().fit(X, y > 0),
    lambda: mc.fit(model.model_, X, y),
    lambda: model.model_.condition(X, y),
    lambda: mc.GPTimeSeries().fit(y),
    lambda: post.mean(X),
    lambda: post.components(X),
    lambda: kernel(X),
    lambda: mc.GP(kernel).sample(X, 2, seed=0),
    lambda: hmm.predict(X),
)
print("parent", model.predict(X).shape)
"""
BEFORE = """
in_child(lambda: model.fit(X, y).predict(X))
"""
LOADED = """
in_child(lambda: mc.load(sys.argv[1]).predict(X), lambda: mc.load(sys.argv[1]).predict(X, return_std=True))
model = mc.load(sys.argv[1])  # as a server does before it makes its workers
in_child(lambda: model.predict(X))
"""
POOL = """
import multiprocessing
model.fit(X, y)
with multiprocessing.get_context("fork").Pool(1) as pool:
    try:
        pool.apply(model.predict, (X,))
    except ForkError as error:
        print("spawn" in str(error))
"""


def run(program, *arguments):
    command = [sys.executable, "-c", COMMON + program, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
class TestFork:
    def test_after_computing_a_child_is_refused_at_once(self):
        said = run(AFTER)
        assert set(said[0].split()) == {"spawn"} and len(said[0].split()) == 15
        assert said[1] == "parent (30,)"

    def test_before_computing_a_child_computes(self):
        assert run(BEFORE)[0] == "works"

    def test_a_model_that_was_only_loaded_predicts_in_a_child(self, tmp_path):
        run("model.fit(X, y).save(sys.argv[1])", tmp_path / "m")
        assert run(LOADED, tmp_path / "m")[:2] == ["works works", "works"]

    def test_a_pool_of_forked_processes_says_so(self):
        assert run(POOL)[0] == "True"
