"""Robust regression: Student-t fits, variational and by Laplace,
beside the plain Gaussian fit and GPy's Student-t Laplace.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.environments import interpreter
from benchmarks.reference import regression
from benchmarks.workers import settings

ROOT = Path(__file__).parent.parent
GAUSSIAN, VARIATIONAL, LAPLACE = (
    "Gaussian noise, exact",
    "Student-t noise, variational",
    "Student-t noise, Laplace",
)
PATIENCE = 3600  # seconds for all fits of a library
FOUR = "Student-t noise of 4 degrees of freedom, Laplace"


def robust(run: Any, outcome: Any, check: Callable) -> None:
    """Whole ARD fits at n = 1000, d = 8, one case in twenty an outlier, from length-scales 1, variance 1 and
    noise variance 0.1.

    One process for each library fits its models in turn, as often as there are repeats; the plain fit sees
    the same data. GPy's degrees of freedom are held at 4, and Mercer's too where the two are compared.
    """
    n = 150 if run.quick else 1000
    path = run.folder / f"outliers-{n}.npz"
    X, y = contaminated(n)
    np.savez(path, X=X, y=y)
    found = {}
    for library in ("mercer", *run.beside("robust", outcome.errors)):
        run.say(f"robust fits by {library}")
        answer = answered(library, {"data": str(path), "repeats": run.repeats})
        if "error" in answer:
            outcome.errors.append(f"robust fits by {library}: {answer['error']}")
        for what, fits in answer.get("fits", {}).items():
            found[library, what] = min(f["seconds"] for f in fits)
            seconds = [f["seconds"] for f in fits]
            outcome.rows.append(
                {
                    "what": f"{what}, n = {n}, d = 8",
                    "library": library,
                    "first s": seconds[0],
                    "best s": min(seconds),
                    "median s": median(seconds),
                    "evaluations": fits[-1]["evaluations"],
                    "evidence": fits[-1]["evidence"],
                }
            )
    for what in (VARIATIONAL, LAPLACE):
        if ("mercer", what) in found:
            ratio = found["mercer", what] / found["mercer", GAUSSIAN]
            outcome.checks.append(
                check(f"{what}, times the Gaussian fit", ratio, most=None if run.quick else 3.0)
            )
    if ("gpy", FOUR) in found and ("mercer", FOUR) in found:
        ratio = found["gpy", FOUR] / found["mercer", FOUR]
        outcome.checks.append(
            check("Student-t Laplace, times faster than GPy", ratio, least=None if run.quick else 3.0)
        )
        ours, theirs = (
            next(r for r in outcome.rows if r["library"] == name and r["what"].startswith(FOUR))
            for name in ("mercer", "gpy")
        )
        outcome.checks.append(
            check("the same, nats below GPy's evidence", theirs["evidence"] - ours["evidence"], most=0.1)
        )
    outcome.notes.append(
        "every twentieth target is moved by a normal draw of ten standard deviations of y; evidences are "
        "each method's own"
    )


def contaminated(n: int) -> tuple[np.ndarray, np.ndarray]:
    """The regression problem of the other tasks with outliers."""
    X, y = regression(n)
    rng = np.random.default_rng(20)
    rows = rng.choice(n, n // 20, replace=False)
    y[rows] += 10.0 * y.std() * rng.standard_normal(rows.size)
    return X, y


def answered(library: str, request: dict[str, Any]) -> dict[str, Any]:
    """What the library's process says; {"error": ...} where it fails."""
    python = sys.executable if library == "mercer" else str(interpreter(library))
    command = [python, "-m", "benchmarks.robust", library, json.dumps(request)]
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=settings(), capture_output=True, text=True, timeout=PATIENCE
        )
    except subprocess.TimeoutExpired:
        return {"error": f"stopped after {PATIENCE} s"}
    return (
        json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else {"error": done.stderr[-1500:]}
    )


# ------------------------------------------------------------------------------------------------- in the
# process of a library


def by_mercer(X: np.ndarray, y: np.ndarray) -> dict[str, Callable[[], dict[str, Any]]]:
    import mercer as mc

    def one(likelihood: Any, inference: str) -> Callable[[], dict[str, Any]]:
        def fit() -> dict[str, Any]:
            model = mc.Model(mc.GP(mc.kernels.SE(np.ones(X.shape[1]))), likelihood)
            found = mc.fit(model, X, y, inference=inference, progress=False)
            return {"evaluations": found.status.evaluations, "evidence": float(found.posterior.log_evidence)}

        return fit

    scale, dof, likelihoods = float(np.sqrt(0.1)), mc.param(4.0, bounds=(1.0, 300.0)), mc.likelihoods
    return {
        GAUSSIAN: one(likelihoods.Gaussian(0.1), "exact"),
        VARIATIONAL: one(likelihoods.StudentT(scale, dof), "scale-mixture"),
        LAPLACE: one(likelihoods.StudentT(scale, dof), "laplace"),
        FOUR: one(likelihoods.StudentT(scale, mc.fixed(4.0)), "laplace"),
    }


def by_gpy(X: np.ndarray, y: np.ndarray) -> dict[str, Callable[[], dict[str, Any]]]:
    import GPy

    def fit() -> dict[str, Any]:
        d = X.shape[1]
        kernel = GPy.kern.RBF(d, variance=1.0, lengthscale=np.ones(d), ARD=True)
        likelihood = GPy.likelihoods.StudentT(deg_free=4.0, sigma2=0.1)
        rule = GPy.inference.latent_function_inference.Laplace()
        model = GPy.core.GP(X, y[:, None], kernel, likelihood, inference_method=rule)
        model.likelihood.v.fix()
        found = model.optimize("lbfgsb", max_iters=1000)
        return {"evaluations": int(found.funct_eval), "evidence": float(model.log_likelihood())}

    return {FOUR: fit}


def main(library: str, data: str, repeats: int) -> dict[str, Any]:
    """Every fit of a library, in turn."""
    arrays = np.load(data)
    fits = {"mercer": by_mercer, "gpy": by_gpy}[library](arrays["X"], arrays["y"])
    out: dict[str, list[dict]] = {what: [] for what in fits}
    for _ in range(repeats):
        for what, fit in fits.items():
            start = time.perf_counter()
            answer = fit()
            out[what].append({"seconds": time.perf_counter() - start} | answer)
    return {"fits": out}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], **json.loads(sys.argv[2]))))
