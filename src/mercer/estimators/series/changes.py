"""Changes of level: found by the evidence of a step at every time, one after the other.

A step of size beta ~ N(0, s^2) at time i raises the log evidence, hyperparameters held, by

    g_i = 1/2 u_i^2 / (I_i + s^-2) - 1/2 log(1 + s^2 I_i)

(`solvers.markov_steps` has slope u and information I of all times in O(n)). With n places where it could be,
each as probable, the log odds of a change at the best of them are g - log n; where they exceed `ODDS`, one is
taken to be there. Hyperparameters that were learned with the change in the data explain a part of it, so that
these odds are rather too small. A lone value that is off is no change: the step must say more than a shift of
one value beside it does.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from mercer.solvers.markov_steps import Steps

ODDS = 1.0  # log odds from which on a change is taken to be there
EDGE = 4  # values before and after a change, at least
MOST = 10  # changes that are looked for


@dataclasses.dataclass(frozen=True)
class Found:
    """The time of a change, and by how much it raises the log evidence, less the logarithm of the number of
    places where it could have been.
    """

    time: float
    odds: float


def most_probable(found: Steps, scale: float) -> Found | None:
    """The change whose odds are best, if they suffice. scale: prior standard deviation of its size."""
    n = found.t.size
    first = np.flatnonzero(np.diff(found.t, prepend=-np.inf) > 0)  # of equal times the first
    first = first[(first >= EDGE) & (first <= n - EDGE)]
    if not first.size:
        return None
    u, I = found.slope[first], found.information[first]
    gain = 0.5 * u**2 / (I + scale**-2) - 0.5 * np.log1p(scale**2 * I)
    lone = 0.5 * found.alpha**2 / np.maximum(found.kappa, np.finfo(float).tiny)
    beside = np.maximum(lone[first], lone[first - 1])
    gain = np.where(0.5 * u**2 / np.maximum(I, scale**-2) > beside, gain, -np.inf)
    best = int(np.argmax(gain))
    odds = float(gain[best]) - float(np.log(first.size))
    return Found(float(found.t[first[best]]), odds) if odds > ODDS else None


__all__ = ["EDGE", "MOST", "ODDS", "Found", "most_probable"]
