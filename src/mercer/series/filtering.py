"""The Kalman filter for exact observations too, in NumPy: what the processes of this room share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np


def innovations(
    Phis: Iterable[np.ndarray],
    Qs: Iterable[np.ndarray],
    h: np.ndarray,
    Pi: np.ndarray,
    x: np.ndarray,
    noise_variance: float,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """x_t less its prediction from the past and the variance of that, where x_t is there; mean and covariance
    of the last state.

    Phis, Qs: the step to each time (the first is not used: the state there has covariance Pi). h: x_t = h .
    state + noise.
    """
    if not noise_variance >= 0:
        raise ValueError(f"noise_variance must be zero or positive, got {noise_variance!r}.")
    m, P = np.zeros(h.size), Pi
    errors, variances = [], []
    for t, (Phi, Q, value) in enumerate(zip(Phis, Qs, x, strict=True)):
        if t:
            m, P = Phi @ m, Phi @ P @ Phi.T + Q
        if np.isnan(value):
            continue
        gain = P @ h
        S, e = h @ gain + noise_variance, value - h @ m
        if not S > 0:
            raise ValueError(
                f"x[{t}] is already determined by the values before it (two at one time?): give a "
                "noise_variance."
            )
        m, P = m + gain * (e / S), P - np.outer(gain, gain / S)
        errors.append(e)
        variances.append(S)
    return np.array(errors), np.array(variances), m, P


def log_density(errors: np.ndarray, variances: np.ndarray) -> float:
    """The log density of the data from their innovations."""
    return float(-0.5 * np.sum(np.log(2.0 * np.pi * variances) + errors**2 / variances))


def root(P: np.ndarray) -> np.ndarray:
    """R with R R' = P, for matrices (..., s, s) that may be singular."""
    values, vectors = np.linalg.eigh(P)
    return vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :]


def settle(process: Any) -> None:
    """Check the coefficients `ar` and `ma` of a frozen process and make them vectors."""
    for name in ("ar", "ma"):
        values = getattr(process, name)
        vector = np.atleast_1d(np.array(values, float))
        if vector.ndim != 1 or not np.isfinite(vector).all():
            raise ValueError(f"{name} must be a vector of finite coefficients, got {values!r}.")
        object.__setattr__(process, name, vector)
    if not np.any(process.ma):
        raise ValueError("ma must have a coefficient that is not zero: without noise there is no process.")
