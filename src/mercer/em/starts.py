"""Where EM starts: k-means++ centres, on columns of unit spread."""

from __future__ import annotations

import numpy as np

ENOUGH = 50_000  # rows that a start looks at
ROUNDING = 16 * float(np.finfo(float).eps)  # of a value: standard deviations below it are none


def plus_plus(
    X: np.ndarray,
    k: int,
    rng: np.random.Generator,
    rounds: int = 10,
    most: int = 20_000,
    known: np.ndarray | None = None,
) -> np.ndarray:
    """Labels (n,) of the nearest of k centres: k-means++ seeds, then at most `rounds` of k-means, on at most
    `most` of the rows.

    Columns are scaled to unit spread; a missing value is put at its column's mean. No label is without a row.

    known: (n,) labels of rows whose group is known, −1 of the others: groups with such rows begin at their
        mean.
    """
    X = np.asarray(X, np.float64)
    n = len(X)
    if not 1 <= k <= n:
        raise ValueError(f"{k} groups need at least as many rows, got {n}.")
    Z = _scaled(X)
    if known is not None and (known >= 0).any():
        return _around_known(Z, k, rng, known)
    part = Z if n <= most else Z[rng.choice(n, most, replace=False)]
    centres = _seeds(part, k, rng)
    for _ in range(rounds):
        labels = _nearest(part, centres)
        counts = np.bincount(labels, minlength=k)
        sums = np.stack([np.bincount(labels, column, k) for column in part.T], axis=1)
        moved = np.where(counts[:, None] > 0, sums / np.maximum(counts, 1)[:, None], centres)
        if np.array_equal(moved, centres):
            break
        centres = moved
    return _fill(_nearest(Z, centres), k, rng)


def _around_known(Z: np.ndarray, k: int, rng: np.random.Generator, known: np.ndarray) -> np.ndarray:
    """Labels of the nearest centre: means of the rows whose group is known, and k-means++ seeds far from them
    for the other groups. Rows that are known keep their label.
    """
    given = np.unique(known[known >= 0])
    centres = np.empty((k, Z.shape[1]))
    centres[given] = [Z[known == label].mean(0) for label in given]
    others = np.setdiff1d(np.arange(k), given)
    if len(others):
        centres[others] = _seeds(Z, k, rng, list(centres[given]))[len(given) :]
    return np.where(known >= 0, known, _nearest(Z, centres))


def spread(X: np.ndarray) -> np.ndarray:
    """Variances (d,) of the observed values; one for a constant column."""
    X = np.asarray(X, np.float64)
    seen = np.isfinite(X)
    mean = np.where(seen, X, 0.0).sum(0) / np.maximum(seen.sum(0), 1)
    variance = _variances(X)
    return np.where(variance > (1e-12 * np.abs(mean)) ** 2, variance, 1.0)


def smallest_variances(X: np.ndarray, labels: np.ndarray, share: float) -> np.ndarray | None:
    """Floors (d,) of variances: `share` of the tightest group's own variance, column by column, so that
    groups far apart do not blur each other; None for a share of 0.

    Groups whose rows are equal do not count, and no floor is below what rounding leaves.
    """
    if not share > 0:
        return None
    X = np.asarray(X, np.float64)
    groups = np.array([_variances(X[labels == label]) for label in np.unique(labels)])
    rounding = (ROUNDING * np.nanmax(np.abs(X), axis=0)) ** 2
    own = np.where(groups > rounding, groups, np.inf).min(0)
    return np.maximum(share * np.where(np.isfinite(own), own, spread(X)), rounding)


def _variances(X: np.ndarray) -> np.ndarray:
    """Of the observed values of each column; 0 where there are none."""
    seen = np.isfinite(X)
    count = np.maximum(seen.sum(0), 1)
    mean = np.where(seen, X, 0.0).sum(0) / count
    return (np.where(seen, X - mean, 0.0) ** 2).sum(0) / count


def _scaled(X: np.ndarray) -> np.ndarray:
    seen = np.isfinite(X)
    mean = np.where(seen, X, 0.0).sum(0) / np.maximum(seen.sum(0), 1)
    return np.where(seen, X - mean, 0.0) / np.sqrt(spread(X))


def _seeds(
    Z: np.ndarray, k: int, rng: np.random.Generator, given: list[np.ndarray] | None = None
) -> np.ndarray:
    """Each next centre is a row, drawn in proportion to its squared distance from those chosen;
    the best of a few draws.
    """
    centres = given or [Z[rng.integers(len(Z))]]
    far = np.min([((Z - centre) ** 2).sum(1) for centre in centres], axis=0)
    for _ in range(len(centres), k):
        total = far.sum()
        tries = rng.choice(len(Z), 2 + int(np.log(k)), p=far / total if total > 0 else None)
        closer = [np.minimum(far, ((Z - Z[i]) ** 2).sum(1)) for i in tries]
        best = int(np.argmin([c.sum() for c in closer]))
        centres.append(Z[tries[best]])
        far = closer[best]
    return np.array(centres)


def _nearest(Z: np.ndarray, centres: np.ndarray) -> np.ndarray:
    return np.argmax(centres @ Z.T - 0.5 * (centres**2).sum(1)[:, None], axis=0)


def _fill(labels: np.ndarray, k: int, rng: np.random.Generator) -> np.ndarray:
    """Rows of the largest groups, for labels without any (duplicates of a row leave some)."""
    for empty in np.flatnonzero(np.bincount(labels, minlength=k) == 0):
        largest = np.flatnonzero(labels == np.argmax(np.bincount(labels, minlength=k)))
        labels[rng.choice(largest)] = empty
    return labels
