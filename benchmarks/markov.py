"""Time series beside their peers: Matern-3/2 evidence in O(n) (tinygp's quasi-separable solver, celerite2),
gradient, growth.

``python -m benchmarks.markov`` runs the task alone. A peer answers ``python -m benchmarks.markov NAME
data.npz`` in its own environment.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

PEERS = ("tinygp", "celerite2")
LENGTHSCALE, VARIANCE, NOISE = 0.9, 1.3, 0.1


def markov(run: Any, outcome: Any, check: Callable) -> None:
    """Evidence by every library in turn; value and gradient,
    growth to a million times and a whole fit by Mercer.
    """
    from benchmarks.environments import interpreter
    from benchmarks.workers import ROOT, settings

    n = 2000 if run.quick else 100_000
    path = run.folder / f"series-{n}.npz"
    t, y = series(n)
    np.savez(path, t=t, y=y)
    found: dict[str, list[dict]] = {}
    libraries = ("mercer", *run.beside("markov", outcome.errors))
    for turn in range(run.repeats):
        for name in libraries:
            run.say(f"Matern-3/2 evidence by {name}, turn {turn + 1} of {run.repeats}")
            python = sys.executable if name == "mercer" else str(interpreter(name))
            command = [python, "-m", "benchmarks.markov", name, str(path)]
            done = subprocess.run(command, cwd=ROOT, env=settings(), capture_output=True, text=True)
            if done.returncode:
                outcome.errors.append(f"{name}: {done.stderr[-500:]}")
                continue
            found.setdefault(name, []).append(json.loads(done.stdout.splitlines()[-1]))
    outcome.raw["markov"] = found
    best = {
        name: {key: min(turn[key] for turn in turns) for key in ("value", "both") if key in turns[0]}
        for name, turns in found.items()
    }
    for name, turns in found.items():
        ms = {f"{key} ms": 1e3 * seconds for key, seconds in best[name].items()}
        outcome.rows.append({"library": name, "n": n, **ms, "evidence": turns[-1]["evidence"]})
        if name != "mercer":
            ratio, error = (
                best[name]["value"] / best["mercer"]["value"],
                abs(turns[-1]["evidence"] - found["mercer"][-1]["evidence"]),
            )
            outcome.checks.append(
                check(f"evidence, times faster than {name}", ratio, least=None if run.quick else 1.0)
            )
            outcome.checks.append(
                check(f"evidence, difference from {name}'s, nats per datum", error / n, most=1e-8)
            )
    ours = found["mercer"][-1]
    times = best["mercer"]
    outcome.checks.append(
        check("value and gradient / value", times["both"] / times["value"], most=None if run.quick else 5.0)
    )
    outcome.checks.append(
        check("fit / value and gradient", ours["fit"] / times["both"], most=None if run.quick else 60.0)
    )
    sizes, seconds = (np.array(a) for a in zip(*ours["growth"], strict=True))
    exponent = float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])
    outcome.checks.append(
        check(f"exponent of growth to n = {sizes[-1]:,}", exponent, most=None if run.quick else 1.1)
    )


def series(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Irregular times, ten for each unit, and a noisy function of them."""
    rng = np.random.default_rng(0)
    t = np.sort(rng.uniform(0.0, n / 10, n))
    return t, np.sin(t) + 0.3 * np.cos(7 * t) + np.sqrt(NOISE) * rng.normal(size=n)


def best_of(function: Callable[[], Any], repeats: int = 9) -> float:
    """The shortest of several calls after a first one, in seconds."""
    function()
    found = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        found.append(time.perf_counter() - start)
    return min(found)


# ------------------------------------------------------------------------------------------------- one
# library each


def by_mercer(t: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    import mercer as mc
    from mercer.kernels import Matern
    from mercer.likelihoods import Gaussian
    from mercer.solvers import Markov, Sites

    def problem(t, y):
        X, solver = t[:, None], Markov()
        gp = mc.GP(Matern(LENGTHSCALE, VARIANCE, nu=1.5)).bind(mc.inputs.as_inputs(X))
        workspace, sites = solver.workspace(gp, X), Sites(y[:, None], np.full((len(t), 1), 1 / NOISE))
        return lambda: solver.factor(gp, X, sites, workspace)

    def both(factor):
        state = factor()
        return state.log_normaliser, state.pullback(1.0)

    factor, n = problem(t, y), len(t)
    value, pair = best_of(lambda: factor().log_normaliser), best_of(lambda: both(factor))
    growth = []
    for size in (n // 10, n, 10 * n):
        one = problem(*series(size))
        growth.append((size, best_of(lambda one=one: one().log_normaliser, 3)))
    model = mc.Model(mc.GP(Matern(1.0, nu=1.5)), Gaussian(1.0))
    mc.fit(model, t[:, None], y, solver="markov", max_evaluations=3, progress=False)  # compiles
    start = time.perf_counter()
    mc.fit(model, t[:, None], y, solver="markov", progress=False)
    fit = time.perf_counter() - start
    evidence = float(factor().log_normaliser) - 0.5 * n * np.log(2 * np.pi * NOISE)
    return {"value": value, "both": pair, "growth": growth, "fit": fit, "evidence": evidence}


def by_tinygp(t: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    import jax

    jax.config.update("jax_enable_x64", True)
    from tinygp import GaussianProcess
    from tinygp.kernels import quasisep

    @jax.jit
    def loss(theta, t, y):
        kernel = theta[1] * quasisep.Matern32(theta[0])
        return GaussianProcess(kernel, t, diag=theta[2], assume_sorted=True).log_probability(y)

    gradient = jax.jit(jax.value_and_grad(loss))
    theta, t, y = (jax.numpy.asarray(a) for a in ((LENGTHSCALE, VARIANCE, NOISE), t, y))
    value = best_of(lambda: jax.block_until_ready(loss(theta, t, y)))
    both = best_of(lambda: jax.block_until_ready(gradient(theta, t, y)), 3)
    return {"value": value, "both": both, "evidence": float(loss(theta, t, y))}


def by_celerite2(t: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    import celerite2
    from celerite2 import terms

    def value():
        gp = celerite2.GaussianProcess(terms.Matern32Term(sigma=VARIANCE**0.5, rho=LENGTHSCALE, eps=1e-5))
        gp.compute(t, diag=np.full(len(t), NOISE), quiet=False)
        return gp.log_likelihood(y)

    return {"value": best_of(value), "evidence": float(value())}


def alone() -> None:
    """The task by itself, printed."""
    import tempfile
    from pathlib import Path

    from benchmarks.environments import installed
    from benchmarks.tasks import Check, Outcome, Run

    with tempfile.TemporaryDirectory() as folder:
        outcome = Outcome("Time series")
        markov(Run(Path(folder), tuple(filter(installed, PEERS)), "--quick" in sys.argv), outcome, Check)
    for row in outcome.rows:
        print(row)
    for c in outcome.checks:
        print(f"{'met   ' if c.met else 'MISSED'} {c.label}: {c.value:.4g}")
    for error in outcome.errors:
        print(error)


if __name__ == "__main__":
    if len(sys.argv) == 3:
        arrays = np.load(sys.argv[2])
        answer = {"mercer": by_mercer, "tinygp": by_tinygp, "celerite2": by_celerite2}[sys.argv[1]]
        print(json.dumps(answer(arrays["t"], arrays["y"])))
    else:
        alone()
