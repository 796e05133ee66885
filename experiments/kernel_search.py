"""Structures that are known, found again by `mercer.search`; noise that stays noise; and predictions of rows held out, beside the default kernel.

Searches end by the number of models they look at, not by the clock, so that they can be repeated on any machine; how well a budget by the clock is kept is a
table of its own. Single searches are kept in `kernel_search.jsonl`.
"""

from __future__ import annotations

import os
import pathlib
import re
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import mercer as mc
from experiments._table import table
from experiments.friedman_outliers import Scores
from mercer.app.tables import read_table

SEEDS, NOISE_SEEDS, MODELS = 2, 20, 120
ROWS = 120  # of a generated series or table
Data = tuple[np.ndarray, np.ndarray]


# ---------------------------------------------------------------------------------------------------- generated


def _time() -> np.ndarray:
    return np.arange(float(ROWS))


def _smooth(t: np.ndarray, length: float, rng: np.random.Generator) -> np.ndarray:
    """A draw of a smooth function of t with standard deviation 1."""
    K = np.exp(-0.5 * ((t[:, None] - t[None, :]) / length) ** 2) + 1e-8 * np.eye(len(t))
    return np.linalg.cholesky(K) @ rng.standard_normal(len(t))


def _season(t: np.ndarray, period: float, rng: np.random.Generator) -> np.ndarray:
    phase = rng.uniform(0, 2 * np.pi)
    angle = 2 * np.pi * t / period + phase
    return np.sqrt(2.0) * (np.sin(angle) + 0.4 * np.sin(2 * angle))


def _series(make: Callable[[np.ndarray, np.random.Generator], np.ndarray]) -> Callable[[int], Data]:
    def data(seed: int) -> Data:
        rng = np.random.default_rng([17, seed])
        t = _time()
        return t[:, None], make(t, rng) + 0.3 * rng.standard_normal(len(t))

    return data


def _columns(make: Callable[[np.ndarray], np.ndarray], d: int) -> Callable[[int], Data]:
    def data(seed: int) -> Data:
        rng = np.random.default_rng([18, seed])
        X = rng.uniform(-1, 1, (ROWS, d))
        return X, make(X) + 0.3 * rng.standard_normal(ROWS)

    return data


def _regimes(t: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return np.where(t < 70, 2.0 * _season(t, 12.0, rng), 0.1 * (t - 70))


def _stepped(t: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return 3.0 * (t > 65) + _season(t, 14.0, rng)


# name: what generates it, and the sentences that say the same, whatever the roughness of a function is called
GENERATED: dict[str, tuple[Callable[[int], Data], tuple[str, ...]]] = {
    "line": (_series(lambda t, rng: 0.03 * t), ("linear(0)",)),
    "smooth function": (_series(lambda t, rng: 1.5 * _smooth(t, 12.0, rng)), ("smooth(0)",)),
    "season": (_series(lambda t, rng: _season(t, 12.0, rng)), ("periodic(0)",)),
    "line + season": (_series(lambda t, rng: 0.03 * t + _season(t, 12.0, rng)), ("linear(0) + periodic(0)",)),
    "smooth + season": (
        _series(lambda t, rng: 2 * _smooth(t, 25.0, rng) + _season(t, 9.0, rng)),
        ("periodic(0) + smooth(0)",),
    ),
    "line + growing season": (
        _series(lambda t, rng: 0.04 * t + (0.1 + t / 50) * _season(t, 12.0, rng)),
        ("linear(0) + periodic(0)*growth(0)",),
    ),
    "step + season": (_series(_stepped), ("periodic(0) + step(0)",)),
    "season until a change, then a line": (
        _series(_regimes),
        ("change(0: periodic(0) | linear(0))", "change(0: periodic(0) | smooth(0))"),
    ),
    "f(a) + line in b, c nothing": (
        _columns(lambda X: 1.5 * np.sin(4 * X[:, 0]) + X[:, 1], 3),
        ("linear(1) + smooth(0)",),
    ),
    "f(a, b) + line in c": (
        _columns(lambda X: 2 * np.sin(3 * X[:, 0] * X[:, 1]) + X[:, 2], 3),
        ("linear(2) + smooth(0,1)",),
    ),
}


def plain(sentence: str) -> str:
    """The sentence with every roughness called smooth, in its order."""
    return str(mc.structure.Sentence.read(re.sub(r"very-smooth|rough", "smooth", sentence)))


def noise(seed: int) -> Data:
    """A hundred numbers."""
    rng = np.random.default_rng([19, seed])
    return np.arange(100.0)[:, None], rng.standard_normal(100)


# --------------------------------------------------------------------------------------------------------- real


def _file(name: str, time_column: str, column: str) -> Data:
    read = read_table(pathlib.Path(os.environ["MERCER_DATA"]) / name)
    return np.asarray(read[time_column], float)[:, None], np.asarray(read[column], float)


def co2() -> Data:
    """Monthly means of Mauna Loa, ppm by year, from 1958 on: 20 years of them."""
    data = mc.datasets.load("co2")
    return data.X[:240], data.y[:240]


def changed() -> Data:
    """A slow wave until 70, a line on another level after it."""
    t, rng = _time(), np.random.default_rng(20)
    return t[:, None], np.where(t < 70, np.sin(t / 6), 3 + 0.02 * t) + 0.2 * rng.standard_normal(len(t))


def concrete() -> Data:
    """Strengths of concrete by a law like Abrams': water, cement and age act together, slag adds to it, sand and gravel do nothing."""
    rng, n = np.random.default_rng(21), 300
    cement, water, slag = rng.uniform(150, 500, n), rng.uniform(120, 240, n), rng.uniform(0, 250, n)
    age = rng.choice([3, 7, 14, 28, 56, 90], n).astype(float)
    sand, gravel = rng.uniform(600, 900, n), rng.uniform(800, 1100, n)
    strength = 22 * np.log1p(age / 3) * np.exp(0.8 - 2.0 * water / cement) + 0.05 * slag
    return np.column_stack([cement, water, slag, age, sand, gravel]), strength + 2.0 * rng.standard_normal(n)


REAL: dict[str, tuple[Callable[[], Data], str, str]] = {
    "CO2": (co2, "last", "trend and season"),
    "CO2, within": (co2, "random", "trend and season"),
    "airline": (
        lambda: _file("airline_passengers.csv", "time", "AirPassengers"),
        "last",
        "trend times season",
    ),
    "change point": (changed, "last", "a change at 70"),
    "concrete": (concrete, "random", "water, cement and age together; slag beside them; no sand, no gravel"),
}


def divided(X: np.ndarray, y: np.ndarray, how: str) -> tuple[np.ndarray, np.ndarray]:
    """Rows to learn from, and rows held out: the last fifth, or a random one."""
    n = len(y)
    order = np.arange(n) if how == "last" else np.random.default_rng(0).permutation(n)
    return np.sort(order[: int(0.8 * n)]), np.sort(order[int(0.8 * n) :])


def nlpd(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    """Mean negative log density of rows held out, nats."""
    return -float(np.mean(model.log_density(X, y)))


# ---------------------------------------------------------------------------------------------------- single runs


def searched(X: np.ndarray, y: np.ndarray, models: int) -> dict[str, Any]:
    found = mc.search(X, y, max_models=models, progress=False)
    return _said(found)


def _said(found: Any) -> dict[str, Any]:
    ranking = found.ranking
    return {
        "sentence": found.best.sentence,
        "words": found.best.words,
        "score": found.best.score,
        "second": ranking.models[1].sentence if len(ranking.models) > 1 else "",
        "models": sum(ranking.seen.values()),
        "ended": ranking.ended,
        "doubt": ranking.doubt,
    }


def compared(name: str, models: int) -> dict[str, Any]:
    make, how, _ = REAL[name]
    X, y = make()
    train, test = divided(X, y, how)
    found = mc.search(X[train], y[train], max_models=models, progress=False)
    default = mc.GPRegressor(progress=False).fit(X[train], y[train])
    return _said(found) | {
        "nlpd": nlpd(found.model, X[test], y[test]),
        "default": nlpd(default, X[test], y[test]),
        "n": len(train),
    }


def timed(budget: float) -> dict[str, Any]:
    X, y = GENERATED["line + season"][0](0)
    began, processor = time.perf_counter(), time.process_time()
    found = mc.search(X, y, budget=budget, progress=False)
    took = time.perf_counter() - began
    return _said(found) | {"took": took, "processor": time.process_time() - processor}


def run(
    out: pathlib.Path | None = None,
    compute: bool = True,
    models: int = MODELS,
    parts: tuple[str, ...] = ("generated", "noise", "real", "budget"),
) -> str:
    """Every search that is not in `kernel_search.jsonl` yet, then the page."""
    scores = Scores(out and pathlib.Path(out) / "kernel_search.jsonl", compute)
    if "generated" in parts:
        for seed in range(SEEDS):
            for name, (make, _) in GENERATED.items():
                scores.need(
                    {"part": "generated", "name": name, "seed": seed},
                    lambda make=make, seed=seed: searched(*make(seed), models),
                )
    if "noise" in parts:
        for seed in range(NOISE_SEEDS):
            scores.need(
                {"part": "noise", "name": "noise", "seed": seed},
                lambda seed=seed: searched(*noise(seed), models),
            )
    if "real" in parts:
        for name in REAL:
            scores.need(
                {"part": "real", "name": name, "seed": 0}, lambda name=name: compared(name, 2 * models)
            )
    if "budget" in parts:
        for budget in (10.0, 20.0, 40.0):
            scores.need(
                {"part": "budget", "name": f"{budget:g} s", "seed": 0}, lambda budget=budget: timed(budget)
            )
    return page(scores.rows)


# ------------------------------------------------------------------------------------------------------ the page


def right(row: dict[str, Any]) -> bool:
    """Whether the structure is the one that generated the data."""
    return plain(row["sentence"]) in {plain(text) for text in GENERATED[row["name"]][1]}


NOTE = (
    "The search was changed while these same data were looked at, so they are not untouched: generated series went from 150 rows to 120 and searches from 60 models to 120; the change "
    "point was first held out at random, where an earlier version lost by 3.55 to 1.38, and is now forecast; `CO2, within` was added after the forecast of CO2 had lost. That loss (3.46 to "
    "2.26: season and rough function, no line) and the fifth harmonic that was taken for the season of the airline passengers then led to four changes: the best sentences are learned from "
    "the beginning too, not only from the values of the sentence they grew from (the line had been tried, and left at a poor optimum, 7 nats below a fresh start); seasons are held against multiples and "
    "fractions of their period; starting values are combined; a function may be exchanged for a step. And a defect: growths, steps and changes along columns whose values are beyond 300, as years are, "
    "had failed silently. The forecast of the airline passengers is worse than with the wrong season (5.08), though the evidence is 35 nats higher. The five data with rows held out and all generated series were searched again after these changes, of the noises the first 10; the other ten are of the version before. Budgets were measured with some 30 processes waiting for the two cores: a search had an eighth of a processor; 20 s, run a second time, took 20.6."
)


def page(rows: list[dict[str, Any]]) -> str:
    generated = [r for r in rows if r["part"] == "generated"]
    noises = [r for r in rows if r["part"] == "noise"]
    real = [r for r in rows if r["part"] == "real"]
    budgets = [r for r in rows if r["part"] == "budget"]
    hits, kept = sum(map(right, generated)), sum(r["sentence"] == "constant" for r in noises)
    asked = SEEDS * len(GENERATED)
    return "\n".join([
        "# Kernels that are looked for", "",
        f"`mercer.search`, Gaussian or Student-t noise to choose from, ended after {MODELS} models ({2 * MODELS} on the data below with rows held out) instead of by the clock. "
        "`smooth` stands for functions of any roughness.", "",
        f"## Known structures: {hits} of {len(generated)} found ({len(generated)} of {asked} searches run)", "",
        f"Ten structures, {SEEDS} draws each, {ROWS} rows. A structure counts as found if the winner says just that: no part more or less, functions of any roughness.", "",
        table(["generated by", "draw", "found", "right"],
              [[r["name"], str(r["seed"]), plain(r["sentence"]).replace("|", "\\|"), "yes" if right(r) else "no"] for r in generated]), "",
        f"## Noise: a constant in {kept} of {len(noises)} ({len(noises)} of {NOISE_SEEDS} searches run)", "",
        "A hundred independent normal numbers. " + "; ".join(f"draw {r['seed']}: {r['sentence']}" for r in noises if r["sentence"] != "constant"), "",
        f"## Rows held out, beside the default kernel ({len(real)} of {len(REAL)} run)", "",
        "Mean negative log density of the last fifth of the rows (CO2: 240 months from 1958; airline passengers, in thousands; change point), or of a random fifth (CO2, within; concrete), in nats; lower is better.", "",
        table(["data", "rows", "what is there", "found", "search", "default kernel"],
              [[r["name"], str(r["n"]), REAL[r["name"]][2], r["words"], f"{r['nlpd']:.3f}", f"{r['default']:.3f}"] for r in real]), "",
        f"## Budgets by the clock ({len(budgets)} of 3 run)", "",
        "A line and a season, compilation included where nothing was compiled before, on a machine of two cores that others used at the same time.", "",
        table(["budget", "took / s", "over the budget", "processor / s", "models", "ended"],
              [[r["name"], f"{r['took']:.1f}", f"{100 * (r['took'] / float(r['name'].split()[0]) - 1):+.0f} %",
                f"{r['processor']:.1f}", str(r["models"]), r["ended"]] for r in budgets]),
        "", NOTE,
    ])  # fmt: skip
