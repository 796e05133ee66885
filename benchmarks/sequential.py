"""One datum after the other: compiled loops beside their twins in NumPy and XLA, in turns in one process, and
what first calls cost.

``python -m benchmarks.sequential`` prints it; ``--quick`` for small n.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

SIZES, REPEATS = (200, 500, 1000), 5
ONES, BATCHES = 300, 20  # observations that come one at a time; batches of n of them
NEVER = 2**62  # data from which on a loop would be used

FIRST = """
import json, time
import numpy as np, mercer as mc
from mercer import compiled, kernels as k
from mercer.inference import EP
from mercer.inference.ep import sequential
from mercer.online import OnlineMarkov, markov
sequential.LOOPS_FROM = markov.LOOPS_FROM = 0
found, start = {}, time.perf_counter()
def lap(name):
    global start
    found[name] = time.perf_counter() - start
    start = time.perf_counter()
compiled.ready()
lap("import numba")
x = np.linspace(-3.0, 3.0, 40)
mc.Model(mc.GP(k.SE()), mc.likelihoods.Bernoulli()).condition(x[:, None], x > 0, EP("sequential"))
lap("sequential EP, 40 labels")
OnlineMarkov(mc.GP(k.Matern(nu=1.5)), 0.1).update(x, np.sin(x)).update(4.0, 0.0)
lap("OnlineMarkov, two updates")
print(json.dumps(found))
"""


def cases(sizes: tuple[int, ...]) -> Iterator[tuple[str, Any, Callable[[], Any]]]:
    """What is run, the module whose LOOPS_FROM chooses, and the call."""
    from mercer import GP, Model, kernels, likelihoods
    from mercer.inference import EP
    from mercer.inference.ep import sequential
    from mercer.online import OnlineMarkov, markov

    for link in ("probit", "logit"):
        model = Model(GP(kernels.SE(1.0, variance=4.0)), likelihoods.Bernoulli(link))
        for n in sizes:
            rng = np.random.default_rng(0)
            X = rng.normal(size=(n, 2))
            y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.3 * rng.normal(size=n) > 0
            yield (
                f"sequential EP, {link}, n = {n}",
                sequential,
                lambda model=model, X=X, y=y: model.condition(X, y, EP("sequential")).log_evidence,
            )
    sums = kernels.Matern(1.0, nu=2.5) + kernels.Matern(3.0, nu=1.5)
    for name, kernel in (("Matern 3/2", kernels.Matern(1.0, nu=1.5)), ("5/2 + 3/2", sums)):
        gp = GP(kernel)
        for n in sizes:

            def at_once(gp: Any = gp, n: int = n) -> float:
                online, t = OnlineMarkov(gp, 0.1), np.sort(np.random.default_rng(0).uniform(0.0, 0.1 * n, n))
                for i in range(BATCHES):
                    online.update(t + 0.1 * n * i, np.sin(t))
                return online.log_evidence

            yield f"OnlineMarkov, {name}, {BATCHES} batches of {n}", markov, at_once

        def one_by_one(gp: Any = gp) -> float:
            online = OnlineMarkov(gp, 0.1)
            for i in range(ONES):
                online.update(0.1 * i, 0.3)
            return online.log_evidence

        yield f"OnlineMarkov, {name}, {ONES} one by one", markov, one_by_one


def compare(module: Any, call: Callable[[], Any], repeats: int) -> tuple[float, float, float]:
    """Best seconds of the processor by loop and by twin, in turns, and by how much their values differ."""
    before, best, values = module.LOOPS_FROM, [np.inf, np.inf], [0.0, 0.0]
    try:
        for turn in range(repeats + 1):
            for which, least in enumerate((0, NEVER)):
                module.LOOPS_FROM = least
                start = time.process_time()
                values[which] = float(call())
                if turn:  # the first compiles
                    best[which] = min(best[which], time.process_time() - start)
    finally:
        module.LOOPS_FROM = before
    return best[0], best[1], abs(values[0] - values[1]) / abs(values[1])


def first_calls() -> dict[str, dict[str, float]]:
    """Seconds of first calls in fresh processes, with nothing cached and all cached."""
    from benchmarks.workers import ROOT, settings

    with tempfile.TemporaryDirectory() as folder:
        found = {}
        for name in ("cold", "cached"):
            environment = {**os.environ, **settings(), "MERCER_CACHE": folder}
            done = subprocess.run(
                [sys.executable, "-c", FIRST], cwd=ROOT, env=environment, capture_output=True, text=True
            )
            if done.returncode:
                raise RuntimeError(done.stderr[-500:])
            found[name] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    quick = "--quick" in sys.argv
    print(f"{'':44}{'loop ms':>10}{'twin ms':>10}{'times':>8}{'apart':>10}")
    for what, module, call in cases((60,) if quick else SIZES):
        loop, twin, apart = compare(module, call, 1 if quick else REPEATS)
        print(f"{what:44}{1e3 * loop:10.2f}{1e3 * twin:10.2f}{twin / loop:8.2f}{apart:10.1e}", flush=True)
    found = first_calls()
    print(f"\n{'first calls':44}{'cold s':>10}{'cached s':>10}")
    for what in found["cold"]:
        print(f"{what:44}{found['cold'][what]:10.2f}{found['cached'][what]:10.2f}")


if __name__ == "__main__":
    main()
