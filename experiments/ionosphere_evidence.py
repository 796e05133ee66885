"""Ionosphere (Kuss 6.3.2, figure 6.6): evidence by Laplace, EP and annealed importance sampling over the hyperparameters.

`python -m experiments ionosphere_evidence` runs a coarse grid; `python -m experiments.ionosphere_evidence 21` one of 21 x 21.
"""

from __future__ import annotations

import dataclasses
import pathlib
import sys

import numpy as np

from experiments._table import table
from experiments.kuss_benchmarks import standardised
from mercer import GP, Model, kernels, log_evidence
from mercer.inference import AIS, MCMC
from mercer.likelihoods import Bernoulli

LOG_L, LOG_S = (0.0, 3.0), (-0.5, 3.5)  # ranges of log length-scale and log signal standard deviation


def run(out=None, points: int = 5, steps: int = 8000, runs: int = 3, draws: int = 300) -> str:
    X, y = standardised("ionosphere")
    order = np.random.default_rng(0).permutation(len(y))
    train, test = order[:200], order[200:]
    log_l, log_s = np.linspace(*LOG_L, points), np.linspace(*LOG_S, points)
    found = surfaces(X[train], y[train], X[test], y[test], log_l, log_s, steps, runs, draws)
    if out is not None:
        draw(found, out / "ionosphere_evidence.png")
    return "\n".join([
        "# Ionosphere: the evidence by three methods", "",
        "351 x 34, standardised, 200 training and 151 test cases (a random split, seed 0; the published one is not printed), isotropic SE, probit.", "",
        *report(found, "21 x 21", "`python -m experiments.ionosphere_evidence 21`"), "",
        *([] if out is None else ["![evidence and information over the grid](ionosphere_evidence.png)"]),
    ])  # fmt: skip


@dataclasses.dataclass(frozen=True, eq=False)
class Surfaces:
    """What three methods say over a grid: `evidence` and `bits` (3, log sigma, log l), for Laplace, EP and sampling."""

    log_l: np.ndarray
    log_s: np.ndarray
    evidence: np.ndarray
    error: np.ndarray  # standard error of AIS
    reverse: np.ndarray
    bits: np.ndarray
    r_hat: np.ndarray
    steps: int
    runs: int
    draws: int


def surfaces(X, y, Xs, ys, log_l, log_s, steps: int, runs: int, draws: int) -> Surfaces:
    shape = len(log_s), len(log_l)
    evidence, bits = np.empty((3, *shape)), np.empty((3, *shape))
    error, reverse, r_hat = np.empty(shape), np.empty(shape), np.empty(shape)
    for i, s in enumerate(log_s):
        for j, l in enumerate(log_l):
            model = Model(GP(kernels.SE(np.exp(l), np.exp(2 * s))), Bernoulli("probit"))
            posts = [model.condition(X, y, name) for name in ("laplace", "ep")]
            ais = log_evidence(model, X, y, inference=AIS(steps=steps, runs=runs, progress=False))
            posts.append(model.condition(X, y, MCMC(draws=draws, tune=draws, chains=4, progress=False)))
            evidence[:, i, j] = *(p.log_evidence for p in posts[:2]), ais
            bits[:, i, j] = [information(p.probability(Xs), ys) for p in posts]
            error[i, j], reverse[i, j], r_hat[i, j] = (
                ais.standard_error,
                ais.reverse,
                posts[2].diagnostics.worst_r_hat,
            )
            print(
                f"{l:g} {s:g}",
                evidence[:, i, j].round(2),
                reverse[i, j].round(2),
                bits[:, i, j].round(3),
                flush=True,
            )
    return Surfaces(log_l, log_s, evidence, error, reverse, bits, r_hat, steps, runs, draws)


def information(p: np.ndarray, y: np.ndarray) -> float:
    """Bits (6.12)."""
    return float(1.0 + np.mean(np.log2(np.clip(np.where(y > 0, p, 1 - p), 1e-300, None))))


def report(found: Surfaces, published: str, command: str) -> list[str]:
    """What was run, the table, and the largest differences."""
    laplace, ep, ais = found.evidence
    rows = []
    for j, l in enumerate(found.log_l):
        for i, s in enumerate(found.log_s):
            rows.append([
                f"{l:.3g}", f"{s:.3g}", f"{laplace[i, j]:.2f}", f"{ep[i, j]:.2f}", f"{ais[i, j]:.2f} ± {found.error[i, j]:.2f}",
                f"{found.reverse[i, j]:.2f}", *(f"{b:.3f}" for b in found.bits[:, i, j]),
            ])  # fmt: skip
    header = [
        "log l",
        "log sigma",
        "Laplace",
        "EP",
        "AIS",
        "AIS, reverse",
        "bits, Laplace",
        "bits, EP",
        "bits, MCMC",
    ]
    middle = 0.5 * (ais + found.reverse)
    apart, low = np.abs(ep - middle), laplace - middle
    weak = found.log_s < 0
    lines = [
        f"Run here: a grid of {len(found.log_l)} x {len(found.log_s)} (log l from {found.log_l[0]:g} to {found.log_l[-1]:g}, log sigma from {found.log_s[0]:g} to "
        f"{found.log_s[-1]:g}); AIS with {found.steps} temperatures (t/T)^4 and {found.runs} runs each way; MCMC with 4 chains of {found.draws} draws, R-hat at most "
        f"{found.r_hat.max():.3f}. The thesis has {published} points (its limits are not printed), 8000 temperatures and 3 runs; {command} runs as many.", "",
        table(header, rows), "",
        f"- EP differs from AIS (the mean of forward and reverse estimates) by at most {apart.max():.2f} nats, {apart.mean():.2f} on average (thesis: below 1). "
        f"Forward and reverse differ by at most {np.abs(found.reverse - ais).max():.2f}.",
        f"- Laplace falls short by up to {-low.min():.1f} nats, at log l = {found.log_l[np.unravel_index(low.argmin(), low.shape)[1]]:.3g}, "
        f"log sigma = {found.log_s[np.unravel_index(low.argmin(), low.shape)[0]]:.3g}"
        + (f"; where log sigma is below zero by at most {-low[weak].min():.2f}." if weak.any() else "."),
        f"- Mean information over the grid: Laplace {found.bits[0].mean():.3f}, EP {found.bits[1].mean():.3f}, MCMC {found.bits[2].mean():.3f} bits; "
        f"EP and MCMC differ by at most {np.abs(found.bits[1] - found.bits[2]).max():.3f}.",
    ]  # fmt: skip
    return lines


def draw(found: Surfaces, path) -> None:
    """Contours of evidence (above) and information (below)."""
    import matplotlib.pyplot as plt

    from mercer import viz

    figure, axes = plt.subplots(2, 3, figsize=(12.6, 7.4), layout="constrained")
    top = found.evidence.max()
    kinds = (
        ("log evidence", found.evidence, top - np.array([60, 40, 30, 20, 15, 10, 7, 4, 2, 1, 0.3])),
        ("bits", found.bits, 10),
    )
    for row, (what, values, levels) in zip(axes, kinds, strict=True):
        if what == "bits":
            levels = np.linspace(np.quantile(values, 0.05), values.max(), 11).round(3)
        for ax, name, value in zip(
            row, ("Laplace", "EP", "AIS" if what != "bits" else "MCMC"), values, strict=True
        ):
            best = np.unravel_index(value.argmax(), value.shape)
            mark = found.log_l[best[1]], found.log_s[best[0]]
            viz.surface(
                found.log_l,
                found.log_s,
                value,
                ax,
                "log length-scale",
                "log magnitude $\\sigma$",
                levels,
                mark,
            )
            ax.set_title(f"{name}: {what}", fontsize=10)
    figure.savefig(path, dpi=110)
    plt.close(figure)


if __name__ == "__main__":
    folder = pathlib.Path("docs/results")
    (folder / "ionosphere_evidence.md").write_text(run(folder, int(sys.argv[1])) + "\n")
