"""What solver="auto" picks: ten problems from n = 100 to a million, every candidate timed, promises beside
what is measured; and five real tables, learned by it and by some of its candidates.
"""

from __future__ import annotations

import dataclasses
import os
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import mercer as mc
from mercer import kernels as k
from mercer.inference import by_name as inference
from mercer.inputs import as_inputs
from mercer.learning.objectives import by_name as objective
from mercer.learning.problem import LearningProblem
from mercer.solvers import VFE, Auto, Dense, SubsetOfData, Vecchia
from mercer.solvers.auto import name
from mercer.solvers.lowrank import AbstractLowRank

SKIP = 20.0  # candidates predicted to take so many times the best prediction are not timed
EXACT = 5000  # data for which the exact evidence is computed where no candidate has it

ITSELF = "itself, exact"


def auto(run: Any, outcome: Any, check: Callable) -> None:
    """The pick's time over the best at the accuracy it promised,
    and the loss it promised over the loss it has.
    """
    for case in PROBLEMS:
        if run.quick and case.n > 3000:
            continue
        run.say(f"{case.label}, n = {case.n:,}")
        timed = list(measured(case, 1 if run.quick else 3))
        pick = timed[0]
        best = min(timed, key=lambda t: t.seconds)
        reference, kind = truth(case, timed)
        for t in sorted(timed, key=lambda t: t.seconds):
            outcome.rows.append(
                {
                    "problem": case.label,
                    "n": case.n,
                    "solver": ("* " if t is pick else "") + t.name,
                    "s": t.seconds,
                    "predicted s": t.predicted,
                    "promised": t.promised,
                    "measured": abs(t.evidence - reference) / case.n,
                    "against": kind,
                }
            )
        label = f"{case.label}, n = {case.n:,}, {pick.name}"
        outcome.checks.append(
            check(f"{label}: times the best", pick.seconds / best.seconds, most=None if run.quick else 2.0)
        )
        if kind != ITSELF:
            loss = abs(pick.evidence - reference) / case.n
            outcome.checks.append(
                check(f"{label}: nats per datum lost", loss, most=Auto.tolerance if pick.promised else 1e-6)
            )
    outcome.notes.append(
        f"one value and gradient after compilation, best of three; candidates predicted {SKIP:g} times "
        "slower than the best "
        "prediction were not timed; losses in nats per datum"
    )


@dataclass(frozen=True)
class Case:
    """A kernel and a noise variance for n data; `inputs` draws X;
    y has length-scale `reach` and is as rough as Matern `nu`.
    """

    label: str
    n: int
    kernel: Any
    noise: float
    inputs: Callable[[int, np.random.Generator], np.ndarray]
    nu: float = np.inf
    reach: float = 1.0

    @property
    def model(self) -> mc.Model:
        return mc.Model(mc.GP(self.kernel), mc.likelihoods.Gaussian(self.noise))

    def evidence(self, solver: Any) -> float:
        """Of the same data by another solver."""
        return self.model.condition(*self.data(), solver=solver).log_evidence

    def data(self) -> tuple[np.ndarray, np.ndarray]:
        """X, and y as 200 waves with the spectral density of a Matern process, plus noise."""
        rng = np.random.default_rng(self.n)
        X = self.inputs(self.n, rng)
        heavy = np.sqrt(rng.chisquare(2 * self.nu, (200, 1)) / (2 * self.nu)) if np.isfinite(self.nu) else 1.0
        omega, phase = rng.normal(size=(200, X.shape[1])) / heavy / self.reach, rng.uniform(0, 2 * np.pi, 200)
        f = np.concatenate(
            [np.cos(part @ omega.T + phase).sum(1) for part in np.array_split(X, -(-self.n // 20_000))]
        )
        return X, 0.1 * f + np.sqrt(self.noise) * rng.normal(size=self.n)


def cube(d: int, side: float) -> Callable[[int, np.random.Generator], np.ndarray]:
    """Uniform inputs in a cube."""
    return lambda n, rng: rng.uniform(0, side, (n, d))


def series(n: int, rng: np.random.Generator) -> np.ndarray:
    """Times with gaps."""
    return np.cumsum(rng.exponential(size=n))[:, None]


def grid(n: int, rng: np.random.Generator) -> np.ndarray:
    """A square of points."""
    side = np.arange(round(n**0.5), dtype=float)
    return np.stack(np.meshgrid(side, side), -1).reshape(-1, 2)


PROBLEMS = (
    Case("SE, d = 1", 100, k.SE(1.0), 0.1, cube(1, 10)),
    Case("SE, d = 8", 500, k.SE([2.0] * 8), 0.1, cube(8, 4), reach=2.0),
    Case("Matern 3/2 series", 2000, k.Matern(5.0, nu=1.5), 0.1, series, nu=1.5, reach=5.0),
    Case("Matern 3/2, d = 2", 5000, k.Matern([1.0] * 2, nu=1.5), 0.1, cube(2, 10), nu=1.5),
    Case("SE on a grid", 10_000, k.SE([3.0] * 2), 0.1, grid, reach=3.0),
    Case("SE, d = 8", 20_000, k.SE([8.0] * 8), 0.1, cube(8, 4), reach=8.0),
    Case(
        "compact support, d = 2",
        50_000,
        k.PiecewisePolynomial(1.0, q=1),
        0.01,
        cube(2, 120),
        nu=1.5,
        reach=0.4,
    ),
    Case("Matern 5/2, d = 3", 100_000, k.Matern([3.0] * 3, nu=2.5), 0.1, cube(3, 4), nu=2.5, reach=3.0),
    Case("Matern 1/2, d = 2", 300_000, k.Matern(1.0, nu=0.5), 0.01, cube(2, 30), nu=0.5),
    Case("SE, d = 3", 1_000_000, k.SE([3.0] * 3), 0.1, cube(3, 4), reach=3.0),
)


@dataclass
class Timed:
    """A candidate: what it promised and what was measured."""

    solver: Any
    predicted: float
    promised: float
    seconds: float
    evidence: float

    @property
    def name(self) -> str:
        return name(self.solver)


def measured(case: Case, repeats: int) -> Iterator[Timed]:
    """The pick, then every other candidate that is affordable and accurate enough, in turn."""
    X, y = case.data()
    inputs = as_inputs(X)
    model = case.model.bind(inputs)
    rule = inference(None, model.likelihood)
    chooser = Auto()
    choice = chooser.choose(model.gp, X, case.noise)
    rivals = [
        p
        for p in chooser.affordable(choice.proposals)
        if p.error <= chooser.tolerance and p is not choice.best
    ]
    for proposal in [choice.best, *(p for p in rivals if p.seconds <= SKIP * choice.best.seconds)]:
        solver = proposal.solver.prepare(model.gp, X, y, case.noise)
        problem = LearningProblem(model, [(inputs, y)], rule, solver, objective("evidence"))
        seconds = []
        for _ in range(repeats + 1):
            began = time.perf_counter()
            value, _, _ = problem.value_and_gradient(problem.flat.vector)
            seconds.append(time.perf_counter() - began)
        yield Timed(proposal.solver, proposal.seconds, proposal.error, min(seconds[1:]), value)


def truth(case: Case, timed: list[Timed]) -> tuple[float, str]:
    """The exact evidence, or where nobody has it that of the pick's kind with several times its size,
    and what it is.
    """
    pick = timed[0].solver
    if case.n <= EXACT and not isinstance(pick, Dense):
        return case.evidence(Dense()), "exact (Dense)"
    if timed[0].promised == 0.0:
        return timed[0].evidence, ITSELF
    if isinstance(pick, VFE):
        return case.evidence(VFE(4 * pick.m)), f"bound of {name(VFE(4 * pick.m))}"
    return case.evidence(Vecchia(3 * pick.neighbours)), f"{name(Vecchia(3 * pick.neighbours))}"


# ------------------------------------------------------------------------------------------------ real tables

TABLES = {"power": 9568, "kin8nm": 8192, "sarcos": 10_000, "kin40k": 10_000, "protein": 20_000}
PARTS = {"kin8nm": ["all"], "sarcos": ["train"], "kin40k": ["train", "test"], "protein": ["all"]}
TESTED = 1000  # rows that judge
RIVALS = (VFE(512), Vecchia(30), SubsetOfData(4000))


def tables(run: Any, outcome: Any, check: Callable) -> None:
    """Fits of real tables by "auto" and by some of its candidates alone: what each predicts of rows that
    none has seen, and what the choice took beside the fit by what was chosen.
    """
    if run.quick or not os.environ.get("MERCER_DATA"):
        outcome.notes.append("real tables are read from MERCER_DATA, in full runs")
        return
    for table, rows in TABLES.items():
        X, y, Xs, ys = divided(table, rows)
        run.say(f"{table}, n = {len(y):,}, d = {X.shape[1]}")
        pick = fitted(Auto(say=False), X, y, Xs, ys)
        alone = [fitted(solver, X, y, Xs, ys) for solver in distinct(pick.solver, *RIVALS)]
        best = min(fit.nlpd for fit in alone)
        for label, fit in [("* auto", pick), *((name(fit.solver), fit) for fit in alone)]:
            outcome.rows.append(
                {
                    "problem": table,
                    "n": len(y),
                    "solver": label,
                    "s": fit.seconds,
                    "NLPD": fit.nlpd,
                    "evaluations": fit.evaluations,
                }
            )
        outcome.notes.append(f"{table}: {pick.why}")
        label = f"{table}, n = {len(y):,}, {name(pick.solver)}"
        outcome.checks += [
            check(f"{label}: nats per datum behind the best alone", pick.nlpd - best, most=0.05),
            check(f"{label}: times the fit by it alone", pick.seconds / alone[0].seconds),
        ]


def divided(table: str, rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """X, y to learn from, then X, y to predict: at random, the same everywhere."""
    with np.load(Path(os.environ["MERCER_DATA"]) / "tables_for_defaults.npz") as z:
        if f"{table}_X" in z.files:
            X, y = z[f"{table}_X"], z[f"{table}_y"]
        else:
            parts = [mc.datasets.load(table, part=part) for part in PARTS[table]]
            X, y = np.concatenate([p.X for p in parts]), np.concatenate([p.y for p in parts])
    order = np.random.default_rng(0).permutation(len(y))[:rows]
    test, train = order[:TESTED], order[TESTED:]
    return X[train], y[train], X[test], y[test]


def distinct(*solvers: Any) -> list[Any]:
    """Without those of a name that came before."""
    found: dict[str, Any] = {}
    for solver in solvers:
        found.setdefault(name(solver), solver)
    return list(found.values())


@dataclass
class Fitted:
    """A fit of the default model: NLPD in nats with y in units of its standard deviation."""

    solver: Any
    seconds: float
    nlpd: float
    evaluations: int
    why: str


def fitted(solver: Any, X: np.ndarray, y: np.ndarray, Xs: np.ndarray, ys: np.ndarray) -> Fitted:
    """The default model learned and judged."""
    bare = dataclasses.replace(solver, inducing=None) if isinstance(solver, AbstractLowRank) else solver
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = mc.GPRegressor(solver=bare, progress=False).fit(X, y)
    seconds = time.process_time() - began
    nlpd = -float(np.mean(model.log_density(Xs, ys))) - float(np.log(np.std(y)))
    chosen = model.posterior_.solver
    return Fitted(chosen, seconds, nlpd, model.fit_.status.evaluations, chosen.why)
