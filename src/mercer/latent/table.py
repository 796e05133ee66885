"""A table with empty cells as the algebra wants it, and where a search for its latent points begins."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

STEPS, TOL = 100, 1e-6  # of the principal components of a table with empty cells


class Grouped(NamedTuple):
    """Y (n, D) with zeros in empty cells, and its columns in groups that are observed in the same rows.

    rows: (P, n), 1 where the columns of a group are observed. columns: (P, D), 1 where a column is of a
    group. A complete table is one group: P = 1. All columns of a group share one factorisation.
    """

    Y: np.ndarray
    rows: np.ndarray
    columns: np.ndarray

    @property
    def observed(self) -> np.ndarray:
        """1 where a cell is observed: (n, D)."""
        return self.rows.T @ self.columns


def grouped(Y: np.ndarray) -> Grouped:
    """The table of Y (n, D), in which NaN is an empty cell.

    >>> grouped(np.array([[1.0, 2.0], [3.0, np.nan]])).rows          # two groups of one column
    """
    patterns, group = np.unique(~np.isnan(Y).T, axis=0, return_inverse=True)
    columns = np.ravel(group) == np.arange(len(patterns))[:, None]
    return Grouped(np.nan_to_num(Y), patterns.astype(float), columns.astype(float))


def principal_points(Y: np.ndarray, q: int) -> np.ndarray:
    """Projections (n, q) of the rows of Y (n, D), whose columns have mean zero, on their principal axes, each
    of unit variance; zero beyond the rank of Y. Of empty cells see `principal_axes`.
    """
    filled, sizes, axes = _decomposed(Y, q)
    k = int(np.sum(sizes > 1e-12 * sizes[0]))
    points = np.zeros((len(Y), q))
    points[:, :k] = filled @ axes[:k].T / sizes[:k]
    return points


def principal_axes(Y: np.ndarray, q: int) -> tuple[np.ndarray, np.ndarray]:
    """Standard deviations (q,) along the principal axes of Y (n, D), whose columns have mean zero, and the
    axes (q, D); zeros beyond the rank. Empty cells are filled in from the q components themselves, over and
    over until they stay.
    """
    _, sizes, axes = _decomposed(Y, q)
    more = q - len(sizes)
    return np.pad(sizes, (0, more)), np.pad(axes, ((0, more), (0, 0)))


def _decomposed(Y: np.ndarray, q: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Y with its empty cells filled in, and at most q standard deviations and axes; the largest entry of an
    axis is positive.
    """
    empty, filled = np.isnan(Y), np.nan_to_num(Y)
    for _ in range(STEPS):
        U, size, axes = np.linalg.svd(filled, full_matrices=False)
        if not empty.any():
            break
        new = np.where(empty, (U[:, :q] * size[:q]) @ axes[:q], filled)
        change, filled = np.abs(new - filled).max(), new
        if change < TOL:
            break
    axes = axes[:q] * np.sign(axes[np.arange(len(axes[:q])), np.abs(axes[:q]).argmax(1)])[:, None]
    return filled, size[:q] / np.sqrt(len(Y)), axes
