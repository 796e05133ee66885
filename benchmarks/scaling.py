"""Held-out densities against time, of what learns from rows in chunks: ``python -m benchmarks.scaling --rows
1000000``, one method at a time with ``--method vfe``; then ``--picture docs/images/scaling_nlpd.png``.

Generated trips of taxis: where they begin and end, hour, weekday, passengers and rain; the target is the
logarithm of how many minutes they take. Every point is of a fit by `GPRegressor`, survey, inducing inputs
and pilot included, in this process; time is that of the processor, so that a busy machine says the same.
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any
from unittest import mock

import numpy as np
import typer

CHUNK = 50_000
NAMES = ("x", "y", "to_x", "to_y", "hour", "weekday", "passengers", "rain")
SHOWN = {"vfe": "VFE, m = 256", "svgp": "SVGP, m = 256", "committee": "committee of members of 500 rows"}


def trips(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Inputs (n, 8), in the order of NAMES, and targets (n,)."""
    rng = np.random.default_rng([11, seed])
    places = np.array([[0.0, 0.0], [2.0, 3.0], [6.0, -2.0]])  # two centres, and an airport: kilometres

    def ends() -> np.ndarray:
        return places[rng.choice(3, rows, p=[0.55, 0.3, 0.15])] + rng.normal(size=(rows, 2)) * 1.2

    start, end = ends(), ends()
    hour = rng.choice([8.5, 13.0, 18.0, 22.0], rows, p=[0.25, 0.25, 0.3, 0.2]) + rng.normal(size=rows) * 2.0
    weekday, rain = rng.integers(0, 7, rows), rng.gamma(0.3, 2.0, rows)
    passengers = rng.integers(1, 5, rows)
    rush = np.exp(-((hour - 8.5) ** 2) / 3) + 1.3 * np.exp(-((hour - 17.5) ** 2) / 4)
    middle = np.exp(-0.3 * np.sum(((start + end) / 2) ** 2, 1))  # through the centre
    pace = 1.6 + (weekday < 5) * rush * (0.6 + 1.6 * middle) + 0.25 * np.minimum(rain, 4.0)  # minutes a km
    minutes = 2.0 + np.abs(start - end).sum(1) * pace + 0.3 * passengers
    y = np.log(minutes) + rng.normal(size=rows) * (0.12 + 0.10 * middle)
    return np.column_stack([start, end, hour, weekday, passengers, rain]), y


class Trips(Sequence[tuple[np.ndarray, np.ndarray]]):
    """Chunks of trips, made anew whenever they are asked for: as many rows as one likes take no memory."""

    def __init__(self, rows: int):
        self.rows = rows

    def __len__(self) -> int:
        return -(-self.rows // CHUNK)

    def __getitem__(self, i: Any) -> Any:
        if not 0 <= i < len(self):
            raise IndexError(i)
        return trips(min(CHUNK, self.rows - i * CHUNK), i)


Point = tuple[int, float, Callable[[np.ndarray, np.ndarray], np.ndarray]]
"""Evaluations or epochs, processor seconds until then, the log density of rows by what was learned."""


def points(method: str, budgets: list[int], rows: int) -> Iterator[Point]:
    """What a regressor has learned after so many evaluations of the objective of all rows, or epochs."""
    if method == "svgp":
        yield from epochs(budgets, rows)
    else:
        yield from evaluations(method, budgets, rows)


def epochs(budgets: list[int], rows: int) -> Iterator[Point]:
    """A fit for each budget."""
    import mercer as mc

    for budget in budgets:
        began = time.process_time()
        svgp = mc.inference.SVGP(m=256, epochs=budget)
        model = mc.GPRegressor(inference=svgp, progress=False).fit(mc.inputs.chunks(Trips(rows)), None)
        yield budget, time.process_time() - began, model.log_density


def evaluations(method: str, budgets: list[int], rows: int) -> Iterator[Point]:
    """One fit, stopped after the last of the budgets if it did not end before: the best of its evaluations of
    all rows until each. What conditioning takes is added; it is a pass of its own.
    """
    import mercer as mc
    from mercer.learning.chunked import ChunkedProblem

    solvers = {"vfe": mc.solvers.VFE(m=256), "committee": mc.solvers.Committee(size=500, combine="rbcm")}
    seen: list[tuple[float, float, np.ndarray]] = []  # processor seconds, value, vector
    problems: list[ChunkedProblem] = []
    began = time.process_time()

    def watched(problem: ChunkedProblem, vector: np.ndarray) -> tuple[float, np.ndarray, float]:
        if len(seen) == max(budgets):
            raise KeyboardInterrupt  # the fit keeps the best
        answer = evaluate(problem, vector)
        seen.append((time.process_time() - began, answer[0], vector.copy()))
        problems[:] = [problem]
        print(f"  evaluation {len(seen)}: {seen[-1][0]:.1f} CPU s, {answer[0]:.1f}", flush=True)
        return answer

    evaluate = ChunkedProblem.value_and_gradient
    with mock.patch.object(ChunkedProblem, "value_and_gradient", watched):
        model = mc.GPRegressor(solver=solvers[method], progress=False)
        model.fit(mc.inputs.chunks(Trips(rows)), None)
    (problem,) = problems
    for budget in sorted({min(budget, len(seen)) for budget in budgets}):
        cpu = seen[budget - 1][0]
        _, _, vector = max(seen[:budget], key=lambda one: one[1])
        began = time.process_time()
        posterior = problem.posterior(problem.flat.unflatten(vector), problem.rule)
        yield budget, cpu + time.process_time() - began, posterior.log_density


def main(
    rows: Annotated[int, typer.Option(help="Rows to learn from.")] = 1_000_000,
    method: Annotated[
        str | None, typer.Option(help="vfe, svgp or committee; all of them if not said.")
    ] = None,
    budgets: Annotated[str, typer.Option(help="Evaluations, or epochs, by commas.")] = "1,3,10",
    held_out: Annotated[int, typer.Option(help="Rows that judge; a committee asks all its members.")] = 5_000,
    out: Annotated[Path, typer.Option(help="Where points are added.")] = Path(
        "benchmarks/results/scaling.jsonl"
    ),
    picture: Annotated[Path | None, typer.Option(help="Only draw what is there.")] = None,
) -> None:
    """Add points to a file, or draw them."""
    if picture is not None:
        draw([json.loads(line) for line in out.read_text().splitlines()], picture)
        return
    out.parent.mkdir(parents=True, exist_ok=True)
    X, y = trips(held_out, 10**6)  # no chunk has this seed
    spread = 0.5 * np.log(2 * np.pi * np.var(y)) + 0.5
    print(f"{rows:,} rows in chunks of {CHUNK:,}, {held_out:,} held out, a normal of them: {spread:.3f} nats")
    warnings.simplefilter("ignore")  # that so few evaluations do not converge
    for name in SHOWN if method is None else [method]:
        for budget, cpu, log_density in points(name, [int(b) for b in budgets.split(",")], rows):
            began = time.process_time()
            nlpd = -float(np.mean(log_density(X, y)))
            asked = time.process_time() - began
            told = dict(method=name, rows=rows, held_out=held_out, budget=budget)
            measured = dict(cpu=cpu, nlpd=nlpd, asked=asked, normal=spread)
            print(
                f"{name:>10} {budget:3}: {cpu:7.1f} CPU s, NLPD {nlpd:.4f}, asked in {asked:.1f}", flush=True
            )
            with out.open("a") as file:
                file.write(json.dumps(told | measured) + "\n")


def draw(points: list[dict[str, Any]], path: Path) -> None:
    """Held-out NLPD against processor time."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import ScalarFormatter

    figure, axes = plt.subplots(figsize=(7.0, 4.0), layout="constrained")
    colours = {"vfe": "#0072b2", "svgp": "#d55e00", "committee": "#009e73"}
    for name, called in SHOWN.items():
        own = sorted((p for p in points if p["method"] == name), key=lambda p: p["cpu"])
        if not own:
            continue
        axes.plot([p["cpu"] for p in own], [p["nlpd"] for p in own], "o-", color=colours[name], label=called)
        for p in own:
            what = ("epoch" if name == "svgp" else "evaluation") + "s" * (p["budget"] > 1)
            axes.annotate(f"{p['budget']} {what}", (p["cpu"], p["nlpd"]), (5, 6), textcoords="offset points",
                          fontsize=7, color=colours[name])  # fmt: skip
    axes.margins(0.2, 0.1)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(ScalarFormatter())
    axes.xaxis.set_minor_formatter(ScalarFormatter())
    axes.tick_params(axis="x", which="both", labelsize=8)
    axes.set_xlabel("processor seconds of the whole fit, one core")
    axes.set_ylabel(f"held-out NLPD, nats (a normal: {points[0]['normal']:.2f})")
    axes.set_title(f"{points[0]['rows']:,} generated trips, {len(NAMES)} columns", fontsize=10)
    axes.grid(alpha=0.3, which="both")
    axes.legend(frameon=False)
    figure.savefig(path, dpi=130)


if __name__ == "__main__":
    typer.run(main)
