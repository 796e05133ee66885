"""Bayesian optimisation of seven functions, 50 evaluations each: mc.Optimiser beside BoTorch, Optuna and scikit-optimize.

Every method is told the same Sobol design of a seed, of 2 (d + 1) rows, and asks for the rest one at a time. Peers are an extra,
`pip install mercer[optimisation]`; what is not installed is left out. Runs are kept one a line, so that the experiment can be stopped and goes on.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import itertools
import pathlib
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import qmc

from experiments._table import table
from experiments.friedman_outliers import Scores

EVALUATIONS, ASKED = 50, 20
STAGES = (5, 10, 20)  # seeds: all problems have so many before any has more
Row = dict[str, Any]


# ------------------------------------------------------------------------------------------------- problems


@dataclass(frozen=True)
class Log:
    """A real column between two positive numbers, searched on the scale of its logarithm."""

    low: float
    high: float


@dataclass(frozen=True)
class Problem:
    """A function to be minimised.

    `space` has a (low, high), a `Log`, a range or a list of categories for each column; `value` is called by keyword;
    `optimum` is its least value where no `constraints` is above 0; `noise` is the standard deviation of what is observed.
    """

    space: dict[str, Any]
    value: Callable[..., float]
    optimum: float
    noise: float = 0.0
    constraints: tuple[Callable[..., float], ...] = ()

    def row(self, unit: Sequence[float]) -> Row:
        """The row of a point in the unit cube, of one number for each column."""
        row: Row = {}
        for (name, column), u in zip(self.space.items(), unit, strict=True):
            match column:
                case Log(low, high):
                    row[name] = float(low * (high / low) ** u)
                case (float(), float()):
                    row[name] = float(column[0] + (column[1] - column[0]) * u)
                case _:
                    row[name] = column[min(int(u * len(column)), len(column) - 1)]
        return row

    def unit(self, row: Row) -> list[float]:
        """A row in the unit cube: integers by their place from 0 to 1, a category by one column of zeros and ones for each."""
        units: list[float] = []
        for name, column in self.space.items():
            match column:
                case Log(low, high):
                    units.append(float(np.log(row[name] / low) / np.log(high / low)))
                case (float(), float()):
                    units.append((row[name] - column[0]) / (column[1] - column[0]))
                case range():
                    units.append(column.index(row[name]) / (len(column) - 1))
                case _:
                    units += [float(row[name] == choice) for choice in column]
        return units

    def design(self, seed: int, size: int | None = None) -> list[Row]:
        """The first rows of every method, 2 (d + 1) unless said: scrambled Sobol points."""
        d = len(self.space)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that their number is no power of two
            return [self.row(u) for u in qmc.Sobol(d, rng=seed).random(2 * (d + 1) if size is None else size)]


def branin(x1: float, x2: float) -> float:
    bowl = x2 - 5.1 / (4 * np.pi**2) * x1**2 + 5 / np.pi * x1 - 6
    return bowl**2 + 10 * (1 - 1 / (8 * np.pi)) * np.cos(x1) + 10


HARTMANN_A = np.array(
    [
        [10, 3, 17, 3.5, 1.7, 8],
        [0.05, 10, 17, 0.1, 8, 14],
        [3, 3.5, 1.7, 10, 17, 8],
        [17, 8, 0.05, 10, 0.1, 14],
    ]
)
HARTMANN_P = 1e-4 * np.array(
    [
        [1312, 1696, 5569, 124, 8283, 5886],
        [2329, 4135, 8307, 3736, 1004, 9991],
        [2348, 1451, 3522, 2883, 3047, 6650],
        [4047, 8828, 8732, 5743, 1091, 381],
    ]
)


def hartmann(**x: float) -> float:
    inner = (HARTMANN_A * (np.array(list(x.values())) - HARTMANN_P) ** 2).sum(1)
    return float(-np.array([1.0, 1.2, 3.0, 3.2]) @ np.exp(-inner))


def ackley(**x: float) -> float:
    v = np.array(list(x.values()))
    return float(
        20 - 20 * np.exp(-0.2 * np.sqrt((v**2).mean())) + np.e - np.exp(np.cos(2 * np.pi * v).mean())
    )


def rosenbrock(**x: float) -> float:
    v = np.array(list(x.values()))
    return float((100 * (v[1:] - v[:-1] ** 2) ** 2 + (1 - v[:-1]) ** 2).sum())


def camel(x1: float, x2: float) -> float:
    """The camel with six humps."""
    return (4 - 2.1 * x1**2 + x1**4 / 3) * x1**2 + x1 * x2 + 4 * (x2**2 - 1) * x2**2


def training(rate: float, depth: int, kind: str, share: float) -> float:
    """Looks like the error of something trained: each kind has its own best rate (which goes with the depth), depth and share; 0 at the best."""
    offset, best_rate, best_depth, best_share = {
        "a": (0.0, -2.5, 6, 0.7),
        "b": (0.08, -3.5, 3, 0.2),
        "c": (0.2, -2.0, 4, 0.5),
    }[kind]
    u = np.log10(rate) - best_rate + 0.15 * (depth - best_depth)
    v = share - best_share
    ripple = 0.05 * (1 - np.cos(3 * np.pi * u))
    return float(offset + 0.2 * u**2 + ripple + 0.02 * (depth - best_depth) ** 2 + v**2)


def _reals(d: int, low: float, high: float) -> dict[str, tuple[float, float]]:
    return {f"x{i + 1}": (low, high) for i in range(d)}


PROBLEMS = {
    "Branin": Problem({"x1": (-5.0, 10.0), "x2": (0.0, 15.0)}, branin, 0.39788735772973816),
    "Hartmann-6": Problem(_reals(6, 0.0, 1.0), hartmann, -3.3223680114155147),
    # the optimum of Ackley's is in the middle of its usual cube: a method that tries the middle would find it
    "Ackley-5": Problem(_reals(5, -5.0, 10.0), ackley, 0.0),
    "Rosenbrock-4": Problem(_reals(4, -5.0, 10.0), rosenbrock, 0.0),
    "camel, noisy": Problem({"x1": (-2.0, 2.0), "x2": (-1.0, 1.0)}, camel, -1.0316284534898774, noise=0.3),
    "mixed columns": Problem(
        {"rate": Log(1e-5, 1e-1), "depth": range(1, 9), "kind": ["a", "b", "c"], "share": (0.0, 1.0)},
        training,
        0.0,
    ),
    # two constraints that are observed with the value, Gramacy and others (2016)
    "constrained": Problem(
        _reals(2, 0.0, 1.0),
        lambda x1, x2: x1 + x2,
        0.599788052,
        constraints=(
            lambda x1, x2: 1.5 - x1 - 2 * x2 - 0.5 * np.sin(2 * np.pi * (x1**2 - 2 * x2)),
            lambda x1, x2: x1**2 + x2**2 - 1.5,
        ),
    ),
}


@dataclass
class Run:
    """What one method has been told: rows, values with noise, constraints; and the processor seconds before each row it asked for.

    evaluations: how many in all; first: how many of them are the design (None: 2 (d + 1))
    """

    problem: Problem
    seed: int
    evaluations: int = EVALUATIONS
    first: int | None = None

    def __post_init__(self) -> None:
        self.rows: list[Row] = []
        self.observed: list[float] = []
        self.bounds: list[list[float]] = []
        self.regret: list[float | None] = []
        self.steps: list[float] = []
        self._noise = self.problem.noise * np.random.default_rng(self.seed).standard_normal(self.evaluations)
        for row in self.problem.design(self.seed, self.first):
            self._tell(row)
        self._clock = time.process_time()

    def __call__(self, row: Row) -> tuple[float, list[float]]:
        """Value and constraints of a row that a method asks for."""
        self.steps.append(time.process_time() - self._clock)
        self._tell(row)
        self._clock = time.process_time()
        return self.observed[-1], self.bounds[-1]

    def _tell(self, row: Row) -> None:
        value = float(self.problem.value(**row))
        bounds = [float(c(**row)) for c in self.problem.constraints]
        self.observed.append(value + float(self._noise[len(self.rows)]))
        self.rows.append(row)
        self.bounds.append(bounds)
        feasible = all(b <= 0 for b in bounds)
        self.regret.append(float(f"{value - self.problem.optimum:.4g}") if feasible else None)

    @property
    def left(self) -> int:
        return self.evaluations - len(self.rows)

    def numbers(self) -> dict[str, Any]:
        """What is kept of a run."""
        found: dict[str, Any] = {"regret": self.regret, "step": round(float(np.median(self.steps)), 4)}
        if self.problem.noise:
            found["observed"] = [round(y, 3) for y in self.observed]
        return found


# ------------------------------------------------------------------------------------------------- methods


def by_mercer(run: Run) -> None:
    """mc.Optimiser as it comes; constraints are outcomes with a limit."""
    import mercer as mc

    space = {
        name: mc.decide.Real(column.low, column.high, log=True) if isinstance(column, Log) else column
        for name, column in run.problem.space.items()
    }
    names = [f"c{i}" for i in range(len(run.problem.constraints))]
    optimiser = mc.Optimiser(space, limits={name: (None, 0.0) for name in names}, seed=run.seed)

    def tell(row: Row, value: float, bounds: list[float]) -> None:
        optimiser.tell(row, {"value": value, **dict(zip(names, bounds, strict=True))} if names else value)

    for told in zip(run.rows, run.observed, run.bounds, strict=True):
        tell(*told)
    while run.left:
        row = optimiser.ask()
        tell(row, *run(row))


def by_botorch(run: Run) -> None:
    """qLogNoisyExpectedImprovement on SingleTaskGP as it comes; 10 restarts from 512 points, as in its tutorials."""
    import torch
    from botorch.acquisition import GenericMCObjective
    from botorch.acquisition.logei import qLogNoisyExpectedImprovement
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import ModelListGP, SingleTaskGP
    from botorch.optim import optimize_acqf, optimize_acqf_mixed
    from gpytorch.mlls import ExactMarginalLogLikelihood, SumMarginalLogLikelihood

    torch.manual_seed(run.seed)
    torch.set_num_threads(1)
    problem, count = run.problem, len(run.problem.constraints)
    fixed = _fixed_features(problem)
    while run.left:
        X = torch.tensor([problem.unit(row) for row in run.rows], dtype=torch.double)
        columns = [-np.array(run.observed), *np.array(run.bounds).T]
        models = [SingleTaskGP(X, torch.tensor(y, dtype=torch.double)[:, None]) for y in columns]
        if count:
            model = ModelListGP(*models)
            fit_gpytorch_mll(SumMarginalLogLikelihood(model.likelihood, model))
            extra = {
                "objective": GenericMCObjective(lambda Z, X=None: Z[..., 0]),
                "constraints": [lambda Z, i=i: Z[..., i + 1] for i in range(count)],
            }
        else:
            (model,), extra = models, {}
            fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        acquisition = qLogNoisyExpectedImprovement(model, X, **extra)
        how = dict(q=1, num_restarts=10, raw_samples=512)
        bounds = torch.tensor([[0.0] * X.shape[1], [1.0] * X.shape[1]], dtype=torch.double)
        if fixed:
            found, _ = optimize_acqf_mixed(acquisition, bounds, fixed_features_list=fixed, **how)
        else:
            found, _ = optimize_acqf(acquisition, bounds, **how)
        run(_from_one_hot(problem, found[0].tolist()))


def _fixed_features(problem: Problem) -> list[dict[int, float]]:
    """All that whole numbers and categories can be, as columns of the one-hot cube held fixed."""
    options: list[list[dict[int, float]]] = []
    place = 0
    for column in problem.space.values():
        if isinstance(column, range):
            options.append([{place: i / (len(column) - 1)} for i in range(len(column))])
        if isinstance(column, list):
            k = len(column)
            options.append([{place + j: float(i == j) for j in range(k)} for i in range(k)])
            place += k - 1
        place += 1
    return (
        [dict(itertools.chain(*map(dict.items, some))) for some in itertools.product(*options)]
        if options
        else []
    )


def _from_one_hot(problem: Problem, unit: list[float]) -> Row:
    """The row of a point in the one-hot cube."""
    single: list[float] = []
    place = 0
    for column in problem.space.values():
        if isinstance(column, list):
            single.append((int(np.argmax(unit[place : place + len(column)])) + 0.5) / len(column))
            place += len(column)
            continue
        if isinstance(column, range):
            single.append((round(unit[place] * (len(column) - 1)) + 0.5) / len(column))
        else:
            single.append(min(max(unit[place], 0.0), 1.0))
        place += 1
    return problem.row(single)


def by_optuna(run: Run) -> None:
    """The sampler TPE as it comes, with constraints where there are some."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    space: dict[str, Any] = {}
    for name, column in run.problem.space.items():
        match column:
            case Log(low, high):
                space[name] = optuna.distributions.FloatDistribution(low, high, log=True)
            case (float(), float()):
                space[name] = optuna.distributions.FloatDistribution(*column)
            case range():
                space[name] = optuna.distributions.IntDistribution(column[0], column[-1])
            case _:
                space[name] = optuna.distributions.CategoricalDistribution(column)
    constrained = {"constraints_func": lambda trial: trial.user_attrs["bounds"]}
    sampler = optuna.samplers.TPESampler(seed=run.seed, **(constrained if run.problem.constraints else {}))
    study = optuna.create_study(sampler=sampler)
    for row in run.rows:
        study.enqueue_trial(row)
    known = list(zip(run.observed, run.bounds, strict=True))
    for i in range(run.evaluations):
        trial = study.ask(space)
        value, bounds = known[i] if i < len(known) else run(dict(trial.params))
        trial.set_user_attr("bounds", bounds)
        study.tell(trial, value)


def by_skopt(run: Run) -> None:
    """gp_minimize as it comes; it knows no constraints: a row that violates them is told as the worst value plus the violation."""
    import skopt

    names = list(run.problem.space)
    dimensions: list[Any] = []
    for column in run.problem.space.values():
        match column:
            case Log(low, high):
                dimensions.append(skopt.space.Real(low, high, prior="log-uniform"))
            case (float(), float()):
                dimensions.append(skopt.space.Real(*column))
            case range():
                dimensions.append(skopt.space.Integer(column[0], column[-1]))
            case _:
                dimensions.append(skopt.space.Categorical(column))

    def told(value: float, bounds: list[float]) -> float:
        violation = sum(max(b, 0.0) for b in bounds)
        return max(run.observed) + violation if violation else value

    def function(point: list[Any]) -> float:
        return told(*run({name: _plain(v) for name, v in zip(names, point, strict=True)}))

    skopt.gp_minimize(
        function,
        dimensions,
        n_calls=run.left,
        n_initial_points=0,
        x0=[[row[name] for name in names] for row in run.rows],
        y0=[told(y, b) for y, b in zip(run.observed, run.bounds, strict=True)],
        random_state=run.seed,
    )


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


METHODS: dict[str, tuple[str, str, Callable[[Run], None]]] = {  # module, distribution, method
    "Mercer": ("mercer", "mercer", by_mercer),
    "BoTorch": ("botorch", "botorch", by_botorch),
    "Optuna": ("optuna", "optuna", by_optuna),
    "scikit-optimize": ("skopt", "scikit-optimize", by_skopt),
}


# ------------------------------------------------------------------------------------------------- runs and page


def run(
    out: pathlib.Path | None = None,
    names: Sequence[str] = tuple(PROBLEMS),
    methods: Sequence[str] = tuple(METHODS),
    stages: Sequence[int] = STAGES,
) -> str:
    """Runs what is missing in `optimisation.jsonl` in `out`, fewer seeds of all problems before more of any; the page."""
    scores = Scores(out and pathlib.Path(out) / "optimisation.jsonl")
    here = [m for m in methods if importlib.util.find_spec(METHODS[m][0]) is not None]
    for method in here:
        scores.need({"problem": "overhead", "seed": 0, "method": method}, lambda m=method: overhead(m))
    for until in stages:
        for name, seed, method in itertools.product(names, range(until), here):
            key = {"problem": name, "seed": seed, "method": method}
            scores.need(key, lambda key=key: one(**key))
    if out is not None:
        picture(scores).savefig(pathlib.Path(out) / "optimisation.png", dpi=110)
    return "\n".join(page(scores))


def one(problem: str, seed: int, method: str) -> dict[str, Any]:
    """One method on one problem from the design of one seed."""
    found = Run(PROBLEMS[problem], seed)
    _quietly(method, found)
    return found.numbers() | {"version": version(method)}


def overhead(method: str) -> dict[str, Any]:
    """Processor seconds of a step with 100 rows of Hartmann's function told: median of nine after the first."""
    found = Run(PROBLEMS["Hartmann-6"], 0, 110, 100)
    _quietly(method, found)
    return {"step": round(float(np.median(found.steps[1:])), 4), "version": version(method)}


def _quietly(method: str, found: Run) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        METHODS[method][2](found)
    assert not found.left


def version(method: str) -> str:
    """Of the distribution; of Mercer where it is not installed but on the path, its own."""
    try:
        return importlib.metadata.version(METHODS[method][1])
    except importlib.metadata.PackageNotFoundError:
        return str(importlib.import_module(METHODS[method][0]).__version__)


def curves(scores: Scores, problem: str, method: str) -> dict[int, np.ndarray]:
    """The best regret so far (50,) by seed; before a row keeps the constraints, that of the worst value there can be."""
    found = {}
    for row in scores.rows:
        if row["problem"] == problem and row["method"] == method:
            worst = 2.0 if PROBLEMS[problem].constraints else np.inf
            regret = np.array([worst if r is None else max(r, FLOOR) for r in row["regret"]])
            found[row["seed"]] = np.minimum.accumulate(regret)
    return found


def verdict(mine: np.ndarray, other: np.ndarray, draws: int = 10_000) -> str:
    """Of the ratio of median regrets, seeds drawn again in pairs: better, worse, or a tie where 95 % of the draws hold 1; of too
    few seeds it says nothing.
    """
    if len(mine) < FEWEST:
        return "too few seeds"
    rows = np.random.default_rng(0).integers(len(mine), size=(draws, len(mine)))
    ratio = np.median(np.log(mine)[rows], 1) - np.median(np.log(other)[rows], 1)
    low, high = np.quantile(ratio, [0.025, 0.975])
    return "better" if high < 0 else "worse" if low > 0 else "tie"


def page(scores: Scores) -> list[str]:
    """Tables of regrets, of verdicts and of seconds."""
    labels = [m for m in METHODS if any(row["method"] == m for row in scores.rows)]
    peers = [m for m in labels if m != "Mercer"]
    versions = {m: next(row["version"] for row in scores.rows if row["method"] == m) for m in labels}
    regrets, verdicts, seconds = [], [], []
    judged = first = second = 0
    for name in PROBLEMS:
        found = {m: curves(scores, name, m) for m in labels}
        ends = {m: np.array([c[-1] for c in found[m].values()]) for m in labels if found[m]}
        regrets.append([name, *(_quartiles(ends[m]) if m in ends else "" for m in labels)])
        seconds.append([name, *(_median(scores, name, m) for m in labels)])
        said = {}
        for m in peers:
            both = sorted(found["Mercer"].keys() & found[m].keys())
            if both:
                said[m] = (
                    verdict(*(np.array([found[k][s][-1] for s in both]) for k in ("Mercer", m))),
                    len(both),
                )
        words = [word for word, _ in said.values()]
        if len(words) == len(peers) and "too few seeds" not in words:
            judged, losses = judged + 1, words.count("worse")
            first, second = first + (losses == 0), second + (losses <= 1)
        verdicts.append([name, *(f"{said[m][0]} ({said[m][1]})" if m in said else "" for m in peers)])
    at_100 = {row["method"]: f"{row['step']:.3f}" for row in scores.rows if row["problem"] == "overhead"}
    seconds.append(["**100 rows, d = 6**", *(at_100.get(m, "") for m in labels)])
    return [
        *OPENING,
        "",
        "Versions: " + ", ".join(f"{m} {versions[m]}" for m in labels) + ".",
        "",
        "## Simple regret after 50 evaluations: median (quartiles), seeds",
        "",
        table(["problem", *labels], regrets),
        "",
        "![regret against evaluations](optimisation.png)",
        "",
        "## Mercer beside each, by a paired bootstrap of the seeds that both have run",
        "",
        f"Of {judged} problems judged, at least as good as the best of them on {first}, worse than at most one of them on {second}. A tie is where the",
        f"interval of 95 % of the ratio of median regrets holds 1; fewer than {FEWEST} seeds are not judged. In brackets the seeds, of {ASKED} asked for.",
        "",
        table(["problem", *peers], verdicts),
        "",
        "## Processor seconds of a step (one thread): median over steps, then seeds",
        "",
        table(["problem", *labels], seconds),
        "",
        *NOTES,
    ]


FLOOR = 1e-9  # regrets below are alike
FEWEST = 5  # seeds that a verdict needs
OPENING = [
    "# Bayesian optimisation beside BoTorch, Optuna and scikit-optimize",
    "",
    "`python -m experiments optimisation`, with `pip install mercer[optimisation]` for the others; single runs are kept in `optimisation.jsonl`, and runs that",
    f"are there are not made again. Seven problems, {EVALUATIONS} evaluations each, {ASKED} seeds asked for: the seeds run so far are in the tables. All methods of a",
    "seed begin with the same 2 (d + 1) scrambled Sobol points and see the same noise. BoTorch: `qLogNoisyExpectedImprovement` on `SingleTaskGP` as it comes (in",
    "the unit cube, categories one-hot), 10 restarts from 512 points, `constraints=`, `optimize_acqf_mixed` over all whole numbers and categories. Optuna: `TPESampler`",
    "with `constraints_func`. scikit-optimize: `gp_minimize`, which knows no constraints: a row that violates them is told as the largest value plus the",
    "violation. Mercer: `mc.Optimiser` with nothing set but `limits=`. Regrets of the noisy problem are of the noise-free value of the best row tried.",
]
NOTES = [
    "The seconds of Mercer and of the others were taken on the same machine while other work ran on it, as processor time; the first step of a run,",
    "which compiles, counts as one among the others, and the last row leaves it out.",
    "",
    "Runs of Mercer are of commit ccd94bc. The optimiser was written while first seeds of these problems were looked at. Its memory in 500 steps of Hartmann's function:",
    "462 MiB after 25, 599 after 100, 657 after 250, 730 after 500, which grows where the rows have doubled and a larger program is compiled, and not in between.",
]


def _quartiles(regret: np.ndarray) -> str:
    low, middle, high = np.quantile(regret, [0.25, 0.5, 0.75])
    return f"{middle:.2g} ({low:.2g} - {high:.2g}), {len(regret)}"


def _median(scores: Scores, problem: str, method: str) -> str:
    steps = [row["step"] for row in scores.rows if row["problem"] == problem and row["method"] == method]
    return f"{np.median(steps):.3f}" if steps else ""


COLOURS = {
    "Mercer": "#000000",
    "BoTorch": "#D55E00",
    "Optuna": "#0072B2",
    "scikit-optimize": "#009E73",
}  # Okabe and Ito's
DASHES = {"Mercer": "-", "BoTorch": "--", "Optuna": ":", "scikit-optimize": "-."}


def picture(scores: Scores) -> Any:
    """Median regret against evaluations, quartiles shaded, one panel for each problem."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 4, figsize=(15, 7), constrained_layout=True)
    for axis, name in zip(axes.flat, PROBLEMS, strict=False):
        counts = []
        for method in METHODS:
            found = curves(scores, name, method)
            if not found:
                continue
            counts.append(len(found))
            n = np.arange(1, EVALUATIONS + 1)
            low, middle, high = np.quantile(list(found.values()), [0.25, 0.5, 0.75], axis=0)
            axis.plot(n, middle, DASHES[method], color=COLOURS[method], label=method, lw=1.8)
            axis.fill_between(n, low, high, color=COLOURS[method], alpha=0.12, lw=0)
        seeds = (
            f"{min(counts)}-{max(counts)}"
            if counts and min(counts) < max(counts)
            else f"{max(counts, default=0)}"
        )
        axis.set(yscale="log", title=f"{name} ({seeds} seeds)", xlabel="evaluations", ylabel="simple regret")
        axis.axvline(2 * (len(PROBLEMS[name].space) + 1), color="0.7", lw=0.8)
    handles, names = axes.flat[0].get_legend_handles_labels()
    axes.flat[-1].axis("off")
    axes.flat[-1].legend(
        handles,
        names,
        loc="center",
        frameon=False,
        title="median, quartiles shaded\ngrey line: end of the common design",
    )
    return figure
