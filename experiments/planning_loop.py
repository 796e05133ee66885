"""Two environments of gymnasium learned by planning from fewer than 1,000 interactions: interactions to success.

Beside it stable-baselines3's soft actor-critic, where the variable STABLE_BASELINES3 names the Python of an environment that has it
(`pip install torch==2.13.0`, then `pip install stable-baselines3`).
"""

from __future__ import annotations

import json
import os
import subprocess
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
SAC_SECONDS = {"Pendulum-v1": 60, "MountainCarContinuous-v0": 60}  # of processor time, for each seed
DEADLINE, SIZES = 0.02, [(M, horizon) for M in (32, 64) for horizon in (5, 10)]
REFITS = 100


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


def sac(name: str, seed: int) -> dict[str, Any]:
    """Soft actor-critic in the same environment, in its own process, until it is solved or its time is over."""
    command = [os.environ["STABLE_BASELINES3"], str(Path(__file__).with_name("_sac.py")), name, str(seed)]
    ended = subprocess.run(
        [*command, str(SAC_SECONDS[name])], capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": ""}
    )  # fmt: skip
    return {"task": f"SAC {name}", "seed": seed, **json.loads(ended.stdout.splitlines()[-1])}


def deadlines(inducing: int, horizon: int) -> dict[str, Any]:
    """How long decisions take that are given 20 ms: the cart and pole from 200 transitions, sparse, 100 decisions in a row."""
    env = control.CartPole(max_steps=None)
    S, A = env.draw(200, 0)
    after = env.advance(S, A)
    seen = control.Transitions(S, A, after, env.reward(after))
    dynamics = control.Dynamics.learn(env, seen, inducing=inducing, rewards=False, max_evaluations=20)
    controller = control.Controller(control.Receding(horizon), dynamics, env.loss, horizon=horizon)
    controller.run(env, 3, seed=0)  # compiles
    took, cpu = [], []

    def act(state: np.ndarray) -> np.ndarray:
        began, used = time.perf_counter(), time.process_time()
        action = controller.act(state, deadline=DEADLINE)
        took.append(time.perf_counter() - began)
        cpu.append(time.process_time() - used)
        return action

    controller.forget()
    control.record(env, act, 100, seed=0)
    return {
        "task": f"deadline {inducing} {horizon}", "seed": 0, "wall": [round(1000 * s, 2) for s in sorted(took)],
        "cpu": [round(1000 * s, 2) for s in sorted(cpu)], "load": round(os.getloadavg()[0], 1),
    }  # fmt: skip


def memory() -> dict[str, Any]:
    """MiB in use after every tenth of 100 refits of the car's dynamics, each with one more transition and a plan."""
    env = control.MountainCar()
    S, A = env.draw(20 + REFITS, 0)
    after = env.advance(S, A)
    seen = control.Transitions(S, A, after, env.reward(after))
    rows = [control.Transitions(*(part[k : k + 1] for part in seen)) for k in range(20 + REFITS)]
    dynamics = control.Dynamics.learn(
        env, control.Transitions(*(part[:20] for part in seen)), rewards=False, max_evaluations=20
    )
    used = []
    for k in range(REFITS):
        dynamics = dynamics.more(rows[20 + k], max_evaluations=10)
        task = control.Task.of(dynamics, env.loss, env.start)
        control.plan(task, 5, np.zeros((5, 1)), "mean", restarts=0, max_evaluations=5)
        if k % 10 == 9:
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            used.append(round(pages * os.sysconf("SC_PAGE_SIZE") / 2**20))
    return {"task": "memory", "seed": 0, "MiB": used}


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
    for inducing, horizon in SIZES:
        if missing(f"deadline {inducing} {horizon}", 0):
            keep(deadlines(inducing, horizon))
    if missing("memory", 0):
        keep(memory())
    for name in reversed(TASKS):
        for seed in range(SEEDS):
            if missing(name, seed):
                keep(one(name, seed))
    for seed in range(SEEDS if os.environ.get("STABLE_BASELINES3") else 0):
        for name in TASKS:
            if missing(f"SAC {name}", seed):
                keep(sac(name, seed))
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
            *_unsolved(done),
            *_sac(done),
            "The car's goal pays only where it is reached, so that its rewards cannot be learned before: it is planned "
            "for with a saturating loss about the goal and a small one of squared actions. The pendulum's rewards are "
            "learned.",
            "",
            *_tubes([d for d in done if d["task"] == "tube"]),
            *_speed([d for d in done if d["task"] == "speed"]),
            "",
            *_deadlines([d for d in done if d["task"].startswith("deadline")]),
            *_memory([d for d in done if d["task"] == "memory"]),
        ]
    ).rstrip()


def _unsolved(done: list[dict[str, Any]]) -> list[str]:
    failed = [d for d in done if d["task"] in TASKS and not d["solved"]]
    each = [
        f"{d['task']}, seed {d['seed']}: returns from {min(d['returns']):.1f} to {max(d['returns']):.1f}, mean {np.mean(d['returns']):.1f}."
        for d in failed
    ]
    return ["Not solved: " + " ".join(each), ""] if each else []


def _sac(done: list[dict[str, Any]]) -> list[str]:
    """Interactions until success, ours and those of soft actor-critic."""
    rows = []
    for name in TASKS:
        theirs = [d for d in done if d["task"] == f"SAC {name}"]
        ours = [d for d in done if d["task"] == name and d["solved"]]
        if theirs and ours:
            reached = [d["interactions"] for d in theirs if d["solved"]]
            rows.append([
                name, f"at most {max(d['interactions'] for d in ours)} ({len(ours)} seeds)",
                f"{min(reached)} to {max(reached)} ({len(reached)} of {len(theirs)} seeds)" if reached else f"none of {len(theirs)} seeds",
                "-" if len(reached) == len(theirs) else " and ".join(f"{d['interactions']} (mean {d['mean']:g})" for d in theirs if not d["solved"]),
                f"{np.mean([d['cpu'] for d in theirs]):.0f} s",
            ])  # fmt: skip
    if not rows:
        return []
    version = next(d["version"] for d in done if d["task"].startswith("SAC"))
    return [
        f"Soft actor-critic of stable-baselines3 {version}, with settings of its own for each environment (experiments/_sac.py), looked at every 500 interactions in the same 20 evaluation episodes, given "
        f"{SAC_SECONDS['Pendulum-v1']} s of processor time for a seed:",
        "",
        table(
            [
                "environment",
                "interactions, planning",
                "interactions, SAC",
                "SAC's not solved had",
                "SAC's processor time",
            ],
            rows,
        ),
        "",
    ]


def _deadlines(runs: list[dict[str, Any]]) -> list[str]:
    if not runs:
        return []
    rows = []
    for d in runs:
        _, inducing, horizon = d["task"].split()
        wall, cpu = np.array(d["wall"]), np.array(d["cpu"])
        rows.append([
            inducing, horizon, f"{np.median(wall):.1f}", f"{np.quantile(wall, 0.95):.1f}", f"{wall.max():.1f}",
            f"{np.mean(wall <= 1000 * DEADLINE):.0%}", f"{cpu.max():.1f}", f"{d['load']:g}",
        ])  # fmt: skip
    return [
        "## Deadlines",
        "",
        f"100 decisions in a row for the cart and pole, each given {1000 * DEADLINE:.0f} ms: sparse dynamics of so many inducing inputs, plans of so many steps. Milliseconds by the clock, on two cores with the load that is "
        "said, and the most processor time that one took: a process that is not running cannot look at the clock.",
        "",
        table(
            ["inducing", "horizon", "median / ms", "95 % / ms", "longest / ms", "within", "most processor time / ms", "load"], rows
        ),
        "",
    ]  # fmt: skip


def _memory(runs: list[dict[str, Any]]) -> list[str]:
    if not runs:
        return []
    return [
        "## Memory",
        "",
        f"{REFITS} refits of the car's dynamics, from 20 to {20 + REFITS} transitions, each with a plan: MiB in use after every tenth: "
        f"{', '.join(map(str, runs[-1]['MiB']))}. Rows are padded to powers of two; programs are compiled anew at 33 and 65 transitions.",
        "",
    ]


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
