"""Outliers up to a million standard deviations: 200 data sets by every method, and what each of them reports."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np

from experiments._table import table
from experiments.friedman_outliers import Scores
from mercer import GP, Model, kernels
from mercer import likelihoods as lk
from mercer.gp import choose_solver, prepare
from mercer.inference import EP, Laplace, ScaleMixture

METHODS = {
    "student-t, variational": (lambda s: lk.StudentT(s, 3.0), ScaleMixture()),
    "student-t, laplace": (lambda s: lk.StudentT(s, 3.0), Laplace()),
    "student-t, ep": (lambda s: lk.StudentT(s, 3.0), EP()),
    "mixture, variational": (lambda s: lk.GaussianMixtureNoise(0.1, s**2, 1e4), ScaleMixture()),
    "mixture, laplace": (lambda s: lk.GaussianMixtureNoise(0.1, s**2, 1e4), Laplace()),
    "mixture, ep": (lambda s: lk.GaussianMixtureNoise(0.1, s**2, 1e4), EP()),
    "laplace, ep": (lk.Laplace, EP()),
    "laplace, variational": (lk.Laplace, ScaleMixture()),
    "uniform, ep": (lambda s: lk.ContaminatedUniform(0.1, s**2, 1e3), EP()),
    "uniform, laplace": (lambda s: lk.ContaminatedUniform(0.1, s**2, 1e3), Laplace()),
    "epsilon-insensitive, ep": (lambda s: lk.EpsilonInsensitive(s, s), EP()),
}


def run(out=None, sets: int = 200, methods=tuple(METHODS)) -> str:
    """Methods that are in the file of counts in `out` are not repeated."""
    scores = Scores(out and pathlib.Path(out) / "gross_outliers.jsonl")
    found = [scores.need({"method": m, "sets": sets}, lambda m=m: count(m, sets)) for m in methods]
    names = ("finite", "converged", "not converged, said", "of these given by another rule", "failed")
    rows = [[row["method"], *[str(row[name]) for name in names]] for row in found]
    silent = sum(row["failed"] + sets - row["finite"] for row in found)
    return "\n".join([
        "# Outliers up to a million standard deviations", "",
        f"{sets} sets of twelve cases in two dimensions: a smooth function, noise of standard deviation 0.1 and one to three outliers that are 3 to 1e6 off, at random "
        "hyperparameters (length-scale 0.3 to 3, noise scale 0.05 to 1), many of them far too narrow for the data. Counted are sets on which log evidence, posterior moments and "
        "gradients are all finite, on which the method says that it converged, on which it says that it did not, and on which it failed: an error, a number that is not one, "
        "or no convergence without a word.", "",
        table(["noise, method", *names], rows), "",
        f"{silent} of {sets * len(found)} runs failed. Without log-concave noise EP finds no fixed point on about a tenth of these sets: visiting the sites one after the other, and steps of "
        "a tenth over 1500 sweeps, did not settle either on the 14 sets where both were tried. It then says so and gives the sites and bound of the variational scheme (of its start, where the noise is no scale mixture).",
    ])  # fmt: skip


def sample(seed: int) -> tuple[np.ndarray, np.ndarray, float, float]:
    """X (12, 2), y (12,) with one to three outliers, a length-scale and a noise scale."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (12, 2))
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=12)
    rows = rng.choice(12, rng.integers(1, 4), replace=False)
    y[rows] += rng.choice([-1, 1], rows.size) * 10.0 ** rng.uniform(0.5, 6, rows.size)
    return X, y, 10.0 ** rng.uniform(-0.5, 0.5), 10.0 ** rng.uniform(-1.3, 0)


def attempt(method: str, seed: int) -> tuple[bool, bool, tuple[str, ...]]:
    """Whether all numbers are finite, whether the method says it converged, and its notes."""
    noise, rule = METHODS[method]
    X, y, lengthscale, scale = sample(seed)
    model = Model(GP(kernels.SE(lengthscale, 1.0)), noise(scale))
    inputs, y = prepare(model, X, y)
    model = model.bind(inputs)
    result = rule.run(model, inputs.values, y, choose_solver(model, "dense"))
    numbers = (result.log_evidence, *result.state.marginals(), *rule.gradient(model, y, result).values())
    return all(bool(np.all(np.isfinite(a))) for a in numbers), result.status.converged, result.notes


def count(method: str, sets: int) -> dict[str, Any]:
    finite = converged = said = other = failed = 0
    for seed in range(sets):
        try:
            fine, settled, notes = attempt(method, seed)
        except Exception:  # whatever it is, it is what is counted here
            failed += 1
            continue
        told = settled or any("converge" in note or "stopped" in note for note in notes)
        finite, converged, failed = finite + fine, converged + settled, failed + (not (fine and told))
        said += told and not settled
        other += any("instead" in note for note in notes)
    return {
        "finite": finite,
        "converged": converged,
        "not converged, said": said,
        "of these given by another rule": other,
        "failed": failed,
    }
