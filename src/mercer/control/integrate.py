"""Solutions of ordinary differential equations under a held control."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.integrate import solve_ivp

Derivative = Callable[[np.ndarray, np.ndarray], np.ndarray]


def rk4(
    derivative: Derivative, state: np.ndarray, action: np.ndarray, dt: float, substeps: int = 32
) -> np.ndarray:
    """The state after time dt by the classical Runge-Kutta rule, in equal substeps, with the action held.

    derivative(state, action) is d state / d time; state (..., D) and action (..., A) may be many at once.

    >>> rk4(lambda s, a: -s + a, np.ones((5, 1)), np.zeros((5, 1)), 1.0)     # exp(-1), five times
    """
    h = dt / substeps
    s = np.asarray(state, float)
    for _ in range(substeps):
        k1 = derivative(s, action)
        k2 = derivative(s + 0.5 * h * k1, action)
        k3 = derivative(s + 0.5 * h * k2, action)
        k4 = derivative(s + h * k3, action)
        s = s + h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
    return s


def rk45(
    derivative: Derivative, state: np.ndarray, action: np.ndarray, dt: float, tolerance: float = 1e-8
) -> np.ndarray:
    """The state (D,) after time dt with the action (A,) held, by the pair of Dormand and Prince, whose steps
    are as short as the relative tolerance asks.
    """
    action = np.asarray(action, float)
    found = solve_ivp(
        lambda _, s: derivative(s, action),
        (0.0, dt),
        np.asarray(state, float),
        method="RK45",
        rtol=tolerance,
        atol=1e-3 * tolerance,
    )
    if not found.success:
        raise ValueError(f"the equation could not be solved over {dt} s from {state}: {found.message}")
    return found.y[:, -1]
