"""Compiled recursions where numba is missing, broken, or may not write; after a fork."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ASK = """
import numpy as np, mercer as mc
from mercer import compiled, kernels as k
t = np.linspace(0, 50, 2100)
post = mc.GP(k.Matern(1.0, nu=0.5)).condition(t[:, None], np.sin(t), noise_variance=0.1, solver="markov")
print(compiled.ready(), repr(float(post.log_evidence)))
"""


def run(code: str, **environment: str) -> list[str]:
    found = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], env={**os.environ, **environment}, capture_output=True,
        text=True,
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    return found.stdout.split()


def test_without_numba_scans_do_the_same(tmp_path):
    pytest.importorskip("numba", reason="numba is not installed: nothing to compare")
    ready, value = run(ASK)
    broken = tmp_path / "numba.py"
    broken.write_text("raise ImportError('not here')")
    unready, same = run(ASK, PYTHONPATH=os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    assert (ready, unready) == ("True", "False")
    assert float(same) == pytest.approx(float(value), rel=1e-11)


ONE_BY_ONE = """
import numpy as np, mercer as mc
from mercer import compiled, kernels as k
from mercer.inference import EP
from mercer.inference.ep import sequential
from mercer.online import markov
sequential.LOOPS_FROM = markov.LOOPS_FROM = 0
x = np.linspace(-3, 3, 40)
labels = mc.Model(mc.GP(k.SE()), mc.likelihoods.Bernoulli()).condition(x[:, None], x > 0, EP("sequential"))
online = mc.online.OnlineMarkov(mc.GP(k.Matern(1.0, nu=1.5)), 0.1).update(x, np.sin(x))
print(compiled.ready(), repr(float(labels.log_evidence)), repr(online.log_evidence))
"""


def test_without_numba_data_one_by_one_are_the_same():
    pytest.importorskip("numba", reason="numba is not installed: nothing to compare")
    ready, *values = run(ONE_BY_ONE)
    unready, *same = run(ONE_BY_ONE, MERCER_NUMBA="0")
    assert (ready, unready) == ("True", "False")
    np.testing.assert_allclose([float(v) for v in same], [float(v) for v in values], rtol=1e-10)


def test_what_is_compiled_is_kept_in_the_cache_folder(tmp_path):
    pytest.importorskip("numba", reason="numba is not installed: nothing is compiled")
    probe = "from mercer import compiled; print(compiled.ready())"
    assert run(probe, MERCER_CACHE=str(tmp_path)) == ["True"]
    assert list(Path(tmp_path, "numba").rglob("*.nbi"))


@pytest.mark.parametrize("folder", ("", "/proc/nowhere"), ids=("switched off", "unwritable"))
def test_a_folder_that_cannot_be_written_is_survived(folder):
    pytest.importorskip("numba", reason="numba is not installed: nothing is compiled")
    assert run("from mercer import compiled; print(compiled.ready())", MERCER_CACHE=folder) == ["True"]


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
def test_a_forked_child_can_run_what_is_compiled():
    pytest.importorskip("numba", reason="numba is not installed: nothing is compiled")
    code = """
import os, numpy as np
from mercer import compiled
double = compiled.compiled(lambda x: x + x)
assert double(2.0) == 4.0
child = os.fork()
if child == 0:
    os._exit(0 if double(3.0) == 6.0 else 1)
print(os.waitpid(child, 0)[1])
"""
    assert run(code) == ["0"]


def test_a_plain_fit_does_not_import_numba():
    code = """
import sys, numpy as np, mercer as mc
mc.GPRegressor(max_evaluations=0).fit(np.arange(9.0)[:, None], np.arange(9.0))
print("numba" in sys.modules)
"""
    assert run(code) == ["False"]
