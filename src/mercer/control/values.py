"""Values as a Gaussian process on support states, and the policies that they are of (Kuss 7.3).

With N(mu_i, S_i) the state after support state i under the policy, l_i = E[k(s', support)], r_i = E[r(s')]:

    v_i = r_i + gamma l_i' Q^-1 v,   Q = K + noise          (7.37)
    (Q - gamma W) alpha = r,   v = Q alpha                  (7.38), W with the rows l_i

and the policy that is greedy with respect to v takes the action of the highest r + gamma l' alpha (7.39).
"""

from __future__ import annotations

import dataclasses
import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy.linalg import cho_factor, cho_solve

from mercer.control.bounded import action_grid, best_action
from mercer.control.environments import ControlError
from mercer.control.rewards import AbstractReward, Bumps, as_arrays
from mercer.gp import GP, Model
from mercer.kernels import SE, AbstractKernel
from mercer.learning import fit
from mercer.likelihoods import Gaussian as GaussianNoise
from mercer.means import Zero
from mercer.params import fixed, param
from mercer.progress import Progress, shown, tell
from mercer.uncertain import Predictor

Transition = Callable[[Any, Any], tuple[Any, ...]]
BATCH = 32  # states whose actions are sought at the same time
SWEEPS = 200  # of values that are kept within what rewards allow
LEARNING = 25  # evaluations of the evidence of values, each time


class World(eqx.Module):
    """What a policy is sought for, in JAX.

    transition: (state (D,), action (A,)) -> mean (D,) and covariance (D, D) of the next state, or those of a
        mixture, (K, D) and (K, D, D), and its weights (K,). A function, or a module of arrays
    reward: of arriving in a state; gamma: what a reward one step later is worth beside one now
    low, high: (A,), bounds of actions
    box: (2, D), where states may be; what lies beyond is worth `outside`, once and for all
    noise: offsets (K, A) of actions from those intended, and their probabilities (K,)
    """

    transition: Transition
    reward: AbstractReward
    gamma: Any
    low: Any
    high: Any
    box: Any
    outside: Any
    noise: tuple[Any, Any]

    def after(self, state: Any, action: Any) -> tuple[Any, Any, Any]:
        """The next state as a mixture: means (K, D), covariances (K, D, D), weights (K,), noise of the action
        included.
        """
        offsets, shares = self.noise

        def one(offset: Any) -> tuple[Any, Any, Any]:
            found = self.transition(state, jnp.clip(action + offset, self.low, self.high))
            if len(found) == 3:
                return found
            return found[0][None], found[1][None], jnp.ones(1)

        means, covariances, weights = jax.vmap(one)(offsets)
        D = means.shape[-1]
        return means.reshape(-1, D), covariances.reshape(-1, D, D), (shares[:, None] * weights).ravel()

    def inside(self, means: Any) -> Any:
        """Whether (K,) expected states (K, D) are where they may be."""
        return jnp.all((means >= self.box[0]) & (means <= self.box[1]), -1)

    def worth(self, value: Bumps, state: Any, action: Any) -> Any:
        """Of an action in a state: the reward that it brings and the value of where it leads (7.39)."""
        means, covariances, weights = self.after(state, action)
        each = jax.vmap(lambda m, S: self.reward.expected(m, S) + self.gamma * value.expected(m, S))
        return weights @ jnp.where(self.inside(means), each(means, covariances), self.outside)

    def row(self, value: Bumps, state: Any, action: Any) -> tuple[Any, Any, Any, Any]:
        """r_i and l_i (m,) of a support state, how probable its next state may be, and the mean of that."""
        means, covariances, weights = self.after(state, action)
        inside = self.inside(means)
        r = jax.vmap(self.reward.expected)(means, covariances)
        l = jax.vmap(value.expected_kernel)(means, covariances)
        stays = weights * inside
        return stays @ r + (weights @ ~inside) * self.outside, stays @ l, stays.sum(), weights @ means

    def variance(self, value: Bumps, R: Any, state: Any, action: Any) -> Any:
        """Of r(s') + gamma V(s'): of where the action leads, and of the value there (a second equation of
        Bellman's).
        """
        means, covariances, weights = self.after(state, action)
        doubted = Predictor(
            (value.kernel,), (Zero(),), value.centres[None], value.weights[None], R[None], jnp.zeros(1)
        )

        def moments(mean: Any, S: Any) -> tuple[Any, Any]:
            r, v = self.reward.expected(mean, S), value.expected(mean, S)
            both = self.reward.expected_with(value, mean, S)
            squares = self.reward.expected_square(mean, S) + 2.0 * self.gamma * both
            own = value_second_moment(doubted, mean, S)
            return r + self.gamma * v, squares + self.gamma**2 * own

        first, second = jax.vmap(moments)(means, covariances)
        inside = self.inside(means)
        first = jnp.where(inside, first, self.outside)
        second = jnp.where(inside, second, self.outside**2)
        return jnp.maximum(weights @ second - (weights @ first) ** 2, 0.0)


def value_second_moment(value: Predictor, mean: Any, covariance: Any) -> Any:
    """E[V(s)^2] of a value that is itself uncertain, at s ~ N(mean, covariance)."""
    from mercer.uncertain import moments

    found = moments(value, mean, covariance)
    return found.variance[0] + found.mean[0] ** 2


@eqx.filter_jit
def _greedy(world: World, value: Bumps, states: Any, grid: Any) -> tuple[Any, Any]:
    """The best actions (m, A) in states, and what they are worth (m,)."""

    def one(state: Any) -> tuple[Any, Any]:
        return best_action(lambda a: world.worth(value, state, a), grid, world.low, world.high)

    return jax.lax.map(one, states, batch_size=BATCH)


@eqx.filter_jit
def _rows(world: World, value: Bumps, states: Any, actions: Any, shares: Any) -> tuple[Any, ...]:
    """Rows of the linear system under actions (m, K, A) that are taken with probabilities (m, K)."""

    def one(given: tuple[Any, Any, Any]) -> tuple[Any, ...]:
        state, tried, share = given
        found = jax.vmap(lambda a: world.row(value, state, a))(tried)
        return tuple(jnp.tensordot(share, part, 1) for part in found)

    return jax.lax.map(one, (states, actions, shares), batch_size=BATCH)


@eqx.filter_jit
def _variances(world: World, value: Bumps, R: Any, states: Any, actions: Any) -> Any:
    return jax.lax.map(lambda given: world.variance(value, R, *given), (states, actions))


@eqx.filter_jit
def _values(value: Bumps, states: Any) -> Any:
    return jax.vmap(value)(states)


class Sweep(NamedTuple):
    """One improvement of a policy.

    change: the largest of a value; largest: the largest value
    radius: by how much what is wrong in values shrinks in one step, below 1 where they settle
    lengthscale: (D,), learned of the values
    beyond: whether the linear system said more than rewards allow, which happens where support states are too
        far apart: values are then kept within r / (1 - gamma), and are a rougher answer
    """

    change: float
    largest: float
    radius: float
    lengthscale: np.ndarray
    beyond: bool = False


@dataclasses.dataclass(frozen=True, eq=False)
class ValuePolicy:
    """A policy that takes the action of the highest reward and value after it, and that value.

    support: states (m, D); values: (m,) there; actions: (m, A) taken there; after: (m, D), where they are
        expected to lead; leaves: (m,), where they lead out of what is allowed
    kernel, noise: of the Gaussian process of values: noise variance (m,)
    history: a `Sweep` for each iteration; converged: whether values stopped moving

    >>> found = gp_policy_iteration(transition, reward, support, low=[-4.0], high=[4.0])
    >>> found(state), found.value(states), found.value_std(states)
    """

    world: World
    kernel: AbstractKernel
    support: np.ndarray
    values: np.ndarray
    noise: np.ndarray
    actions: np.ndarray
    after: np.ndarray
    leaves: np.ndarray
    grid: np.ndarray
    history: tuple[Sweep, ...]
    converged: bool

    def __call__(self, state: Any) -> np.ndarray:
        """The action (A,) in a state (D,)."""
        return self.act(np.asarray(state, float)[None])[0]

    def act(self, states: Any) -> np.ndarray:
        """The actions (n, A) in states (n, D)."""
        return np.asarray(_greedy(self.world, self._value, np.atleast_2d(states), self.grid)[0])

    def value(self, states: Any) -> np.ndarray:
        """What states (n, D) are worth (n,)."""
        return np.asarray(_values(self._value, np.atleast_2d(np.asarray(states, float))))

    def value_std(self, states: Any) -> np.ndarray:
        """How uncertain that is (n,): the standard deviation of the Gaussian process of values."""
        k = np.asarray(self.kernel(np.atleast_2d(np.asarray(states, float)), self.support))
        left = np.asarray(self.kernel.diag(states)) - np.sum((k @ self._R) * k, 1)
        return np.sqrt(np.maximum(left, 0.0))

    def residual(self, states: Any) -> np.ndarray:
        """By how much values of states (n, D) are wrong by their own measure (n,): the best reward and value
        one step later less the value. Small at support states; where it is large between them, there are too
        few.
        """
        S = np.atleast_2d(np.asarray(states, float))
        return np.asarray(_greedy(self.world, self._value, S, self.grid)[1]) - self.value(S)

    def explore(self, state: Any, seed: int | np.random.Generator = 0) -> np.ndarray:
        """An action (A,) drawn about the best one, as far from it as the policy's `action_std` says."""
        rng = np.random.default_rng(seed)
        offsets, shares = (np.asarray(part) for part in self.world.noise)
        std = np.sqrt(shares @ offsets**2)
        return np.clip(self(state) + std * rng.standard_normal(len(std)), self.world.low, self.world.high)

    @functools.cached_property
    def _R(self) -> np.ndarray:
        return cho_solve(
            cho_factor(_covariance(self.kernel, self.support, self.noise)), np.eye(len(self.support))
        )

    @functools.cached_property
    def _value(self) -> Bumps:
        return Bumps(self.kernel, jnp.asarray(self.support), jnp.asarray(self._R @ self.values))


def support_grid(box: Any, counts: Sequence[int]) -> np.ndarray:
    """A regular grid (m, D) of states in a box (2, D), with so many along each column.

    >>> support_grid(env.box, (19, 19))
    """
    sides = [np.linspace(a, b, n) for a, b, n in zip(*np.asarray(box, float), counts, strict=True)]
    return np.stack(np.meshgrid(*sides, indexing="ij"), -1).reshape(-1, len(sides))


def gp_policy_iteration(
    transition: Transition,
    reward: AbstractReward,
    support: Any,
    low: Any,
    high: Any,
    gamma: float = 0.9,
    box: Any = None,
    outside: float = 0.0,
    noise_std: float = 0.01,
    bellman: bool = False,
    action_std: Any = 0.0,
    actions: int = 17,
    kernel: AbstractKernel | None = None,
    start: ValuePolicy | None = None,
    max_iterations: int = 15,
    tolerance: float = 0.01,
    progress: Progress = None,
) -> ValuePolicy:
    """A policy for states and actions that are numbers, by improving on it and valuing it in turn (Algorithm
    5). Values are a Gaussian process with an SE kernel on support states; expectations over the next state
    are exact, and a policy's values are one linear system.

    transition: (state (D,), action (A,)) -> mean (D,) and covariance (D, D) of the next state, in JAX; or of
        a mixture, (K, D) and (K, D, D), with its weights (K,)
    reward: of arriving in a state, such as `Bumps.at([0.6, 0.0], width=0.05)`
    support: states (m, D), such as `support_grid(box, (19, 19))`
    low, high: (A,), bounds of actions
    gamma: what a reward one step later is worth beside one now, below 1
    box: (2, D), where states may be: an expected state beyond it is worth `outside`; None is everywhere
    noise_std: of values about their Gaussian process
    bellman: noise at each support state is what the next reward and value vary by, in place of `noise_std`
    action_std: (A,) or a number: actions are drawn about the best ones, and valued so (exploration)
    actions: on the grid from which the climb to the best one begins
    kernel: of values, held as it is; None learns an SE kernel's length-scales and variance at each iteration
    start: a policy found before, of the same support, to go on from
    tolerance: values have settled where none moved by more than this share of the largest

    >>> transition = lambda s, a: (0.5 * s + a, 0.01 * jnp.eye(1))
    >>> found = gp_policy_iteration(
    ...     transition, Bumps.at([1.0], 0.3), np.linspace(-2, 2, 21)[:, None], [-1.0], [1.0])
    >>> found([0.0])
    """
    world = make_world(transition, reward, support, low, high, gamma, box, outside, action_std)
    S = np.asarray(support, float)
    grid = action_grid(np.asarray(world.low), np.asarray(world.high), actions)
    m = len(S)
    floor = np.full(m, noise_std**2)
    with shown("policy iteration", progress):
        if start is None:
            v = np.asarray(_values_of(reward, S))
            k, noise = learned_kernel(kernel, S, v, floor, None), floor
            value, R = _conditioned(k, S, v, noise)
        else:
            if start.support.shape != S.shape or not np.array_equal(start.support, S):
                raise ControlError("a policy to go on from has the same support states.")
            v, k, noise, value, R = start.values, start.kernel, start.noise, start._value, start._R
        history: list[Sweep] = []
        for iteration in range(max_iterations):
            taken, _ = _greedy(world, value, S, grid)
            one = jnp.ones((m, 1))
            r, W, stays, after = (np.asarray(part) for part in _rows(world, value, S, taken[:, None], one))
            if bellman:
                noise = np.maximum(np.asarray(_variances(world, value, R, S, taken)), floor)
            new, radius, beyond = solved(k, S, noise, W, r, gamma, outside)
            change = float(np.abs(new - v).max())
            v = new
            k = learned_kernel(kernel, S, v, noise, k)
            value, R = _conditioned(k, S, v, noise)
            scale = np.asarray(k.lengthscale) if isinstance(k, SE) else np.full(S.shape[1], np.nan)
            history.append(Sweep(change, float(v.max()), radius, scale, beyond))
            tell(iteration + 1, max_iterations, f"largest value {v.max():.4g}, moved by {change:.2g}")
            if change <= tolerance * np.abs(v).max():
                break
    settled = bool(history) and history[-1].change <= tolerance * np.abs(v).max()
    return ValuePolicy(
        world, k, S, v, noise, np.asarray(taken), after, stays < 0.5, grid, tuple(history), settled
    )


def gp_policy_value(
    transition: Transition,
    reward: AbstractReward,
    support: Any,
    policy: Any,
    kernel: AbstractKernel,
    gamma: float = 0.9,
    box: Any = None,
    outside: float = 0.0,
    noise_std: float = 0.01,
) -> np.ndarray:
    """What support states (m,) are worth under a policy: the linear system (7.38), once.

    policy: actions (m, A) at the support states; or, of one that draws them, (m, K, A) and the probabilities
        (m, K) of each. `gaussian_actions` makes those of a Gaussian policy
    kernel: of values. Other arguments as of `gp_policy_iteration`
    """
    S = np.asarray(support, float)
    if isinstance(policy, tuple):
        taken, shares = (np.asarray(part, float) for part in policy)
    else:
        taken = np.asarray(policy, float).reshape(len(S), 1, -1)
        shares = np.ones((len(S), 1))
    ends = taken.min((0, 1)), taken.max((0, 1))
    world = make_world(transition, reward, S, *ends, gamma, box, outside, 0.0)
    value = Bumps(as_arrays(kernel), jnp.asarray(S), jnp.zeros(len(S)))
    r, W, _, _ = (np.asarray(part) for part in _rows(world, value, S, taken, shares))
    v, radius, beyond = solved(as_arrays(kernel), S, np.full(len(S), noise_std**2), W, r, gamma, outside)
    if beyond:
        raise ControlError(
            f"values up to {np.abs(v).max():.3g} are more than rewards allow (what is wrong in them grows by "
            f"{radius:.3g} in a step): between the support states they are not what their Gaussian process "
            "says. Take more support states, or a larger noise_std."
        )
    return v


def gaussian_actions(
    mean: Any, std: Any, low: Any, high: Any, nodes: int = 7
) -> tuple[np.ndarray, np.ndarray]:
    """A Gaussian policy as a few actions with probabilities (Gauss-Hermite): (m, K, A) and (m, K), for means
    (m, A) and a standard deviation, or (A,), each clipped to the bounds; K is nodes^A.
    """
    mean = np.asarray(mean, float)
    offsets, shares = action_noise(np.broadcast_to(np.asarray(std, float), mean.shape[1:]), nodes)
    taken = np.clip(mean[:, None] + offsets, low, high)
    return taken, np.broadcast_to(shares, taken.shape[:2])


# -- parts that values of states and of actions share --------------------------------------------------------


def make_world(
    transition: Transition,
    reward: AbstractReward,
    support: Any,
    low: Any,
    high: Any,
    gamma: float,
    box: Any,
    outside: float,
    action_std: Any,
) -> World:
    """Checked, as arrays."""
    S = np.asarray(support, float)
    low, high = (np.atleast_1d(np.asarray(end, float)) for end in (low, high))
    if S.ndim != 2 or len(S) < 2:
        raise ControlError(f"support states are (m, D), got shape {S.shape}.")
    if not 0.0 <= gamma < 1.0:
        raise ControlError(f"gamma is from 0 to below 1, got {gamma}: values would not be finite.")
    if low.shape != high.shape or (low > high).any():
        raise ControlError(f"bounds of actions are low {low} and high {high}: every low below its high.")
    D = S.shape[1]
    ends = np.array([np.full(D, -np.inf), np.full(D, np.inf)]) if box is None else np.asarray(box, float)
    if ends.shape != (2, D):
        raise ControlError(f"box is (2, {D}): the lower and the upper end of each state variable.")
    noise = action_noise(np.broadcast_to(np.asarray(action_std, float), low.shape))
    found = transition(jnp.asarray(S[0]), jnp.asarray(low))
    if len(found) not in (2, 3) or jnp.shape(found[0])[-1] != D or jnp.shape(found[1])[-2:] != (D, D):
        raise ControlError(
            f"a transition gives the mean ({D},) and the covariance ({D}, {D}) of the next state, or those "
            f"of a mixture and its weights; this one gave {[jnp.shape(part) for part in found]}."
        )
    a = jnp.asarray
    offsets, shares = noise
    return World(
        transition,
        reward,
        a(float(gamma)),
        a(low),
        a(high),
        a(ends),
        a(float(outside)),
        (a(offsets), a(shares)),
    )


def action_noise(std: np.ndarray, nodes: int = 5) -> tuple[np.ndarray, np.ndarray]:
    """Offsets (K, A) and probabilities (K,) that stand for a Gaussian of these standard deviations (A,)."""
    from mercer.uncertain.anywhere import hermite_grid

    moving = np.flatnonzero(std > 0.0)
    points, shares = hermite_grid(len(moving), nodes) if len(moving) else (np.zeros((1, 0)), np.ones(1))
    offsets = np.zeros((len(shares), len(std)))
    offsets[:, moving] = points * std[moving]
    return offsets, shares


def learned_kernel(
    given: AbstractKernel | None,
    X: np.ndarray,
    y: np.ndarray,
    noise: np.ndarray,
    before: AbstractKernel | None,
) -> AbstractKernel:
    """The kernel of values y at X: the one given, or an SE kernel whose length-scales and variance are of the
    highest evidence, begun from the one before.
    """
    if given is not None:
        return as_arrays(given)
    apart = _apart(X)
    if isinstance(before, SE):
        scale, variance = np.asarray(before.lengthscale) / apart, float(before.variance)
    else:
        scale, variance = np.full(X.shape[1], 1.5), max(float(np.mean(y**2)), 1e-4)
    # bumps narrower than supports are apart say nothing of what is between them
    least, most = 0.7, 4.0 * float(np.max(np.ptp(X, axis=0) / apart))
    scale = np.clip(scale, 1.001 * least, 0.999 * most)
    start = SE(param(scale, bounds=(least, most)), param(max(variance, 1e-6), bounds=(1e-8, 1e8)))
    model = Model(GP(start), GaussianNoise(fixed(float(np.mean(noise)))))
    with warnings.catch_warnings():
        # that the climb was short, or ended on a bound: the next iteration goes on from there
        warnings.simplefilter("ignore")
        found = fit(model, X / apart, y, starts="given", max_evaluations=LEARNING, progress=False)
    kernel = found.model.gp.kernel
    return as_arrays(SE(np.asarray(kernel.lengthscale) * apart, float(kernel.variance)))


def _apart(X: np.ndarray) -> np.ndarray:
    """How far support points are from each other along each column (d,)."""
    count = [min(len(np.unique(column)), len(X) ** (1.0 / X.shape[1])) for column in X.T]
    return np.ptp(X, axis=0) / np.maximum(np.array(count) - 1.0, 1.0)


def solved(
    kernel: AbstractKernel,
    S: np.ndarray,
    noise: np.ndarray,
    W: np.ndarray,
    r: np.ndarray,
    gamma: float,
    outside: float,
) -> tuple[np.ndarray, float, bool]:
    """Values (m,) by (7.38), the spectral radius of gamma W Q^-1, and whether they were beyond what rewards
    allow: then they are what sweeps of (7.37) come to that are kept within it.
    """
    Q = _covariance(kernel, S, noise)
    v = Q @ np.linalg.solve(Q - gamma * W, r)
    factor, x, radius = cho_factor(Q), np.random.default_rng(0).standard_normal(len(S)), 0.0
    for _ in range(30):  # power iteration
        x = gamma * W @ cho_solve(factor, x / np.linalg.norm(x))
        radius = float(np.linalg.norm(x))
        if radius == 0.0:
            break
    ends = np.array([min(r.min(), outside), max(r.max(), outside)]) / (1.0 - gamma)
    slack = 0.1 * float(ends[1] - ends[0]) + 1e-9
    beyond = not (np.isfinite(v).all() and v.min() >= ends[0] - slack and v.max() <= ends[1] + slack)
    if beyond:
        v = np.zeros(len(S))
        for _ in range(SWEEPS):
            v = np.clip(r + gamma * W @ cho_solve(factor, v), *ends)
    return v, radius, beyond


def _covariance(kernel: AbstractKernel, S: np.ndarray, noise: np.ndarray) -> np.ndarray:
    return np.asarray(kernel(S)) + np.diag(noise)


def _conditioned(
    kernel: AbstractKernel, S: np.ndarray, v: np.ndarray, noise: np.ndarray
) -> tuple[Bumps, np.ndarray]:
    """Values as a function, and Q^-1."""
    R = cho_solve(cho_factor(_covariance(kernel, S, noise)), np.eye(len(S)))
    return Bumps(kernel, jnp.asarray(S), jnp.asarray(R @ v)), R


@eqx.filter_jit
def _values_of(reward: AbstractReward, states: Any) -> Any:
    return jax.vmap(reward)(states)
