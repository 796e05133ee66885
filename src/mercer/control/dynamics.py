"""What an action does to a state, learned from transitions (Kuss 7.2.2).

    s' = s + f(x),   x = (states, actions, sines and cosines of angles),   f_i ~ GP(m_i, SE)

A Gaussian state stays Gaussian from step to step by matching moments: those of f at a Gaussian x are exact,
and so are those of sines and cosines; that the next state is Gaussian again is the approximation.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from mercer.control import hyperparameters
from mercer.control.environments import ControlError
from mercer.control.episodes import Episode, Transitions, pooled
from mercer.control.propagate import (
    Gaussian,
    Weights,
    certain,
    cross,
    expected_mean,
    linear_reply,
    reply,
    trigonometric,
)
from mercer.decide.surrogate import bucket, pad
from mercer.registry import Saved, unknown

__all__ = ["Calibration", "Dynamics", "Plant", "Tube", "advance", "drift", "expected_reward", "reward_at"]

METHODS = ("moments", "linearised", "mean")
INTERVALS = ("calibrated", "latent")
FEWEST = 5  # transitions


class Plant(eqx.Module):
    """Learned dynamics as arrays, for compiled programs: `plant(state, action)` is the next state of a known
    one, mean (D,) and covariance (D, D), as `gp_policy_iteration` asks for. With more data, within a doubling
    of them, nothing is compiled again.

    weights: of the D differences; reward: of the reward, or None; angles: which states are; low, high (A,)
    """

    weights: Weights
    reward: Weights | None
    low: Any
    high: Any
    angles: tuple[int, ...] = eqx.field(static=True)

    @property
    def D(self) -> int:
        """How many state variables."""
        return len(self.weights.variance)

    def __call__(self, state: Any, action: Any) -> Gaussian:
        """The next state of a known state (D,) and action (A,) (7.32)."""
        weights = self.weights
        mean, variance = certain(weights, features(jnp.concatenate([state, action]), self.angles))
        return Gaussian(state + mean, jnp.diag(variance + weights.noise))


def features(values: Any, angles: tuple[int, ...]) -> Any:
    """(..., d) of states, or states and actions, (..., k): those that are no angles, sines and cosines."""
    plain = [i for i in range(values.shape[-1]) if i not in angles]
    xp = jnp if isinstance(values, jax.Array) else np
    turned = values[..., list(angles)]
    return xp.concatenate([values[..., plain], xp.sin(turned), xp.cos(turned)], -1)


def gaussian_features(vector: Gaussian, angles: tuple[int, ...]) -> tuple[Gaussian, Any]:
    """The same of a Gaussian vector: exact moments, and the covariance (k, d) of the vector with them."""
    plain = [i for i in range(len(vector.mean)) if i not in angles]
    mean, with_plain = vector.mean[jnp.array(plain)], vector.covariance[:, jnp.array(plain)]
    if not angles:
        return vector, vector.covariance
    turned, with_turned = trigonometric(vector, angles)
    inner = with_turned[jnp.array(plain)]
    whole = jnp.block([[with_plain[jnp.array(plain)], inner], [inner.T, turned.covariance]])
    return Gaussian(jnp.concatenate([mean, turned.mean]), whole), jnp.concatenate(
        [with_plain, with_turned], 1
    )


def advance(
    plant: Plant, state: Gaussian, action: Gaussian, together: Any, method: str = "moments"
) -> Gaussian:
    """The state after one step under a Gaussian action; together (D, A): its covariance with the state."""
    joint = _joint(state, action, together)
    x, with_x = gaussian_features(joint, plant.angles)
    answer = (linear_reply if method == "linearised" else reply)(plant.weights, x.mean, x.covariance)
    both = with_x[: plant.D] @ answer.slope
    covariance = state.covariance + answer.covariance + both + both.T + jnp.diag(plant.weights.noise)
    return Gaussian(state.mean + answer.mean, 0.5 * (covariance + covariance.T))


def drift(plant: Plant, state: Any, action: Any) -> Any:
    """The expected next state (D,) of a known state and action."""
    x, weights = features(jnp.concatenate([state, action]), plant.angles), plant.weights
    return state + jnp.sum(weights.alpha * cross(weights, x), 1) + weights.level + weights.slope @ x


def reward_at(plant: Plant, state: Any, action: Any) -> Any:
    """The expected reward of a known action in a known state."""
    x, weights = features(jnp.concatenate([state, action]), plant.angles), cast(Weights, plant.reward)
    return jnp.sum(weights.alpha * cross(weights, x)) + weights.level[0]


def expected_reward(plant: Plant, state: Gaussian, action: Gaussian, together: Any) -> Any:
    """Of the action in the state, by the model of rewards."""
    x, _ = gaussian_features(_joint(state, action, together), plant.angles)
    return expected_mean(cast(Weights, plant.reward), x.mean, x.covariance)[0]


def _joint(state: Gaussian, action: Gaussian, together: Any) -> Gaussian:
    covariance = jnp.block([[state.covariance, together], [together.T, action.covariance]])
    return Gaussian(jnp.concatenate([state.mean, action.mean]), covariance)


class Tube(NamedTuple):
    """States that are expected, from a first to a last: mean (T + 1, D) and covariance (T + 1, D, D)."""

    mean: np.ndarray
    covariance: np.ndarray

    @property
    def std(self) -> np.ndarray:
        """Of each state variable (T + 1, D)."""
        return np.sqrt(np.maximum(np.diagonal(self.covariance, axis1=1, axis2=2), 0.0))


@dataclasses.dataclass(frozen=True, eq=False)
class Calibration:
    """How often k-step predictions covered what happened.

    level: that they promise; coverage: share (T, D) of the roll-outs that were in the interval, by step and
    state; std_of_errors: (T, D), of errors in standard deviations of their predictions, 1 where these are
    right; rollouts: how many; states: names
    """

    level: float
    coverage: np.ndarray
    std_of_errors: np.ndarray
    rollouts: int
    states: tuple[str, ...]

    @property
    def overall(self) -> float:
        """The share of all steps and states together."""
        return float(self.coverage.mean())

    def __str__(self) -> str:
        lines = [
            f"{self.level:.0%} intervals of {self.rollouts} roll-outs cover {self.overall:.1%} of states"
        ]
        steps = {1, len(self.coverage) // 2, len(self.coverage)} - {0}
        for k in sorted(steps):
            each = ", ".join(f"{n} {c:.0%}" for n, c in zip(self.states, self.coverage[k - 1], strict=True))
            lines.append(f"  after {k} step{'s' * (k > 1)}: {each}")
        return "\n".join(lines)


@Saved.register
@dataclasses.dataclass(frozen=True, eq=False)
class Dynamics:
    """What actions do, learned from transitions: one Gaussian process for the change of each state.

    states, actions, angles: names; angles are in radians, and enter as sines and cosines
    low, high: (A,) bounds of actions
    known: linear structure known beforehand, the prior mean of changes: {"position": {"velocity": dt}}
    inducing: how many inducing inputs the sparse processes have that planning uses (VFE); None: all rows
    rewards: whether the reward is learned, too
    theta: logarithms (D + 1, d + 2) of length-scales, variance and noise of each, in standardised columns
    spread: (D + 1,), by what standard deviations are multiplied for intervals to hold what they promise, as
        measured on rows that were held out
    transitions: what it was learned from
    intervals: "calibrated": the noise that was learned comes on top at every step, and standard deviations
        are multiplied by `spread`; "latent": what the Gaussian processes say of their functions alone, for
        simulators without noise (the text's; narrower, and after many steps often too narrow)

    `Dynamics.learn` makes one of episodes, `more` the next one, starting where this one ended.

    >>> episodes = [mc.control.record(env, seed=seed) for seed in range(5)]
    >>> dynamics = mc.control.Dynamics.learn(env, episodes)
    >>> tube = dynamics.simulate(env.reset(seed=9), actions)          # mean (T + 1, D), covariance
    >>> print(dynamics.calibration(held_out))
    """

    states: tuple[str, ...]
    actions: tuple[str, ...]
    angles: tuple[str, ...]
    low: np.ndarray
    high: np.ndarray
    known: dict[str, dict[str, float]]
    inducing: int | None
    rewards: bool
    theta: np.ndarray
    spread: np.ndarray
    transitions: Transitions
    intervals: str = "calibrated"

    def __post_init__(self) -> None:
        if self.intervals not in INTERVALS:
            raise ControlError(unknown("intervals", self.intervals, INTERVALS))
        object.__setattr__(self, "transitions", Transitions(*self.transitions))

    @classmethod
    def learn(
        cls,
        env: Any,
        episodes: Sequence[Episode] | Transitions,
        known: Mapping[str, Mapping[str, float]] | None = None,
        inducing: int | None = None,
        rewards: bool = True,
        max_evaluations: int = 200,
        intervals: str = "calibrated",
    ) -> Dynamics:
        """Of what was seen in an environment, or in anything that has its names and bounds."""
        transitions = episodes if isinstance(episodes, Transitions) else pooled(episodes)
        structure = {state: dict(slopes) for state, slopes in (known or {}).items()}
        nothing = np.zeros((0, 0))
        empty = cls(
            tuple(env.states), tuple(env.actions), tuple(env.angles), np.asarray(env.low, float),
            np.asarray(env.high, float), structure, inducing, rewards, nothing, np.ones(0), transitions,
            intervals,
        )  # fmt: skip
        return empty._learned(transitions, max_evaluations)

    def more(self, episodes: Sequence[Episode] | Transitions, max_evaluations: int = 50) -> Dynamics:
        """The dynamics after these episodes besides those seen so far."""
        new = episodes if isinstance(episodes, Transitions) else pooled(episodes)
        both = Transitions(*(np.concatenate(two) for two in zip(self.transitions, new, strict=True)))
        return self._learned(both, max_evaluations)

    def _learned(self, transitions: Transitions, max_evaluations: int) -> Dynamics:
        self._check(transitions)
        here = dataclasses.replace(self, transitions=transitions)
        X, Y, _ = here._standardised
        old = self.theta if len(self.theta) else None
        some = _spread_out(len(X), LEARNED_FROM)
        theta = [
            hyperparameters.learned(
                X[some], Y[some, i], hyperparameters.start_values(X.shape[1]) if old is None else old[i],
                max_evaluations,
            )
            for i in range(Y.shape[1])
        ]  # fmt: skip
        D = len(self.states)
        spread = [hyperparameters.spread(X[some], Y[some, i], theta[i]) for i in range(D)]
        factor = np.array([*spread, *[1.0] * (len(theta) - D)])
        return dataclasses.replace(here, theta=np.array(theta), spread=factor)

    def _check(self, t: Transitions) -> None:
        for what, values in zip(t._fields, t, strict=True):
            if not np.isfinite(values).all():
                row = int(np.flatnonzero(~np.isfinite(values.reshape(len(values), -1)).all(1))[0])
                raise ControlError(f"{what} of transition {row} are not all finite numbers.")
        if t.states.shape[1] != len(self.states) or t.actions.shape[1] != len(self.actions):
            raise ControlError(
                f"transitions have {t.states.shape[1]} states and {t.actions.shape[1]} actions, not the "
                f"{len(self.states)} ({', '.join(self.states)}) and {len(self.actions)} of the environment."
            )
        if len(t.states) < FEWEST:
            raise ControlError(
                f"{len(t.states)} transitions are too few to learn dynamics from: record at least {FEWEST}, "
                "better some tens."
            )
        for state, slopes in self.known.items():
            for name in (state, *slopes):
                if name not in (*self.states, *self.actions):
                    raise ControlError(unknown("state or action", name, (*self.states, *self.actions)))
                if name in self.angles and name != state:
                    raise ControlError(f"known structure is linear, and {name} is an angle.")

    # -- as arrays -------------------------------------------------------------------------------------------

    @property
    def angle_columns(self) -> tuple[int, ...]:
        """Which states are angles."""
        return tuple(self.states.index(name) for name in self.angles)

    @functools.cached_property
    def _standardised(self) -> tuple[np.ndarray, np.ndarray, tuple[np.ndarray, ...]]:
        """Inputs (n, d), targets (n, D + 1), and the centres and units of both."""
        t = self.transitions
        X = features(np.concatenate([t.states, t.actions], 1), self.angle_columns)
        change = t.next_states - t.states
        turned = list(self.angle_columns)
        change[:, turned] = (change[:, turned] + np.pi) % (2 * np.pi) - np.pi
        slope = self._slope
        Y = np.column_stack([change - X @ slope.T, t.rewards]) if self.rewards else change - X @ slope.T
        centre, unit = X.mean(0), _units(X)
        level, size = Y.mean(0), _units(Y)
        return (X - centre) / unit, (Y - level) / size, (centre, unit, level, size)

    @functools.cached_property
    def _slope(self) -> np.ndarray:
        """Of the known structure (D, d)."""
        columns = [name for name in (*self.states, *self.actions) if name not in self.angles]
        slope = np.zeros((len(self.states), len(columns) + 2 * len(self.angles)))
        for state, slopes in self.known.items():
            for name, value in slopes.items():
                slope[self.states.index(state), columns.index(name)] = value
        return slope

    @functools.cached_property
    def plant(self) -> Plant:
        """As arrays for compiled programs; sparse where `inducing` says so."""
        X, Y, (centre, unit, level, size) = self._standardised
        n, D = len(X), len(self.states)
        N = bucket(n)
        mask = pad(np.ones(n), N)
        padded = pad(X, N)
        if self.inducing is None or self.inducing >= n:
            places, alphas_Rs = (
                padded,
                [
                    hyperparameters.factors(theta, padded, pad(Y[:, i], N), mask)
                    for i, theta in enumerate(self.theta)
                ],
            )
        else:
            M = bucket(self.inducing)
            chosen = _pivots(self.theta, X, self.inducing)
            places, of_Z = pad(X[chosen], M), pad(np.ones(len(chosen)), M)
            alphas_Rs = [
                hyperparameters.sparse_factors(theta, places, of_Z, padded, pad(Y[:, i], N), mask)
                for i, theta in enumerate(self.theta)
            ]
        alpha = np.stack([np.asarray(a) for a, _ in alphas_Rs])
        R = np.stack([np.asarray(r) for _, r in alphas_Rs])
        latent = self.intervals == "latent"
        wider = np.ones(len(self.theta)) if latent else self.spread**2
        scale = (size * wider)[:, None]
        signal = np.exp(self.theta[:, -2])
        noise = np.zeros(len(self.theta)) if latent else np.exp(self.theta[:, -1]) + 1e-6 * signal
        slope = np.zeros((len(self.theta), X.shape[1]))
        slope[:D] = self._slope
        every = Weights(
            places * unit + centre, np.exp(-2.0 * self.theta[:, :-2]) / unit**2, wider * signal * size**2,
            alpha / scale, R / (wider * size**2)[:, None, None], level, slope, wider * noise * size**2,
        )  # fmt: skip
        plant = Plant(
            _part(every, slice(0, D)), _part(every, slice(D, None)) if self.rewards else None,
            self.low, self.high, self.angle_columns,
        )  # fmt: skip
        return jax.tree.map(jnp.asarray, plant)  # once, and not at each of thousands of calls

    # -- simulation ------------------------------------------------------------------------------------------

    def predict(self, states: Any, actions: Any) -> tuple[np.ndarray, np.ndarray]:
        """Mean (m, D) and std (m, D) of the next states of known states (m, D) and actions (m, A)."""
        states = np.atleast_2d(np.asarray(states, float))
        mean, variance = _next(self.plant, states, np.asarray(actions, float).reshape(len(states), -1))
        return np.asarray(mean), np.sqrt(np.asarray(variance))

    def simulate(self, start: Any, actions: Any, covariance: Any = None, method: str = "moments") -> Tube:
        """States that are expected under actions (T, A), from a state (D,), known or with a covariance.

        method: "moments" matches them exactly at each step, "linearised" as if the processes were straight
        within the spread of the state, "mean" follows the expected state, with the doubt of one step alone

        >>> tube = dynamics.simulate(state, np.full((10, 1), 2.0))
        >>> tube.mean, tube.std
        """
        if method not in METHODS:
            raise ControlError(unknown("method", method, METHODS))
        D = len(self.states)
        start = np.asarray(start, float)
        S = np.zeros((D, D)) if covariance is None else np.asarray(covariance, float)
        actions = np.asarray(actions, float).reshape(-1, len(self.actions))
        found = _simulated(self.plant, Gaussian(start, S), actions, method)
        return Tube(*map(np.asarray, found))

    def particles(
        self,
        start: Any,
        actions: Any,
        covariance: Any = None,
        size: int = 1000,
        consistent: bool = False,
        seed: int | np.random.Generator = 0,
    ) -> np.ndarray:
        """Draws (size, T + 1, D) of roll-outs: what `simulate` approximates.

        consistent: whether each draw is of one function, which remembers what it has said at the states that
        it passed through (the strict version); by default each step is drawn by itself, as moments assume

        >>> draws = dynamics.particles(state, actions)
        >>> draws.mean(0), draws.std(0)
        """
        rng = np.random.default_rng(seed)
        D, plant = len(self.states), self.plant
        actions = np.asarray(actions, float).reshape(-1, len(self.actions))
        S = np.zeros((D, D)) if covariance is None else np.asarray(covariance, float)
        seen = [rng.multivariate_normal(np.asarray(start, float), S, size)]
        memory = _Memory(plant.weights)
        for action in actions:
            joint = np.concatenate([seen[-1], np.tile(action, (size, 1))], 1)
            change = memory.draw(features(joint, self.angle_columns), rng, consistent)
            noise = np.sqrt(np.asarray(plant.weights.noise)) * rng.standard_normal((size, D))
            seen.append(seen[-1] + change + noise)
        return np.stack(seen, 1)

    def calibration(
        self, episodes: Sequence[Episode], steps: int = 10, level: float = 0.95, method: str = "moments"
    ) -> Calibration:
        """How often intervals of predictions 1 to `steps` steps ahead cover what happened in episodes that
        were not learned from, each from its first state and under its own actions.

        >>> print(dynamics.calibration(held_out, steps=10))
        """
        from statistics import NormalDist

        long = [e for e in episodes if len(e) >= steps]
        if not long:
            raise ControlError(f"no episode has {steps} steps: take fewer steps, or longer episodes.")
        starts = np.array([e.states[0] for e in long])
        actions = np.array([e.actions[:steps] for e in long])
        mean, covariance = _many(self.plant, starts, actions, method)
        std = np.sqrt(np.maximum(np.diagonal(np.asarray(covariance), axis1=2, axis2=3), 0.0))[:, 1:]
        errors = np.array([e.states[1 : steps + 1] for e in long]) - np.asarray(mean)[:, 1:]
        turned = list(self.angle_columns)
        errors[..., turned] = (errors[..., turned] + np.pi) % (2 * np.pi) - np.pi
        inside = np.abs(errors) <= NormalDist().inv_cdf((1 + level) / 2) * std
        away = np.sqrt(np.mean((errors / std) ** 2, 0))
        return Calibration(level, inside.mean(0), away, len(long), self.states)


LEARNED_FROM = 500  # rows, at most, that hyperparameters are learned from: evenly spread over all


def _spread_out(n: int, most: int) -> np.ndarray:
    return np.arange(n) if n <= most else np.linspace(0, n - 1, most).astype(int)


def _units(columns: np.ndarray) -> np.ndarray:
    """Standard deviations (k,), 1 where a column is constant."""
    std = columns.std(0)
    return np.where(std > 1e-12 * (1.0 + np.abs(columns).max(0)), std, 1.0)


def _part(weights: Weights, which: slice) -> Weights:
    return Weights(weights.centres, *(value[which] for value in weights[1:]))


def _pivots(theta: np.ndarray, X: np.ndarray, size: int) -> np.ndarray:
    """Rows (size,) that leave least of the processes unexplained, one after another: pivots of an incomplete
    Cholesky factor of the mean of their correlations.
    """
    scaled = [X / np.exp(one[:-2]) for one in theta]
    left, rows, chosen = np.ones(len(X)), np.zeros((size, len(X))), []
    for k in range(size):
        at = int(np.argmax(left))
        chosen.append(at)
        if left[at] < 1e-10:
            break
        correlation = np.mean([np.exp(-0.5 * np.sum((s - s[at]) ** 2, 1)) for s in scaled], 0)
        rows[k] = (correlation - rows[:k, at] @ rows[:k]) / np.sqrt(left[at])
        left = np.maximum(left - rows[k] ** 2, 0.0)
    return np.array(chosen)


@functools.partial(jax.jit, static_argnames="method")
def _simulated(plant: Plant, start: Gaussian, actions: Any, method: str) -> Tube:
    A = actions.shape[1]
    nothing = jnp.zeros((plant.D, A))

    def step(state: Gaussian, action: Any) -> tuple[Gaussian, Gaussian]:
        if method == "mean":
            new = plant(state.mean, action)
        else:
            new = advance(plant, state, Gaussian(action, jnp.zeros((A, A))), nothing, method)
        return new, new

    start = Gaussian(*map(jnp.asarray, start))
    _, later = jax.lax.scan(step, start, jnp.asarray(actions))
    return Tube(
        jnp.concatenate([start.mean[None], later.mean]),  # type: ignore[arg-type]
        jnp.concatenate([start.covariance[None], later.covariance]),  # type: ignore[arg-type]
    )


@functools.partial(jax.jit, static_argnames="method")
def _many(plant: Plant, starts: Any, actions: Any, method: str) -> Tube:
    known = jnp.zeros((plant.D, plant.D))

    def one(pair: tuple[Any, Any]) -> Tube:
        return _simulated(plant, Gaussian(pair[0], known), pair[1], method)

    return jax.lax.map(one, (jnp.asarray(starts), jnp.asarray(actions)))


@jax.jit
def _next(plant: Plant, states: Any, actions: Any) -> tuple[Any, Any]:
    X = features(jnp.concatenate([states, actions], 1), plant.angles)
    mean, variance = jax.vmap(functools.partial(certain, plant.weights))(X)
    return states + mean, variance + plant.weights.noise


class _Memory:
    """Draws of functions along roll-outs; consistent ones remember what they said before."""

    def __init__(self, weights: Weights):
        self.weights = Weights(*(np.asarray(value) for value in weights))
        self.at: list[np.ndarray] = []  # each (S, d)
        self.said: list[np.ndarray] = []  # each (S, p)

    def draw(self, x: np.ndarray, rng: np.random.Generator, consistent: bool) -> np.ndarray:
        """Values (S, p) at x (S, d)."""
        w = self.weights
        mean = np.stack([w.level + w.slope @ row for row in x]) + self._weighed(x)
        S, p = mean.shape
        noise = rng.standard_normal((S, p))
        if not consistent or not self.at:
            new = mean + np.sqrt(np.maximum(self._covariances([x], x)[:, :, 0], 0.0)) * noise
        else:
            before = self._covariances(self.at, x)  # (S, p, t)
            inner = np.stack([self._covariances(self.at, one) for one in self.at], 2)  # (S, p, t, t)
            t = len(self.at)
            inner = inner + 1e-8 * w.variance[None, :, None, None] * np.eye(t)
            solved = np.linalg.solve(inner, before[..., None])[..., 0]
            off = np.stack(self.said, 2)  # (S, p, t): what was said beyond the mean
            variance = self._covariances([x], x)[:, :, 0] - np.sum(before * solved, 2)
            new = mean + np.sum(solved * off, 2) + np.sqrt(np.maximum(variance, 0.0)) * noise
        if consistent:
            self.at.append(x)
            self.said.append(new - mean)
        return new

    def _kernel(self, x: np.ndarray) -> np.ndarray:
        """(p, S, N) with the centres."""
        w = self.weights
        away = (x[:, None, :] - w.centres) ** 2
        return w.variance[:, None, None] * np.exp(-0.5 * np.einsum("snd,pd->psn", away, w.precision))

    def _weighed(self, x: np.ndarray) -> np.ndarray:
        return np.einsum("psn,pn->sp", self._kernel(x), self.weights.alpha)

    def _covariances(self, places: list[np.ndarray], x: np.ndarray) -> np.ndarray:
        """Posterior covariances (S, p, t) of the functions at x with those at t places, draw by draw."""
        w = self.weights
        here = np.einsum("psn,pnm->psm", self._kernel(x), w.R)
        found = []
        for place in places:
            prior = w.variance[:, None] * np.exp(-0.5 * w.precision @ ((place - x) ** 2).T)  # (p, S)
            found.append(prior - np.einsum("psm,psm->ps", here, self._kernel(place)))
        return np.stack(found, -1).transpose(1, 0, 2)
