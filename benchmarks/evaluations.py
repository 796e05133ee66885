"""How many evaluations a default fit takes, over many random problems: most must not take far more than the
usual one.

``python -m benchmarks.evaluations 20`` prints the raw figures of 20 problems of every kind, ``python -m
benchmarks.evaluations 20 series mixture`` those of some.
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
KINDS = ("regression", "two classes", "three classes", "Student-t", "counts", "series", "HMM", "mixture")
RATIO = 4.0  # 99th percentile over median, at most
BY_EM = ("HMM", "mixture")  # whose iterations have no such target: how fast EM is, the overlap of groups says
WARM = 12  # fits before those that count, of other problems of the kind: they compile


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
        outcome.raw[found["kind"]] = found
        outcome.rows.append(row(found))
        target = None if run.quick or found["kind"] in BY_EM else RATIO
        label = f"{found['kind']}: evaluations, 99th percentile over median"
        outcome.checks.append(check(label, outcome.rows[-1]["ratio"], most=target))


def row(found: dict[str, Any]) -> dict[str, Any]:
    """Quantiles over the problems of a kind."""
    counts, seconds = np.array(found["evaluations"]), np.array(found["seconds"])
    middle, most_fits = float(np.median(counts)), float(np.percentile(counts, 99))
    return {
        "fits": found["kind"],
        "median": middle,
        "90 %": float(np.percentile(counts, 90)),
        "99 %": most_fits,
        "most": int(counts.max()),
        "ratio": most_fits / middle,
        "median s": float(np.median(seconds)),
        "90 % s": float(np.percentile(seconds, 90)),
        "99 % s": float(np.percentile(seconds, 99)),
        "most s": float(seconds.max()),
        "not converged": len(found["not converged"]),
        "worst": worst(found),
    }


def worst(found: dict[str, Any]) -> str:
    """The problems of a kind with the most evaluations and the longest fit, by their numbers."""
    most, longest = (int(np.argmax(found[what])) for what in ("evaluations", "seconds"))
    sizes = {number: problem(found["kind"], number)[0].shape for number in (most, longest)}
    return ", ".join(f"{number} ({n} x {d})" for number, (n, d) in sizes.items())


# ------------------------------------------------------------------------------------------------- problems


def problem(kind: str, number: int) -> tuple[np.ndarray, np.ndarray]:
    """X (n, d) and y (n,) of one random problem, the same for everybody; times (n, 1) and values of a series;
    of those that EM fits, y is the group of each row, which the fit does not see.

    30 to 150 rows of 1 to 5 inputs in units of their own, of which one or more matter; a smooth function
    (cosines with random frequencies) with more or less noise. Classes are cut at quantiles, more or less
    evenly, robust problems have outliers or heavy tails, and counts a mean of 0.3 to 30.
    """
    rng = np.random.default_rng([KINDS.index(kind), number])
    if kind == "series":
        return series(rng)
    if kind in BY_EM:
        return groups(rng, chain=kind == "HMM")
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


def series(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """60 to 240 months with gaps, some of them: a line, a level that wanders, a season or none, and noise."""
    n = int(rng.integers(60, 241))
    t = np.arange(n) / 12.0 + rng.integers(1950, 2000)
    line = rng.normal() * np.linspace(0.0, 3.0, n)
    level = np.exp(rng.uniform(np.log(0.02), np.log(0.5))) * np.cumsum(rng.normal(size=n))
    phase = 2 * np.pi * (t[:, None] * np.arange(1, 4) + rng.random(3))
    season = rng.choice([0.0, 0.3, 1.0, 3.0]) * np.cos(phase) @ rng.dirichlet(np.ones(3))
    noise = np.exp(rng.uniform(np.log(0.03), np.log(1.0))) * rng.normal(size=n)
    y = 10.0 ** rng.uniform(-2.0, 2.0) * (line + level + season + noise + 3.0 * rng.normal())
    kept = rng.random(n) >= rng.choice([0.0, 0.1, 0.3])
    return t[kept, None], y[kept]


def groups(rng: np.random.Generator, chain: bool) -> tuple[np.ndarray, np.ndarray]:
    """100 to 1,000 rows of 1 to 5 columns from three Gaussians that overlap more or less; the group of a row
    is that of the last one with a probability of a half or more in a chain, else drawn by itself.
    """
    n, d = int(rng.integers(100, 1001)), int(rng.integers(1, 6))
    shares = rng.dirichlet(np.full(3, 5.0))
    stays = rng.random(n) < rng.uniform(0.5, 0.99) if chain else np.zeros(n, bool)
    states = rng.choice(3, n, p=shares)
    for t in range(1, n):
        if stays[t]:
            states[t] = states[t - 1]
    means = np.exp(rng.uniform(np.log(0.5), np.log(5.0))) * rng.normal(size=(3, d))
    factors = rng.normal(size=(3, d, d)) / np.sqrt(d) + 0.5 * np.eye(d)
    X = means[states] + np.einsum("nij,nj->ni", factors[states], rng.normal(size=(n, d)))
    return X * 10.0 ** rng.uniform(-2.0, 2.0, d), states


def estimator(kind: str) -> Any:
    """The default estimator for problems of this kind."""
    import mercer as mc

    if kind == "series":
        return mc.GPTimeSeries()
    if kind == "HMM":
        return mc.HMM(n_states=3)
    if kind == "mixture":
        return mc.GaussianMixture(n_components=3)
    if "classes" in kind:
        return mc.GPClassifier()
    return mc.GPRegressor(likelihood={"Student-t": "student-t", "counts": "poisson"}.get(kind))


def fitted(kind: str, number: int) -> dict[str, Any]:
    """Evaluations, or iterations of EM from the start that is kept; the objective, with the log prior;
    whether it converged.
    """
    X, y = problem(kind, number)
    if kind in BY_EM:
        found = estimator(kind).fit(X)
        said = found.n_iter_, found.log_likelihood_, found.converged_
    else:
        fit = estimator(kind).fit(X[:, 0] if kind == "series" else X, y).fit_
        said = fit.status.evaluations, fit.posterior.log_evidence + fit.log_prior, fit.status.converged
    return {"evaluations": int(said[0]), "objective": float(said[1]), "converged": bool(said[2])}


def fits(kind: str, problems: int) -> dict[str, Any]:
    """Evaluations, processor seconds and objectives of the fits of a kind, and the numbers of those that did
    not converge; seconds do not depend on what else the machine does.
    """
    for number in range(10**6, 10**6 + WARM):
        fitted(kind, number)
    found: dict[str, Any] = {
        "kind": kind,
        "evaluations": [],
        "seconds": [],
        "objective": [],
        "not converged": [],
    }
    for number in range(problems):
        began = time.process_time()
        said = fitted(kind, number)
        found["seconds"].append(time.process_time() - began)
        found["evaluations"].append(said["evaluations"])
        found["objective"].append(said["objective"])
        if not said["converged"]:
            found["not converged"].append(number)
    return found


if __name__ == "__main__":
    for name in sys.argv[2:] or KINDS:
        print(json.dumps(fits(name, int(sys.argv[1]) if len(sys.argv) > 1 else 200)), flush=True)
