"""Classification beside its peers: a Laplace fit (scikit-learn), one EP run (GPy),
and softmax against its own LAPACK count.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np

from benchmarks.reference import classification, laplace_evidence
from benchmarks.workers import Worker


def laplace(run: Any, outcome: Any, check: Callable) -> None:
    """A whole ARD fit of a binary logit model by Laplace, by Mercer and scikit-learn in turn."""
    n = 150 if run.quick else 1000
    path = run.folder / f"classification-{n}.npz"
    X, y = classification(n)
    np.savez(path, X=X, y=y)
    answers = turns(run, outcome, "laplace_fit", data=str(path))
    for name, found in answers.items():
        reached = laplace_evidence(X, y, found[-1]["lengthscale"], found[-1]["variance"])
        outcome.rows.append(row(f"Laplace fit, n = {n}, d = 8", name, found, reached))
    if len(answers) == 2:
        ours, theirs = outcome.rows[-2:]
        outcome.checks.append(
            check(
                "Laplace fit, times faster than scikit-learn",
                theirs["best s"] / ours["best s"],
                least=None if run.quick else 25.0,
            )
        )
        outcome.checks.append(
            check(
                "Laplace fit, nats below scikit-learn's evidence",
                theirs["evidence"] - ours["evidence"],
                most=0.05,
            )
        )


def ep(run: Any, outcome: Any, check: Callable) -> None:
    """EP at fixed hyperparameters, n = 767, d = 256, probit, by Mercer and GPy in turn."""
    n = 100 if run.quick else 767
    path = run.folder / f"images-{n}.npz"
    rng = np.random.default_rng(0)
    basis = rng.normal(size=(20, 256))
    Z = rng.normal(size=(n, 20))
    X = np.tanh(0.5 * Z @ basis / np.sqrt(20) + 0.2 * rng.normal(size=(n, 256)))
    y = np.where(Z[:, 0] + 0.5 * np.sin(2 * Z[:, 1]) + 0.2 * rng.normal(size=n) > 0, 1.0, -1.0)
    np.savez(path, X=X, y=y)
    answers = turns(run, outcome, "ep", data=str(path), lengthscale=8.0, variance=30.0)
    for name, found in answers.items():
        outcome.rows.append(row(f"EP, n = {n}, d = 256", name, found, found[-1]["evidence"]))
    if len(answers) == 2:
        ours, theirs = outcome.rows[-2:]
        outcome.checks.append(
            check(
                "EP, times faster than GPy",
                theirs["best s"] / ours["best s"],
                least=None if run.quick else 3.0,
            )
        )
        outcome.checks.append(
            check(
                "EP, difference of the evidence from GPy's",
                abs(theirs["evidence"] - ours["evidence"]),
                most=1e-2,
            )
        )


def softmax(run: Any, outcome: Any, check: Callable) -> None:
    """Softmax Laplace at fixed hyperparameters beside as many bare potrf and potri;
    accuracy and log loss beside one-vs-rest.
    """
    n = 200 if run.quick else 1000
    answers = turns(run, outcome, "digits", n=n)
    for name, found in answers.items():
        outcome.rows.append(row(f"ten digits (8 x 8), n = {n}", name, found, found[-1]["evidence"]))
        outcome.notes.append(
            f"ten digits, {name}: accuracy {found[-1]['accuracy']:.4f}, log loss "
            f"{found[-1]['log_loss']:.4f} on 797 others"
        )
    ours = answers["mercer"]
    ratio = min(a["seconds"] for a in ours) / min(a["lapack"] for a in ours)
    outcome.checks.append(
        check(
            f"softmax evidence, times its own potrf + potri ({ours[-1]['steps']} Newton steps)",
            ratio,
            most=None if run.quick else 1.5,
        )
    )
    whole = min(a["with_gradient"] for a in ours) / min(a["lapack"] for a in ours)
    outcome.checks.append(
        check("softmax evidence and gradient, the same", whole, most=None if run.quick else 2.0)
    )
    outcome.checks.append(
        check(
            "softmax memory / (C n^2 doubles)",
            ours[-1]["bytes"] / (80.0 * n**2),
            most=None if run.quick else 4.0,
        )
    )


def row(what: str, library: str, found: list[dict], evidence: float) -> dict[str, Any]:
    """A line of the table: best and median over the turns, and the log evidence that was reached."""
    seconds = [answer["seconds"] for answer in found]
    return {
        "what": what,
        "library": library,
        "best s": min(seconds),
        "median s": median(seconds),
        "evidence": evidence,
    }


def turns(run: Any, outcome: Any, task: str, **request: Any) -> dict[str, list[dict]]:
    """Answers of Mercer and of the peers asked for that take part in the task, taken in turn."""
    names = ["mercer", *run.beside(task, outcome.errors)]
    out: dict[str, list[dict]] = {name: [] for name in names}
    workers = {name: Worker(name) for name in names}
    try:
        for turn in range(run.repeats):
            for name, worker in workers.items():
                run.say(f"{task} by {name}, turn {turn + 1} of {run.repeats}")
                out[name].append(worker.ask(task, **request))
    finally:
        for worker in workers.values():
            worker.__exit__()
    return out
