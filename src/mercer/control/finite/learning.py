"""Values and actions learned from the steps of a process that is not known (Kuss 7.1.3).

What a learner sees of the process is where it begins and what follows an action.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mercer.control.environments import ControlError
from mercer.control.finite.process import FiniteProcess

Rate = Callable[[int], float]


@dataclass(frozen=True, eq=False)
class Learned:
    """What was learned from steps.

    q: (S, A), what each action in each state seems worth, minus infinity where it is not allowed
    policy: (S,), the best actions by it; value: (S,), what they seem worth
    visits: (S, A), how often each was taken; rewards: (steps,), as they came
    """

    q: np.ndarray
    visits: np.ndarray
    rewards: np.ndarray

    @property
    def policy(self) -> np.ndarray:
        """(S,): the actions that seem best."""
        return np.argmax(self.q, 1)

    @property
    def value(self) -> np.ndarray:
        """(S,): what the actions that seem best seem worth."""
        return self.q.max(1)


def robbins_monro(power: float = 0.75) -> Rate:
    """The rate n^-power of the n-th update, at which what is learned settles: the rates sum to infinity,
    their squares do not (7.16). power: above 1/2, up to 1, which averages, and forgets a wrong start slowly.
    """
    if not 0.5 < power <= 1.0:
        raise ControlError(f"rates n^-{power} do not settle: a power is above 0.5 and at most 1.")
    return lambda n: n**-power


def temporal_differences(
    process: FiniteProcess,
    policy: Any,
    steps: int = 10_000,
    trace: float = 0.0,
    rate: Rate | float | None = None,
    seed: int | np.random.Generator = 0,
) -> np.ndarray:
    """What each state (S,) is worth under a policy, from a random walk: v(s) moves towards r + gamma v(s')
    after every step (7.15).

    trace: lambda from 0 to 1: how far back a surprise moves the states that led to it as well (TD(lambda))
    rate: a number, or a function of how often a state was updated; None is `robbins_monro()`

    >>> temporal_differences(FiniteProcess(P, r, gamma=0.9), policy=[0, 1], steps=1000)
    """
    rng, p, at = np.random.default_rng(seed), process.probabilities(policy), _rate(rate)
    gamma, S = process.gamma, process.shape[0]
    v, eligible, visits = np.zeros(S), np.zeros(S), np.zeros(S, int)
    rates = np.zeros(S)
    s = process.begin(rng)
    for _ in range(steps):
        after, reward = process.draw(s, int(rng.choice(p.shape[1], p=p[s])), rng)
        visits[s] += 1
        rates[s] = at(visits[s])
        eligible *= gamma * trace
        eligible[s] += 1.0
        v += rates * eligible * (reward + gamma * v[after] - v[s])
        s = after
        if process.absorbing[s]:
            s = process.begin(rng)
            eligible[:] = 0.0
    return v


def q_learning(
    process: FiniteProcess,
    steps: int = 10_000,
    exploration: float = 0.1,
    trace: float = 0.0,
    rate: Rate | float | None = None,
    seed: int | np.random.Generator = 0,
) -> Learned:
    """What actions are worth if the best are taken later on (7.18, Algorithm 4), whatever is done meanwhile.

    exploration: how often a random action is taken in place of the best so far
    trace: lambda of eligibility traces, which a random action cuts (Watkins' Q(lambda))
    rate: a number, or a function of how often an action was updated; None is `robbins_monro()`

    >>> q_learning(FiniteProcess(P, r, gamma=0.9), steps=20_000).policy
    """
    return _learn(process, steps, exploration, trace, rate, seed, on_policy=False, simulated=0)


def sarsa(
    process: FiniteProcess,
    steps: int = 10_000,
    exploration: float = 0.1,
    trace: float = 0.0,
    rate: Rate | float | None = None,
    seed: int | np.random.Generator = 0,
) -> Learned:
    """What actions are worth under the policy that is followed, which explores: q(s, a) moves towards
    r + gamma q(s', a') for the action a' that is taken next. Arguments as of `q_learning`.
    """
    return _learn(process, steps, exploration, trace, rate, seed, on_policy=True, simulated=0)


def dyna(
    process: FiniteProcess,
    steps: int = 1000,
    simulated: int = 20,
    exploration: float = 0.1,
    rate: Rate | float | None = None,
    seed: int | np.random.Generator = 0,
) -> Learned:
    """Q-learning that also learns the process from what it sees, and after every real step takes `simulated`
    steps in its own model: few real steps, more thought (Sutton 1990). Other arguments as of `q_learning`.
    """
    return _learn(process, steps, exploration, 0.0, rate, seed, on_policy=False, simulated=simulated)


def _learn(
    process: FiniteProcess,
    steps: int,
    exploration: float,
    trace: float,
    rate: Rate | float | None,
    seed: int | np.random.Generator,
    on_policy: bool,
    simulated: int,
) -> Learned:
    rng, at, gamma = np.random.default_rng(seed), _rate(rate), process.gamma
    S, A = process.shape
    q = np.where(process.mask, 0.0, -np.inf)
    updates, visits, rewards = np.zeros((S, A), int), np.zeros((S, A), int), np.zeros(steps)
    counts, sums = np.zeros((S, A, S)), np.zeros((S, A, S))  # the model: what followed, and what it paid
    eligible, rates = np.zeros((S, A)), np.zeros((S, A))
    seen: list[tuple[int, int]] = []

    def choose(s: int) -> tuple[int, bool]:
        """An action, and whether it is the best so far."""
        best = np.flatnonzero(q[s] == q[s].max())
        if rng.random() < exploration:
            a = int(rng.choice(np.flatnonzero(process.mask[s])))
            return a, a in best
        return int(rng.choice(best)), True

    def surprise(s: int, a: int, reward: float, after: int, then: int | None) -> float:
        """How far q(s, a) is from what the step says."""
        later = 0.0 if process.absorbing[after] else q[after].max() if then is None else q[after, then]
        updates[s, a] += 1
        rates[s, a] = at(updates[s, a])
        return reward + gamma * later - q[s, a]

    s = process.begin(rng)
    a, _ = choose(s)
    for step in range(steps):
        after, reward = process.draw(s, a, rng)
        rewards[step] = reward
        visits[s, a] += 1
        then, greedy = choose(after)
        eligible[s, a] += 1.0
        delta = surprise(s, a, reward, after, then if on_policy else None)
        touched = eligible > 0.0
        q[touched] += (rates * eligible * delta)[touched]
        eligible *= gamma * trace if greedy or on_policy else 0.0
        if simulated:
            if not counts[s, a].any():
                seen.append((s, a))
            counts[s, a, after] += 1.0
            sums[s, a, after] += reward
            for i in rng.integers(len(seen), size=simulated):
                m, n = seen[i]
                told = int(rng.choice(S, p=counts[m, n] / counts[m, n].sum()))
                q[m, n] += surprise(m, n, sums[m, n, told] / counts[m, n, told], told, None) * rates[m, n]
        s, a = after, then
        if process.absorbing[s]:
            s = process.begin(rng)
            a, _ = choose(s)
            eligible[:] = 0.0
    return Learned(q, visits, rewards)


def _rate(rate: Rate | float | None) -> Rate:
    if rate is None:
        return robbins_monro()
    if callable(rate):
        return rate
    if not 0.0 < rate <= 1.0:
        raise ControlError(f"a rate is above 0 and at most 1, got {rate}.")
    constant = float(rate)
    return lambda _: constant


# -- values that are functions -------------------------------------------------------------------------------


def function_differences(
    value: Callable[[Any, jax.Array], jax.Array],
    weights: Any,
    states: Any,
    rewards: Any,
    next_states: Any,
    gamma: float,
    rate: float | np.ndarray = 0.1,
    ended: Any = None,
) -> Any:
    """The weights of a function that is a value, after temporal differences along n steps, in their order:

        weights += rate (r + gamma f(s') - f(s)) df(s)/dweights                              (7.33)

    value: f(weights, state), a function in JAX; weights: any tree of arrays, to begin with
    states, rewards, next_states: (n, ...), (n,), (n, ...), such as those of `pooled` episodes
    rate: a number, or one for each step; ended: (n,), after which steps nothing follows

    It need not settle, above all where steps are not those of the policy that is valued: a `ControlError`
    says so where weights grow out of bounds.

    >>> function_differences(lambda w, s: w @ features(s), np.zeros(5), states, rewards, next_states, 0.9)
    """
    rewards = jnp.asarray(rewards, float)
    n = len(rewards)
    over = jnp.zeros(n, bool) if ended is None else jnp.asarray(ended, bool)
    rates = jnp.broadcast_to(jnp.asarray(rate, float), (n,))
    slope = jax.value_and_grad(value)

    def one(w: Any, step: Any) -> tuple[Any, None]:
        s, r, after, last, a = step
        now, gradient = slope(w, s)
        delta = r + jnp.where(last, 0.0, gamma * value(w, after)) - now
        return jax.tree.map(lambda p, g: p + a * delta * g, w, gradient), None

    begin = jax.tree.map(lambda p: jnp.asarray(p, float), weights)
    found, _ = jax.lax.scan(one, begin, (jnp.asarray(states), rewards, jnp.asarray(next_states), over, rates))
    largest = max(float(jnp.abs(leaf).max()) for leaf in jax.tree.leaves(found))
    if not largest < 1e12:
        raise ControlError(
            f"the weights grew out of bounds in {n} steps: take a lower rate than {float(rates.max()):g}, or "
            "steps of the policy that is valued; for functions temporal differences need not settle."
        )
    return jax.tree.map(np.asarray, found)
