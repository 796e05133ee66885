"""Seasons of a series in plain numbers: the period to suspect, by the look of its times or periodogram."""

from __future__ import annotations

import numpy as np

YEARS = (1000.0, 3000.0)  # plain numbers that may be years with decimals
PERIODS, STEPS = 3.0, 3.0  # a period is looked for that the series shows so often, and that has so many steps
FEWEST, MOST = 24, 2000  # values: fewer show no period, of more the last are looked at
REACH = 4 * MOST  # steps back from the last value that are looked at: before a long gap nothing is
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
    near = np.flatnonzero(t >= t.max() - REACH * step)[-MOST:]
    if near.size < FEWEST:
        return None
    t, y = t[near] - t[near[0]], y[near]
    span = float(np.ptp(t))
    if not span > PERIODS * STEPS * step:
        return None
    x = t / span
    curve = np.polynomial.Polynomial.fit(x, y, 2)
    resolved = 1.0 / (OVERSAMPLED * span)
    frequency = np.arange(1.0 / span, 1.0 / (STEPS * step), resolved)
    power = periodogram(t, y - curve(x), frequency)
    around = np.searchsorted(frequency, np.outer([1 / WIDTH, WIDTH], frequency)).T
    background = np.array([np.median(power[i:j]) for i, j in around])
    peak = np.flatnonzero((power > PROMINENT * background) & (frequency >= PERIODS / span))
    if not peak.size:
        return None
    best = peak[np.argmax(power[peak])]
    period, doubt = 1.0 / frequency[best], resolved / frequency[best] ** 2
    whole = float(np.round(period))
    return whole if whole > 0 and abs(period - whole) <= doubt else float(f"{period:.3g}")


def periodogram(t: np.ndarray, y: np.ndarray, frequency: np.ndarray) -> np.ndarray:
    """Lomb's power (k,) of values y (n,) at times t (n,): half of what the best sine of each frequency takes
    off their sum of squares. `scipy.signal` has it too, but takes longer to load than this to compute.
    """
    power = np.empty(frequency.size)
    for some in np.array_split(np.arange(frequency.size), 1 + frequency.size * t.size // 2**20):
        angle = 2 * np.pi * np.outer(frequency[some], t)
        delay = 0.5 * np.arctan2(np.sin(2 * angle).sum(1), np.cos(2 * angle).sum(1))
        waves = (wave(angle - delay[:, None]) for wave in (np.cos, np.sin))
        power[some] = sum(0.5 * (wave @ y) ** 2 / np.sum(wave**2, 1) for wave in waves)
    return power
