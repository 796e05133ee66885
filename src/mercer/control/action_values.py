"""Values of actions: a Gaussian process on support pairs of states and actions (Kuss 7.3.3, Algorithm 6)."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy.linalg import cho_factor, cho_solve

from mercer.control.bounded import action_grid, best_action
from mercer.control.environments import ControlError
from mercer.control.rewards import AbstractReward, Bumps, as_arrays
from mercer.control.values import BATCH, Sweep, Transition, World, learned_kernel, make_world
from mercer.kernels import SE
from mercer.progress import Progress, shown, tell


@eqx.filter_jit
def _ahead(world: World, kernel: SE, states: Any, actions: Any) -> tuple[Any, Any]:
    """Expected rewards (m,) of pairs, and expected kernels (m, m) of the state after each with the states of
    all.
    """
    of_states = Bumps(kernel, states, jnp.zeros(len(states)))

    def one(pair: tuple[Any, Any]) -> tuple[Any, Any]:
        r, l, _, _ = world.row(of_states, *pair)
        return r, l

    return jax.lax.map(one, (states, actions), batch_size=BATCH)


@eqx.filter_jit
def _best(q: Bumps, states: Any, grid: Any, low: Any, high: Any) -> tuple[Any, Any]:
    def one(state: Any) -> tuple[Any, Any]:
        return best_action(lambda a: q(jnp.concatenate([state, a])), grid, low, high)

    return jax.lax.map(one, states, batch_size=BATCH)


@dataclasses.dataclass(frozen=True, eq=False)
class ActionValuePolicy:
    """What actions in states are worth, and the policy that takes the best: it needs no model of what actions
    do, once it is found.

    support, actions: pairs, states (m, D) and actions (m, A); q: (m,), what they are worth
    kernel, noise_std: of the Gaussian process of them
    history: a `Sweep` for each iteration; converged: whether values stopped moving
    """

    kernel: SE
    support: np.ndarray
    actions: np.ndarray
    q: np.ndarray
    noise_std: float
    low: np.ndarray
    high: np.ndarray
    grid: np.ndarray
    history: tuple[Sweep, ...]
    converged: bool

    def __call__(self, state: Any) -> np.ndarray:
        """The action (A,) in a state (D,)."""
        return self.act(np.asarray(state, float)[None])[0]

    def act(self, states: Any) -> np.ndarray:
        """The actions (n, A) in states (n, D)."""
        return np.asarray(self._best(states)[0])

    def value(self, states: Any) -> np.ndarray:
        """What states (n, D) are worth (n,): the best action there."""
        return np.asarray(self._best(states)[1])

    def _best(self, states: Any) -> tuple[Any, Any]:
        return _best(self._q, np.atleast_2d(np.asarray(states, float)), self.grid, self.low, self.high)

    @functools.cached_property
    def _q(self) -> Bumps:
        pairs = np.concatenate([self.support, self.actions], 1)
        return Bumps(self.kernel, jnp.asarray(pairs), _weights(self.kernel, pairs, self.q, self.noise_std))


def gp_q_iteration(
    transition: Transition,
    reward: AbstractReward,
    states: Any,
    actions: Any,
    low: Any,
    high: Any,
    gamma: float = 0.9,
    box: Any = None,
    outside: float = 0.0,
    noise_std: float = 0.01,
    tried: int = 33,
    learn_for: int = 5,
    max_iterations: int = 25,
    tolerance: float = 0.02,
    progress: Progress = None,
) -> ActionValuePolicy:
    """A policy by the values of actions: q_i = r_i + gamma max over a of E[Q(s', a)], again and again, on
    support pairs (7.45, Algorithm 6). What follows a pair is asked of the transition once.

    states, actions: support pairs, (m, D) and (m, A)
    tried: actions among which the maximum is sought
    learn_for: iterations in which the kernel of values is learned; it is held from then on
    Other arguments as of `gp_policy_iteration`.

    The maximum is taken after the expectation: an approximation, better the surer the next state is.
    """
    S, A = np.asarray(states, float), np.asarray(actions, float)
    if S.ndim != 2 or A.ndim != 2 or len(S) != len(A):
        raise ControlError(f"support pairs are (m, D) states and (m, A) actions, got {S.shape}, {A.shape}.")
    world = make_world(transition, reward, S, low, high, gamma, box, outside, 0.0)
    D, pairs = S.shape[1], np.concatenate([S, A], 1)
    ends = np.asarray(world.low), np.asarray(world.high)
    grid = action_grid(*ends, tried)
    noise = np.full(len(S), noise_std**2)
    history: list[Sweep] = []
    kernel: Any = _first(pairs)
    r = W = np.zeros(0)
    q = np.zeros(len(S))
    with shown("Q-iteration", progress):
        for iteration in range(max_iterations):
            if iteration <= learn_for:
                if iteration:
                    kernel = learned_kernel(None, pairs, q, noise, kernel)
                r, W = (np.asarray(part) for part in _ahead(world, _columns(kernel, slice(None, D)), S, A))
                of_actions = np.asarray(_columns(kernel, slice(D, None))(A, grid)) / float(kernel.variance)
            alpha = np.asarray(_weights(kernel, pairs, q, noise_std))
            new = r + gamma * (W @ (alpha[:, None] * of_actions)).max(1) if iteration else r
            change, q = float(np.abs(new - q).max()), new
            history.append(Sweep(change, float(q.max()), np.nan, np.asarray(kernel.lengthscale)))
            tell(iteration + 1, max_iterations, f"largest value {q.max():.4g}, moved by {change:.2g}")
            if change <= tolerance * np.abs(q).max():
                break
    settled = history[-1].change <= tolerance * np.abs(q).max()
    return ActionValuePolicy(kernel, S, A, q, noise_std, *ends, grid, tuple(history), settled)


def _first(pairs: np.ndarray) -> SE:
    """Before anything is known: length-scales as far as supports are apart."""
    apart = np.ptp(pairs, axis=0) / np.maximum(len(pairs) ** (1.0 / pairs.shape[1]) - 1.0, 1.0)
    return as_arrays(SE(np.maximum(1.5 * apart, 1e-6), 1.0))


def _columns(kernel: SE, which: slice) -> SE:
    """The factor of an SE kernel that reads some columns; its variance is the whole kernel's."""
    return as_arrays(SE(np.asarray(kernel.lengthscale)[which], float(kernel.variance)))


def _weights(kernel: SE, pairs: np.ndarray, q: np.ndarray, noise_std: float) -> jax.Array:
    Q = np.asarray(kernel(pairs)) + noise_std**2 * np.eye(len(pairs))
    return jnp.asarray(cho_solve(cho_factor(Q), q))
