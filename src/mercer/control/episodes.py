"""What happened in an environment: recorded, kept in a file, run again."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from mercer.control.environments import AbstractEnvironment, AbstractSystem, ControlError
from mercer.files import written_whole

Policy = Callable[[np.ndarray], Any]

FORMAT = "mercer episodes 1"


class Transitions(NamedTuple):
    """Steps, each by itself: in a state an action led to the next state.

    states (n, D), actions (n, A), next_states (n, D), rewards (n,)
    """

    states: np.ndarray
    actions: np.ndarray
    next_states: np.ndarray
    rewards: np.ndarray


@dataclass(frozen=True, eq=False)
class Episode:
    """What happened from one start to the end.

    states: (T + 1, D); actions: (T, A); rewards: (T,)
    ended, truncated: whether the last state was a last one, whether the environment stopped it there; neither
        where the recording stopped first. reason: in words
    dt: seconds of a step; interactions: steps of the environment it took, repeats of an action included
    seed: with which the environment was reset; None where there was none
    names: of states and of actions
    """

    states: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    ended: bool
    truncated: bool
    reason: str
    dt: float
    interactions: int
    seed: int | None
    names: tuple[tuple[str, ...], tuple[str, ...]]

    def __len__(self) -> int:
        return len(self.actions)

    @property
    def total(self) -> float:
        """The rewards, summed."""
        return float(self.rewards.sum())

    @property
    def transitions(self) -> Transitions:
        """Its steps, each by itself."""
        return Transitions(self.states[:-1], self.actions, self.states[1:], self.rewards)

    def discounted(self, gamma: float) -> float:
        """The rewards, each later one weighed by gamma once more (7.2)."""
        return float(self.rewards @ gamma ** np.arange(len(self.rewards)))


def record(
    env: AbstractEnvironment,
    policy: Policy | None = None,
    steps: int = 100,
    seed: int | None = None,
    state: Any = None,
) -> Episode:
    """Act in an environment until it ends the episode, or for so many steps.

    policy: state (D,) -> action (A,); None draws actions uniformly between their bounds
    seed: of the first state, and of random actions
    state: where to begin instead, in a system that can be placed

    >>> episode = mc.control.record(mc.control.MountainCar(), lambda s: [4.0 if s[1] > 0 else -4.0], seed=0)
    >>> episode.total, episode.reason
    """
    rng = np.random.default_rng(seed)
    act = policy if policy is not None else lambda _: rng.uniform(env.low, env.high)
    before = env.interactions
    seen = [env.reset(seed) if state is None else _placed(env, state)]
    actions, rewards = [], []
    ended, truncated, reason = False, False, f"recorded for {steps} steps"
    for _ in range(steps):
        action = env.check_action(act(seen[-1].copy()))
        step = env.step(action)
        seen.append(step.state)
        actions.append(action)
        rewards.append(step.reward)
        if step.ended or step.truncated:
            ended, truncated, reason = step.ended, step.truncated, step.reason
            break
    if ended and len(actions) == 1 and steps > 1:
        raise ControlError(
            f"the environment ended at once: {reason}, one step after {np.round(seen[0], 4)} under "
            f"the action {np.round(actions[0], 4)}. Begin elsewhere, or act less boldly."
        )
    return Episode(
        np.array(seen),
        np.array(actions).reshape(-1, len(env.actions)),
        np.array(rewards, float),
        ended,
        truncated,
        reason,
        env.dt,
        env.interactions - before,
        seed,
        (env.states, env.actions),
    )


def replay(env: AbstractEnvironment, episode: Episode, tolerance: float = 1e-6) -> Episode:
    """Take the actions of an episode again, from the state that its seed gives, or, in a system, from its
    first state. A `ControlError` where another state comes than was recorded: the
    environment is another one, or random.

    tolerance: how far states may be from the recorded ones, beside the largest number among them
    """
    later = iter(episode.actions)
    if isinstance(env, AbstractSystem):
        again = record(env, lambda _: next(later), len(episode), episode.seed, episode.states[0])
    elif episode.seed is None:
        raise ControlError("an episode without a seed cannot be run again here: record it with seed=.")
    else:
        again = record(env, lambda _: next(later), len(episode), episode.seed)
    size = min(len(again), len(episode)) + 1
    if again.states.shape[1] != episode.states.shape[1]:
        raise ControlError(
            f"the episode has {episode.states.shape[1]} state variables, the environment {len(env.states)}."
        )
    away = np.abs(again.states[:size] - episode.states[:size]).max(1) / (1.0 + np.abs(episode.states).max())
    wrong = away > tolerance
    if wrong.any() or len(again) != len(episode):
        at = int(np.argmax(wrong)) if wrong.any() else size - 1
        raise ControlError(
            f"at step {at} the environment was not where the episode says: it is not the environment, or not "
            "the settings, that the episode was recorded in, or it is random beyond its seed."
        )
    return again


def pooled(episodes: Sequence[Episode]) -> Transitions:
    """The steps of several episodes in one table: none leads from the end of one to the start of the next."""
    if not episodes:
        raise ControlError("there are no episodes to pool.")
    return Transitions(*map(np.concatenate, zip(*(e.transitions for e in episodes), strict=True)))


def save_episodes(path: str | os.PathLike[str], episodes: Sequence[Episode]) -> None:
    """Write episodes to a file (NumPy's .npz), whole or not at all.

    >>> save_episodes("runs.npz", [record(env, seed=seed) for seed in range(5)])
    """
    about = [
        {
            "ended": e.ended,
            "truncated": e.truncated,
            "reason": e.reason,
            "dt": e.dt,
            "interactions": e.interactions,
            "seed": e.seed,
            "names": e.names,
        }
        for e in episodes
    ]
    arrays: dict[str, Any] = {
        f"{what}-{i}": value
        for i, e in enumerate(episodes)
        for what, value in (("states", e.states), ("actions", e.actions), ("rewards", e.rewards))
    }
    text = np.array(json.dumps({"format": FORMAT, "episodes": about}))
    with written_whole(path) as new, open(new, "wb") as file:
        np.savez_compressed(file, about=text, **arrays)


def load_episodes(path: str | os.PathLike[str]) -> list[Episode]:
    """The episodes of a file that `save_episodes` wrote. Nothing in a file is ever run."""
    try:
        with np.load(path, allow_pickle=False) as file:
            about = json.loads(str(file["about"]))
            if about["format"] != FORMAT:
                raise ControlError(f"{path} holds {about['format']!r}, not {FORMAT!r}.")
            arrays = [
                [file[f"{what}-{i}"] for what in ("states", "actions", "rewards")]
                for i in range(len(about["episodes"]))
            ]
    except FileNotFoundError:
        raise
    except (KeyError, OSError, ValueError, TypeError) as error:
        raise ControlError(f"{path} is no file of episodes: {error}") from error
    return [
        Episode(*three, **{**rest, "names": tuple(map(tuple, rest["names"]))})
        for three, rest in zip(arrays, about["episodes"], strict=True)
    ]


def _placed(env: AbstractEnvironment, state: Any) -> np.ndarray:
    if not isinstance(env, AbstractSystem):
        raise ControlError("only a system of one's own can be placed in a state: reset others with seed=.")
    return env.place(state)
