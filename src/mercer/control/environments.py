"""What a controller acts in: states, bounded actions, and what one step gives."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from mercer.control.integrate import rk4

if TYPE_CHECKING:
    from mercer.control.losses import AbstractStateLoss, ChanceConstraint


class ControlError(ValueError):
    """An action, an environment or data from which nothing can be learned."""


class Step(NamedTuple):
    """What one step gives.

    state: (D,) after it
    reward: collected on the way
    ended: whether the state is a last one, such as beyond the end of the track
    truncated: whether the episode stops here though it could go on, such as at a limit of steps
    reason: of either, in words
    """

    state: np.ndarray
    reward: float
    ended: bool
    truncated: bool
    reason: str = ""


class AbstractEnvironment(abc.ABC):
    """A world that is acted in, one step at a time.

    states: names of the D state variables; angles: those of them that are angles, in radians
    actions: names of the A actions
    low, high: (A,), between which actions lie
    dt: seconds from one step to the next
    interactions: steps that were ever taken in it; where an action is repeated, each repeat counts
    loss: of states, that `learn` plans for; None: minus the rewards, as far as they were met
    constraints: that `learn` keeps, such as on where an episode ends

    >>> env = mc.control.MountainCar()
    >>> state = env.reset(seed=0)
    >>> state, reward, ended, truncated, reason = env.step([2.0])
    """

    states: tuple[str, ...]
    angles: tuple[str, ...]
    actions: tuple[str, ...]
    low: np.ndarray
    high: np.ndarray
    dt: float
    interactions: int
    loss: AbstractStateLoss | None = None
    constraints: tuple[ChanceConstraint, ...] = ()

    @abc.abstractmethod
    def reset(self, seed: int | None = None) -> np.ndarray:
        """Begin an episode: its first state (D,). The same seed begins it at the same state."""

    @abc.abstractmethod
    def step(self, action: Any) -> Step:
        """Hold an action (A,) for one step. A `ControlError` says what is wrong with it, or with the state
        that the world answers.
        """

    def check_action(self, action: Any) -> np.ndarray:
        """The action as an array (A,); a `ControlError` where it has another shape, is not finite or out of
        bounds.
        """
        a = np.atleast_1d(np.asarray(action, float))
        names = ", ".join(self.actions)
        if a.shape != self.low.shape:
            raise ControlError(f"an action is {len(self.low)} numbers ({names}), got shape {a.shape}.")
        slack = 1e-9 * (self.high - self.low)
        outside = ~((a >= self.low - slack) & (a <= self.high + slack))
        if outside.any():
            i = int(np.argmax(outside))
            raise ControlError(
                f"the action {self.actions[i]} = {a[i]:g} is not between {self.low[i]:g} and "
                f"{self.high[i]:g}: clip it, or let the policy squash its actions."
            )
        return np.clip(a, self.low, self.high)

    def check_state(self, state: Any, when: str) -> np.ndarray:
        """The state as an array (D,); a `ControlError` where a number in it is not finite."""
        s = np.asarray(state, float).ravel()
        if len(s) != len(self.states):
            raise ControlError(f"a state is {len(self.states)} numbers, {when} it was {len(s)}.")
        if not np.isfinite(s).all():
            bad = ", ".join(f"{self.states[i]} = {s[i]}" for i in np.flatnonzero(~np.isfinite(s)))
            raise ControlError(f"{when} the environment answered {bad}: nothing can be learned from that.")
        return s


class AbstractSystem(AbstractEnvironment):
    """A world that is an ordinary differential equation under held controls, solved by Runge-Kutta.

    Its parts are pure functions of many states at once: `derivative`, `advance`, `reward`, `feasible`.
    """

    start: np.ndarray  # (D,)
    start_std: np.ndarray  # (D,), of the first state about it
    box: np.ndarray  # (2, D): between which random states are drawn
    max_steps: int | None
    _state: np.ndarray | None
    _taken: int
    _rng: np.random.Generator

    @abc.abstractmethod
    def derivative(self, state: np.ndarray, action: np.ndarray) -> np.ndarray:
        """d state / d time (..., D) for states (..., D) and actions (..., A)."""

    @abc.abstractmethod
    def reward(self, state: np.ndarray) -> np.ndarray:
        """Reward (...) of arriving in states (..., D)."""

    @abc.abstractmethod
    def feasible(self, state: np.ndarray) -> np.ndarray:
        """Whether (...) states (..., D) are where the task allows them to be."""

    def advance(self, state: Any, action: Any) -> np.ndarray:
        """The states (..., D) one step after states (..., D) in which actions (..., A) are held."""
        return rk4(self.derivative, np.asarray(state, float), np.asarray(action, float), self.dt)

    def reset(self, seed: int | None = None) -> np.ndarray:
        if seed is not None:
            self._rng = np.random.default_rng(seed)
        return self.place(self.start + self.start_std * self._rng.standard_normal(len(self.start)))

    def place(self, state: Any) -> np.ndarray:
        """Begin an episode in a state (D,) of one's own."""
        self._state, self._taken = self.check_state(state, "at the start"), 0
        return self._state.copy()

    def step(self, action: Any) -> Step:
        if self._state is None:
            raise ControlError("no episode is under way: call reset() first, and again after its end.")
        new = self.check_state(
            self.advance(self._state, self.check_action(action)), f"after {self._taken + 1} steps"
        )
        self._taken, self.interactions = self._taken + 1, self.interactions + 1
        ended = not bool(self.feasible(new))
        truncated = not ended and self.max_steps is not None and self._taken >= self.max_steps
        reason = f"left the feasible region at {self._words(new)}" if ended else ""
        if truncated:
            reason = f"the limit of {self.max_steps} steps"
        self._state = None if ended or truncated else new
        return Step(new.copy(), float(self.reward(new)), ended, truncated, reason)

    def draw(self, size: int, seed: int | np.random.Generator = 0) -> tuple[np.ndarray, np.ndarray]:
        """States (size, D), uniform in `box`, and actions (size, A), uniform in their bounds: where the text
        takes the transitions from which dynamics are learned.
        """
        rng = np.random.default_rng(seed)
        states = rng.uniform(self.box[0], self.box[1], (size, len(self.states)))
        return states, rng.uniform(self.low, self.high, (size, len(self.actions)))

    def _words(self, state: np.ndarray) -> str:
        return ", ".join(f"{name} = {value:.3g}" for name, value in zip(self.states, state, strict=True))

    def _begin(self, start: Sequence[float], start_std: float | Sequence[float]) -> None:
        """What every system holds between steps."""
        self.start = np.asarray(start, float)
        self.start_std = np.broadcast_to(np.asarray(start_std, float), self.start.shape)
        self._state, self._taken, self.interactions = None, 0, 0
        self._rng = np.random.default_rng()
