"""Data that stand for clusters of inputs, in units in which distances are comparable."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import numpy as np

from mercer.inputs import InputError
from mercer.params import parameters
from mercer.prior import AbstractPrior
from mercer.selection.protocol import AbstractSelection, Pool


@dataclasses.dataclass(frozen=True)
class Clusters(AbstractSelection):
    """The datum nearest to each of m cluster centres (k-means); where two centres share one, a random other.

    Distances are in units of the kernel's length-scales where it has one for each column, else of the
    columns' spreads. Numeric inputs only.

    >>> rows = Clusters().rows(Pool(gp, X), 100)
    """

    name: ClassVar[str] = "k-means"

    def choose(self, pool: Pool, m: int, rng: np.random.Generator) -> np.ndarray:
        from sklearn.metrics import pairwise_distances_argmin

        Z = scaled(pool.X, pool.latent)
        rows = np.unique(pairwise_distances_argmin(_k_means(Z, m, rng), Z))
        others = np.setdiff1d(np.arange(pool.n), rows)
        return np.concatenate([rows, rng.choice(others, m - rows.size, replace=False)])


def centres(X: np.ndarray, m: int, prior: AbstractPrior | None = None, seed: int = 0) -> np.ndarray:
    """m cluster centres (m, d) of the inputs X (n, d), for inducing inputs that need not be data.
    Distances as in `Clusters`.

    >>> solver = solvers.VFE(inducing=selection.centres(X, 100))
    """
    if not 1 <= m <= X.shape[0]:
        raise ValueError(
            f"cannot make {m} clusters of {X.shape[0]} data: m must lie between 1 and {X.shape[0]}."
        )
    scale = _scale(X, prior)
    return _k_means(X / scale, m, np.random.default_rng(seed)) * scale


def scaled(X: np.ndarray, prior: AbstractPrior | None = None) -> np.ndarray:
    """The columns of X (n, d) in units in which distances are comparable."""
    return X / _scale(X, prior)


def _k_means(Z: np.ndarray, m: int, rng: np.random.Generator) -> np.ndarray:
    """m cluster centres of the rows of Z, by k-means on at most 20 m of them."""
    from sklearn.cluster import KMeans

    sample = Z if Z.shape[0] <= 20 * m else Z[rng.choice(Z.shape[0], 20 * m, replace=False)]
    distinct = np.unique(sample, axis=0)
    if distinct.shape[0] <= m and sample.shape[0] < Z.shape[0]:
        distinct = np.unique(Z, axis=0)
    if distinct.shape[0] < m:
        raise ValueError(
            f"the data have only {distinct.shape[0]} distinct inputs; {m} clusters need as many."
        )
    if distinct.shape[0] == m:
        return distinct
    sample = sample if sample.shape[0] > distinct.shape[0] else distinct
    found = KMeans(m, n_init=1, max_iter=25, random_state=int(rng.integers(2**31))).fit(sample)
    return found.cluster_centers_


def _scale(X: np.ndarray, prior: AbstractPrior | None) -> np.ndarray:
    """Units of the columns (d,): the kernel's length-scales, or the columns' spreads."""
    if X.dtype == object:
        raise InputError("clusters need numeric inputs; these are objects: choose at random ('random').")
    for p in () if prior is None else parameters(prior.kernel):
        if p.name.split(".")[-1] == "lengthscale" and np.shape(p.value) == (X.shape[1],):
            return np.asarray(p.value, float)
    spread = np.asarray(X, float).std(0)
    return np.where(spread > 0, spread, 1.0)
