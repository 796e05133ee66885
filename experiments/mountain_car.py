"""Mountain car (Kuss 2006, 7.3.4): dynamics from 50 random transitions, policies by values of states and of actions.

The text's figures 7.5 to 7.8 are regenerated for one seed; success is counted over seeds, and the seeds that fail are shown. Then the same car
by planning five steps ahead (7.4).
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from experiments._table import table
from mercer import control, viz

SEEDS = 20
TRANSITIONS = 50
SETTINGS = {"step 0.2 s, gamma 0.9": (0.2, 0.9), "step 0.3 s, gamma 0.8": (0.3, 0.8)}
SECONDS = 8.0
REWARD = ([0.6, 0.0], 0.05)
PLANNED = {
    "along expected states": ("mean", "calibrated"),
    "with moments": ("moments", "calibrated"),
    "with moments of the functions alone": ("moments", "latent"),
}
ACTIONS = {"actions": "calibrated", "actions, functions alone": "latent"}
ACTION_SEEDS, DRAWN = 5, 1
WHY = (
    "Why: the model is one of 50 transitions, learned once, and the track bends at 0 m, which the Gaussian processes smooth over. The last column is the step of the run that went least as expected, in standard "
    "deviations: both lead across the bend, with errors of about five of them. The car arrives too slow or too fast, swings back, and since it does not learn from its runs (`practise` does), meets the same surprise again."
)


def identified(
    env: control.MountainCar, seed: int, intervals: str = "calibrated"
) -> tuple[control.Dynamics, np.ndarray]:
    """Dynamics learned from random transitions, and their errors (root mean squares) on 400 others."""
    states, actions = env.draw(TRANSITIONS, seed)
    after = env.advance(states, actions)
    seen = control.Transitions(states, actions, after, env.reward(after))
    found = control.Dynamics.learn(env, seen, rewards=False, intervals=intervals)
    states, actions = env.draw(400, 1000 + seed)
    mean, _ = found.predict(states, actions)
    return found, np.sqrt(np.mean((mean - env.advance(states, actions)) ** 2, 0))


def policy(env: control.MountainCar, dynamics: control.Dynamics, gamma: float) -> control.ValuePolicy:
    """The text's: 19 x 19 support states, noise of values 0.01."""
    return control.gp_policy_iteration(
        dynamics.plant, control.Bumps.at(*REWARD), control.support_grid(env.box, (19, 19)), env.low, env.high, gamma=gamma,
        box=env.box, max_iterations=10, progress=False,
    )  # fmt: skip


def by_actions(env: control.MountainCar, dynamics: control.Dynamics) -> control.ActionValuePolicy:
    """The text's: 13 x 13 x 10 support pairs."""
    pairs = control.support_grid(np.column_stack([env.box, [env.low[0], env.high[0]]]), (13, 13, 10))
    return control.gp_q_iteration(
        dynamics.plant, control.Bumps.at(*REWARD), pairs[:, :2], pairs[:, 2:], env.low, env.high, gamma=0.9, box=env.box,
        learn_for=4, max_iterations=25, progress=False,
    )  # fmt: skip


def driven(
    env: control.MountainCar, act: Any, seconds: float = SECONDS
) -> tuple[control.Episode, dict[str, Any]]:
    """A run from the bottom, and what came of it. The text's box is a limit on the model; the car itself may pass it between samples."""
    free = control.MountainCar(dt=env.dt, max_steps=None)
    free.box = np.array([[-1.2, -3.0], [1.2, 3.0]])
    episode = control.record(free, act, steps=round(seconds / env.dt))
    at = np.flatnonzero(free.reached(episode.states))
    half = episode.states[len(episode.states) // 2 :]
    near = np.abs(half[:, 0] - 0.6) < 0.15
    return episode, {
        "first": float(episode.actions[0, 0]),
        "reached": float(at[0] * env.dt) if len(at) else None,
        "held": float(near.mean()) if not episode.ended else 0.0,
        "fastest": float(np.abs(episode.states[:, 1]).max()),
        "furthest": float(episode.states[:, 0].max()),
        "reason": episode.reason,
    }


def surprise(dynamics: control.Dynamics, episode: control.Episode) -> dict[str, float]:
    """The step of a run whose velocity went least as expected."""
    mean, std = dynamics.predict(episode.states[:-1], episode.actions)
    away = np.abs(episode.states[1:, 1] - mean[:, 1]) / std[:, 1]
    k = int(np.argmax(away))
    return {
        "from": float(episode.states[k, 0]), "expected": float(mean[k, 1]), "within": float(std[k, 1]),
        "was": float(episode.states[k + 1, 1]),
    }  # fmt: skip


def planned(method: str, seed: int) -> dict[str, Any]:
    """The text's: steps of 0.3 s, five ahead, (7.54). It leaves the discount open: 2 is the least round number whose plans leave the valley."""
    env = control.MountainCar(dt=0.3)
    begun = time.process_time()
    propagated, intervals = PLANNED[method]
    dynamics, errors = identified(env, seed, intervals)
    planner = control.Receding(5, propagated, discount=2.0, restarts=3, max_evaluations=60)
    controller = control.Controller(planner, dynamics, control.Quadratic([0.6, 0.0], [1.0, 0.1]), horizon=5)
    episode, came = driven(env, controller.act, 5.1)
    return {
        "setting": method, "seed": seed, "errors": errors.tolist(), **came, "surprise": surprise(dynamics, episode),
        "last": float(episode.actions[-3:].mean()), "end": float(episode.states[-3:, 0].mean()), "seconds": time.process_time() - begun,
    }  # fmt: skip


def one(setting: str, seed: int) -> tuple[dict[str, Any], control.ValuePolicy, control.Episode]:
    """One seed of a setting: a line of results, the policy and its run."""
    dt, gamma = SETTINGS[setting]
    env = control.MountainCar(dt=dt)
    begun = time.process_time()
    dynamics, errors = identified(env, seed)
    found = policy(env, dynamics, gamma)
    episode, came = driven(env, found)
    changes = [float(sweep.change) for sweep in found.history]
    return (
        {
            "setting": setting, "seed": seed, "errors": errors.tolist(), "iterations": len(changes), "changes": changes,
            "largest": found.history[-1].largest, "lengthscale": found.history[-1].lengthscale.tolist(),
            "doomed": float((found.values < 0.01).mean()), "seconds": time.process_time() - begun, **came,
            "surprise": surprise(dynamics, episode),
        },
        found,
        episode,
    )  # fmt: skip


def lines(path: Path) -> list[dict[str, Any]]:
    """What was computed so far."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def computed(path: Path, seeds: int) -> list[dict[str, Any]]:
    """One line for each setting and seed, kept as they come: a killed run goes on."""
    done = {(line["setting"], line["seed"]) for line in lines(path)}
    for seed in range(seeds):
        for setting in SETTINGS:
            if (setting, seed) not in done:
                with path.open("a") as file:
                    file.write(json.dumps(one(setting, seed)[0]) + "\n")
        for method in PLANNED:
            if (method, seed) not in done:
                with path.open("a") as file:
                    file.write(json.dumps(planned(method, seed)) + "\n")
        for setting in ACTIONS:
            if seed < ACTION_SEEDS and (setting, seed) not in done:
                with path.open("a") as file:
                    file.write(json.dumps(valued_by_actions(setting, seed)[2]) + "\n")
    return lines(path)


def pictures(out: Path) -> None:
    """Seed 0: value and policy after 1, 3 and the last iteration, transitions, the run. Another: the values of actions."""
    import matplotlib.pyplot as plt

    env = control.MountainCar()
    dynamics, _ = identified(env, 0)
    names = {"xlabel": "position / m", "ylabel": "velocity / (m/s)"}
    figure, axes = plt.subplots(2, 3, figsize=(13, 7.4), layout="constrained")
    found = None
    for column, count in enumerate((1, 2, 5)):  # one, three, eight in all
        found = control.gp_policy_iteration(
            dynamics.plant, control.Bumps.at(*REWARD), control.support_grid(env.box, (19, 19)), env.low, env.high, gamma=0.9,
            box=env.box, max_iterations=count, start=found, progress=False,
        )  # fmt: skip
        episode, _ = driven(env, found)
        viz.value_map(found, axes[0, column], **names)
        axes[0, column].set_title(
            f"values after {(1, 3, 8)[column]} iterations" if column else "values after one iteration"
        )
        if column < 2:
            viz.transition_map(found, axes[1, column], **names)
    viz.policy_map(found, axes[1, 2], episode=episode, **names)
    axes[1, 2].set_title("policy (N), and the run")
    figure.savefig(out / "mountain_car_values.png", dpi=110)
    acts, q_episode, _ = valued_by_actions("actions, functions alone", DRAWN)
    figure, axes = plt.subplots(1, 3, figsize=(13, 3.7), layout="constrained")
    viz.value_map(acts, axes[0], **names)
    viz.policy_map(acts, axes[1], episode=q_episode, **names)
    axes[2].plot(np.arange(len(q_episode.states)) * q_episode.dt, q_episode.states[:, 0])
    axes[2].axhspan(0.5, 0.7, color="0.9")
    axes[2].set_xlabel("time / s")
    axes[2].set_ylabel("position / m")
    figure.savefig(out / "mountain_car_actions.png", dpi=110)
    plt.close("all")


def valued_by_actions(
    setting: str, seed: int
) -> tuple[control.ActionValuePolicy, control.Episode, dict[str, Any]]:
    """A policy by the values of actions, its run, and a line of results."""
    env, begun = control.MountainCar(), time.process_time()
    acts = by_actions(env, identified(env, seed, ACTIONS[setting])[0])
    episode, came = driven(env, acts, 2 * SECONDS)
    line = {
        "setting": setting, "seed": seed, **came, "end": float(episode.states[-20:, 0].mean()), "iterations": len(acts.history),
        "change": acts.history[-1].change, "seconds": time.process_time() - begun,
    }  # fmt: skip
    return acts, episode, line


def summary(rows: list[dict[str, Any]]) -> list[list[str]]:
    """One row for each setting."""
    out = []
    for setting in SETTINGS:
        some = [row for row in rows if row["setting"] == setting]
        if not some:
            continue
        up = [row["reached"] for row in some if row["reached"] is not None]
        held = sum(row["held"] > 0.95 for row in some)
        errors = np.median([row["errors"] for row in some], 0)
        moved = [np.median([row["changes"][k] for row in some if len(row["changes"]) > k]) for k in (0, 2, 5)]
        out.append([
            setting, str(len(some)), f"{errors[0]:.3f}, {errors[1]:.2f}", " ".join(f"{m:.2f}" for m in moved),
            f"{np.median([row['largest'] for row in some]):.1f}", f"{sum(row['first'] < 0 for row in some)}",
            f"{sum(t <= 4.0 for t in up)}", f"{np.median(up):.1f}" if up else "-", str(held),
        ])  # fmt: skip
    return out


def failures(rows: list[dict[str, Any]]) -> list[list[str]]:
    """Runs that did not come to the top and stay there."""
    return [
        [
            row["setting"], str(row["seed"]), "-" if row["reached"] is None else f"{row['reached']:.1f}", f"{row['held']:.2f}",
            f"{row['furthest']:.2f}", f"{row['fastest']:.2f}", f"{row['errors'][0]:.3f}, {row['errors'][1]:.2f}",
            "from {from:.2f} m: {expected:.2f} m/s within {within:.2f} expected, {was:.2f} came".format(**row["surprise"]),
        ]
        for row in rows
        if row["reached"] is None or row["held"] <= 0.95
    ]  # fmt: skip


def by_planning(rows: list[dict[str, Any]]) -> list[list[str]]:
    """One row for each way of planning."""
    out = []
    for method in PLANNED:
        some = [row for row in rows if row["setting"] == method]
        up = [row for row in some if abs(row["end"] - 0.6) < 0.1]
        if some:
            out.append([
                method, str(len(some)), f"{sum(row['first'] < 0 for row in some)}", f"{len(up)}",
                f"{np.median([row['last'] for row in up]):.2f}" if up else "-", f"{np.median([row['seconds'] for row in some]):.1f}",
            ])  # fmt: skip
    return out


def run(out: Path | None = None, compute: bool = True) -> str:
    """The page; runs that are kept in `out` are not repeated, with compute=False none is made."""
    folder = Path(out or "docs/results")
    path = folder / "mountain_car.jsonl"
    rows = computed(path, SEEDS) if compute else lines(path)
    if compute:
        pictures(folder)
    by_q = [row for row in rows if row["setting"] in ACTIONS]
    seeds = len({row["seed"] for row in rows})
    failed = failures([row for row in rows if row["setting"] in SETTINGS])
    missed = [
        str(row["seed"])
        for row in rows
        if row["setting"] == "along expected states" and abs(row["end"] - 0.6) >= 0.1
    ]
    return "\n\n".join(
        [
            "# Mountain car: policies by values that are Gaussian processes",
            f"{TRANSITIONS} random transitions of the car, one Gaussian process for each state variable, 19 x 19 support states, a reward of width 0.05 at rest at 0.6 m "
            f"(Kuss 2006, 7.3.4). {seeds} of {SEEDS} seeds ran; a seed is another draw of the transitions. Runs of {SECONDS:g} s from rest at the bottom.",
            table(
                [
                    "setting",
                    "seeds",
                    "errors (m, m/s)",
                    "change of values in iterations 1, 3, 6",
                    "largest value",
                    "first action < 0",
                    "on top within 4 s",
                    "median time / s",
                    "held",
                ],
                summary(rows),
            ),
            "Published: errors of at most about 0.02 m and 0.2 m/s for steps of 0.2 s; values stable after six iterations; the car accelerates to the left first, climbs, and balances on the target, "
            "in both settings. Held: in the second half of the run always within 0.15 m of the target.",
            "Seed 0, steps of 0.2 s. Above: values after one, three and eight iterations. Below: where the policy leads from each support state after one and three (crosses: it leaves the region), and the "
            "policy with the run.",
            "![values, transitions, policy](mountain_car_values.png)",
            "## Runs that did not come to the top or did not stay",
            table(
                [
                    "setting",
                    "seed",
                    "on top at / s",
                    "held",
                    "furthest / m",
                    "fastest / (m/s)",
                    "errors (m, m/s)",
                    "least expected step",
                ],
                failed,
            )
            if failed
            else "None.",
            WHY,
            "## Planned",
            "The same 50 transitions, steps of 0.3 s, five steps ahead, the loss (7.54) with a discount of 2 (later losses count more; the text leaves it open, and with less the best plan stays in the valley), 5 s. "
            "On the top: within 0.1 m of 0.6 m at the end.",
            table(
                [
                    "states are moved",
                    "seeds",
                    "first action < 0",
                    "on the top",
                    "last force / N",
                    "processor time / s",
                ],
                by_planning(rows),
            ),
            "Published: the first force is -4 N, then 4 N, then the car is held with about 2 N (2.05 N holds it at 0.6 m). "
            + (
                f"Seeds that did not come there along expected states: {', '.join(missed)}. "
                if missed
                else ""
            )
            + "The text matches moments, and leaves open whether noise comes on top. With moments fewer seeds come there, whichever: a squared loss fears states that may be anywhere, twice as "
            "much with every step, and plans stay where 50 transitions know the track. Of eight seeds tried with discounts of 1.5 and 4 and the functions alone one came there each, with noise but without the widening two; "
            "12 restarts came to the same ends as 3 in seven of the eight.",
            "## Values of actions",
            f"13 x 13 x 10 support pairs (7.3.3), {ACTION_SEEDS} seeds, runs of {2 * SECONDS:g} s. Functions alone: without noise and widening of the dynamics' intervals, as in the text.",
            table(
                [
                    "setting",
                    "seed",
                    "on top at / s",
                    "held",
                    "place at the end / m",
                    "iterations",
                    "last change",
                ],
                [
                    [
                        row["setting"],
                        str(row["seed"]),
                        "-" if row["reached"] is None else f"{row['reached']:.1f}",
                        f"{row['held']:.0%}",
                        f"{row['end']:.2f}",
                        str(row["iterations"]),
                        f"{row['change']:.2f}",
                    ]
                    for row in by_q
                ],
            ),
            "Published: it climbs and balances; about 20 iterations. Runs that stay on the hill above the target (0.7 to 0.8 m) do so because support states are 0.17 m apart and the reward is 0.05 m wide. "
            f"The picture is of seed {DRAWN}, functions alone.",
            "![values of actions, the policy and the run](mountain_car_actions.png)",
        ]
    )
