"""What is measured: the tasks, each from a :class:`Run` to an :class:`Outcome` with a table and its
targets.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks import (
    auto,
    classify,
    cokriging,
    em,
    evaluations,
    first,
    large,
    markov,
    outputs,
    recursions,
    robust,
    sampling,
    uncertain,
)
from benchmarks.environments import PEERS, installed
from benchmarks.reference import log_evidence, regression
from benchmarks.workers import Worker, WorkerError, fresh

PREDICTION_BUDGET = 512 * 2**20
"""Bytes that predicting a million rows may add to the resident set, its inputs and results not counted."""


@dataclass(frozen=True)
class Run:
    """How to run: full or quick, beside which peers, how often, and where the data go."""

    folder: Path
    peers: tuple[str, ...] = ()
    quick: bool = False
    repeats: int = 3
    say: Callable[[str], None] = print

    def beside(self, task: str, errors: list[str]) -> list[str]:
        """The peers asked for that take part in a task. One without its environment is an error; one that has
        no such task is not.
        """
        able = [name for name in self.peers if task in PEERS[name].tasks]
        errors += [
            f"{name}: no environment; run `python -m benchmarks setup --peers {name}`"
            for name in able
            if not installed(name)
        ]
        return [name for name in able if installed(name)]

    def data(self, n: int) -> str:
        """The path of the regression problem with n rows, written on first use."""
        path = self.folder / f"regression-{n}.npz"
        if not path.exists():
            X, y = regression(n)
            np.savez(path, X=X, y=y)
        return str(path)


@dataclass(frozen=True)
class Check:
    """A figure with its target: ``Check("n = 1000, times LAPACK", 2.0, most=2.2)``."""

    label: str
    value: float
    most: float | None = None
    least: float | None = None

    @property
    def met(self) -> bool:
        """Whether the target is kept."""
        return (self.most is None or self.value <= self.most) and (
            self.least is None or self.value >= self.least
        )


@dataclass
class Outcome:
    """A task's table, its targets, what else to say, what went wrong, and the raw answers."""

    title: str
    rows: list[dict[str, Any]] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    raw: dict[str, Any] = field(default_factory=dict)


def evidence(run: Run) -> Outcome:
    """Evidence and gradient, ARD squared exponential, d = 8, beside bare LAPACK; memory; compilations."""
    outcome = Outcome("Evidence + gradient, ARD SE, d = 8, beside bare LAPACK potrf + potri")
    targets = (
        {200: None}
        if run.quick
        else {50: None, 100: None, 250: None, 500: None, 1000: 1.6, 1100: 2.8, 4000: 1.4}
    )
    for n, most in targets.items():
        run.say(f"evidence + gradient, n = {n}")
        data = run.data(n)
        with Worker("mercer") as mercer:
            answer = mercer.ask("evidence", data=data, repeats=2 if run.quick else (15 if n < 2000 else 5))
        theta = {name: answer[name] for name in ("lengthscale", "variance", "noise_variance")}
        X, y = regression(n)
        ratio = min(answer["seconds"]) / min(answer["lapack"])
        error = abs(answer["value"] - log_evidence(X, y, **theta))
        outcome.rows.append(
            {
                "n": n,
                "first call s": answer["first"],
                "best s": min(answer["seconds"]),
                "median s": median(answer["seconds"]),
                "LAPACK best s": min(answer["lapack"]),
                "ratio": ratio,
                "error of value": error,
            }
        )
        outcome.raw[str(n)] = answer
        outcome.checks.append(Check(f"n = {n}: times LAPACK", ratio, most=most))
        outcome.checks.append(Check(f"n = {n}: error of the value, nats", error, most=1e-6))
    largest = max(targets)
    run.say(f"peak memory, n = {largest}")
    with Worker("mercer") as mercer:
        memory = mercer.ask("evidence_memory", data=run.data(largest))
    outcome.raw["memory"] = memory
    most = None if run.quick else 1.6
    outcome.checks.append(
        Check(f"n = {largest}: peak memory / n^2 doubles", memory["bytes"] / memory["square"], most)
    )
    run.say("compilations as n changes")
    sizes = [150, 151, 180, 200] if run.quick else [1000, 1001, 1100, 1537, 2300]
    with Worker("mercer") as mercer:
        compiled = mercer.ask("evidence_compilations", data=run.data(max(sizes)), sizes=sizes)
    outcome.raw["compilations"] = compiled
    label = f"compilations added by n = {', '.join(map(str, sizes[1:]))} after n = {sizes[0]}"
    outcome.checks.append(Check(label, sum(compiled["counts"][1:]), most=0))
    return outcome


def fit(run: Run) -> Outcome:
    """A whole ARD fit with learned noise by every library from one start, in turn;
    evidences recomputed by us.
    """
    n = 200 if run.quick else 1500
    outcome = Outcome(f"ARD SE fit with learned noise, n = {n}, d = 8, three informative inputs")
    X, y = regression(n)
    answers: dict[str, list[dict]] = {}
    with ExitStack() as stack:
        names = ["mercer", *run.beside("fit", outcome.errors)]
        workers = {name: stack.enter_context(Worker(name)) for name in names}
        for turn in range(run.repeats):
            for name in list(workers):
                run.say(f"fit by {name}, turn {turn + 1} of {run.repeats}")
                try:
                    answers.setdefault(name, []).append(workers[name].ask("fit", data=run.data(n)))
                except WorkerError as error:
                    outcome.errors.append(str(error))
                    del workers[name]
    for name, turns in answers.items():
        if not turns:
            continue
        last = turns[-1]
        seconds = [turn["seconds"] for turn in turns]
        reached = log_evidence(X, y, last["lengthscale"], last["variance"], last["noise_variance"])
        outcome.raw[name] = {"turns": turns, "log_evidence": reached, "best": min(seconds)}
        outcome.notes.append(
            ", ".join(f"{package} {version}" for package, version in last["versions"].items())
        )
        outcome.rows.append(
            {
                "library": name,
                "first s": seconds[0],
                "best s": min(seconds),
                "median s": median(seconds),
                "evals": last["evaluations"],
                "evidence": reached,
            }
        )
    best = max((row["evidence"] for row in outcome.rows), default=np.nan)
    ours = outcome.raw.get("mercer")
    for row in outcome.rows:
        row["nats below"] = best - row["evidence"]
        row["ratio"] = row["best s"] / ours["best"] if ours else None
        if ours and row["library"] != "mercer":
            least = None if run.quick else 10.0 if row["library"] == "sklearn" else 4.0
            outcome.checks.append(Check(f"times faster than {row['library']}", row["ratio"], least=least))
    if ours:
        outcome.checks.append(Check("nats below the best evidence", best - ours["log_evidence"], most=0.1))
    outcome.rows += [{"library": name} for name in run.peers if "fit" not in PEERS[name].tasks]
    return outcome


def small(run: Run) -> Outcome:
    """Small data: start-up to prediction in a fresh process, compilations while data grow, a warm fit."""
    n, stop = (30, 14) if run.quick else (100, 60)
    outcome = Outcome(f"Small data: GPRegressor().fit(X, y) and predict, n = {n}")
    bare = "import jax, equinox, sklearn.base"
    code = (
        f"import numpy as np; data = np.load({run.data(n)!r}); X, y = data['X'], data['y']; "
        "import mercer as mc; mc.GPRegressor().fit(X, y).predict(X)"
    )
    run.say("fresh processes")
    fresh(code)
    ours, imports = interleaved(run, 1 if run.quick else 5, code, bare)
    run.say("a warm fit, and growing data")
    with Worker("mercer") as mercer:
        warm = mercer.ask("small", data=run.data(n), repeats=3 if run.quick else 20)
    with Worker("mercer") as mercer:
        grown = mercer.ask("growth", data=run.data(max(n, stop)), start=10, stop=stop)
    outcome.raw |= {"fresh": ours, "imports": imports, "warm": warm, "growth": grown}
    outcome.rows = [
        {"what": "fresh process, fit and predict", "best s": min(ours), "median s": median(ours)},
        {"what": "fresh process, bare imports", "best s": min(imports), "median s": median(imports)},
        {"what": "warm fit", "best s": min(warm["seconds"]), "median s": warm["median"]},
    ]
    outcome.checks = [
        Check("fresh fit and predict minus bare imports, s", median(ours) - median(imports), most=1.0),
        Check(  # tiles of 32 rows, then of 64
            f"compilations added by n = 11..{stop} after {grown['first']} at n = 10",
            grown["further"],
            most=grown["first"],
        ),
        Check("warm fit, ms", 1000 * warm["median"], most=40.0),
    ]
    return outcome


def imports(run: Run) -> Outcome:
    """Import time in fresh processes, in turn."""
    outcome = Outcome("Import time in fresh processes")
    ours = "import mercer; from mercer import kernels; kernels.SE()"
    bare = "import jax, equinox"
    run.say("imports")
    fresh(ours)
    mercer, base = interleaved(run, 2 if run.quick else 9, ours, bare)
    outcome.raw = {"mercer": mercer, "bare": base}
    outcome.rows = [
        {"what": ours, "best s": min(mercer), "median s": median(mercer)},
        {"what": bare, "best s": min(base), "median s": median(base)},
    ]
    outcome.checks = [Check("times import jax, equinox", median(mercer) / median(base), most=1.15)]
    return outcome


def predict(run: Run) -> Outcome:
    """Mean and variance at a million rows from n = 2000 within a memory budget."""
    n, rows = (200, 20_000) if run.quick else (2000, 1_000_000)
    outcome = Outcome(f"Mean and variance at {rows:,} rows from n = {n}, d = 8")
    run.say(f"prediction of {rows:,} rows")
    with Worker("mercer") as mercer:
        answer = mercer.ask("predict", data=run.data(n), rows=rows)
    outcome.raw = answer
    outcome.rows = [{"rows": rows, "seconds": answer["seconds"], "rows per s": rows / answer["seconds"]}]
    mebibytes = answer["bytes"] / 2**20
    outcome.checks = [
        Check(
            "times its own triangular solves",
            answer["seconds"] / answer["bare"],
            most=None if run.quick else 1.3,
        ),
        Check("memory beyond inputs and results, MiB", mebibytes, most=PREDICTION_BUDGET / 2**20),
    ]
    if not answer["finite"]:
        outcome.errors.append("some predictions are not finite or have a negative variance")
    return outcome


def together(title: str, *parts: Callable[[Run, Outcome, type[Check]], None]) -> Callable[[Run], Outcome]:
    """The task whose parts, from modules of their own, add to one outcome."""

    def task(run: Run) -> Outcome:
        outcome = Outcome(title)
        for part in parts:
            part(run, outcome, Check)
        return outcome

    return task


def interleaved(run: Run, repeats: int, *codes: str) -> list[list[float]]:
    """Seconds of each code in fresh processes, taken in turn: A B A B ..."""
    turns = [[fresh(code) for code in codes] for _ in range(repeats)]
    return [list(seconds) for seconds in zip(*turns, strict=True)]


TASKS: dict[str, Callable[[Run], Outcome]] = {
    "evidence": evidence,
    "fit": fit,
    "evaluations": together("Evaluations of a default fit", evaluations.evaluations),
    "small": small,
    "first": together("First calls, n = 100", first.first),
    "import": imports,
    "predict": predict,
    "classify": together("Classification", classify.laplace, classify.ep, classify.softmax),
    "sampling": together("Sampling", sampling.sampling, sampling.hyperparameters, sampling.draws_of_y),
    "large": together("Large data", large.bound, large.interpolated, large.batches, large.exact),
    "auto": together('What solver="auto" picks', auto.auto, auto.tables),
    "em": together("EM, per iteration, one thread", em.em),
    "robust": together("Robust regression", robust.robust),
    "markov": together("Time series", markov.markov),
    "recursions": together("Compiled loops", recursions.first_calls, recursions.strings),
    "cokriging": together("Cokriging of metals along the Meuse", cokriging.cokriging),
    "outputs": together("Three outputs of 1,000 common rows, one thread", outputs.outputs),
    "uncertain": together("Uncertain inputs, n = 200, d = 6, one thread", uncertain.uncertain),
}
