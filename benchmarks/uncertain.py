"""Predictions at uncertain inputs: one compiled call of moment matching, with and without its gradient.

``python -m benchmarks.uncertain`` prints the raw figures.
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
MOST_MS = 1.0  # mean and variance of one output, n = 200, d = 6


def uncertain(run: Any, outcome: Any, check: Callable) -> None:
    """Mean and variance, and gradients, of one output and of four, in one fresh process on one thread."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    command = [sys.executable, "-m", "benchmarks.uncertain", "5" if run.quick else "300"]
    run.say("moment matching, n = 200, d = 6")
    done = subprocess.run(command, cwd=ROOT, env=os.environ | threads, capture_output=True, text=True)
    if done.returncode:
        outcome.errors.append(done.stderr[-1500:])
        return
    outcome.raw["uncertain"] = found = json.loads(done.stdout.splitlines()[-1])
    outcome.rows += [
        {"outputs": int(p), **{f"{what} ms": ms for what, ms in row.items()}} for p, row in found.items()
    ]
    most = None if run.quick else MOST_MS
    outcome.checks.append(check("one output, mean and variance, ms", found["1"]["moments"], most=most))


def measured(calls: int) -> dict[str, dict[str, float]]:
    """Median milliseconds of a call, by the number of outputs: of mean and covariance, and of the gradient of
    their sum in mu and Sigma.
    """
    import jax
    import jax.numpy as jnp

    import mercer as mc

    rng = np.random.default_rng(0)
    X, root = rng.normal(size=(200, 6)), 0.2 * rng.normal(size=(6, 6))
    post = mc.GP(mc.kernels.SE(np.linspace(1.0, 3.0, 6))).condition(X, np.sin(X[:, 0]), noise_variance=0.05)
    mu, Sigma = jnp.zeros(6), jnp.asarray(root @ root.T)

    def moments(predictor: Any, mu: Any, Sigma: Any) -> tuple[Any, Any]:
        found = mc.uncertain.moments(predictor, mu, Sigma)
        return found.mean, found.covariance

    def total(mu: Any, Sigma: Any, predictor: Any) -> Any:
        mean, covariance = moments(predictor, mu, Sigma)
        return mean.sum() + covariance.sum()

    out = {}
    for p in (1, 4):
        predictor = jax.device_put(mc.uncertain.Predictor.joined([post.predictor()] * p))
        out[str(p)] = {
            "moments": _median(jax.jit(moments), (predictor, mu, Sigma), calls),
            "gradient": _median(jax.jit(jax.grad(total, (0, 1))), (mu, Sigma, predictor), calls),
        }
    return out


def _median(call: Callable, arguments: tuple, calls: int) -> float:
    import jax

    jax.block_until_ready(call(*arguments))
    times = []
    for _ in range(calls):
        began = time.perf_counter()
        jax.block_until_ready(call(*arguments))
        times.append(time.perf_counter() - began)
    return 1e3 * float(np.median(times))


if __name__ == "__main__":
    print(json.dumps(measured(int(sys.argv[1]) if len(sys.argv) > 1 else 300)))
