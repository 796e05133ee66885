"""How many evaluations a default fit takes, over many random problems: most must not take far more than the
usual one.

``python -m benchmarks.evaluations 20`` prints the raw figures of 20 problems of every kind.
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
KINDS = ("regression", "two classes", "three classes", "Student-t", "counts")
RATIO = 4.0  # 99th percentile over median, at most


def evaluations(run: Any, outcome: Any, check: Callable) -> None:
    """Fits of every kind in one fresh process on one thread; the target holds for all the problems."""
    problems = 6 if run.quick else 200
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    command = [sys.executable, "-m", "benchmarks.evaluations", str(problems)]
    run.say(f"default fits of {problems} random problems of every kind")
    done = subprocess.run(command, cwd=ROOT, env=os.environ | threads, capture_output=True, text=True)
    if done.returncode:
        outcome.errors.append(done.stderr[-1500:])
        return
    for line in done.stdout.splitlines():
        found = json.loads(line)
        counts = np.array(found["evaluations"])
        middle, most_fits = float(np.median(counts)), float(np.percentile(counts, 99))
        outcome.raw[found["kind"]] = found
        outcome.rows.append(
            {
                "fits": found["kind"],
                "median": middle,
                "90 %": float(np.percentile(counts, 90)),
                "99 %": most_fits,
                "most": int(counts.max()),
                "ratio": most_fits / middle,
                "median s": float(np.median(found["seconds"])),
                "most s": float(np.max(found["seconds"])),
                "not converged": found["not converged"],
                "worst": worst(found),
            }
        )
        outcome.checks.append(
            check(
                f"{found['kind']}: evaluations, 99th percentile over median",
                most_fits / middle,
                most=None if run.quick else RATIO,
            )
        )


def worst(found: dict[str, Any]) -> str:
    """The problems of a kind with the most evaluations and the longest fit, by their numbers."""
    most, longest = (int(np.argmax(found[what])) for what in ("evaluations", "seconds"))
    sizes = {number: problem(found["kind"], number)[0].shape for number in (most, longest)}
    return ", ".join(f"{number} ({n} x {d})" for number, (n, d) in sizes.items())


# ------------------------------------------------------------------------------------------------- problems


def problem(kind: str, number: int) -> tuple[np.ndarray, np.ndarray]:
    """X (n, d) and y (n,) of one random problem, the same for everybody.

    30 to 150 rows of 1 to 5 inputs in units of their own, of which one or more matter; a smooth function
    (cosines with random frequencies) with more or less noise. Classes are cut at quantiles, more or less
    evenly, robust problems have outliers or heavy tails, and counts a mean of 0.3 to 30.
    """
    rng = np.random.default_rng([KINDS.index(kind), number])
    n, d = int(rng.integers(30, 151)), int(rng.integers(1, 6))
    Z = rng.uniform(-np.sqrt(3.0), np.sqrt(3.0), (n, d)) if rng.random() < 0.5 else rng.normal(size=(n, d))
    relevant = int(rng.integers(1, d + 1))
    reach = np.exp(rng.uniform(np.log(0.4), np.log(4.0), relevant))
    frequencies = rng.normal(size=(relevant, 50)) / reach[:, None]
    f = np.cos(Z[:, :relevant] @ frequencies + rng.uniform(0.0, 2 * np.pi, 50)).sum(1)
    f = (f - f.mean()) / f.std()
    noise = np.exp(rng.uniform(np.log(0.01), np.log(1.0)))
    X = Z * 10.0 ** rng.uniform(-2.0, 2.0, d) + rng.normal(size=d)
    units, origin = 10.0 ** rng.uniform(-2.0, 2.0), rng.normal()
    if kind == "regression":
        return X, units * (f + noise * rng.normal(size=n) + origin)
    if kind == "Student-t":
        if rng.random() < 0.5:
            error = rng.standard_t(rng.uniform(1.5, 5.0), n)
        else:
            error = rng.normal(size=n) * np.where(rng.random(n) < rng.uniform(0.02, 0.2), 30.0, 1.0)
        return X, units * (f + noise * error + origin)
    if kind == "counts":
        return X, rng.poisson(np.exp(np.log(rng.uniform(0.3, 30.0)) + rng.uniform(0.3, 1.2) * f)).astype(
            float
        )
    cuts = 2 if kind == "three classes" else 1
    shares = rng.dirichlet(np.full(cuts + 1, 5.0)).clip(0.1)
    seen = f + noise * rng.normal(size=n)
    return X, np.digitize(seen, np.quantile(seen, np.cumsum(shares / shares.sum())[:-1]))


def estimator(kind: str) -> Any:
    """The default estimator for problems of this kind."""
    import mercer as mc

    if "classes" in kind:
        return mc.GPClassifier()
    return mc.GPRegressor(likelihood={"Student-t": "student-t", "counts": "poisson"}.get(kind))


def fits(kind: str, problems: int) -> dict[str, Any]:
    """Evaluations, processor seconds and the objective (with the log prior) of the fits of a kind; seconds do
    not depend on what else the machine does.
    """
    found: dict[str, Any] = {
        "kind": kind,
        "evaluations": [],
        "seconds": [],
        "objective": [],
        "not converged": 0,
    }
    for number in range(problems):
        X, y = problem(kind, number)
        began = time.process_time()
        fit = estimator(kind).fit(X, y).fit_
        found["seconds"].append(time.process_time() - began)
        found["evaluations"].append(fit.status.evaluations)
        found["objective"].append(float(fit.posterior.log_evidence) + fit.log_prior)
        found["not converged"] += not fit.status.converged
    return found


if __name__ == "__main__":
    for name in KINDS:
        print(json.dumps(fits(name, int(sys.argv[1]) if len(sys.argv) > 1 else 200)), flush=True)
