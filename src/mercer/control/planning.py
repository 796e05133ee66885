"""Expected loss over a horizon, and what makes it small (Kuss 7.4).

    risk = sum_i discount^i E[loss(s_i)],   s_i ~ N(mu_i, S_i), moved by the dynamics   (7.47)

Its gradient, in a sequence of actions or in the parameters of a policy, is that of the whole roll-out, by
reverse differentiation through every step (Algorithm 8 in the other direction: its cost does not grow with
the number of parameters).
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from scipy.special import ndtr

from mercer.control.dynamics import METHODS, Dynamics, Plant, Tube, advance, drift, expected_reward, reward_at
from mercer.control.environments import ControlError
from mercer.control.losses import AbstractStateLoss, ChanceConstraint
from mercer.control.policies import AbstractPolicy
from mercer.control.propagate import Gaussian
from mercer.progress import Deadline, DeadlineReached, keep_time
from mercer.registry import unknown

__all__ = ["Plan", "Task", "improve", "plan", "risk"]

PENALTIES = (10.0, 1000.0)  # of chance constraints that are broken, one after another
FIRST_STAGE, NEXT_STAGE = 12, 5  # steps that a plan begins with, and grows by
CANDIDATES = 256  # sequences that are looked at before some are improved
GENERATIONS, FIRST_RESTARTS = 8, 4  # of variations, and of searches at least, where no plan came before
RECENT = 16  # pieces of work that say how long the next one takes


class Limits(eqx.Module):
    """Constraints as arrays (C,): z standard deviations on each side must fit between low and high."""

    low: Any
    high: Any
    z: Any
    unit: Any
    columns: tuple[int, ...] = eqx.field(static=True)


class Task(eqx.Module):
    """What is planned for: the plant, the loss of states (None: minus the learned reward), where it starts,
    how later losses are weighed, and what of squared actions is added, as a share of their bounds.
    """

    plant: Plant
    loss: AbstractStateLoss | None
    start: Gaussian
    discount: Any
    effort: Any
    limits: Limits | None = None

    @classmethod
    def of(
        cls,
        dynamics: Dynamics,
        loss: AbstractStateLoss | None,
        start: Any,
        covariance: Any = None,
        discount: float = 1.0,
        effort: float = 0.0,
        constraints: Sequence[ChanceConstraint] = (),
    ) -> Task:
        """With everything checked."""
        D = len(dynamics.states)
        if loss is None and not dynamics.rewards:
            raise ControlError("there is neither a loss nor a learned reward: give loss=, or learn rewards.")
        if not discount > 0:
            raise ControlError(f"discount must be positive, got {discount!r}.")
        mean = np.asarray(start, float)
        if mean.shape != (D,) or not np.isfinite(mean).all():
            raise ControlError(
                f"a state is {D} finite numbers ({', '.join(dynamics.states)}), got {start!r}."
            )
        S = np.zeros((D, D)) if covariance is None else np.asarray(covariance, float)
        limits = _limits(dynamics, constraints) if constraints else None
        return cls(dynamics.plant, loss, Gaussian(mean, S), float(discount), float(effort), limits)


def _limits(dynamics: Dynamics, constraints: Sequence[ChanceConstraint]) -> Limits:
    names = (*dynamics.states, *dynamics.actions)
    for c in constraints:
        if c.name not in names:
            raise ControlError(unknown("state or action", c.name, names))
    t = dynamics.transitions
    units = np.concatenate([t.states.std(0), t.actions.std(0)]) + 1e-12
    columns = tuple(names.index(c.name) for c in constraints)
    both = [1 + (math.isfinite(c.low) and math.isfinite(c.high)) for c in constraints]  # sides
    quantile = statistics.NormalDist().inv_cdf
    z = [quantile(1 - (1 - c.probability) / k) for c, k in zip(constraints, both, strict=True)]
    low, high = np.array([c.low for c in constraints]), np.array([c.high for c in constraints])
    return Limits(low, high, np.array(z), units[list(columns)], columns)


# ----------------------------------------------------------------------------------------------- roll-outs


def _step(task: Task, state: Gaussian, action: Gaussian, cross: Any, method: str) -> tuple[Gaussian, Any]:
    """The next state, and the loss of the step."""
    plant = task.plant
    if method != "mean":
        new = advance(plant, state, action, cross, method)
    elif task.loss is None and task.limits is None:  # nobody asks for its doubt
        new = Gaussian(drift(plant, state.mean, action.mean), state.covariance * 0.0)
    else:
        new = plant(state.mean, action.mean)
    if task.loss is not None:
        loss = task.loss.expected(new)
    elif method == "mean":
        loss = -reward_at(plant, state.mean, action.mean)
    else:
        loss = -expected_reward(plant, state, action, cross)
    half = 0.5 * (plant.high - plant.low)
    middle = 0.5 * (plant.high + plant.low)
    squares = ((action.mean - middle) ** 2 + jnp.diag(action.covariance)) / half**2
    return new, loss + task.effort * jnp.sum(squares)


def _broken(task: Task, state: Gaussian, action: Gaussian) -> Any:
    """How far constraints are from being kept, squared, in units of their columns."""
    if task.limits is None:
        return jnp.zeros(())
    at = jnp.array(task.limits.columns)
    mean = jnp.concatenate([state.mean, action.mean])[at]
    variance = jnp.concatenate([jnp.diag(state.covariance), jnp.diag(action.covariance)])[at]
    far = task.limits.z * jnp.sqrt(jnp.maximum(variance, 0.0) + 1e-12 * task.limits.unit**2)
    below = jnp.maximum(jnp.where(jnp.isfinite(task.limits.low), task.limits.low - (mean - far), 0.0), 0.0)
    above = jnp.maximum(jnp.where(jnp.isfinite(task.limits.high), mean + far - task.limits.high, 0.0), 0.0)
    return jnp.sum(((below + above) / task.limits.unit) ** 2)


def _rolled(
    task: Task, act: Callable[[Gaussian, Any], tuple[Gaussian, Any]], inputs: Any, horizon: int, method: str
) -> tuple[Any, Any, Gaussian, Gaussian]:
    """Losses and broken constraints (T,), states and actions of a roll-out."""

    def step(carried: tuple[Gaussian, Any], given: Any) -> tuple[Any, Any]:
        state, weight = carried
        action, cross = act(state, given)
        new, loss = _step(task, state, action, cross, method)
        return (new, weight * task.discount), (weight * loss, _broken(task, new, action), new, action)

    start = Gaussian(*(jnp.asarray(part, float) for part in task.start))
    first = jnp.asarray(task.discount, float)  # (7.47) begins with discount^1
    _, found = jax.lax.scan(step, (start, first), inputs, length=horizon)
    return found


def _by_actions(task: Task, actions: Any, method: str) -> tuple[Any, Any, Gaussian, Gaussian]:
    A = actions.shape[1]
    nothing, known = jnp.zeros((task.plant.D, A)), jnp.zeros((A, A))
    return _rolled(task, lambda _, a: (Gaussian(a, known), nothing), actions, len(actions), method)


def _by_policy(task: Task, policy: AbstractPolicy, horizon: int, method: str) -> Any:
    def act(state: Gaussian, _: Any) -> tuple[Gaussian, Any]:
        action, cross = policy.moments(Gaussian(state.mean, state.covariance * (method != "mean")))
        return action, cross

    return _rolled(task, act, None, horizon, method)


def _actions_value(actions: Any, task: Task, counted: Any, penalty: Any, method: str) -> tuple[Any, Any]:
    """Of the steps that count (T,), and the roll-out."""
    rolled = _by_actions(task, actions, method)
    return counted @ (rolled[0] + penalty * rolled[1]), rolled


_actions_gradient = functools.partial(jax.jit, static_argnames="method")(
    jax.value_and_grad(_actions_value, has_aux=True)
)


@functools.partial(jax.jit, static_argnames=("horizon", "method"))
@jax.value_and_grad
def _policy_gradient(
    parameters: Any, policy: AbstractPolicy, tasks: Any, penalty: Any, horizon: int, method: str
) -> Any:
    learned = policy.with_parameters(parameters)
    total = jnp.zeros(())
    for task in tasks:
        losses, broken, _, _ = _by_policy(task, learned, horizon, method)
        total += (jnp.sum(losses) + penalty * jnp.sum(broken)) / len(tasks)
    return total


_actions_tube = functools.partial(jax.jit, static_argnames="method")(_by_actions)
_policy_tube = functools.partial(jax.jit, static_argnames=("horizon", "method"))(_by_policy)


@functools.partial(jax.jit, static_argnames="method")
def _screened(task: Task, candidates: Any, counted: Any, method: str) -> Any:
    return jax.vmap(lambda actions: _actions_value(actions, task, counted, PENALTIES[0], method)[0])(
        candidates
    )


# ----------------------------------------------------------------------------------------------- answers


@dataclasses.dataclass(frozen=True, eq=False)
class Plan:
    """What is to be done, and what is expected of it.

    actions: (T, A); of a policy, those that are expected
    tube: the states, from the first
    losses: (T,), discounted, and their sum `risk`
    probability: (T,), that all constraints on states hold, by the plan's Gaussian states; 1 without any
    evaluations: of the risk, that it took
    """

    actions: np.ndarray
    tube: Tube
    losses: np.ndarray
    probability: np.ndarray
    evaluations: int

    @property
    def risk(self) -> float:
        """The expected loss over the horizon."""
        return float(self.losses.sum())

    def rest(self) -> Plan:
        """What is left of it one step later; of the last step, that step."""
        if len(self.actions) == 1:
            return self
        tube = Tube(self.tube.mean[1:], self.tube.covariance[1:])
        return Plan(self.actions[1:], tube, self.losses[1:], self.probability[1:], 0)


def risk(
    dynamics: Dynamics,
    loss: AbstractStateLoss | None,
    start: Any,
    actions: Any,
    covariance: Any = None,
    discount: float = 1.0,
    method: str = "moments",
) -> tuple[float, np.ndarray]:
    """The expected loss (7.47) of actions (T, A) from a state (D,), and its gradient (T, A).

    >>> value, gradient = mc.control.risk(dynamics, mc.control.Quadratic([0.6, 0.0]), state, actions)
    """
    task = Task.of(dynamics, loss, start, covariance, discount)
    actions = np.asarray(actions, float).reshape(-1, len(dynamics.actions))
    (value, _), gradient = _actions_gradient(actions, task, np.ones(len(actions)), 0.0, _checked(method))
    return float(value), np.asarray(gradient)


def plan(
    task: Task,
    horizon: int,
    before: np.ndarray | None = None,
    method: str = "moments",
    restarts: int = 1,
    max_evaluations: int = 50,
    deadline: Deadline | None = None,
    seed: int | np.random.Generator = 0,
    pace: Pace | None = None,
) -> Plan:
    """Actions over a horizon with a small expected loss: the best of those climbed to from the most promising
    of many simple sequences, and from `before` (T, A), the rest of an earlier plan.

    method: how states are moved; "mean" follows expected states, each with the doubt of its own step alone,
        and is fast
    restarts: from how many further sequences the search begins, at least 4 where no plan came before; the
        best is kept
    deadline: the best plan that was found by then is returned; `before` alone is then improved. The clock is
        looked at before each evaluation, and none is begun that would end too late; the first one always is
    pace: what evaluations took in earlier calls, which this one goes on measuring

    >>> task = mc.control.Task.of(dynamics, loss, state)
    >>> mc.control.plan(task, horizon=10).actions
    """
    _checked(method)
    low, high = np.asarray(task.plant.low), np.asarray(task.plant.high)
    rng = np.random.default_rng(seed)
    search = _Search(deadline, pace)
    if before is None:
        restarts, generations, stages = max(restarts, FIRST_RESTARTS), GENERATIONS, _stages(horizon)
        starts, candidates = [], _candidates(low, high, horizon, [], rng)
    else:
        generations, stages = int(restarts > 0 and deadline is None), [horizon]
        starts = [_lasting(before, horizon, low, high)]
        candidates = _candidates(low, high, horizon, starts, rng) if generations else np.array(starts)
    for _ in range(generations):
        if search.late("screening"):
            break
        with search.pace.measured("screening"):
            risks = np.asarray(_screened(task, candidates, np.arange(horizon) < stages[0], "mean"))
        candidates = candidates[np.argsort(risks)]
        best = candidates[: CANDIDATES // 16]
        candidates = np.concatenate([best, _varied(best, CANDIDATES - len(best), low, high, rng)])
    if generations:
        starts += [*candidates[: 1 + restarts - len(starts)]]
    bounds = list(zip(np.tile(low, horizon), np.tile(high, horizon), strict=True))
    rounds = [(stage, PENALTIES[0]) for stage in stages]
    if task.limits is not None:
        rounds += [(horizon, penalty) for penalty in PENALTIES[1:]]
    chosen, rolled = starts[0], None
    for stage, penalty in rounds:
        if search.over or (penalty > PENALTIES[0] and _kept(rolled)):
            break

        def value(flat: np.ndarray, stage: int = stage, penalty: float = penalty) -> Any:
            counted = np.arange(horizon) < stage
            return _actions_gradient(flat.reshape(horizon, -1), task, counted, penalty, method)

        search.begin()
        for start in starts:
            search.climb(value, start.ravel(), bounds, max_evaluations)
        if search.best is not None:
            chosen, rolled = search.best.reshape(horizon, -1), search.rolled
        if stage < horizon:
            chosen, rolled = _lasting(chosen[:stage], horizon, low, high), None
        starts = [chosen]
    return _plan(task, _actions_tube(task, chosen, method) if rolled is None else rolled, search.evaluations)


def improve(
    policy: AbstractPolicy,
    tasks: Sequence[Task],
    horizon: int,
    method: str = "moments",
    max_evaluations: int = 100,
) -> tuple[AbstractPolicy, float]:
    """The policy whose parameters make the mean expected loss of the tasks small, from those it has, and that
    loss. After Ctrl-C or a deadline it is the best so far.
    """
    _checked(method)
    flat, shaped = ravel_pytree(tuple(jnp.asarray(part) for part in policy.parameters()))
    search = _Search()
    penalties = PENALTIES[:1] if tasks[0].limits is not None else (0.0,)
    for penalty in penalties:

        def value(x: np.ndarray, penalty: float = penalty) -> Any:
            found, slope = _policy_gradient(
                shaped(jnp.asarray(x)), policy, tuple(tasks), penalty, horizon, method
            )
            return (found, None), ravel_pytree(slope)[0]

        search.climb(value, np.asarray(flat), None, max_evaluations)
    best = flat if search.best is None else search.best
    found = tuple(np.asarray(part) for part in shaped(jnp.asarray(best)))
    return policy.with_parameters(found), search.value


def _stages(horizon: int) -> list[int]:
    """Horizons that grow by some steps: the plan of the first is where the next begin. All at once is
    hopeless where the state to be held is unstable: an early action moves the last state too far.
    """
    return [*range(min(FIRST_STAGE, horizon), horizon, NEXT_STAGE), horizon]


def _kept(rolled: Any) -> bool:
    """Whether a plan keeps the constraints."""
    return rolled is not None and float(np.sum(rolled[1])) < 1e-6


class Pace:
    """How long pieces of work take: the median of the latest ones."""

    def __init__(self) -> None:
        self._took: dict[str, collections.deque[float]] = {}

    @contextlib.contextmanager
    def measured(self, work: str) -> Iterator[None]:
        """Time a piece of work."""
        began = time.perf_counter()
        yield
        self._took.setdefault(work, collections.deque(maxlen=RECENT)).append(time.perf_counter() - began)

    def of(self, work: str) -> float:
        """Seconds; 0 where there was none yet."""
        return statistics.median(self._took.get(work, (0.0,)))


class _Search:
    """Descents that keep the best and its roll-out, until a deadline."""

    def __init__(self, deadline: Deadline | None = None, pace: Pace | None = None):
        self.deadline, self.pace = deadline, pace or Pace()
        self.evaluations, self.over = 0, False
        self.begin()

    def begin(self) -> None:
        """Forget the best: the objective changed."""
        self.best: np.ndarray | None = None
        self.rolled: Any = None
        self.value = math.inf

    def late(self, work: str) -> bool:
        """Whether a piece of work, and an evaluation after it, would end after the deadline."""
        ahead = self.pace.of(work) + self.pace.of("evaluation")
        return self.deadline is not None and self.deadline.passed(ahead)

    def climb(self, value: Any, start: np.ndarray, bounds: Any, max_evaluations: int) -> None:
        """Descend from a start; value: x -> ((value, roll-out), gradient)."""
        from scipy.optimize import minimize

        def counted(x: np.ndarray) -> tuple[float, np.ndarray]:
            keep_time()
            if self.evaluations and self.late("evaluation"):
                self.over = True
                raise DeadlineReached("the time given to this plan is over.")
            with self.pace.measured("evaluation"):
                (found, rolled), slope = value(x)
                found, slope = float(found), np.asarray(slope).ravel()
            self.evaluations += 1
            if not (math.isfinite(found) and np.isfinite(slope).all()):
                return 1e25, np.zeros_like(slope)
            if found < self.value:
                self.best, self.value, self.rolled = np.array(x), found, rolled
            return found, slope

        if self.over:
            return
        options = {"maxfun": max_evaluations, "maxiter": max_evaluations, "ftol": 1e-8, "gtol": 1e-7}
        with contextlib.suppress(DeadlineReached):
            minimize(counted, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)


def _lasting(rest: np.ndarray, horizon: int, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """The rest of a plan as one of so many steps (T, A): its last action is held; none is the middle."""
    rest = rest[:horizon] if len(rest) else 0.5 * (low + high)[None]
    return np.clip(np.concatenate([rest, np.repeat(rest[-1:], horizon - len(rest), 0)]), low, high)


def _candidates(
    low: np.ndarray, high: np.ndarray, horizon: int, first: Sequence[np.ndarray], rng: np.random.Generator
) -> np.ndarray:
    """(C, T, A): those that come first, constants, one switch from one end to the other, and random sequences
    that hold each action for some steps.
    """
    found = [*first, *(np.tile(end, (horizon, 1)) for end in (0.5 * (low + high), low, high))]
    for steps in {1, 2, 3, *(round(share * horizon) for share in (0.1, 0.15, 0.2, 0.3, 0.5, 0.7))}:
        at = (np.arange(horizon) < steps)[:, None]
        found += [np.where(at, low, high), np.where(at, high, low)]
    while len(found) < CANDIDATES:
        found.append(_held(horizon, low, high, rng))
    return np.clip(np.array(found), low, high)


def _held(size: int, low: np.ndarray, high: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A random sequence (size, A) that holds each action for some steps, half of them at their ends."""
    hold = int(rng.integers(1, max(2, size // 3) + 1))
    few = rng.uniform(low, high, (size // hold + 1, len(low)))
    if rng.random() < 0.5:
        few = np.where(few > 0.5 * (low + high), high, low)
    return np.repeat(few, hold, 0)[:size]


def _varied(
    best: np.ndarray, size: int, low: np.ndarray, high: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Sequences (size, T, A) that differ from some step on, or are a little earlier or later."""
    found = []
    for parent in best[rng.integers(len(best), size=size)]:
        new, cut, kind = parent.copy(), int(rng.integers(len(parent))), rng.random()
        if kind < 0.5:
            new[cut:] = _held(len(parent) - cut, low, high, rng)
        elif kind < 0.75:
            new[cut:] = np.roll(new[cut:], int(rng.integers(-2, 3)), 0)
        else:
            new[cut:] += 0.2 * (high - low) * rng.standard_normal(new[cut:].shape)
        found.append(new)
    return np.clip(np.array(found), low, high)


def _plan(task: Task, rolled: Any, evaluations: int) -> Plan:
    losses, _, states, actions = rolled
    if not (np.isfinite(losses).all() and np.isfinite(states.mean).all()):
        raise ControlError(
            f"no plan from {np.round(task.start.mean, 4)} has an expected loss that is a finite number: the "
            "state is too far from those that were learned from, or the loss is no number there."
        )
    mean = np.concatenate([np.asarray(task.start.mean)[None], states.mean])
    covariance = np.concatenate([np.asarray(task.start.covariance)[None], states.covariance])
    tube = Tube(mean, covariance)
    probability = np.ones(len(losses))
    if task.limits is not None:
        limits = task.limits
        at = list(limits.columns)
        mean = np.concatenate([states.mean, actions.mean], 1)[:, at]
        variance = [np.diagonal(np.asarray(v.covariance), axis1=1, axis2=2) for v in (states, actions)]
        std = np.sqrt(np.maximum(np.concatenate(variance, 1)[:, at], 1e-24))
        inside = ndtr((limits.high - mean) / std) - ndtr((limits.low - mean) / std)
        probability = np.maximum(1.0 - np.sum(1.0 - inside, 1), 0.0)
    return Plan(np.asarray(actions.mean), tube, np.asarray(losses), probability, evaluations)


def foreseen(task: Task, policy: AbstractPolicy, horizon: int, method: str = "moments") -> Plan:
    """What is expected of a policy."""
    return _plan(task, _policy_tube(task, policy, horizon, method), 0)


def _checked(method: str) -> str:
    if method not in METHODS:
        raise ControlError(unknown("method", method, METHODS))
    return method
