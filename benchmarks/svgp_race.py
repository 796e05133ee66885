"""SVGP beside GPyTorch's: held-out NLPD against processor seconds of training, ``python -m
benchmarks.svgp_race --rows 10000``, more sizes by more runs; then ``--picture docs/images/svgp_race.png``.

Regression (Gaussian noise) and classification (Bernoulli, probit), four columns of which three matter. All
have the same rows, m, batch size, float64, one thread, length-scales 1, variance 1 and noise variance 0.1 to
begin with. GPyTorch's points are moments of one run; each of Mercer's is a whole fit with so many epochs,
start and posterior included, after one of a few batches, which compiles. What looking at held-out rows takes
is counted for nobody.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from benchmarks import workers
from benchmarks.environments import installed
from benchmarks.reference import classification, regression

HELD_OUT, COLUMNS = 5_000, 4
NEAR = 0.005  # nats: the goal is so far above what the slower of two libraries ends at
KINDS = {"regression": regression, "classification": classification}
SHOWN = {
    "mercer": ("Mercer", "#0072b2", "o"),
    "gpytorch adam": ("GPyTorch, Adam", "#d55e00", "s"),
    "gpytorch natural": ("GPyTorch, natural gradients", "#009e73", "^"),
}


def race(kind: str, rows: int, seed: int, runs: dict[str, dict[str, Any]], folder: Path) -> list[dict]:
    """The course of each library: [processor seconds, held-out NLPD, epochs or steps], ..."""
    X, y = KINDS[kind](rows + HELD_OUT, COLUMNS, seed=seed)
    path = folder / f"{kind}-{rows}.npz"
    np.savez(path, X=X[:rows], y=y[:rows], Xs=X[rows:], ys=y[rows:])
    common: dict[str, Any] = dict(data=str(path), seed=seed, classes=kind == "classification")
    found = []
    for name, settings in runs.items():
        with workers.Worker(name.split()[0]) as worker:
            answer = worker.ask("svgp_race", **common, **settings)
        found.append(dict(kind=kind, rows=rows, seed=seed, library=name) | settings | answer)
        print(f"{kind}, {rows:,} rows, {name}: {answer['course']}", flush=True)
    return found


def time_to(course: list[list[float]], goal: float) -> float:
    """Processor seconds at the first look with so low a NLPD; infinity if there is none."""
    return min((seconds for seconds, nlpd, _ in course if nlpd <= goal), default=float("inf"))


def table(points: list[dict[str, Any]]) -> str:
    """Seconds to the goal: within NEAR of the worst of the libraries' best NLPD, Mercer's and the better of
    GPyTorch's two; as Markdown.
    """
    shown = ["best NLPD: Mercer", "Adam", "natural", "goal", "CPU s to it: Mercer", "Adam", "natural"]
    lines = [f"| problem | rows | {' | '.join(shown)} |", "|---" * (2 + len(shown)) + "|"]
    for kind in KINDS:
        for rows in sorted({p["rows"] for p in points if p["kind"] == kind}):
            own = {p["library"]: p["course"] for p in points if (p["kind"], p["rows"]) == (kind, rows)}
            courses = [own.get(name, []) for name in SHOWN]
            best = [min((nlpd for _, nlpd, _ in course), default=np.inf) for course in courses]
            goal = max(best[0], min(best[1:])) + NEAR
            cells = [f"{value:.3f}" for value in (*best, goal)]
            cells += [f"{time_to(course, goal):.1f}" for course in courses]
            lines.append(f"| {kind} | {rows:,} | " + " | ".join(cells).replace("inf", "-") + " |")
    return "\n".join(lines)


def draw(points: list[dict[str, Any]], path: Path) -> None:
    """Held-out NLPD against processor seconds, a row for each problem and a panel for each number of rows."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    sizes = sorted({p["rows"] for p in points})
    figure, axes = plt.subplots(
        len(KINDS), len(sizes), figsize=(3.4 * len(sizes), 5.6), layout="constrained", squeeze=False
    )
    for row, kind in zip(axes, KINDS, strict=True):
        for panel, rows in zip(row, sizes, strict=True):
            own = [p for p in points if (p["kind"], p["rows"]) == (kind, rows)]
            for p in own:
                label, colour, marker = SHOWN[p["library"]]
                seconds, nlpd = ([point[i] for point in p["course"]] for i in (0, 1))
                panel.plot(seconds, nlpd, marker=marker, color=colour, label=label, markersize=4, lw=1.2)
            panel.set_title(f"{kind}, {rows:,} rows", fontsize=10)
            if not own:
                continue
            lowest = min(nlpd for p in own for _, nlpd, _ in p["course"])
            reach = 0.6 if kind == "regression" else 0.12
            panel.set_ylim(lowest - 0.05 * reach, lowest + reach)
            panel.set_xscale("log")
            panel.grid(alpha=0.3)
        row[0].set_ylabel("held-out NLPD, nats")
    for panel in axes[-1]:
        panel.set_xlabel("processor seconds of training")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(SHOWN), frameon=False, fontsize=9)
    figure.savefig(path, dpi=130)


def main(
    rows: Annotated[int, typer.Option(help="Rows to learn from.")] = 10_000,
    kind: Annotated[str | None, typer.Option(help="regression or classification; both if not said.")] = None,
    library: Annotated[str | None, typer.Option(help="mercer or gpytorch; both if not said.")] = None,
    m: Annotated[int, typer.Option(help="Inducing inputs.")] = 128,
    batch: Annotated[int, typer.Option(help="Rows of a batch.")] = 256,
    epochs: Annotated[str, typer.Option(help="Of Mercer's fits, by commas.")] = "1,2,4,8,16",
    seconds: Annotated[float, typer.Option(help="Of training by GPyTorch.")] = 40.0,
    seed: Annotated[int, typer.Option(help="Of the data, and of the batches.")] = 0,
    out: Annotated[Path, typer.Option(help="Where courses are added.")] = Path(
        "benchmarks/results/svgp_race.jsonl"
    ),
    picture: Annotated[Path | None, typer.Option(help="Only draw what is there, and tell it.")] = None,
) -> None:
    """Add courses to a file, or draw them."""
    if picture is not None:
        points = [json.loads(line) for line in out.read_text().splitlines()]
        draw(points, picture)
        print(table(points))
        return
    size = dict(m=m, batch=batch)
    runs: dict[str, dict[str, Any]] = {
        "mercer": size | {"epochs": [int(e) for e in epochs.split(",")]},
        "gpytorch adam": size | {"natural": False, "seconds": seconds},
        "gpytorch natural": size | {"natural": True, "seconds": seconds},
    }
    if library != "mercer" and not installed("gpytorch"):
        print("gpytorch: no environment; run `python -m benchmarks setup --peers gpytorch`")
        library = "mercer"
    runs = {name: run for name, run in runs.items() if library is None or name.startswith(library)}
    workers.THREADS = 1
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        for name in KINDS if kind is None else [kind]:
            found = race(name, rows, seed, runs, Path(folder))
            with out.open("a") as file:
                file.writelines(json.dumps(course) + "\n" for course in found)


if __name__ == "__main__":
    typer.run(main)
