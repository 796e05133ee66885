"""Compiled loops beside their twins in XLA, and what they cost: kernels on strings, import, compiling.

``python -m benchmarks.recursions`` runs the task alone.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np

LENGTH, LETTERS = 4, "acgt"  # of subsequences; of strings


def strings(run: Any, outcome: Any, check: Callable) -> None:
    """The gap-weighted kernel of all pairs of strings and its derivative, one pair after the other by loops
    and by scans.
    """
    n, few, width = (60, 20, 30) if run.quick else (1000, 100, 100)
    rng = np.random.default_rng(0)
    texts = ["".join(rng.choice(list(LETTERS), width)) for _ in range(n)]
    run.say(f"gap-weighted kernel of {n} strings by loops")
    ours = {slopes: matrix_seconds(texts, slopes) for slopes in (False, True)}
    run.say(f"gap-weighted kernel of {few} strings by scans")
    scans = {slopes: matrix_seconds(texts[:few], slopes, loops=False) for slopes in (False, True)}
    for slopes, name in ((False, "value"), (True, "value and slope")):
        pair = scans[slopes] / few**2 / (ours[slopes] / n**2)
        outcome.rows.append({"what": f"{n} strings of {width}, {name}", "s": ours[slopes]})
        outcome.checks.append(
            check(f"strings, {name}: times faster than the scan, for each pair", pair,
                  least=None if run.quick else 5.0)
        )  # fmt: skip


def matrix_seconds(texts: list[str], slopes: bool, loops: bool = True) -> float:
    """Of the second of two calls."""
    import equinox as eqx
    import jax

    from mercer import kernels
    from mercer.kernels.text import strings as tables
    from mercer.params import strip

    kernel = strip(kernels.GapWeighted(LENGTH, decay=0.6))
    A = kernel.encode(texts)

    def value(decay: Any) -> Any:
        return eqx.tree_at(lambda k: k.decay, kernel, decay).compare(A, A)

    call = jax.jit(lambda decay: jax.jvp(value, (decay,), (1.0,)) if slopes else value(decay))
    before, tables.LOOPS_FROM = tables.LOOPS_FROM, 0 if loops else 2**62
    try:
        jax.block_until_ready(call(0.6))
        start = time.perf_counter()
        jax.block_until_ready(call(0.61))
        return time.perf_counter() - start
    finally:
        tables.LOOPS_FROM = before


FIRST = """
import json, time
found, start = {}, time.perf_counter()
def lap(name):
    global start
    found[name] = time.perf_counter() - start
    start = time.perf_counter()
import numpy as np, mercer as mc
from mercer import compiled, kernels as k
from mercer.em import HMM, GaussianEmission, Gaussians
t = np.sort(np.random.default_rng(0).uniform(0, 300, 3000))
model = mc.Model(mc.GP(k.Matern(1.0, nu=1.5)), mc.likelihoods.Gaussian(0.1))
compiled.compiled
lap("import mercer, JAX")
compiled.ready()
lap("import numba")
mc.log_evidence_and_gradient(model, t[:, None], np.sin(t), solver="markov")
lap("Matern 3/2, evidence and gradient")
hmm = HMM([0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]], GaussianEmission(Gaussians([[0.0], [1.0]], [np.eye(1)] * 2)))
hmm.expect([np.sin(t)[:, None]])
lap("HMM, one step of EM")
k.GapWeighted(4)(["acgt" * 20] * 20)
lap("gap-weighted strings")
print(json.dumps(found))
"""


def first_calls(run: Any, outcome: Any, check: Callable) -> None:
    """Seconds of imports and first calls in fresh processes: nothing cached, all cached, and without numba,
    where XLA's cache is as warm.
    """
    from benchmarks.workers import ROOT, settings

    run.say("first calls of compiled loops")
    with tempfile.TemporaryDirectory() as folder:
        found = {}
        for name, numba in (("cold", "1"), ("cached", "1"), ("scans, cold", "0"), ("scans, cached", "0")):
            environment = {**os.environ, **settings(), "MERCER_CACHE": folder, "MERCER_NUMBA": numba}
            done = subprocess.run(
                [sys.executable, "-c", FIRST], cwd=ROOT, env=environment, capture_output=True, text=True
            )
            if done.returncode:
                outcome.errors.append(done.stderr[-500:])
                return
            found[name] = json.loads(done.stdout.splitlines()[-1])
    outcome.rows += [{"what": what, **{f"{name} s": times[what] for name, times in found.items()}}
                     for what in found["cold"]]  # fmt: skip
    outcome.checks.append(check("import numba, s", found["cached"]["import numba"]))


def alone() -> None:
    """The task by itself, printed."""
    from pathlib import Path

    from benchmarks.tasks import Check, Outcome, Run

    with tempfile.TemporaryDirectory() as folder:
        outcome, run = Outcome("Compiled loops"), Run(Path(folder), (), "--quick" in sys.argv)
        first_calls(run, outcome, Check)
        strings(run, outcome, Check)
    for row in outcome.rows:
        print(row)
    for c in outcome.checks:
        print(f"{'met   ' if c.met else 'MISSED'} {c.label}: {c.value:.4g}")
    for error in outcome.errors:
        print(error)


if __name__ == "__main__":
    alone()
