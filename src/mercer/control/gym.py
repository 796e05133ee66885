"""Environments of gymnasium: those whose actions are bounded numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mercer.control.environments import AbstractEnvironment, ControlError, Step


class Gym(AbstractEnvironment):
    """An environment of gymnasium (`pip install "mercer[control]"`), whose observations are the states.

    made: its name, such as "Pendulum-v1" or "MountainCarContinuous-v0", or one that `gymnasium.make` made
    repeat: how many of its steps an action is held; rewards are summed, and each counts as an interaction
    states, angles: names of the observed numbers, and of those that are angles in radians
    dt: seconds of one of its own steps, which gymnasium does not say; 1 counts time in steps
    options: handed on to `gymnasium.make`

    >>> env = mc.control.Gym("Pendulum-v1", states=("cosine", "sine", "spin"), dt=0.05)
    >>> env.reset(seed=0); env.step([2.0]).reward
    """

    def __init__(
        self,
        made: Any,
        repeat: int = 1,
        states: Sequence[str] | None = None,
        angles: Sequence[str] = (),
        dt: float = 1.0,
        **options: Any,
    ):
        try:
            import gymnasium
        except ImportError as error:
            raise ImportError('environments of gymnasium need it: pip install "mercer[control]".') from error
        self.gym = gymnasium.make(made, **options) if isinstance(made, str) else made
        if repeat < 1:
            raise ControlError(f"an action is held for one step or more, not repeat={repeat}.")
        actions, seen = self.gym.action_space, self.gym.observation_space
        if not isinstance(actions, gymnasium.spaces.Box):
            raise ControlError(
                f"{made} takes actions of the kind {actions}: here they are bounded numbers (a Box). Use its "
                "continuous form where there is one (MountainCarContinuous-v0 for MountainCar-v0); for "
                "worlds of a few states and actions there are mc.control.policy_iteration and q_learning."
            )
        if not (np.isfinite(actions.low).all() and np.isfinite(actions.high).all()):
            raise ControlError(
                f"{made} takes actions without bounds: wrap it in gymnasium.wrappers.RescaleAction first."
            )
        if not isinstance(seen, gymnasium.spaces.Box):
            raise ControlError(
                f"{made} shows states of the kind {seen}: here they are numbers (a Box). Wrap it in "
                "gymnasium.wrappers.FlattenObservation first."
            )
        self.low, self.high = (np.asarray(end, float).ravel() for end in (actions.low, actions.high))
        size = int(np.prod(seen.shape))
        self.states = tuple(f"state {i + 1}" for i in range(size)) if states is None else tuple(states)
        if len(self.states) != size:
            raise ControlError(f"{made} shows {size} numbers, states= names {len(self.states)}.")
        self.angles = tuple(angles)
        if not set(self.angles) <= set(self.states):
            raise ControlError(f"angles={self.angles} are not all among the states {self.states}.")
        self.actions = tuple(f"action {i + 1}" for i in range(len(self.low)))
        self.repeat, self.dt, self.interactions = repeat, repeat * dt, 0
        self._under_way = False

    def reset(self, seed: int | None = None) -> np.ndarray:
        state, _ = self.gym.reset(seed=seed)
        self._under_way = True
        return self.check_state(state, "at the start")

    def step(self, action: Any) -> Step:
        if not self._under_way:
            raise ControlError("no episode is under way: call reset() first, and again after its end.")
        box = self.gym.action_space
        a = self.check_action(action).reshape(box.shape).astype(box.dtype)
        reward, ended, truncated = 0.0, False, False
        for _ in range(self.repeat):
            state, one, ended, truncated, _ = self.gym.step(a)
            reward, self.interactions = reward + float(one), self.interactions + 1
            if ended or truncated:
                break
        self._under_way = not (ended or truncated)
        seen = self.check_state(state, f"after {self.interactions} interactions")
        if not np.isfinite(reward):
            raise ControlError(f"the environment answered a reward of {reward} at the state {seen}.")
        reason = "the environment ended it" if ended else "the environment's limit" if truncated else ""
        return Step(seen, reward, bool(ended), bool(truncated) and not ended, reason)
