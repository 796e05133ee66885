"""Which values of a long series its hyperparameters are learned from: windows, spread evenly over it.

Neighbours within a window tell noise, irregularities and short seasons, distances between windows long
seasons and the trend. The values are one series with gaps, so its evidence is exact.
"""

from __future__ import annotations

import numpy as np

MOST = 4096  # values from which hyperparameters are learned
WINDOWS = 32  # so many windows of equal length make them up


def windows(n: int) -> np.ndarray | None:
    """The rows (MOST,) of a series of n values to learn from, the last window at its end; None: all."""
    if n <= MOST:
        return None
    length = MOST // WINDOWS
    first = np.round(np.linspace(0, n - length, WINDOWS)).astype(int)
    return np.unique(first[:, None] + np.arange(length))


def words(n: int) -> str:
    """What is said of a series whose values were not all learned from."""
    return (
        f"hyperparameters were learned from {MOST} of the {n} values, {WINDOWS} windows spread over the "
        "series; all else takes all of them"
    )
