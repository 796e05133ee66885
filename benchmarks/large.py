"""Large data beside peers: the VFE bound (GPyTorch's and GPflow's SGPR, and its own bare products), batches,
exact n = 10,000.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.classify import row, turns
from benchmarks.reference import regression
from benchmarks.workers import Worker

LARGEST = 40_000  # data whose matrix is 12.8 GB: extrapolated to, not measured


def bound(run: Any, outcome: Any, check: Callable) -> None:
    """The bound with m inducing inputs and its gradient,
    hyperparameters and inducing inputs the same for all.
    """
    n, m = (2000, 64) if run.quick else (50_000, 512)
    path = run.folder / f"large-{n}.npz"
    X, y = regression(n)
    np.savez(path, X=X, y=y, Z=X[np.random.default_rng(0).choice(n, m, replace=False)])
    answers = turns(run, outcome, "sgpr", data=str(path), repeats=2 if run.quick else 3)
    best = {}
    for name, found in answers.items():
        best[name] = min(min(f["seconds"]) for f in found)
        each = [{"seconds": s} for f in found for s in f["seconds"]]
        outcome.rows.append(
            row(f"VFE bound and gradient, n = {n}, m = {m}", name, each, found[-1]["evidence"])
        )
    bare = min(min(f["bare"]) for f in answers["mercer"])
    outcome.checks.append(
        check("VFE, times its bare products", best["mercer"] / bare, most=None if run.quick else 2.0)
    )
    for name, least in (("gpytorch", 3.0), ("gpflow", 1.0)):
        if name in best:
            ratio = best[name] / best["mercer"]
            outcome.checks.append(
                check(f"VFE, times faster than {name}'s SGPR", ratio, least=None if run.quick else least)
            )
            theirs, ours = answers[name][-1]["evidence"], answers["mercer"][-1]["evidence"]
            outcome.checks.append(
                check(f"VFE, relative difference from {name}'s bound", abs(theirs / ours - 1.0), most=1e-2)
            )


def interpolated(run: Any, outcome: Any, check: Callable) -> None:
    """Evidence and gradient by KISS-GP in two columns, on the same grid for all, each by its own settings."""
    n = 2000 if run.quick else 100_000
    path = run.folder / f"kiss-{n}.npz"
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 1.0, (n, 2))
    y = np.sin(12.0 * X[:, 0]) * np.cos(7.0 * X[:, 1]) + 0.3 * rng.normal(size=n)
    np.savez(path, X=X, y=y)
    settings = dict(grid=24 if run.quick else 100, lengthscale=0.2, noise_variance=0.1)
    answers = turns(run, outcome, "kiss", data=str(path), **settings, repeats=2)
    best = {}
    for name, found in answers.items():
        best[name] = min(min(f["seconds"]) for f in found)
        each = [{"seconds": s} for f in found for s in f["seconds"]]
        outcome.rows.append(row(f"KISS-GP value and gradient, n = {n}", name, each, found[-1]["evidence"]))
    if "gpytorch" in best:
        ratio = best["gpytorch"] / best["mercer"]
        least = None if run.quick else 1.0
        outcome.checks.append(check("KISS-GP, times faster than gpytorch's", ratio, least=least))


def batches(run: Any, outcome: Any, check: Callable) -> None:
    """Time until batches reach the NLPD on held-out protein data that GPyTorch has after 20 epochs."""
    folder = os.environ.get("MERCER_DATA")
    source = None if folder is None else Path(folder) / "uci_protein.npz"
    if source is None or not source.exists():
        outcome.notes.append("protein data: not in MERCER_DATA, batches left out")
        return
    arrays = np.load(source)
    X, y = np.asarray(arrays["X"], float), np.asarray(arrays["y"], float).ravel()
    rows = np.random.default_rng(0).permutation(len(y))[: 3000 if run.quick else None]
    X, y = X[rows], y[rows]
    X, y = (X - X.mean(0)) / X.std(0), (y - y.mean()) / y.std()
    cut = int(0.9 * len(y))
    path = run.folder / f"protein-{len(y)}.npz"
    np.savez(path, X=X[:cut], y=y[:cut], Xs=X[cut:], ys=y[cut:])
    settings = dict(m=32, batch=256, epochs=2) if run.quick else dict(m=512, batch=1024, epochs=20)
    answers = turns(run, outcome, "svgp", data=str(path), **settings)
    for name, found in answers.items():
        outcome.rows.append(
            row(
                f"SVGP, protein, m = {settings['m']} (evidence: held-out NLPD)",
                name,
                found,
                found[-1]["nlpd"],
            )
        )
    if len(answers) == 2:
        goal = min(f["nlpd"] for f in answers["gpytorch"])
        reached = [s for f in answers["mercer"] for s, nlpd in f["course"] if nlpd <= goal]
        theirs = min(f["seconds"] for f in answers["gpytorch"])
        value = min(reached) / theirs if reached else float("inf")
        outcome.checks.append(
            check("SVGP, time to GPyTorch's NLPD over its time", value, most=None if run.quick else 0.5)
        )


def exact(run: Any, outcome: Any, check: Callable) -> None:
    """Evidence and gradient at n = 10,000 over potrf + potri."""
    n = 300 if run.quick else 10_000
    with Worker("mercer") as mercer:
        run.say(f"exact evidence and gradient, n = {n}")
        answer = mercer.ask("evidence", data=run.data(n), repeats=1)
    ratio = min(answer["seconds"]) / min(answer["lapack"])
    each = [{"seconds": s} for s in answer["seconds"]]
    outcome.rows.append(row(f"exact evidence and gradient, n = {n}", "mercer", each, answer["value"]))
    outcome.checks.append(check(f"exact, n = {n}: times LAPACK", ratio, most=None if run.quick else 1.5))
    # LAPACK's flops grow with n^3, the kernel's tiles and their derivatives with n^2
    beyond = 1.0 + (ratio - 1.0) * n / LARGEST
    outcome.checks.append(
        check(f"the same at n = {LARGEST:,}, extrapolated by flops", beyond, most=None if run.quick else 1.3)
    )
