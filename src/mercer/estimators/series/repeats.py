"""Seasons of a series in plain numbers: the period to suspect, by the look of its times or periodogram."""

from __future__ import annotations

import numpy as np
from scipy.signal import lombscargle

YEARS = (1000.0, 3000.0)  # plain numbers that may be years with decimals
PERIODS, STEPS = 3.0, 3.0  # a period is looked for that the series shows so often, and that has so many steps
FEWEST, MOST = 24, 2000  # values: fewer show no period, of more the last are looked at
OVERSAMPLED = 4  # frequencies for each that is resolved
WIDTH, PROMINENT = 2.0, 20.0  # a peak exceeds the median within a factor 2 of its frequency so many times


def decimal_years(stamps: np.ndarray, step: float) -> bool:
    """Whether numbers look like years with decimals, several in a year, for two years at least."""
    return (
        YEARS[0] <= stamps.min()
        and stamps.max() <= YEARS[1]
        and step <= 1.0 / STEPS
        and float(np.ptp(stamps)) + step >= 2.0
    )


def suspected(t: np.ndarray, y: np.ndarray, step: float) -> float | None:
    """The period of the largest peak of the periodogram (Lomb-Scargle) of values y less a parabola, if it
    stands out; a whole number where the series cannot tell it from one. None where nothing repeats.
    """
    if t.size < FEWEST:
        return None
    t, y = t[-MOST:] - t[-MOST:][0], y[-MOST:]
    span = float(np.ptp(t))
    if not span > PERIODS * STEPS * step:
        return None
    x = t / span
    curve = np.polynomial.Polynomial.fit(x, y, 2)
    resolved = 1.0 / (OVERSAMPLED * span)
    frequency = np.arange(1.0 / span, 1.0 / (STEPS * step), resolved)
    power = lombscargle(t, y - curve(x), 2 * np.pi * frequency)
    around = np.searchsorted(frequency, np.outer([1 / WIDTH, WIDTH], frequency)).T
    background = np.array([np.median(power[i:j]) for i, j in around])
    peak = np.flatnonzero((power > PROMINENT * background) & (frequency >= PERIODS / span))
    if not peak.size:
        return None
    best = peak[np.argmax(power[peak])]
    period, doubt = 1.0 / frequency[best], resolved / frequency[best] ** 2
    whole = float(np.round(period))
    return whole if whole > 0 and abs(period - whole) <= doubt else float(f"{period:.3g}")
