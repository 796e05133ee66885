"""Which periods a series may have: peaks of its periodogram, for times that need not be regular."""

from __future__ import annotations

import numpy as np

OVERSAMPLED = 4  # frequencies for each that the length of the series tells apart
MOST = 6000  # frequencies
SEEN = 2.0  # periods that the series must hold


def shortest_period(x: np.ndarray) -> float:
    """Twice the usual gap between different values of x (n,)."""
    gaps = np.diff(np.unique(x))
    return 2.0 * float(np.median(gaps)) if len(gaps) else 1.0


def likely_periods(x: np.ndarray, residual: np.ndarray, shortest: float, most: int = 3) -> list[float]:
    """At most so many periods at which the residuals (n,) at x (n,) have the most power, the highest first,
    between `shortest` and half the length of the series.

    >>> likely_periods(t, np.sin(2 * np.pi * t / 12), shortest=2.0)      # [12.0, ...]
    """
    from scipy.signal import lombscargle

    length = float(np.ptp(x))
    lowest, highest = SEEN / length, 1.0 / shortest
    if not highest > lowest or len(x) < 8 or not np.ptp(residual) > 0:
        return []
    count = int(np.clip(OVERSAMPLED * length * (highest - lowest), 16, MOST))
    frequencies = np.linspace(lowest, highest, count)
    power = lombscargle(x - x.mean(), residual - residual.mean(), 2 * np.pi * frequencies)
    inner = np.r_[-np.inf, power, -np.inf]
    peaks = np.flatnonzero((inner[1:-1] >= inner[:-2]) & (inner[1:-1] >= inner[2:]))
    found = peaks[np.argsort(-power[peaks], kind="stable")][:most]
    return [float(1.0 / frequencies[i]) for i in found]
