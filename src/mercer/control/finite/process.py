"""A decision process of S states and A actions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from mercer.control.environments import ControlError


class Walk(NamedTuple):
    """Steps through a finite process: states (T + 1,), actions (T,), rewards (T,)."""

    states: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray


@dataclass(frozen=True, eq=False)
class FiniteProcess:
    """A Markov decision process of S states and A actions, which are counted from 0.

    P: (S, A, S), the probability of each next state; r: its reward, (S, A, S), (S, A) or, of leaving a state,
        (S,)
    gamma: what a reward one step later is worth beside one now, from 0 to 1; 1 where every walk comes to a
        state that it never leaves
    allowed: (S, A), which actions there are in each state; None are all of them
    start: (S,), how probable a walk begins in each state; None is any that it can leave, all alike

    Policies are actions (S,), or the probabilities (S, A) with which they are taken.

    >>> cycle = FiniteProcess(P=[[[0, 1]], [[1, 0]]], r=[1, 0], gamma=0.9)
    >>> policy_value(cycle, [0, 0])                                          # 5.263, 4.737
    """

    P: np.ndarray
    r: np.ndarray
    gamma: float
    allowed: np.ndarray | None = None
    start: np.ndarray | None = None

    def __post_init__(self) -> None:
        P = np.asarray(self.P, float)
        if P.ndim != 3 or P.shape[0] != P.shape[2]:
            raise ControlError(f"P is (states, actions, next states), got shape {P.shape}.")
        S, A, _ = P.shape
        allowed = np.ones((S, A), bool) if self.allowed is None else np.asarray(self.allowed, bool)
        if allowed.shape != (S, A) or not allowed.any(1).all():
            raise ControlError(f"allowed is ({S}, {A}) with an action in every state.")
        wrong = allowed & ~((np.abs(P.sum(2) - 1.0) < 1e-8) & (P >= 0.0).all(2))
        if wrong.any():
            s, a = np.argwhere(wrong)[0]
            raise ControlError(
                f"the probabilities of what follows action {a} in state {s} are not positive with the sum 1."
            )
        r = np.asarray(self.r, float)
        if r.shape not in ((S,), (S, A), (S, A, S)) or not np.isfinite(r).all():
            raise ControlError(f"r is finite numbers ({S},), ({S}, {A}) or ({S}, {A}, {S}), got {r.shape}.")
        r = np.broadcast_to(r.reshape(r.shape + (1,) * (3 - r.ndim)), (S, A, S))
        if not 0.0 <= self.gamma <= 1.0:
            raise ControlError(f"gamma is from 0 to 1, got {self.gamma}: values would not be finite.")
        for name, value in (("P", P), ("r", r), ("allowed", allowed)):
            object.__setattr__(self, name, value)
        start = self.start
        if start is None:
            leaves = ~self.absorbing if not self.absorbing.all() else np.ones(S, bool)
            start = leaves / leaves.sum()
        start = np.asarray(start, float)
        if start.shape != (S,) or (start < 0.0).any() or abs(start.sum() - 1.0) > 1e-8:
            raise ControlError(f"start is {S} probabilities with the sum 1.")
        object.__setattr__(self, "start", start)

    @classmethod
    def of_table(cls, table: Mapping[int, Mapping[int, Sequence[Any]]], gamma: float) -> FiniteProcess:
        """Of a table as gymnasium's toys have it (`gymnasium.make("FrozenLake-v1").unwrapped.P`): for each
        state and action what may follow, as (probability, next state, reward, whether it ends there).
        """
        S, A = len(table), max(len(actions) for actions in table.values())
        P, r = np.zeros((S, A, S)), np.zeros((S, A, S))
        allowed, last = np.zeros((S, A), bool), np.zeros(S, bool)
        for s, actions in table.items():
            for a, outcomes in actions.items():
                allowed[s, a] = True
                for probability, after, reward, ended in outcomes:
                    r[s, a, after] += probability * reward
                    P[s, a, after] += probability
                    last[after] |= bool(ended)
        r = np.divide(r, P, out=np.zeros_like(r), where=P > 0)
        P[last], r[last] = 0.0, 0.0
        P[last, :, np.flatnonzero(last)] = 1.0
        return cls(P, r, gamma, allowed)

    @property
    def shape(self) -> tuple[int, int]:
        """How many states and actions."""
        return self.P.shape[0], self.P.shape[1]

    @cached_property
    def absorbing(self) -> np.ndarray:
        """(S,): which states are never left and pay nothing."""
        S = len(self.P)
        stays = self.P[np.arange(S), :, np.arange(S)] == 1.0
        idle = np.abs(self.r[np.arange(S), :, np.arange(S)]) == 0.0
        return np.all((stays & idle) | ~self.mask, 1)

    @property
    def mask(self) -> np.ndarray:
        """`allowed` as an array (S, A)."""
        assert self.allowed is not None
        return self.allowed

    @cached_property
    def expected_reward(self) -> np.ndarray:
        """(S, A): of taking an action in a state."""
        return np.einsum("sat,sat->sa", self.P, self.r)

    def probabilities(self, policy: Any) -> np.ndarray:
        """A policy as probabilities (S, A)."""
        S, A = self.shape
        given = np.asarray(policy)
        if given.shape == (S,) and np.issubdtype(given.dtype, np.integer) and (given >= 0).all():
            given = np.eye(A)[given] if given.max() < A else given
        if given.shape != (S, A) or (given < 0).any() or np.abs(given.sum(1) - 1.0).max() > 1e-8:
            raise ControlError(f"a policy is {S} actions below {A}, or ({S}, {A}) probabilities of them.")
        if given[~self.mask].any():
            s, a = np.argwhere((given > 0) & ~self.mask)[0]
            raise ControlError(f"the policy takes action {a} in state {s}, where it is not allowed.")
        return given

    def under(self, policy: Any) -> tuple[np.ndarray, np.ndarray]:
        """What a policy makes of it: the probability T (S, S) of going from one state to another (7.10), rows
        of which sum to 1, and the expected reward (S,) of leaving each (7.11).
        """
        p = self.probabilities(policy)
        return np.einsum("sa,sat->st", p, self.P), np.sum(p * self.expected_reward, 1)

    def average_reward(self, policy: Any) -> float:
        """Of each step, in the long run; for policies under which every state can be reached from any."""
        T, r = self.under(policy)
        S = len(T)
        balance = np.vstack([T.T - np.eye(S), np.ones(S)])
        how_often, _, rank, _ = np.linalg.lstsq(balance, np.append(np.zeros(S), 1.0), rcond=None)
        if rank < S:
            raise ControlError("the policy can get caught in different parts of the process: no one average.")
        return float(how_often @ r)

    def draw(self, state: int, action: int, rng: np.random.Generator) -> tuple[int, float]:
        """A random next state, and its reward."""
        after = int(np.searchsorted(self._cumulated[state, action], rng.random(), side="right"))
        after = min(after, len(self.P) - 1)
        return after, float(self.r[state, action, after])

    def begin(self, rng: np.random.Generator) -> int:
        """A random first state."""
        return int(rng.choice(len(self.P), p=self.start))

    def walk(
        self, policy: Any, steps: int, seed: int | np.random.Generator = 0, start: int | None = None
    ) -> Walk:
        """A random walk under a policy, until a state that is never left, or for so many steps."""
        rng, p = np.random.default_rng(seed), self.probabilities(policy)
        states = [self.begin(rng) if start is None else start]
        actions: list[int] = []
        rewards: list[float] = []
        while len(actions) < steps and not self.absorbing[states[-1]]:
            actions.append(int(rng.choice(p.shape[1], p=p[states[-1]])))
            after, reward = self.draw(states[-1], actions[-1], rng)
            states.append(after)
            rewards.append(reward)
        return Walk(np.array(states), np.array(actions, int), np.array(rewards))

    @cached_property
    def _cumulated(self) -> np.ndarray:
        return np.cumsum(self.P, 2)
