"""Policies by values, found while acting: act, learn what actions do, improve the policy, act again."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from mercer.control.dynamics import Dynamics
from mercer.control.environments import AbstractEnvironment
from mercer.control.episodes import Episode, record
from mercer.control.rewards import AbstractReward
from mercer.control.values import ValuePolicy, gp_policy_iteration
from mercer.progress import Progress, shown, tell


class Practised(NamedTuple):
    """A policy, and the episodes from which it was learned, the random ones first."""

    policy: ValuePolicy
    episodes: tuple[Episode, ...]


def practise(
    env: AbstractEnvironment,
    reward: AbstractReward,
    support: Any,
    gamma: float = 0.9,
    box: Any = None,
    action_std: Any = 0.0,
    random_episodes: int = 4,
    episodes: int = 6,
    steps: int = 25,
    iterations: int = 4,
    seed: int = 0,
    progress: Progress = None,
) -> Practised:
    """Policy iteration on line: a few episodes of random actions, then, before each further one, the dynamics
    learned of all that was seen, and a few improvements of the policy, which begin where it was.

    random_episodes, episodes: of random actions, and by the policy as it is then; steps: of each, at most
    iterations: improvements of the policy before each episode
    action_std: how far actions are drawn about the best ones while it practises
    Other arguments as of `gp_policy_iteration`.

    >>> found = practise(env, Bumps.at([0.6, 0.0], 0.05), support_grid(env.box, (15, 15)), box=env.box)
    >>> mc.control.record(env, found.policy, seed=1)
    """
    rng = np.random.default_rng(seed)
    seen = [record(env, steps=steps, seed=seed + k) for k in range(random_episodes)]
    policy: ValuePolicy | None = None
    with shown("practising", progress):
        dynamics = Dynamics.learn(env, seen, rewards=False)
        for k in range(episodes + 1):
            policy = gp_policy_iteration(
                dynamics.plant, reward, support, env.low, env.high, gamma, box,
                action_std=action_std, start=policy, max_iterations=iterations, progress=False,
            )  # fmt: skip
            if k == episodes:
                break
            explore = functools.partial(policy.explore, seed=rng)
            seen.append(record(env, explore, steps, seed + random_episodes + k))
            dynamics = dynamics.more(seen[-1:])
            tell(k + 1, episodes, f"episode {k + 1}: reward {seen[-1].total:.3g}")
    assert policy is not None
    return Practised(policy, tuple(seen))
