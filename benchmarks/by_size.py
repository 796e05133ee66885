"""Time of an exact fit against n, from ten rows to three thousand: Mercer and scikit-learn by the same climb,
in one process and in turn; other libraries, where their environments are installed, each by its own
optimiser.

``python -m benchmarks.by_size --picture docs/images/time_by_size.png`` prints the table and draws it;
``--busy`` counts processor time of the first two alone, where other work goes on.

The model is the same everywhere: an ARD squared exponential and Gaussian noise, from length-scales and
variance 1 and noise variance 0.1. scikit-learn's L-BFGS-B is called with the tolerances of ``mc.fit``, and
with the objective counted from its first value, as there: below 800 rows both climb in the same way. From
800 on Mercer climbs on a part of the rows first.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.environments import installed
from benchmarks.reference import regression
from benchmarks.workers import Worker, WorkerError, pin

SIZES = (10, 20, 50, 100, 200, 500, 1000, 2000, 3000)
COLUMNS = (1, 8)
WIDE = (1e-6, 1e6)
COLOURS = {
    "Mercer": "#0072B2",
    "scikit-learn": "#D55E00",
    "gpytorch": "#009E73",
    "gpy": "#CC79A7",
    "tinygp": "#E69F00",
}  # Okabe and Ito's
TITLES = {"gpytorch": "GPyTorch", "gpy": "GPy"}


def problem(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """The regression problem of the other tasks; of one column, a sine."""
    if d > 1:
        return regression(n, d)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 1))
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.standard_normal(n)
    return X, y - y.mean()


def by_mercer(X: np.ndarray, y: np.ndarray) -> int:
    """Evaluations on all rows; the posterior is part of the time."""
    import mercer as mc
    from mercer import kernels, likelihoods

    kernel = kernels.SE(lengthscale=np.ones(X.shape[1]), variance=1.0)
    found = mc.fit(mc.Model(mc.GP(kernel), likelihoods.Gaussian(0.1)), X, y, starts="given")
    return sum(step.size == len(y) for step in found.history)


def by_sklearn(X: np.ndarray, y: np.ndarray) -> int:
    """The same climb: objective, start and tolerances of ``mc.fit(..., starts="given")``."""
    from scipy.optimize import minimize
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    from mercer.learning.search import LAST

    evaluations = 0

    def lbfgs(objective: Callable, theta: np.ndarray, bounds: np.ndarray) -> tuple[np.ndarray, float]:
        nonlocal evaluations
        first = objective(theta, eval_gradient=False)

        def counted(at: np.ndarray) -> tuple[float, np.ndarray]:
            value, gradient = objective(at)
            return value - first + len(y), gradient

        options = dict(gtol=1e-2, ftol=LAST, maxcor=20)
        result = minimize(counted, theta, method="L-BFGS-B", jac=True, bounds=bounds, options=options)
        evaluations = result.nfev
        return result.x, result.fun

    kernel = ConstantKernel(1.0, WIDE) * RBF(np.ones(X.shape[1]), WIDE) + WhiteKernel(0.1, WIDE)
    GaussianProcessRegressor(kernel, alpha=0.0, optimizer=lbfgs).fit(X, y)
    return evaluations


def seconds_of(call: Callable[[], Any], now: Callable[[], float]) -> tuple[float, Any]:
    """By the clock or in processor time, as `now` has it."""
    began = now()
    found = call()
    return now() - began, found


class Libraries:
    """Who is still asked: a library whose fit took longer than the limit is not asked about more rows."""

    def __init__(self, limit: float, folder: Path, busy: bool):
        self.limit, self.folder = limit, folder
        self.now = time.process_time if busy else time.perf_counter
        others = () if busy else ("gpytorch", "gpy", "tinygp")
        self.workers = {name: Worker(name) for name in others if installed(name)}
        self.left: dict[int, set[str]] = {d: {"Mercer", "scikit-learn", *self.workers} for d in COLUMNS}

    def __enter__(self) -> Libraries:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers.values():
            worker.__exit__()

    def measure(self, n: int, d: int, repeats: int) -> dict[str, tuple[float, int]]:
        """Median seconds and evaluations of each, in turn: A B C A B C ... after one that is not counted."""
        X, y = problem(n, d)
        path = self.folder / f"{n}-{d}.npz"
        np.savez(path, X=X, y=y)
        asked: dict[str, Callable[[], tuple[float, int]]] = {
            "Mercer": lambda: seconds_of(lambda: by_mercer(X, y), self.now),
            "scikit-learn": lambda: seconds_of(lambda: by_sklearn(X, y), self.now),
        } | {name: self._asking(worker, path) for name, worker in self.workers.items()}
        times: dict[str, list[tuple[float, int]]] = {name: [] for name in asked if name in self.left[d]}
        for turn in range(repeats + 1):
            for name in sorted(times):
                spent = sum(seconds for seconds, _ in times[name])
                if times[name] and spent > self.limit / 3:
                    continue  # a first fit that long needs no warming up
                try:
                    found = asked[name]()
                except WorkerError as error:
                    print(f"{name}, n = {n}, d = {d}: {str(error).splitlines()[0]}")
                    self.left[d].discard(name)
                    continue
                if turn == 1 and times[name]:
                    times[name] = []
                times[name].append(found)
        measured = {
            name: (median(seconds for seconds, _ in runs), runs[-1][1])
            for name, runs in times.items()
            if runs
        }
        self.left[d] -= {name for name, (seconds, _) in measured.items() if seconds > self.limit}
        return measured

    def _asking(self, worker: Worker, path: Path) -> Callable[[], tuple[float, int]]:
        def ask() -> tuple[float, int]:
            answer = worker.ask("fit", data=str(path))
            return answer["seconds"], answer["evaluations"]

        return ask


def draw(measured: dict[tuple[int, int], dict[str, tuple[float, int]]], path: Path) -> None:
    """Time against n, a panel for each number of columns."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    columns = sorted({d for _, d in measured})
    figure, panels = plt.subplots(
        1, len(columns), figsize=(5.2 * len(columns), 4.2), sharey=True, squeeze=False
    )
    for panel, d in zip(panels[0], columns, strict=True):
        for name, colour in COLOURS.items():
            line = [
                (n, found[name][0]) for (n, k), found in sorted(measured.items()) if k == d and name in found
            ]
            if not line:
                continue
            wide = dict(lw=2.4, zorder=3) if name == "Mercer" else dict(lw=1.4)
            panel.loglog(
                *zip(*line, strict=True),
                color=colour,
                marker="o",
                ms=3.5,
                label=TITLES.get(name, name),
                **wide,
            )
        panel.set_title(f"d = {d}", loc="left")
        panel.set_xlabel("rows n")
        panel.set_xlim(8, 4000)
        panel.grid(alpha=0.25, which="major")
        panel.spines[["top", "right"]].set_visible(False)
    panels[0][0].set_ylabel("seconds of a fit")
    panels[0][0].legend(frameon=False)
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


def main() -> None:
    """Measure, print, and draw where a picture is asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--picture", type=Path, help="a PNG, for instance docs/images/time_by_size.png")
    parser.add_argument("--repeats", type=int, default=7, help="turns that count at every n")
    parser.add_argument(
        "--limit", type=float, default=60.0, help="seconds after which a library is asked no more"
    )
    parser.add_argument(
        "--busy", action="store_true", help="processor time, and only of what runs in this process"
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    asked = parser.parse_args()
    pin()
    measured: dict[tuple[int, int], dict[str, tuple[float, int]]] = {}
    with (
        warnings.catch_warnings(),
        tempfile.TemporaryDirectory() as folder,
        Libraries(asked.limit, Path(folder), asked.busy) as all_of_them,
    ):
        warnings.simplefilter("ignore")
        by_mercer(*problem(10, 1))  # and what is imported for it
        by_sklearn(*problem(10, 1))
        for d in COLUMNS:
            for n in asked.sizes:
                found = measured[n, d] = all_of_them.measure(n, d, asked.repeats)
                told = [f"{name} {1e3 * s:.1f} ms ({count})" for name, (s, count) in found.items()]
                print(f"d = {d}, n = {n}: {', '.join(told)}", flush=True)
                if asked.picture is not None:
                    draw(measured, asked.picture)


if __name__ == "__main__":
    main()
