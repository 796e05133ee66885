"""Two environments of gymnasium learned by planning from fewer than 1,000 interactions: interactions to success."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from experiments._table import table
from mercer import control

SEEDS = 5
TUBES = 3
EVALUATIONS = 20
MOST = 1000  # interactions, repeats of actions included


def pendulum() -> control.Gym:
    return control.Gym("Pendulum-v1", repeat=2, states=("cosine", "sine", "spin"), dt=0.05)


def car() -> control.Gym:
    return control.Gym("MountainCarContinuous-v0", repeat=5, states=("position", "velocity"))


TASKS: dict[str, dict[str, Any]] = {
    "Pendulum-v1": {
        "env": pendulum,
        "learn": {
            "horizon": 20, "episodes": 5, "steps": 80, "first": 60, "inducing": 100,
            "policy": control.Receding(20, restarts=0, max_evaluations=15),
        },
        "steps": 100,
        "solved": lambda returns: float(np.mean(returns)) >= -200.0,
    },
    "MountainCarContinuous-v0": {
        "env": car,
        "learn": {
            "horizon": 40, "episodes": 3, "steps": 40, "first": 40, "inducing": 64, "effort": 0.02,
            "loss": control.Saturating([0.6, 0.0], [0.3, np.inf]),
        },
        "steps": 200,
        "solved": lambda returns: int(np.sum(np.asarray(returns) >= 90.0)) >= 18,
    },
}  # fmt: skip


def one(name: str, seed: int, evaluations: int = EVALUATIONS) -> dict[str, Any]:
    """Learn with a seed, then evaluate in episodes that were not learned in."""
    task = TASKS[name]
    env, began = task["env"](), time.process_time()
    controller = control.learn(env, seed=1000 * seed, progress=False, **task["learn"])
    learning = time.process_time() - began
    returns = [controller.run(env, task["steps"], seed=900_000 + i).total for i in range(evaluations)]
    return {
        "task": name, "seed": seed, "interactions": controller.interactions,
        "learned": [round(e.total, 2) for e in controller.episodes],
        "returns": [round(r, 2) for r in returns], "solved": bool(task["solved"](returns)),
        "cpu": round(learning, 1), "cpu_evaluations": round(time.process_time() - began - learning, 1),
    }  # fmt: skip


def tube(seed: int) -> dict[str, Any]:
    """How many of 200 roll-outs of the cart and pole the 95 % tube of their first 10 steps covers, dynamics learned
    from 200 random transitions; states are drawn from where they were learned, actions at random.
    """
    env = control.CartPole()
    S, A = env.draw(200, seed)
    after = env.advance(S, A)
    dynamics = control.Dynamics.learn(env, control.Transitions(S, A, after, env.reward(after)))
    starts, _ = env.draw(200, seed + 1000)
    rng = np.random.default_rng(seed)
    held_out = [
        control.record(env, lambda _: rng.uniform(env.low, env.high), steps=10, state=state)
        for state in starts
    ]
    found = dynamics.calibration(held_out, steps=10)
    return {
        "task": "tube",
        "seed": seed,
        "by step": found.coverage.mean(1).round(4).tolist(),
        "all": found.overall,
    }


def speed() -> dict[str, Any]:
    """Processor seconds of a planning objective with its gradient (4 states, 1 action, 40 steps, 200 data), of its
    exponentials and matrix products alone, and of the same objective without a gradient in plain NumPy.
    """
    import jax
    import jax.numpy as jnp

    env = control.CartPole()
    S, A = env.draw(200, 0)
    plain = control.Gym.__new__(control.Gym)  # names without angles: five columns
    plain.states, plain.angles, plain.actions, plain.low, plain.high = (
        env.states,
        (),
        env.actions,
        env.low,
        env.high,
    )
    dynamics = control.Dynamics.learn(
        plain, control.Transitions(S, A, env.advance(S, A), np.zeros(200)), rewards=False, max_evaluations=10
    )
    loss, state, actions = control.Quadratic(np.zeros(4)), np.array([0.0, 0.0, 3.0, 0.0]), np.zeros((40, 1))

    def bare(n: int) -> Any:
        left, right, big = (jnp.asarray(np.random.default_rng(0).random((n, k)) * 0.1) for k in (7, 7, 8))

        @jax.jit
        def work(left: Any, right: Any, big: Any) -> Any:
            def pair(total: Any, i: Any) -> tuple[Any, None]:
                L = jnp.exp((left - i * 1e-9) @ right.T)
                return total + (L @ big)[0, 0] + (L.T @ big)[0, 0], None

            return jax.lax.scan(pair, 0.0, jnp.arange(10.0 * 40))[0]

        return lambda: jax.block_until_ready(work(left, right, big))

    def least(work: Any) -> float:
        work()
        times = []
        for _ in range(5):
            began = time.process_time()
            work()
            times.append(time.process_time() - began)
        return min(times)

    weights = type(dynamics.plant.weights)(*(np.asarray(part) for part in dynamics.plant.weights))
    return {
        "task": "speed", "objective and gradient": least(lambda: control.risk(dynamics, loss, state, actions)),
        "bare, 256 rows": least(bare(256)), "bare, 200 rows": least(bare(200)),
        "numpy, no gradient": least(lambda: in_numpy(weights, 200, state, actions)),
    }  # fmt: skip


def in_numpy(w: Any, n: int, state: np.ndarray, actions: np.ndarray) -> float:
    """The same objective as the formulas stand (Kuss 7.22-7.31), for each pair of functions."""
    p, d = w.precision.shape
    X, mean, S, total = w.centres[:n], state, np.zeros((p, p)), 0.0
    for action in actions:
        mu, Sigma = np.concatenate([mean, action]), np.zeros((d, d))
        Sigma[:p, :p] = S
        away, f, slope, C = X - mu, np.zeros(p), np.zeros((d, p)), np.zeros((p, p))
        for a in range(p):
            inner = np.linalg.inv(Sigma + np.diag(1 / w.precision[a]))
            size = np.linalg.det(Sigma * w.precision[a] + np.eye(d)) ** -0.5
            l = (
                w.variance[a]
                * size
                * np.exp(-0.5 * np.einsum("nd,de,ne->n", away, inner, away))
                * w.alpha[a, :n]
            )
            f[a], slope[:, a] = l.sum(), inner @ away.T @ l
        for a in range(p):
            for b in range(a, p):
                P = w.precision[a] + w.precision[b]
                V = np.linalg.solve(np.eye(d) + Sigma * P, Sigma)
                u, v = away * w.precision[a], away * w.precision[b]
                exponent = (-0.5 * np.sum(u * away, 1) + 0.5 * np.sum(u @ V * u, 1))[:, None] + (u @ V) @ v.T
                exponent += -0.5 * np.sum(v * away, 1) + 0.5 * np.sum(v @ V * v, 1)
                size = w.variance[a] * w.variance[b] * np.linalg.det(np.eye(d) + Sigma * P) ** -0.5
                L = size * np.exp(exponent)
                C[a, b] = C[b, a] = w.alpha[a, :n] @ L @ w.alpha[b, :n] - f[a] * f[b]
                if a == b:
                    C[a, a] += max(w.variance[a] - np.sum(w.R[a, :n, :n] * L), 0.0)
        both = Sigma[:p] @ slope
        mean, S = mean + f + w.level, S + C + both + both.T + np.diag(w.noise)
        total += mean @ mean + np.trace(S)
    return float(total)


def run(out: Path, compute: bool = True) -> str:
    """Runs that the file of results does not hold yet are run; each is written as soon as it is there."""
    path = out / "planning_loop.jsonl"
    done = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def keep(found: dict[str, Any]) -> None:
        done.append(found)
        with path.open("a") as file:
            file.write(json.dumps(found) + "\n")

    def missing(name: str, seed: int) -> bool:
        return compute and not any(d["task"] == name and d.get("seed", 0) == seed for d in done)

    if missing("speed", 0):
        keep(speed())
    for seed in range(TUBES):
        if missing("tube", seed):
            keep(tube(seed))
    for name in reversed(TASKS):
        for seed in range(SEEDS):
            if missing(name, seed):
                keep(one(name, seed))
    return page(done)


def page(done: list[dict[str, Any]]) -> str:
    rows = []
    for name in TASKS:
        runs = [d for d in done if d["task"] == name]
        if runs:
            means = [float(np.mean(d["returns"])) for d in runs]
            rows.append(
                [
                    name, f"{sum(d['solved'] for d in runs)} of {len(runs)}",
                    f"{max(d['interactions'] for d in runs)}",
                    f"{np.mean(means):.1f} ({min(means):.1f} to {max(means):.1f})",
                    f"{np.mean([d['cpu'] for d in runs]):.0f} s",
                ]
            )  # fmt: skip
    return "\n".join(
        [
            "# Acting in gymnasium's environments",
            "",
            "Dynamics and rewards are learned by Gaussian processes from random actions, then by planning anew at every "
            "decision. Pendulum-v1 is solved where the mean return of 20 evaluation episodes is at least -200, "
            "MountainCarContinuous-v0 where 18 of 20 return at least 90. Every step of the environment counts, repeats of "
            f"actions included. {SEEDS} seeds were asked for; the table says how many ran.",
            "",
            table(["environment", "solved", "most interactions", "mean return", "processor time"], rows)
            if rows
            else "No run has ended yet.",
            "",
            "The car's goal pays only where it is reached, so that its rewards cannot be learned before: it is planned "
            "for with a saturating loss about the goal and a small one of squared actions. The pendulum's rewards are "
            "learned.",
            "",
            *_tubes([d for d in done if d["task"] == "tube"]),
            *_speed([d for d in done if d["task"] == "speed"]),
        ]
    ).rstrip()


def _tubes(runs: list[dict[str, Any]]) -> list[str]:
    if not runs:
        return []
    rows = [
        [f"{d['seed']}", f"{d['all']:.1%}", *(f"{d['by step'][k - 1]:.0%}" for k in (1, 2, 5, 10))]
        for d in runs
    ]
    return [
        "## Tubes",
        "",
        "Share of 200 roll-outs of the cart and pole, from states that were not learned from, that lie in the 95 % tube of "
        f"10 steps under random actions; dynamics from 200 transitions. {len(runs)} of {TUBES} seeds ran.",
        "",
        table(["seed", "all 10 steps", "step 1", "step 2", "step 5", "step 10"], rows),
        "",
    ]


def _speed(runs: list[dict[str, Any]]) -> list[str]:
    if not runs:
        return []
    d = runs[-1]
    whole = d["objective and gradient"]
    rows = [
        [name, f"{1000 * d[name]:.0f} ms", f"{whole / d[name]:.1f}"]
        for name in ("objective and gradient", "bare, 256 rows", "bare, 200 rows", "numpy, no gradient")
    ]
    return [
        "## Speed",
        "",
        "One planning objective with its gradient: 4 states, 1 action, 40 steps, 200 transitions, which are padded to 256 rows. "
        "Beside it its own exponentials and matrix products alone, and the objective, without a gradient, in plain NumPy. "
        "Processor time, the least of five, on two busy cores.",
        "",
        table(["what", "processor time", "objective over it"], rows),
    ]
