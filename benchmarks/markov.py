"""Time series beside their peers: evidence and gradient in O(n) of Matern processes and of a trend with a
season (tinygp's quasi-separable solver, celerite2), growth, a whole fit.

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
PERIOD, FADING, HARMONICS, WIDTH = 2.4, 50.0, 3, 0.5  # of a season beside a Matern-5/2 trend: 9 states
SEASON = "trend + season"
MODELS = {"Matern 1/2": 2.5, "Matern 3/2": 2.5, "Matern 5/2": 1.0, SEASON: 1.0}  # times faster, at least


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
            run.say(f"evidence of time series by {name}, turn {turn + 1} of {run.repeats}")
            python = sys.executable if name == "mercer" else str(interpreter(name))
            command = [python, "-m", "benchmarks.markov", name, str(path)]
            done = subprocess.run(command, cwd=ROOT, env=settings(), capture_output=True, text=True)
            if done.returncode:
                outcome.errors.append(f"{name}: {done.stderr[-500:]}")
                continue
            found.setdefault(name, []).append(json.loads(done.stdout.splitlines()[-1]))
    outcome.raw["markov"] = found
    if "mercer" not in found:
        return
    best = {name: fastest([turn["models"] for turn in turns]) for name, turns in found.items()}
    for model, least in MODELS.items():
        ours = best["mercer"][model]
        for name in (name for name in best if model in best[name]):
            theirs = best[name][model]
            ms = {f"{key} ms": 1e3 * theirs[key] for key in ("value", "both") if key in theirs}
            row = {"model": model, "library": name, "n": n, **ms, "evidence": theirs["evidence"]}
            outcome.rows.append(row)
            if name == "mercer":
                continue
            outcome.checks.append(
                check(f"{model}: evidence, times faster than {name}", theirs["value"] / ours["value"],
                      least=None if run.quick else least)
            )  # fmt: skip
            if "both" in theirs:
                outcome.checks.append(
                    check(f"{model}: value and gradient, times faster than {name}",
                          theirs["both"] / ours["both"], least=None if run.quick else 3.0)
                )  # fmt: skip
            error = abs(theirs["evidence"] - ours["evidence"]) / n
            outcome.checks.append(
                check(f"{model}: difference from {name}'s, nats per datum", error, most=1e-8)
            )
    answer, times = found["mercer"][-1], best["mercer"]["Matern 3/2"]
    outcome.checks.append(
        check("fit / value and gradient", answer["fit"] / times["both"], most=None if run.quick else 60.0)
    )
    sizes, seconds = (np.array(a) for a in zip(*answer["growth"], strict=True))
    exponent = float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])
    outcome.checks.append(
        check(f"exponent of growth to n = {sizes[-1]:,}", exponent, most=None if run.quick else 1.1)
    )


def fastest(turns: list[dict]) -> dict[str, dict]:
    """The shortest time of each model among several turns."""
    return {
        model: {key: min(turn[model][key] for turn in turns) for key in turns[0][model]} for model in turns[0]
    }


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
    from mercer.kernels import Matern, Seasonal
    from mercer.likelihoods import Gaussian
    from mercer.solvers import Markov, Sites

    kernels: dict[str, Any] = {
        f"Matern {2 * p + 1}/2": Matern(LENGTHSCALE, VARIANCE, nu=p + 0.5) for p in range(3)
    }
    season = Seasonal(PERIOD, WIDTH, harmonics=HARMONICS) * Matern(FADING, nu=0.5)
    kernels[SEASON] = kernels["Matern 5/2"] + season

    def problem(kernel, t, y):
        X, solver = t[:, None], Markov()
        gp = mc.GP(kernel).bind(mc.inputs.as_inputs(X))
        workspace, sites = solver.workspace(gp, X), Sites(y[:, None], np.full((len(t), 1), 1 / NOISE))
        return lambda: solver.factor(gp, X, sites, workspace)

    def both(factor):
        state = factor()
        return state.log_normaliser, state.pullback(1.0)

    n, models = len(t), {}
    for name, kernel in kernels.items():
        factor = problem(kernel, t, y)
        models[name] = {
            "value": best_of(lambda factor=factor: factor().log_normaliser),
            "both": best_of(lambda factor=factor: both(factor)),
            "evidence": float(factor().log_normaliser) - 0.5 * n * np.log(2 * np.pi * NOISE),
        }
    growth = []
    for size in (n // 10, n, 10 * n):
        one = problem(kernels["Matern 3/2"], *series(size))
        growth.append((size, best_of(lambda one=one: one().log_normaliser, 3)))
    model = mc.Model(mc.GP(Matern(1.0, nu=1.5)), Gaussian(1.0))
    mc.fit(model, t[:, None], y, solver="markov", max_evaluations=3, progress=False)  # compiles
    start = time.perf_counter()
    mc.fit(model, t[:, None], y, solver="markov", progress=False)
    return {"models": models, "growth": growth, "fit": time.perf_counter() - start}


def by_tinygp(t: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    import jax

    jax.config.update("jax_enable_x64", True)
    from tinygp import GaussianProcess
    from tinygp.kernels import quasisep

    def season(theta):
        waves = [
            quasisep.Celerite(weight, 0.0, 1 / FADING, 2 * np.pi * j / PERIOD)
            for j, weight in enumerate(harmonics(), 1)
        ]
        return sum(waves, theta[1] * quasisep.Matern52(theta[0]))

    kernels = {
        "Matern 1/2": lambda theta: theta[1] * quasisep.Exp(theta[0]),
        "Matern 3/2": lambda theta: theta[1] * quasisep.Matern32(theta[0]),
        "Matern 5/2": lambda theta: theta[1] * quasisep.Matern52(theta[0]),
        SEASON: season,
    }
    theta, t, y = (jax.numpy.asarray(a) for a in ((LENGTHSCALE, VARIANCE, NOISE), t, y))
    models = {}
    for name, kernel in kernels.items():

        def loss(theta, t, y, kernel=kernel):
            gp = GaussianProcess(kernel(theta), t, diag=theta[2], assume_sorted=True)
            return gp.log_probability(y)

        value, gradient = jax.jit(loss), jax.jit(jax.value_and_grad(loss))
        models[name] = {
            "value": best_of(lambda f=value: jax.block_until_ready(f(theta, t, y))),
            "both": best_of(lambda f=gradient: jax.block_until_ready(f(theta, t, y)), 3),
            "evidence": float(value(theta, t, y)),
        }
    return {"models": models}


def by_celerite2(t: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    import celerite2
    from celerite2 import terms

    kernels = {
        "Matern 1/2": terms.RealTerm(a=VARIANCE, c=1 / LENGTHSCALE),
        "Matern 3/2": terms.Matern32Term(sigma=VARIANCE**0.5, rho=LENGTHSCALE, eps=1e-5),
    }  # there is no 5/2

    def value(kernel):
        gp = celerite2.GaussianProcess(kernel)
        gp.compute(t, diag=np.full(len(t), NOISE), quiet=False)
        return gp.log_likelihood(y)

    return {
        "models": {
            name: {"value": best_of(lambda k=kernel: value(k)), "evidence": float(value(kernel))}
            for name, kernel in kernels.items()
        }
    }


def harmonics() -> np.ndarray:
    """The variances of the season's waves, as those of `kernels.Seasonal`."""
    weights = np.exp(-0.5 * (WIDTH * np.arange(1, HARMONICS + 1)) ** 2)
    return weights / weights.sum()


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
