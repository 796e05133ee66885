"""What is believed of a finite process that is not known: Dirichlet beliefs of its transitions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mercer.control.environments import ControlError
from mercer.control.finite.exact import policy_iteration
from mercer.control.finite.process import FiniteProcess


@dataclass(frozen=True, eq=False)
class Beliefs:
    """Beliefs of a process after the steps seen: for each state and action a Dirichlet distribution of what
    follows, and a normal one of the expected reward.

    counts: (S, A, S), of the Dirichlet distributions; the prior's and how often each was seen
    sums, seen: (S, A), rewards added, and how many
    gamma: of the process; allowed: (S, A), which actions there are
    reward_std, noise_std: of expected rewards about zero before anything was seen, and of rewards about what
        was expected
    known: rewards (S, A, S) where they are known

    >>> beliefs = Beliefs.prior(states=3, actions=2, gamma=0.9).after(walk.states, walk.actions, walk.rewards)
    >>> beliefs.best_actions(draws=200, seed=0)         # (3, 2): how probable each action is the best
    """

    counts: np.ndarray
    sums: np.ndarray
    seen: np.ndarray
    gamma: float
    allowed: np.ndarray
    reward_std: float = 1.0
    noise_std: float = 1.0
    known: np.ndarray | None = None

    @classmethod
    def prior(
        cls,
        states: int,
        actions: int,
        gamma: float,
        weight: float = 1.0,
        rewards: Any = None,
        allowed: Any = None,
        reward_std: float = 1.0,
        noise_std: float = 1.0,
    ) -> Beliefs:
        """Before anything was seen. weight: how many observations the prior counts for, spread over all next
        states; rewards: (S, A, S), (S, A) or (S,) where they are known.
        """
        if not (weight > 0.0 and reward_std > 0.0 and noise_std > 0.0):
            raise ControlError("weight, reward_std and noise_std of beliefs are positive.")
        S, A = states, actions
        mask = np.ones((S, A), bool) if allowed is None else np.asarray(allowed, bool)
        known = None
        if rewards is not None:
            r = np.asarray(rewards, float)
            known = np.broadcast_to(r.reshape(r.shape + (1,) * (3 - r.ndim)), (S, A, S))
        counts = np.full((S, A, S), weight / S)
        return cls(counts, np.zeros((S, A)), np.zeros((S, A)), gamma, mask, reward_std, noise_std, known)

    def after(self, states: Any, actions: Any, rewards: Any) -> Beliefs:
        """Beliefs after a walk as well: states (T + 1,), actions (T,), rewards (T,)."""
        counts, sums, seen = self.counts.copy(), self.sums.copy(), self.seen.copy()
        states, actions = np.asarray(states, int), np.asarray(actions, int)
        np.add.at(counts, (states[:-1], actions, states[1:]), 1.0)
        np.add.at(sums, (states[:-1], actions), np.asarray(rewards, float))
        np.add.at(seen, (states[:-1], actions), 1.0)
        return replace(self, counts=counts, sums=sums, seen=seen)

    def mean(self) -> FiniteProcess:
        """The process that is expected."""
        rewards = self._rewards()[0][:, :, None] if self.known is None else self.known
        P = self.counts / self.counts.sum(2, keepdims=True)
        return FiniteProcess(P, np.broadcast_to(rewards, P.shape), self.gamma, self.allowed)

    def sample(self, seed: int | np.random.Generator = 0) -> FiniteProcess:
        """A process as it may be."""
        rng = np.random.default_rng(seed)
        drawn = rng.standard_gamma(self.counts) + 1e-300
        P = drawn / drawn.sum(2, keepdims=True)
        if self.known is not None:
            return FiniteProcess(P, self.known, self.gamma, self.allowed)
        mean, std = self._rewards()
        return FiniteProcess(P, mean + std * rng.standard_normal(mean.shape), self.gamma, self.allowed)

    def best_actions(self, draws: int = 100, seed: int | np.random.Generator = 0) -> np.ndarray:
        """How probable each action is the best one (S, A): processes are drawn and solved."""
        rng, (S, A) = np.random.default_rng(seed), self.allowed.shape
        best = np.zeros((S, A))
        for _ in range(draws):
            best[np.arange(S), policy_iteration(self.sample(rng)).policy] += 1.0
        return best / draws

    def _rewards(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation (S, A) of expected rewards."""
        precision = self.reward_std**-2 + self.seen * self.noise_std**-2
        return self.sums * self.noise_std**-2 / precision, precision**-0.5


@dataclass(frozen=True, eq=False)
class Sampled:
    """What acting by samples of beliefs gave.

    beliefs: after all steps; rewards: (steps,)
    regret: (steps,), what was lost so far by not taking the best actions: sums of v*(s) - q*(s, a)
    """

    beliefs: Beliefs
    rewards: np.ndarray
    regret: np.ndarray


def posterior_sampling(
    process: FiniteProcess,
    beliefs: Beliefs | None = None,
    steps: int = 1000,
    hold: int = 20,
    seed: int | np.random.Generator = 0,
) -> Sampled:
    """Act in a process as if it were one drawn from the beliefs of it, solved exactly; after `hold` steps, or
    at the end of a walk, draw another (Strens 2000). Explores where it does not know, and no longer than
    that.

    >>> posterior_sampling(FiniteProcess(P, r, gamma=0.9), steps=500).regret[-1]
    """
    rng = np.random.default_rng(seed)
    S, A = process.shape
    if beliefs is None:
        beliefs = Beliefs.prior(S, A, process.gamma, allowed=process.mask)
    best = policy_iteration(process)
    lost = best.value[:, None] - best.q  # (S, A)
    rewards: list[float] = []
    regret: list[float] = []
    s = process.begin(rng)
    while len(rewards) < steps:
        policy = policy_iteration(beliefs.sample(rng)).policy
        walk = process.walk(policy, min(hold, steps - len(rewards)), rng, start=s)
        beliefs = beliefs.after(*walk)
        rewards.extend(walk.rewards)
        regret.extend(lost[walk.states[:-1], walk.actions])
        s = process.begin(rng) if process.absorbing[walk.states[-1]] else int(walk.states[-1])
    return Sampled(beliefs, np.array(rewards), np.cumsum(np.maximum(regret, 0.0)))


def gittins_index(
    successes: float, failures: float, gamma: float, horizon: int = 300, tolerance: float = 1e-6
) -> float:
    """What an arm that pays 1 or 0 is worth, beside one that surely pays so much each time: the best of
    several arms to pull is the one of the highest index (Gittins 1979).

    successes, failures: counts of the Beta belief of how often it pays, those of the prior included
    horizon: pulls looked ahead; what comes later is taken for sure

    >>> gittins_index(1, 1, gamma=0.9)                                       # 0.703
    """
    if not (successes > 0 and failures > 0 and 0.0 <= gamma < 1.0):
        raise ControlError("counts of a Beta belief are positive, and gamma is from 0 to below 1.")

    def worth_pulling(sure: float) -> bool:
        n = np.arange(horizon + 1)
        total = successes + failures
        v = np.maximum((successes + n) / (total + horizon), sure) / (1.0 - gamma)
        for k in range(horizon - 1, -1, -1):  # after k pulls, n of them paid
            p = (successes + n[: k + 1]) / (total + k)
            pull = p * (1.0 + gamma * v[1 : k + 2]) + (1.0 - p) * gamma * v[: k + 1]
            v = np.maximum(pull, sure / (1.0 - gamma))
        return bool(pull[0] > sure / (1.0 - gamma))

    low, high = 0.0, 1.0
    while high - low > tolerance:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if worth_pulling(middle) else (low, middle)
    return 0.5 * (low + high)
