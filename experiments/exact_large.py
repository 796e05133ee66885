"""Exact regression on 40,000 rows of protein in double precision: evidence, predictions, one gradient, time and memory.

One n x n buffer holds the covariance, then its factor, then its inverse. Hyperparameters come from 2,048 of the rows.
"""

from __future__ import annotations

import resource
import sys
import time
from pathlib import Path

import numpy as np

from experiments._table import table
from experiments.large_data import Data
from mercer import metrics
from mercer.gp import prepare
from mercer.inference import Exact
from mercer.posteriors import GaussianPosterior
from mercer.posteriors.source import Made
from mercer.progress import shown
from mercer.solvers import Dense


def run(out=None, rows: int = 40_000, start: int = 2048) -> str:
    """`rows`: of the training part, at random. `start`: those that the hyperparameters are learned from."""
    data = Data("protein", start, rows)
    n, tests = data.y.shape[0], data.ys.shape[0]
    model = data.shared[0]
    inputs, y = prepare(model, data.X, data.y)
    rule, clock = Exact(), Clock()
    with shown("", clock.tell):
        result = rule.run(model, inputs.values, y, Dense())
        clock.lap("evidence: covariance and its factor", n**3 / 3)
        mean, std = GaussianPosterior(model, inputs, y, Made(result.state), result.log_evidence).mean_and_std(
            data.Xs
        )
        clock.lap(f"mean and variance of {tests:,} test rows", tests * n**2)
        gradient = rule.gradient(model, y, result, consume=True)
        clock.lap("gradient: inverse and one pass of the kernel", 2 * n**3 / 3)
    mean, std = data.offset + data.unit * mean, data.unit * std
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    largest = max(float(np.max(np.abs(g))) for g in gradient.values())
    text = [
        f"# Exact regression on {n:,} rows",
        "",
        f"Protein, ARD Matern 5/2 in {data.X.shape[1]} dimensions, double precision, hyperparameters from {start:,} rows; one run.",
        "",
        table(
            ["step", "seconds", "GFLOP/s"],
            [[what, f"{s:.0f}", f"{flops / s / 1e9:.0f}"] for what, s, flops in clock.laps],
        ),
        "",
        f"One buffer of {8e-9 * n**2:.1f} GB; the process took {peak / 2**30:.1f} GiB at most. Log evidence {result.log_evidence:.2f}, "
        f"largest derivative {largest:.3g}; RMSE {metrics.rmse(data.ys, mean):.4f}, NLPD {metrics.nlpd(data.ys, mean, std):.4f} of the "
        "target on the test rows. GFLOP/s count the cubic work alone.",
    ]
    return "\n".join(text)


class Clock:
    """Seconds between laps, and a line of progress."""

    def __init__(self):
        self.began, self.laps = time.perf_counter(), []

    def tell(self, done: float, total: float, what: str) -> None:
        print(
            f"\r{what}: {done / total:4.0%}, {time.perf_counter() - self.began:.0f} s",
            end="",
            file=sys.stderr,
            flush=True,
        )

    def lap(self, what: str, flops: float) -> None:
        now = time.perf_counter()
        self.laps.append((what, now - self.began, flops))
        self.began = now
        print(file=sys.stderr)


if __name__ == "__main__":
    print(run(Path("."), int(sys.argv[1])))
