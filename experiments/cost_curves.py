"""Time and memory of log evidence and gradient against n, for every solver, with fitted exponents beside those of theory."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import mercer as mc
from experiments._table import table
from experiments.sarcos_sparse import Runs
from mercer import kernels as k
from mercer import solvers

SMALLEST, NOISE = 500, 0.1


class Case(NamedTuple):
    solver: str  # in mercer.solvers
    settings: dict[str, Any]
    inputs: str  # "square" (uniform), "grid", "line" (regular) or "road" (uniform, longer with n)
    kernel: Any
    time: float  # exponents of n
    memory: float


SMOOTH, FEW = k.SE(0.3), {"m": 256, "select": "random"}
CASES = {
    "dense": Case("Dense", {}, "square", SMOOTH, 3, 2),
    "single precision": Case("SinglePrecision", {}, "square", SMOOTH, 3, 2),
    "weight space, quartic": Case("WeightSpace", {"rank": 15}, "square", k.Polynomial(4), 1, 1),
    "subset of data, 1000": Case("SubsetOfData", {"m": 1000}, "square", SMOOTH, 0, 0),
    "subset of regressors, 256": Case("SubsetOfRegressors", FEW, "square", SMOOTH, 1, 1),
    "projected process, 256": Case("ProjectedProcess", FEW, "square", SMOOTH, 1, 1),
    "FITC, 256": Case("FITC", FEW, "square", SMOOTH, 1, 1),
    "VFE, 256": Case("VFE", FEW, "square", SMOOTH, 1, 1),
    "VFE, 256, streaming": Case("VFE", FEW | {"store": False}, "square", SMOOTH, 1, 1),
    "Nystrom, 256": Case("Nystrom", FEW, "square", SMOOTH, 1, 1),
    "committee, blocks of 500": Case("Committee", {"size": 500}, "square", SMOOTH, 1, 1),
    "Vecchia, 20 neighbours": Case("Vecchia", {"neighbours": 20}, "square", SMOOTH, 1, 1),
    "conjugate gradients": Case("ConjugateGradient", {}, "square", SMOOTH, 2, 1),
    "random features, 128": Case("RandomFeatures", {"m": 128}, "square", SMOOTH, 1, 1),
    "KISS, 64 x 64": Case("KISS", {"grid": 64}, "square", SMOOTH, 1, 1),
    "Kronecker": Case("Kronecker", {}, "grid", k.SE([0.3, 0.3]), 1.5, 1),
    "Toeplitz": Case("Toeplitz", {}, "line", SMOOTH, 2, 1),
    "Markov": Case("Markov", {}, "road", k.Matern(1.0, nu=1.5), 1, 1),
    "sparse Cholesky": Case("SparseCholesky", {"bandwidth": 40}, "road", k.PiecewisePolynomial(1.0), 1, 1),
}


def run(out=None, names=tuple(CASES), budget: float = 5.0, largest: int = 256_000) -> str:
    """n is doubled from 500 until an evaluation takes more than half of `budget` processor seconds, or up to `largest`.

    Solvers whose measurements stand in `cost_curves.csv` in `out` are not run again.
    """
    values = ("seconds", "bytes", "foreseen")
    runs = Runs(None if out is None else Path(out) / "cost_curves.csv", ("solver", "n"), values)
    for name in names:
        if not any(key[0] == name for key in runs.found):
            for n, *measured in in_subprocess(name, budget, largest):
                runs.measure((name, n), lambda measured=measured: measured)
    curves = {
        name: np.array([[float(n), *v] for (solver, n), v in runs.found.items() if solver == name])
        for name in names
    }
    rows = []
    for name, curve in curves.items():
        case, (n, seconds, used, foreseen) = CASES[name], curve[-1]
        rows.append([
            name, f"{n:.0f}", f"{seconds:.2f}", exponent(curve[:, 0], curve[:, 1]), f"{case.time:g}",
            f"{used / 2**20:.0f}", f"{foreseen / 2**20:.0f}", exponent(curve[:, 0], curve[:, 2]), f"{case.memory:g}",
        ])  # fmt: skip
    if out is not None:
        picture(curves, Path(out))
    header = [
        "solver",
        "largest n",
        "seconds",
        "exponent",
        "theory",
        "MiB",
        "MiB foreseen",
        "exponent",
        "theory",
    ]
    return "\n".join([
        "# Cost against n", "", table(header, rows), "",
        "One evaluation of the log evidence and its gradient, one thread: processor seconds (the lesser of two evaluations), and "
        "the growth of the process' peak memory over what it had after a first evaluation at n = 500. Foreseen is what the "
        "solver's `cost` says. Exponents are least-squares slopes of logarithms on the larger half of the sizes; a dash where "
        "memory does not grow by 4 MiB. Inputs: two columns, uniform; a full square grid (Kronecker); a regular line (Toeplitz); "
        "one column whose range grows with n, so that the support holds about 40 data (sparse Cholesky, Markov).", "",
        "![time and memory against n](cost_curves.png)",
    ])  # fmt: skip


def exponent(n: np.ndarray, values: np.ndarray) -> str:
    """Slope of log values against log n on the larger half, as text."""
    n, values = n[len(n) // 2 :], values[len(values) // 2 :]
    enough = values > (4 * 2**20 if values.max() > 1e4 else 0.0)  # bytes, not seconds
    if np.count_nonzero(enough) < 2:
        return "-"
    return f"{np.polyfit(np.log(n[enough]), np.log(values[enough]), 1)[0]:.2f}"


def in_subprocess(name: str, budget: float, largest: int) -> list[list[float]]:
    """n, seconds, bytes and bytes foreseen, measured in a process of its own with one thread."""
    single = {variable: "1" for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
    single["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    command = [sys.executable, "-m", "experiments.cost_curves", name, str(budget), str(largest)]
    done = subprocess.run(
        command,
        env=os.environ | single,
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{name}: {done.stderr.strip().splitlines()[-1]}")
    return json.loads(done.stdout)


def measure(name: str, budget: float, largest: int) -> list[list[float]]:
    """The same, in this process."""
    case = CASES[name]
    solver = getattr(solvers, case.solver)(**case.settings)
    gp, out, n, seconds, base = mc.GP(case.kernel), [], SMALLEST, 0.0, 0.0
    while n <= largest and seconds < 0.5 * budget:
        X, y = draw(case.inputs, n)
        times = []
        for _ in range(2):
            began = time.process_time()
            mc.log_evidence_and_gradient(gp, X, y, noise_variance=NOISE, solver=solver)
            times.append(time.process_time() - began)
        seconds, peak = min(times), 1024.0 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        base = base or peak
        out.append([len(y), seconds, peak - base, solver.cost(*X.shape).bytes])
        n *= 2
    return out


def draw(inputs: str, n: int) -> tuple[np.ndarray, np.ndarray]:
    """About n inputs and targets."""
    rng = np.random.default_rng(n)
    side = round(np.sqrt(n))
    axis = np.linspace(0, 1, side)
    X: Any = {
        "square": lambda: rng.uniform(0, 1, (n, 2)),
        "grid": lambda: np.stack(np.meshgrid(axis, axis, indexing="ij"), -1).reshape(-1, 2),
        "line": lambda: np.arange(n)[:, None] / 500.0,
        "road": lambda: rng.uniform(0, n / 20.0, (n, 1)),
    }[inputs]()
    return X, np.sin(5 * X.sum(1)) + np.sqrt(NOISE) * rng.standard_normal(len(X))


def picture(curves: dict[str, np.ndarray], out: Path) -> None:
    import matplotlib.pyplot as plt

    from mercer.viz._style import CYCLE, frame

    figure, axes = plt.subplots(1, 2, figsize=(12, 5), layout="constrained")
    for j, (ax, label, unit) in enumerate(
        zip(axes, ("processor seconds", "memory, MiB"), (1.0, 2.0**20), strict=True)
    ):
        frame(ax, "n", label)
        for i, (name, curve) in enumerate(curves.items()):
            keep = curve[:, 1 + j] > (0.0 if j == 0 else 2.0**20)
            style = ("o-", "s--", "^:", "v-.")[i // len(CYCLE)]
            ax.loglog(
                curve[keep, 0],
                curve[keep, 1 + j] / unit,
                style,
                color=CYCLE[i % len(CYCLE)],
                ms=4,
                lw=1.2,
                label=name,
            )
    figure.legend(
        *axes[0].get_legend_handles_labels(), loc="outside right center", frameon=False, fontsize="small"
    )
    figure.savefig(out / "cost_curves.png", dpi=110)
    plt.close(figure)


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]))))
