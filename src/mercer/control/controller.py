"""A controller that was learned: act, see, refit, plan (Kuss 7.4)."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mercer.control.dynamics import Dynamics, Tube, features
from mercer.control.environments import AbstractEnvironment, ControlError
from mercer.control.episodes import Episode, record
from mercer.control.feedback import ActionTable, LinearFeedback
from mercer.control.losses import AbstractStateLoss, ChanceConstraint
from mercer.control.planning import Pace, Plan, Task, foreseen, improve, plan
from mercer.control.policies import AbstractPolicy, GPPolicy, LinearPolicy, RadialPolicy
from mercer.persist import AbstractSavable
from mercer.progress import STOPPED, Deadline, Progress, announce, shown, tell
from mercer.registry import Saved, unknown

__all__ = ["Controller", "Receding", "learn"]

POLICIES = ("receding", "linear", "radial", "gp")
IN_TIME = 0.9  # of a deadline, for evaluations; the rest is for what comes after the last of them
STARTS = 16  # first states that the policy is learned for
Saved.register(Episode)


@Saved.register
@dataclasses.dataclass(frozen=True)
class Receding:
    """Plans anew at every step, and takes the first action (Algorithm 7).

    horizon: steps ahead; method: how states are moved, "mean" along expected states (fast), "moments" or
    "linearised" with what is not known of them; discount of later losses; effort: what of squared actions is
    added, as a share of their bounds; constraints: chance constraints; restarts, max_evaluations: of each
    search
    """

    horizon: int = 20
    method: str = "mean"
    discount: float = 1.0
    effort: float = 0.0
    constraints: tuple[ChanceConstraint, ...] = ()
    restarts: int = 1
    max_evaluations: int = 50

    def task(
        self, dynamics: Dynamics, loss: AbstractStateLoss | None, state: Any, covariance: Any = None
    ) -> Task:
        """What is planned for in a state."""
        return Task.of(dynamics, loss, state, covariance, self.discount, self.effort, self.constraints)

    def plan(
        self,
        dynamics: Dynamics,
        loss: AbstractStateLoss | None,
        state: Any,
        before: np.ndarray | None = None,
        deadline: Deadline | None = None,
        seed: int = 0,
        pace: Pace | None = None,
    ) -> Plan:
        """The best plan found from a state, beginning with the rest of the one before."""
        task = self.task(dynamics, loss, state)
        return plan(
            task, self.horizon, before, self.method, self.restarts, self.max_evaluations, deadline, seed, pace
        )


Acting = AbstractPolicy | Receding | LinearFeedback | ActionTable


class Controller(AbstractSavable):
    """What was learned to act: dynamics, a way to choose actions, and the episodes it was learned in.

    policy: a parametric policy, a `Receding` planner, a `LinearFeedback` or an `ActionTable`
    dynamics, loss: that it was learned for (loss None: minus the learned reward)
    start: mean (D,) and covariance (D, D) of first states
    episodes: as they were recorded, the first under random actions

    `act` may be called from several threads; a receding planner keeps the rest of its last plan, so that one
    controller steers one system at a time.

    >>> controller = mc.control.learn(env, horizon=40, episodes=8, seed=0)
    >>> controller.act(state)                                           # (A,)
    >>> controller.save("car.mercer")
    >>> mc.load("car.mercer").act(state)
    """

    def __init__(
        self,
        policy: Acting,
        dynamics: Dynamics,
        loss: AbstractStateLoss | None = None,
        start: Tube | None = None,
        horizon: int = 40,
    ):
        self.policy, self.dynamics, self.loss, self.horizon = policy, dynamics, loss, int(horizon)
        D = len(dynamics.states)
        first = dynamics.transitions.states[0]
        self.start = Tube(first, np.zeros((D, D))) if start is None else Tube(*start)
        self.episodes: list[Episode] = []
        self.interactions = 0
        self._lock = threading.Lock()
        self._before: Plan | None = None
        self._pace = Pace()

    def act(self, state: Any, deadline: float | str | None = None) -> np.ndarray:
        """The action (A,) in a state (D,).

        deadline: seconds, or text such as "20ms", that a receding planner may take: the best plan so far is
            used, and the rest of the last one where there is no time for any. Call it once before it counts,
            since the first call compiles.
        """
        s = np.asarray(state, float).ravel()
        if len(s) != len(self.dynamics.states) or not np.isfinite(s).all():
            raise ControlError(
                f"a state is {len(self.dynamics.states)} finite numbers "
                f"({', '.join(self.dynamics.states)}), got {state!r}."
            )
        if not isinstance(self.policy, Receding):
            return self.policy(s)
        limit = None if deadline is None else Deadline.after(IN_TIME * _seconds(deadline))
        with self._lock:
            found = self._replanned(self.policy, s, limit)
            self._before = found
        return np.clip(found.actions[0], self.dynamics.low, self.dynamics.high)

    def _replanned(self, planner: Receding, state: np.ndarray, limit: Deadline | None) -> Plan:
        """From the rest of the last plan; and from nothing where it turned out worse than it promised."""
        before, given = self._before, (self.dynamics, self.loss, state)
        if before is None:
            return planner.plan(*given, None, limit, pace=self._pace)
        evaluation = self._pace.of("evaluation")
        if limit is not None and limit.passed(evaluation):
            self._pace = Pace()  # so that the next call tries: what slowed evaluations down may be over
            return before.rest()
        found = planner.plan(*given, before.actions[1:], limit, pace=self._pace)
        promised = float(before.losses[1:].sum() + abs(before.losses[-1]))
        size = float(np.abs(before.losses).sum())
        if found.risk <= promised + 0.05 * size:
            return found
        if limit is not None and limit.passed(2.0 * self._pace.of("screening") + 2.0 * evaluation):
            return found
        again = planner.plan(*given, None, limit, pace=self._pace)
        return again if again.risk < found.risk else found

    def forget(self) -> None:
        """A new episode: the rest of the last plan does not belong to it."""
        with self._lock:
            self._before = None

    def foresee(self, state: Any = None, horizon: int | None = None) -> Plan:
        """What is expected from a state, or from the first states: states with their uncertainty, actions and
        losses.
        """
        mean, covariance = self.start if state is None else (np.asarray(state, float), None)
        steps = self.horizon if horizon is None else horizon
        if isinstance(self.policy, Receding):
            planner = dataclasses.replace(self.policy, horizon=steps, method="moments")
            task = planner.task(self.dynamics, self.loss, mean, covariance)
            rough = plan(task, steps, method="mean", max_evaluations=60)
            return plan(task, steps, rough.actions, "moments", 0, 1)
        if isinstance(self.policy, AbstractPolicy):
            return foreseen(Task.of(self.dynamics, self.loss, mean, covariance), self.policy, steps)
        raise ControlError(f"a {type(self.policy).__name__} says nothing of what it expects: simulate it.")

    def run(self, env: AbstractEnvironment, steps: int = 200, seed: int | None = None) -> Episode:
        """Act in an environment, and record it.

        >>> controller.run(env, seed=1).total
        """
        self.forget()
        return record(env, self.act, steps, seed)

    def __repr__(self) -> str:
        learned = f"{len(self.dynamics.transitions.states)} transitions"
        return f"<Controller: {self._kind}, learned from {learned}>"

    @property
    def _kind(self) -> str:
        return f"{type(self.policy).__name__} for {', '.join(self.dynamics.actions)}, horizon {self.horizon}"

    def summary(self) -> str:
        """What it is, and what came of each episode, in words."""
        lines = [
            self._kind,
            f"learned from {len(self.dynamics.transitions.states)} transitions, "
            f"{self.interactions} interactions, in {len(self.episodes)} episodes",
        ]
        for i, episode in enumerate(self.episodes):
            lines.append(f"  episode {i}: {len(episode)} steps, return {episode.total:.4g}, {episode.reason}")
        return "\n".join(lines)

    # -- files -----------------------------------------------------------------------------------------------

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """What it was made with."""
        return {
            "policy": self.policy, "dynamics": self.dynamics, "loss": self.loss, "start": tuple(self.start),
            "horizon": self.horizon,
        }  # fmt: skip

    def _learned(self) -> dict[str, Any]:
        return {"episodes": list(self.episodes), "interactions": self.interactions}

    def _relearn(self, learned: dict[str, Any]) -> None:
        episodes, interactions = learned["episodes"], learned["interactions"]
        if not all(isinstance(e, Episode) for e in episodes) or not isinstance(interactions, int):
            raise ValueError("episodes and interactions are not what a controller has.")
        self.episodes, self.interactions = list(episodes), interactions


def learn(
    env: AbstractEnvironment,
    horizon: int = 40,
    episodes: int = 8,
    loss: AbstractStateLoss | None = None,
    policy: str | AbstractPolicy | Receding = "receding",
    steps: int | None = None,
    first: int | None = None,
    known: Mapping[str, Mapping[str, float]] | None = None,
    inducing: int | None = 64,
    constraints: Sequence[ChanceConstraint] | None = None,
    discount: float = 1.0,
    effort: float = 0.0,
    max_evaluations: int = 200,
    seed: int = 0,
    progress: Progress = None,
) -> Controller:
    """Learn to act in an environment: act, learn what actions do, plan, and so on (Kuss 7.4).

    horizon: steps that are planned ahead
    episodes: that are run after the random ones; each has at most `steps` steps (None: the horizon)
    loss: of states; None: that of the environment, or, where it has none, minus a learned model of its
        rewards, which must have been met to be learned
    policy: "receding" plans anew at every step; "linear", "radial" and "gp" are policies with parameters,
        which act in less than a millisecond; or one to begin with
    first: steps under random actions, in one episode or several (None: the horizon, or 20)
    known: linear structure of the changes, as of `Dynamics`; inducing: as of `Dynamics`
    constraints: to be kept (None: those of the environment); discount, effort: as of `Receding`
    max_evaluations: of the risk, for each time that a policy is improved
    Ctrl-C ends learning and keeps the best so far.

    >>> env = mc.control.MountainCar()
    >>> controller = mc.control.learn(env, horizon=40, episodes=8, seed=0)
    >>> print(controller.summary())
    """
    random_steps = max(horizon, 20) if first is None else first
    if horizon < 1 or episodes < 0 or random_steps < 1:
        raise ControlError("horizon and first must be at least 1, episodes at least 0.")
    if isinstance(policy, str) and policy not in POLICIES:
        raise ControlError(unknown("policy", policy, POLICIES))
    loss = env.loss if loss is None else loss
    constraints = env.constraints if constraints is None else tuple(constraints)
    length = horizon if steps is None else steps
    began = env.interactions
    seen: list[Episode] = []
    while (left := random_steps - sum(map(len, seen))) > 0:
        seen.append(record(env, None, min(length, left), seed + len(seen)))
    random = len(seen)
    starts = np.array([env.reset(seed + i) for i in range(STARTS)])
    start = Tube(starts.mean(0), np.cov(starts.T).reshape(len(env.states), -1))
    dynamics = Dynamics.learn(env, seen, known, inducing, rewards=loss is None)
    planner = Receding(horizon, "mean", discount, effort, constraints)
    acting = _beginning(policy, planner, dynamics, seed)
    controller = Controller(acting, dynamics, loss, start, horizon)
    best, best_total = None, -np.inf
    with shown("learning to act", progress, "Ctrl-C keeps the best so far"):
        try:
            for i in range(episodes):
                tell(i, episodes, "episodes")
                if isinstance(acting, AbstractPolicy):
                    task = Task.of(dynamics, loss, *start, discount, effort, constraints)
                    tried = [acting, *_guided(acting, plan(task, horizon, method="mean"))]
                    tried = sorted(tried, key=lambda p: foreseen(task, p, horizon).risk)
                    acting, _ = improve(tried[0], [task], horizon, max_evaluations=max_evaluations)
                controller = _following(controller, acting, dynamics)
                episode = controller.run(env, length, seed + len(seen))
                seen.append(episode)
                if isinstance(acting, AbstractPolicy) and episode.total > best_total:
                    best, best_total = acting, episode.total
                announce(f"episode {i + 1}: {len(episode)} steps, return {episode.total:.4g}")
                dynamics = dynamics.more([episode])
                controller = _following(controller, acting, dynamics)
            tell(episodes, episodes, "episodes")
        except STOPPED:
            announce(f"stopped after {len(seen) - random} of {episodes} episodes: the best so far is kept")
    controller = _following(controller, acting if best is None else best, dynamics)
    controller.episodes, controller.interactions = seen, env.interactions - began
    return controller


def _following(before: Controller, policy: Acting, dynamics: Dynamics) -> Controller:
    return Controller(policy, dynamics, before.loss, before.start, before.horizon)


def _beginning(policy: Any, planner: Receding, dynamics: Dynamics, seed: int) -> Acting:
    """The policy that learning starts with: bumps at states that were seen, of little weight."""
    if not isinstance(policy, str):
        return policy
    if policy == "receding":
        return planner
    rng = np.random.default_rng(seed)
    angles, A = dynamics.angle_columns, len(dynamics.actions)
    Z = features(dynamics.transitions.states, angles)
    bounds = (dynamics.low, dynamics.high, angles)
    if policy == "linear":
        gain = 0.1 * rng.standard_normal((A, Z.shape[1])) / (Z.std(0) + 1e-6)
        return LinearPolicy(*bounds, gain, -gain @ Z.mean(0))
    M = 30
    unit = Z.std(0) + 1e-3
    centres = Z[rng.integers(len(Z), size=M)] + 0.5 * unit * rng.standard_normal((M, Z.shape[1]))
    width = np.tile(np.log(unit), (A, 1))
    values = 0.1 * rng.standard_normal((A, M))
    return (RadialPolicy if policy == "radial" else GPPolicy)(*bounds, centres, width, values)


def _guided(policy: AbstractPolicy, planned: Plan) -> list[AbstractPolicy]:
    """Policies of the same form that act as a plan does along its states, where the form has room for it: a
    plan is found by search, and gradients alone seldom leave the policy that pushes one way for ever.
    """
    if isinstance(policy, LinearPolicy):
        return []
    low, high = policy.low, policy.high
    shares = (planned.actions - 0.5 * (low + high)) / (0.5 * (high - low))
    u = 0.5 * np.pi * np.clip(shares, -0.95, 0.95)  # (T, A): a little less than the squashed plan
    Z = features(planned.tube.mean[:-1], policy.angles)
    centres, _, values = (np.array(part) for part in policy.parameters())
    unit = Z.std(0) + 0.05 * np.abs(Z).max(0) + 1e-3
    some = np.linspace(0, len(Z) - 1, min(len(Z), len(centres))).astype(int)
    centres[: len(some)] = Z[some]
    width = np.tile(np.log(0.5 * unit), (len(values), 1))
    squares = (((Z[:, None] - centres) / (0.5 * unit)) ** 2).sum(-1)
    K = np.exp(-0.5 * squares)
    weights = np.linalg.solve(K.T @ K + 0.01 * np.eye(len(centres)), K.T @ u).T
    if isinstance(policy, GPPolicy):
        own = np.exp(-0.5 * (((centres[:, None] - centres) / (0.5 * unit)) ** 2).sum(-1))
        weights = weights @ (own + 0.01 * np.eye(len(centres)))
    return [policy.with_parameters((centres, width, weights))]


def _seconds(deadline: float | str) -> float:
    if isinstance(deadline, str) and deadline.strip().endswith("ms"):
        return float(deadline.strip()[:-2]) / 1000.0
    from mercer.progress import seconds_of

    return seconds_of(deadline)
