"""PAC-Bayes bounds (GPML 7.4): how often a classifier errs on new data at most, with probability 1 - delta
over the data it was trained on, whatever their distribution.

The bounds are for the Gibbs classifier, which draws a function from the posterior for each prediction; a
majority vote errs at most twice as often. The prior must have been chosen without the data.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import brentq

from mercer.linalg.analysis import bernoulli_kl


def mcallester(risk: float, divergence: float, n: int, delta: float = 0.01) -> float:
    """McAllester's bound (7.31), for any loss between 0 and 1.

    risk: that of the Gibbs predictor on the n training data. divergence: KL(posterior || prior), in nats

    >>> mcallester(0.0187, divergence=200.0, n=5000)                  # 0.165
    """
    _check(risk, divergence, n, delta)
    return min(1.0, risk + math.sqrt((divergence - math.log(delta) + math.log(n) + 2) / (2 * n - 1)))


def seeger(risk: float, divergence: float, n: int, delta: float = 0.01) -> float:
    """Seeger's bound (7.32), for errors counted: the largest r with
    KL(risk || r) <= (divergence + log((n + 1) / delta)) / n. Never above McAllester's.

    >>> seeger(0.0187, divergence=200.0, n=5000)                      # 0.0877
    """
    _check(risk, divergence, n, delta)
    return inverse_bernoulli_kl(risk, (divergence + math.log((n + 1) / delta)) / n)


def inverse_bernoulli_kl(risk: float, c: float) -> float:
    """The largest r in [risk, 1] whose KL(Bernoulli(risk) || Bernoulli(r)) is at most c."""
    if risk >= 1.0:
        return 1.0
    if risk <= 0.0:
        return -math.expm1(-c)
    upper = min(risk + math.sqrt(c / 2), 1.0)  # Pinsker

    def excess(r: float) -> float:
        return float(bernoulli_kl(risk, r)) - c

    top = min(upper, np.nextafter(1.0, 0.0))
    return float(top) if excess(top) <= 0 else float(brentq(excess, risk, top, xtol=1e-15, rtol=1e-14))


def _check(risk: float, divergence: float, n: int, delta: float) -> None:
    if not 0 <= risk <= 1:
        raise ValueError(f"risk is a share between 0 and 1, got {risk:g}.")
    if divergence < 0 or n < 1 or not 0 < delta < 1:
        raise ValueError(
            f"divergence must not be negative, n at least 1 and delta strictly between 0 and 1; got "
            f"{divergence:g}, {n} and {delta:g}."
        )
