"""Controllers that are fast because nothing is left to plan: a local linear one, and a table of actions."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mercer.control.dynamics import Dynamics, drift
from mercer.control.environments import ControlError
from mercer.registry import Saved

__all__ = ["ActionTable", "LinearFeedback", "local_linear", "tabulated"]


@Saved.register
@dataclasses.dataclass(frozen=True, eq=False)
class LinearFeedback:
    """a = action - gain (s - state), within the bounds: for states near one that is held.

    state (D,), action (A,): that are held; gain (A, D); low, high (A,); angles: states that are wrapped
    shrinks: the spectral radius of the closed loop, below 1 where it holds
    """

    state: np.ndarray
    action: np.ndarray
    gain: np.ndarray
    low: np.ndarray
    high: np.ndarray
    angles: tuple[int, ...]
    shrinks: float

    def __call__(self, state: Any) -> np.ndarray:
        """The action (A,) in a state (D,)."""
        away = np.asarray(state, float) - self.state
        turned = list(self.angles)
        away[turned] = (away[turned] + np.pi) % (2 * np.pi) - np.pi
        return np.clip(self.action - self.gain @ away, self.low, self.high)


def local_linear(
    dynamics: Dynamics,
    state: Sequence[float],
    state_weights: Sequence[float] | float = 1.0,
    action_weights: Sequence[float] | float = 0.1,
    action: Sequence[float] | None = None,
) -> LinearFeedback:
    """The linear controller that holds a state at the least sum of weighted squares, of the learned dynamics
    linearised there (a linear-quadratic regulator).

    action: with which the state is held; None: the one under which the learned dynamics move least

    >>> balance = mc.control.local_linear(dynamics, [0.0, 0.0, np.pi, 0.0], [1.0, 0.1, 10.0, 0.1])
    >>> balance([0.0, 0.0, 3.0, 0.0])
    """
    from scipy.linalg import solve_discrete_are
    from scipy.optimize import minimize

    plant, target = dynamics.plant, np.asarray(state, float)
    D, A = len(dynamics.states), len(dynamics.actions)
    if target.shape != (D,):
        raise ControlError(f"a state is {D} numbers ({', '.join(dynamics.states)}), got {state!r}.")
    unit = dynamics.transitions.states.std(0) + 1e-12
    if action is None:
        moved = jax.value_and_grad(lambda a: jnp.sum(((drift(plant, target, a) - target) / unit) ** 2))
        middle = 0.5 * (dynamics.low + dynamics.high)
        bounds = list(zip(dynamics.low, dynamics.high, strict=True))
        held = minimize(lambda a: tuple(map(np.asarray, moved(a))), middle, jac=True, bounds=bounds).x
    else:
        held = np.asarray(action, float)
    F, G = (
        np.asarray(part) for part in jax.jacfwd(drift, (1, 2))(plant, jnp.asarray(target), jnp.asarray(held))
    )
    Q = np.diag(np.broadcast_to(np.asarray(state_weights, float), D))
    R = np.diag(np.broadcast_to(np.asarray(action_weights, float), A))
    try:
        P = solve_discrete_are(F, G, Q, R)
    except np.linalg.LinAlgError as error:
        raise ControlError(
            f"no linear controller holds {target}: the learned dynamics cannot be held there ({error}). "
            "Record transitions near it."
        ) from error
    gain = np.linalg.solve(R + G.T @ P @ G, G.T @ P @ F)
    radius = float(np.abs(np.linalg.eigvals(F - G @ gain)).max())
    angles = dynamics.angle_columns
    return LinearFeedback(target, held, gain, dynamics.low, dynamics.high, angles, radius)


@Saved.register
@dataclasses.dataclass(frozen=True, eq=False)
class ActionTable:
    """Actions at the points of a grid of states, interpolated linearly between them; states beyond it are
    taken at its edge.

    low, high: (D,), corners of the grid; actions: (k_1, ..., k_D, A)
    """

    low: np.ndarray
    high: np.ndarray
    actions: np.ndarray

    def __call__(self, state: Any) -> np.ndarray:
        """The action (A,) in a state (D,)."""
        sizes = np.array(self.actions.shape[:-1])
        at = (np.asarray(state, float) - self.low) / (self.high - self.low) * (sizes - 1)
        at = np.clip(at, 0, sizes - 1)
        below = np.minimum(at.astype(int), np.maximum(sizes - 2, 0))
        found = self.actions[tuple(slice(b, b + 2) for b in below)]
        for share in at - below:
            found = (1.0 - share) * found[0] + share * found[-1]
        return np.asarray(found)


def tabulated(
    act: Callable[[np.ndarray], Any], low: Sequence[float], high: Sequence[float], sizes: Sequence[int]
) -> ActionTable:
    """A table of what a controller does, at `sizes` (D,) points along each state between low and high (D,).

    >>> table = mc.control.tabulated(controller.act, [-1.0, -2.0], [1.0, 2.0], [21, 21])
    """
    if not len(low) == len(high) == len(sizes):
        raise ControlError("low, high and sizes need one number for each state.")
    axes = [np.linspace(*ends) for ends in zip(low, high, sizes, strict=True)]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, len(axes))
    actions = np.array([np.asarray(act(state), float) for state in grid])
    return ActionTable(np.asarray(low, float), np.asarray(high, float), actions.reshape(*sizes, -1))
