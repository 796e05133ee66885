"""The value of policies, and the best policy, of a finite process that is known (Kuss 7.1.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.control.environments import ControlError
from mercer.control.finite.process import FiniteProcess
from mercer.registry import unknown


@dataclass(frozen=True, eq=False)
class BestPolicy:
    """The best policy of a finite process.

    policy: (S,), actions; value: (S,), what each state is worth under it; q: (S, A), what each action in each
        state is worth, minus infinity where it is not allowed
    iterations: that it took; history: (iterations, S), the values on the way
    """

    policy: np.ndarray
    value: np.ndarray
    q: np.ndarray
    iterations: int
    history: np.ndarray


def policy_value(
    process: FiniteProcess,
    policy: Any,
    method: str = "solve",
    tolerance: float = 1e-10,
    max_iterations: int = 100_000,
) -> np.ndarray:
    """What each state (S,) is worth under a policy: the solution of v = r + gamma T v (7.12).

    method: "solve" solves the linear system; "iterate" repeats v <- r + gamma T v until no value is further
        than `tolerance` from the solution (7.13)

    >>> policy_value(FiniteProcess([[[0, 1]], [[1, 0]]], r=[1, 0], gamma=0.9), [0, 0])
    """
    T, r = process.under(policy)
    goes_on = ~process.absorbing
    v = np.zeros(len(r))
    T, r, gamma = T[np.ix_(goes_on, goes_on)], r[goes_on], process.gamma
    if method == "solve":
        system = np.eye(len(r)) - gamma * T
        if len(r) and np.linalg.cond(system) > 1e14:
            raise ControlError(
                "under this policy rewards go on for ever and are not discounted: values are not finite. "
                "Take gamma below 1."
            )
        v[goes_on] = np.linalg.solve(system, r)
        return v
    if method != "iterate":
        raise ControlError(unknown("method", method, ["solve", "iterate"]))
    enough = tolerance * (1.0 - gamma) / gamma if 0.0 < gamma < 1.0 else tolerance
    found = np.zeros(len(r))
    for _ in range(max_iterations):
        before, found = found, r + gamma * T @ found
        if np.abs(found - before).max(initial=0.0) <= enough:
            v[goes_on] = found
            return v
    raise ControlError(f"values still move after {max_iterations} sweeps: use method='solve'.")


def q_values(process: FiniteProcess, value: Any) -> np.ndarray:
    """What each action in each state is worth (S, A) where the states after it are worth `value` (S,) (7.7);
    minus infinity for what is not allowed.
    """
    q = process.expected_reward + process.gamma * process.P @ np.asarray(value, float)
    return np.where(process.mask, q, -np.inf)


def policy_iteration(process: FiniteProcess, policy: Any = None, max_iterations: int = 1000) -> BestPolicy:
    """The best policy, by solving for the value of one and improving on it until nothing improves (Algorithm
    3). No value ever falls on the way, and where it starts does not matter.

    policy: to start from, actions (S,); None is the first action that is allowed

    >>> policy_iteration(FiniteProcess(P, r, gamma=0.9)).policy
    """
    states = np.arange(process.shape[0])
    actions = np.argmax(process.mask, 1) if policy is None else np.asarray(policy)
    history = []
    for iteration in range(1, max_iterations + 1):
        v = policy_value(process, actions)
        history.append(v)
        q = q_values(process, v)
        better = np.argmax(q, 1)
        # of actions as good as its own a state keeps its own: else it could go round in circles
        gain = q[states, better] - q[states, actions]
        improves = gain > 1e-10 * (1.0 + np.abs(v).max())
        if not improves.any():
            return BestPolicy(actions, v, q, iteration, np.array(history))
        actions = np.where(improves, better, actions)
    raise ControlError(f"the policy still improves after {max_iterations} iterations.")


def value_iteration(
    process: FiniteProcess, tolerance: float = 1e-10, max_iterations: int = 100_000
) -> BestPolicy:
    """The best policy, by repeating v <- max_a q(., a) until no value is further than `tolerance` from the
    best.
    """
    gamma = process.gamma
    enough = tolerance * (1.0 - gamma) / gamma if 0.0 < gamma < 1.0 else tolerance
    v, history = np.zeros(process.shape[0]), []
    for iteration in range(1, max_iterations + 1):
        before, v = v, q_values(process, v).max(1)
        history.append(v)
        if np.abs(v - before).max() <= enough:
            q = q_values(process, v)
            return BestPolicy(np.argmax(q, 1), v, q, iteration, np.array(history))
    raise ControlError(f"values still move after {max_iterations} sweeps: use policy_iteration.")
