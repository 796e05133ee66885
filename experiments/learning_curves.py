"""Learning curves (GPML 7.2, 7.3, 7.6): exact, bounded, simulated, of a wrong model; consistency beside kernel regression; how many data a pilot fit asks for.

Also the corrected (7.19): what data tell of two periodic processes.
"""

from __future__ import annotations

import numpy as np

import mercer as mc
from experiments._table import table
from mercer import kernels as k
from mercer import theory, viz
from mercer.relatives import KernelRidge, LinearRegression, NadarayaWatson

NOISE = 0.1
OU_SIZES, SIZES = np.array([1, 2, 5, 10, 20, 50, 100]), np.array([1, 2, 5, 10, 20, 50, 100, 200])
GROWING = (20, 40, 80, 160, 320)
METHODS = {
    "GP": lambda n: KernelRidge(k.SE(0.2), noise_variance=0.01),
    "penalty n^(-1/2)": lambda n: KernelRidge(k.SE(0.2), noise_variance=0.1 * n**0.5),
    "kernel regression, n^(-1/5)": lambda n: NadarayaWatson(0.15 * n**-0.2),
    "kernel regression, one bandwidth": lambda n: NadarayaWatson(0.15),
    "straight line": lambda n: LinearRegression(),
}


def uniform(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.random((n, 1))


def normal(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.normal(size=(n, 1))


def ou(repeats: int) -> dict[float, theory.LearningCurve]:
    """Simulated curves of exp(-a r) without noise on (0, 1), by a."""
    rule = theory.uniform_nodes(200)
    return {a: theory.learning_curve(k.Matern(1 / a, nu=0.5), uniform, OU_SIZES, 1e-10, rule, repeats=repeats) for a in (1.0, 5.0, 10.0)}  # fmt: skip


def bounded(repeats: int) -> dict[str, theory.LearningCurve]:
    """An SE of length-scale 0.5, inputs N(0, 1), predicted by itself and by a rougher kernel than the truth's."""
    rule = theory.normal_nodes(60)
    own = theory.learning_curve(k.SE(0.5), normal, SIZES, NOISE, rule, repeats=repeats)
    wrong = theory.learning_curve(
        k.SE(0.5), normal, SIZES, NOISE, rule, (k.Matern(0.5, nu=0.5), NOISE), repeats=repeats
    )
    return {"right model": own, "SE, where the truth is exp(-2 r)": wrong}


def periodic() -> tuple[float, float, float]:
    """(7.18) on an even grid of a circle; (7.19) as corrected, and as printed."""
    p, q = np.array([0.5, 0.3, 0.2]), np.array([0.6, 0.3, 0.1])
    x = np.arange(5) * 2 * np.pi / 5
    A, B = (sum(v * np.cos(j * (x[:, None] - x)) for j, v in enumerate(w)) for w in (p, q))
    direct = 0.5 * np.trace((A - B) @ (np.linalg.inv(B) - np.linalg.inv(A)))
    corrected = theory.periodic_divergence(p, q)
    return float(direct), corrected, 2 * corrected


def consistent(sizes, repeats: int) -> theory.Consistency:
    return theory.consistency(METHODS, lambda X: np.sin(6 * X[:, 0]), uniform, sizes, theory.uniform_nodes(200), noise=0.1, repeats=repeats)  # fmt: skip


def pilot() -> tuple[theory.DataNeeded, list[list[str]]]:
    """Thirty data; and what came of more of them: the error of models fitted anew, beside what was foreseen."""

    def data(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng(seed)
        X = rng.uniform(-2, 2, (n, 1))
        return X, np.sin(2 * X[:, 0]) + 0.2 * rng.normal(size=n)

    found = theory.data_needed(mc.GPRegressor().fit(*data(30, 0)), target_std=0.05)
    Xs, rows = np.linspace(-2, 2, 400)[:, None], []
    for n in (30, 100, 300):
        fits = [mc.GPRegressor().fit(*data(n, 1 + seed)) for seed in range(3)]
        errors = [np.mean((fit.predict(Xs) - np.sin(2 * Xs[:, 0])) ** 2) for fit in fits]
        foreseen = float(np.exp(np.interp(np.log(n), np.log(found.sizes), np.log(found.std))))
        rows.append([str(n), f"{foreseen:.3f}", f"{np.sqrt(np.mean(errors)):.3f}"])
    return found, rows


def run(out=None, repeats: int = 100, growing=GROWING, sets: int = 10) -> str:
    exact, curves = ou(repeats), bounded(repeats)
    ou_rows = [
        [f"{a:g}", str(n), f"{theory.ou_learning_curve(n, 1 / a):.5f}", f"{curve.error[i]:.5f} ± {curve.standard_error[i]:.5f}"]
        for a, curve in exact.items() for i, n in enumerate(OU_SIZES) if n in (1, 10, 100)
    ]  # fmt: skip
    values = theory.se_under_gaussian(0.5, 1.0, 120).eigenvalues
    lower, about = theory.opper_vivarelli(values, SIZES, NOISE), theory.sollich(values, SIZES, NOISE)
    own = curves["right model"]
    bound_rows = [[str(n), f"{lower[i]:.4f}", f"{own.error[i]:.4f} ± {own.standard_error[i]:.4f}", f"{about[i]:.4f}", f"{curves['SE, where the truth is exp(-2 r)'].error[i]:.4f}"] for i, n in enumerate(SIZES)]  # fmt: skip
    found, (needed, pilot_rows) = consistent(growing, sets), pilot()
    method_rows = [
        [name, *(f"{v:.2g}" for v in curve.error), f"{found.slopes[name]:.2f}"]
        for name, curve in found.curves.items()
    ]
    direct, corrected, printed = periodic()
    if out is not None:
        draw(exact, curves, lower, about, found, needed, out)
    return "\n".join([
        "# Learning curves", "",
        f"## Ornstein-Uhlenbeck without noise (7.44), inputs uniform on (0, 1), {repeats} designs simulated", "",
        table(["a of exp(-a r)", "n", "exactly", "simulated"], ou_rows), "",
        f"## SE of length-scale 0.5, inputs N(0, 1), noise variance {NOISE}, {repeats} designs", "",
        table(["n", "never less (7.26)", "simulated", "Sollich, about", "SE predicts exp(-2 r)"], bound_rows), "",
        "A wrong model learns more slowly, and its error is above what it believes. On 200 generated problems lower bounds lie below and upper bounds above the simulated curve "
        "(`tests/theory/test_curves.py`).", "",
        "![learning curves](learning_curves.png)", "",
        f"## Consistency (7.2): sin(6 x) with noise 0.1, {sets} data sets of each size", "",
        "Mean squared distance from the function; the exponent is that of the last half of the sizes.", "",
        table(["method", *(f"n = {n}" for n in growing), "exponent"], method_rows), "",
        "A GP is the schedule lambda = noise_variance / n of a penalty; a penalty that falls as n^(-1/2) meets Zhang's conditions, and learns more slowly. Kernel regression is consistent "
        "if its bandwidth falls while n times it grows (claimed n^(-4/5) away from the ends at this rate, where the bias at the two ends alone gives n^(-3/5)); with one bandwidth it stops at its bias, and a straight line at that of the best line.", "",
        "## How many data (`theory.data_needed`)", "",
        "From a fit to 30 data, sin(2 x) with noise 0.2:", "", "```text", str(needed), "```", "",
        "What came of it: root mean square error of three models fitted anew to n data each", "",
        table(["n", "foreseen", "errors"], pilot_rows), "",
        "![consistency, and how many data](learning_curves_growing.png)", "",
        "## Two periodic processes (7.19)", "",
        f"With variances 0.5, 0.3, 0.2 and 0.6, 0.3, 0.1 of frequencies 0, 1, 2: the divergence (7.18) on five points of a circle is {direct:.5f}; (7.19) halved gives {corrected:.5f}, as printed {printed:.5f}.",
    ])  # fmt: skip


def draw(exact, curves, lower, about, found, needed, out) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9.6, 3.7), layout="constrained")
    n = np.geomspace(1, 100, 50)
    lines = {f"exact, a = {a:g}": (n, theory.ou_learning_curve(n, 1 / a)) for a in exact}
    viz.learning_curves(lines, axes[0])
    for a, curve in exact.items():
        axes[0].errorbar(
            curve.sizes,
            curve.error,
            2 * curve.standard_error,
            fmt="ko",
            ms=3,
            lw=1,
            label=f"simulated, {a:g}",
        )
    viz.learning_curves(
        {**curves, "never less": (SIZES, lower), "Sollich": (SIZES, about)}, axes[1], ylabel=""
    )
    figure.savefig(out / "learning_curves.png", dpi=80)
    plt.close(figure)
    figure, axes = plt.subplots(1, 2, figsize=(9.6, 3.9), layout="constrained")
    viz.learning_curves(found.curves, axes[0], ylabel="excess risk")
    viz.data_needed(needed, axes[1])
    for ax, columns in zip(axes, (2, 3), strict=True):
        ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=columns, frameon=False, fontsize="small")
    figure.savefig(out / "learning_curves_growing.png", dpi=80)
    plt.close(figure)
