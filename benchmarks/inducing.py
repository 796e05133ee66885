"""Inducing inputs by k-means on a sample of the rows, as fits choose them, and by k-means that goes on over
all chunks: ``python -m benchmarks.inducing trips``, or ``protein`` (in the folder that MERCER_DATA names).

VFE at the same hyperparameters, of a fit to 5,000 rows: the bound per row, and the held-out density.
"""

from __future__ import annotations

import os
import time
import warnings
from typing import Annotated

import numpy as np
import typer

from benchmarks.scaling import CHUNK, trips

HELD_OUT, SAMPLE, PILOT = 5_000, 20_000, 5_000


def tables(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Inputs and targets in units of their spread, and those held out."""
    if name == "trips":
        X, y = (np.concatenate(both) for both in zip(*(trips(CHUNK, i) for i in range(6)), strict=True))
        XS, ys = trips(HELD_OUT, 10**6)
    else:
        held = np.load(os.path.join(os.environ["MERCER_DATA"], "uci_protein.npz"))
        rows = np.random.default_rng(0).permutation(len(held["y"]))
        X, y = held["X"][rows], held["y"].ravel()[rows]
        X, y, XS, ys = X[HELD_OUT:], y[HELD_OUT:], X[:HELD_OUT], y[:HELD_OUT]
    (m, s), (a, b) = (X.mean(0), X.std(0)), (y.mean(), y.std())
    return (X - m) / s, (y - a) / b, (XS - m) / s, (ys - a) / b


def lloyd(X: np.ndarray, C: np.ndarray, passes: int = 3) -> np.ndarray:
    """Centres after passes of k-means over all rows: sums of each cluster, chunk by chunk."""
    from sklearn.metrics import pairwise_distances_argmin

    for _ in range(passes):
        total, count = np.zeros_like(C), np.zeros(len(C))
        for a in range(0, len(X), CHUNK):
            nearest = pairwise_distances_argmin(X[a : a + CHUNK], C)
            np.add.at(total, nearest, X[a : a + CHUNK])
            np.add.at(count, nearest, 1.0)
        C = np.where(count[:, None] > 0, total / np.maximum(count, 1.0)[:, None], C)
    return C


def streamed(X: np.ndarray, C: np.ndarray, seed: int, batch: int = 1000) -> np.ndarray:
    """Centres after one pass of mini-batch k-means over all rows."""
    from sklearn.cluster import MiniBatchKMeans

    found = MiniBatchKMeans(len(C), init=C, n_init=1, random_state=seed)
    for a in range(0, len(X), batch):
        found.partial_fit(X[a : a + batch])
    return found.cluster_centers_


def main(
    data: Annotated[str, typer.Argument(help="trips or protein.")] = "trips",
    m: Annotated[int, typer.Option(help="Inducing inputs.")] = 256,
    seeds: Annotated[int, typer.Option(help="Of k-means.")] = 3,
) -> None:
    """Bounds and held-out densities of each choice."""
    import mercer as mc
    from mercer.columns import Reader
    from mercer.distributed.chunks import Here
    from mercer.inference import chunked
    from mercer.selection import centres
    from mercer.selection.clusters import Clusters
    from mercer.selection.protocol import Pool

    X, y, XS, ys = tables(data)
    n, d = X.shape
    rows = np.random.default_rng(1).choice(n, min(n, SAMPLE), replace=False)
    start = mc.Model(mc.GP(mc.kernels.SE(np.full(d, 2.0))), mc.likelihoods.Gaussian(0.1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that so few evaluations do not converge
        few = rows[:PILOT]
        found = mc.fit(start, X[few], y[few], solver=mc.solvers.VFE(m=m), max_evaluations=40, progress=False)
    model = found.model
    unit = np.asarray(model.gp.kernel.lengthscale)
    source = mc.inputs.chunks([(X[a : a + CHUNK], y[a : a + CHUNK]) for a in range(0, n, CHUNK)])

    def judged(Z: np.ndarray) -> tuple[float, float]:
        value, whole = chunked.evidence(Here(), source, Reader(None, d), model, mc.solvers.VFE(inducing=Z))
        sites, _ = chunked.gaussian_sites(model, X[:5], y[:5])
        mean, variance = map(np.ravel, whole.condensed().factor(model.gp, X[:5], sites).predict(XS))
        variance = variance + float(model.likelihood.noise_variance)
        return value / n, float(
            np.mean(0.5 * np.log(2 * np.pi * variance) + 0.5 * (ys - mean) ** 2 / variance)
        )

    said: dict[str, list[tuple[float, ...]]] = {}
    for seed in range(seeds):
        C = centres(X[rows], m, model.gp, seed) / unit
        choices = {
            "data nearest to the sample's centres": lambda: X[rows][
                Clusters().choose(Pool(model.gp, X[rows]), m, np.random.default_rng(seed))  # noqa: B023
            ],
            "centres of the sample": lambda: C * unit,  # noqa: B023
            "then one pass of mini-batches": lambda: streamed(X / unit, C, seed) * unit,  # noqa: B023
            "then three passes of k-means": lambda: lloyd(X / unit, C) * unit,  # noqa: B023
        }
        for name, choice in choices.items():
            began = time.process_time()
            Z = choice()
            said.setdefault(name, []).append((time.process_time() - began, *judged(Z)))
    print(f"{data}: {n:,} rows x {d}, m = {m}, mean and deviation of {seeds} seeds")
    for name, all_ in said.items():
        (seconds, bound, nlpd), (_, of_bound, of_nlpd) = np.mean(all_, 0), np.std(all_, 0, ddof=1)
        print(f"{name:>37}: bound per row {bound:.4f} ({of_bound:.4f}), "
              f"held-out NLPD {nlpd:.4f} ({of_nlpd:.4f}), {seconds:.1f} CPU s")  # fmt: skip


if __name__ == "__main__":
    typer.run(main)
