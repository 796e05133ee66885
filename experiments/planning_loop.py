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


def run(out: Path) -> str:
    """Runs that the file of results does not hold yet are run; each is written as soon as it is there."""
    path = out / "planning_loop.jsonl"
    done = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    for name in reversed(TASKS):
        for seed in range(SEEDS):
            if not any(d["task"] == name and d["seed"] == seed for d in done):
                done.append(one(name, seed))
                with path.open("a") as file:
                    file.write(json.dumps(done[-1]) + "\n")
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
            table(["environment", "solved", "most interactions", "mean return", "processor time"], rows),
            "",
            "The car's goal pays only where it is reached, so that its rewards cannot be learned before: it is planned "
            "for with a saturating loss about the goal and a small one of squared actions. The pendulum's rewards are "
            "learned.",
        ]
    )
