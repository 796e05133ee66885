"""Held-out densities against time, of what learns from rows in chunks: ``python -m benchmarks.scaling --rows
1000000``, one method at a time with ``--method vfe``; then ``--picture docs/images/scaling_nlpd.png``.

Generated trips of taxis: where they begin and end, hour, weekday, passengers and rain; the target is the
logarithm of how many minutes they take. Every point is a whole fit by `GPRegressor`, survey, inducing inputs
and pilot included, in this process; time is that of the processor, so that a busy machine says the same.
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

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


def fitted(method: str, budget: int, rows: int) -> Any:
    """A regressor after so many evaluations of the objective of all rows, or epochs."""
    import mercer as mc

    how: dict[str, Any] = {
        "vfe": dict(solver=mc.solvers.VFE(m=256), max_evaluations=budget),
        "svgp": dict(inference=mc.inference.SVGP(m=256, epochs=budget)),
        "committee": dict(solver=mc.solvers.Committee(size=500, combine="rbcm"), max_evaluations=budget),
    }
    return mc.GPRegressor(progress=False, **how[method]).fit(mc.inputs.chunks(Trips(rows)), None)


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
    for name in SHOWN if method is None else [method]:
        for budget in map(int, budgets.split(",")):
            began = time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that so few evaluations do not converge
                model = fitted(name, budget, rows)
            cpu = time.process_time() - began
            nlpd = -float(np.mean(model.log_density(X, y)))
            asked = time.process_time() - began - cpu
            said = dict(
                rows=rows,
                held_out=held_out,
                method=name,
                budget=budget,
                cpu=cpu,
                nlpd=nlpd,
                asked=asked,
                normal=spread,
            )
            print(
                f"{name:>10} {budget:3}: {cpu:7.1f} CPU s, NLPD {nlpd:.4f}, asked in {asked:.1f}", flush=True
            )
            with out.open("a") as file:
                file.write(json.dumps(said) + "\n")


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
