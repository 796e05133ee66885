"""Several outputs: the evidence and its gradient of three complete outputs beside those of one.

``python -m benchmarks.outputs`` prints medians of interleaved turns, on one thread.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parent.parent
N, OUTPUTS, MOST = 1000, 3, 3.3  # rows, outputs, and how many times the work of one they may take


def outputs(run: Any, outcome: Any, check: Callable) -> None:
    """Three outputs in a fresh process on one thread."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    command = [sys.executable, "-m", "benchmarks.outputs", *(["200", "3"] if run.quick else [])]
    run.say("evidence and gradient of three outputs")
    done = subprocess.run(command, cwd=ROOT, env=os.environ | threads, capture_output=True, text=True)
    if done.returncode:
        outcome.errors.append(done.stderr[-1500:])
        return
    outcome.raw["outputs"] = found = json.loads(done.stdout.splitlines()[-1])
    outcome.rows.append(found)
    outcome.checks.append(check("three outputs, times one", found["ratio"], most=None if run.quick else MOST))


def measured(n: int = N, turns: int = 15) -> dict[str, float]:
    """Median milliseconds of an evaluation of one output and of three at the same rows, and their ratio."""
    from mercer.estimators import GPRegressor
    from mercer.inference.exact import Exact
    from mercer.learning.objectives import by_name
    from mercer.learning.problem import LearningProblem

    rng = np.random.default_rng(0)
    X = rng.uniform(size=(n, 2))
    f = np.sin(6 * X @ rng.normal(size=(2, 2)))
    Y = f @ rng.normal(size=(2, OUTPUTS)) + 0.1 * rng.normal(size=(n, OUTPUTS))
    problems = []
    for y in (Y[:, 0], Y):
        model = GPRegressor(outputs="coregional", max_evaluations=0).fit(X, y)
        found = model.posterior_ if y.ndim == 1 else model.estimators_[0].posterior_
        data = [(found.inputs, found.y)]
        problems.append(LearningProblem(found.model, data, Exact(), found.solver, by_name("evidence")))
    times: list[list[float]] = [[], []]
    for turn in range(turns + 2):
        for problem, taken in zip(problems, times, strict=True):
            began = time.perf_counter()
            problem.value_and_gradient(problem.flat.vector + 1e-3 * turn)
            taken.append(time.perf_counter() - began)
    one, three = (1e3 * float(np.median(taken[2:])) for taken in times)
    return {"rows": n, "one output ms": one, "three outputs ms": three, "ratio": three / one}


if __name__ == "__main__":
    print(json.dumps(measured(*map(int, sys.argv[1:]))))
