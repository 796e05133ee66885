"""The pole on a cart (Kuss 2006, 7.3 and 7.4): swung up by planning, by values of a simplified task, and not by values of the whole one."""

from __future__ import annotations

import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from experiments._table import table
from mercer import control, viz

INERTIA = {"planned": 0.06, "planned, inertia 0.015": 0.015}  # the text's; of a thin rod about its centre
SEEDS = {**dict.fromkeys(INERTIA, 20), "simplified": 10, "whole": 1, "near the top": 1}
SECONDS, STANDS = 12.0, 2.0  # of a run, and at its end for the pole to have stood
UPRIGHT = 0.3  # rad from it
INDUCING = 100
TOP = np.pi


class Turned(eqx.Module):
    """A transition whose angle is counted from 0 to one turn."""

    plant: Any
    angle: int = eqx.field(static=True)

    def __call__(self, state: Any, action: Any) -> tuple[Any, Any]:
        mean, covariance = self.plant(state, action)
        return mean.at[self.angle].set(jnp.mod(mean[self.angle], 2.0 * jnp.pi)), covariance


def identified(env: control.CartPole, size: int, seed: int, columns: slice = slice(None)) -> control.Dynamics:
    """Dynamics of some columns of the state from random transitions, all the data there are."""
    S, A = env.draw(size, seed)
    after = env.advance(S, A)
    names = SimpleNamespace(
        states=env.states[columns], angles=env.angles, actions=env.actions, low=env.low, high=env.high
    )
    seen = control.Transitions(S[:, columns], A, after[:, columns], env.reward(after))
    return control.Dynamics.learn(names, seen, rewards=False, inducing=INDUCING)


def errors(env: control.CartPole, dynamics: control.Dynamics, columns: slice = slice(None)) -> list[float]:
    """Root mean squares on 400 transitions that were not learned from."""
    S, A = env.draw(400, 10_000)
    away = dynamics.predict(S[:, columns], A)[0] - env.advance(S, A)[:, columns]
    return np.sqrt(np.mean(away**2, 0)).round(4).tolist()


def outcome(episode: control.Episode) -> dict[str, Any]:
    """What came of a run: from when on the pole stood to the end, for how much of the time it stood, how far the cart went."""
    angle = np.mod(episode.states[:, 2], 2.0 * np.pi)
    up = np.abs(angle - TOP) < UPRIGHT
    settled = next((i * episode.dt for i in range(len(up)) if up[i:].all()), None)
    return {
        "settled": settled, "upright": round(float(up.mean()), 3),
        "furthest": round(float(np.abs(episode.states[:, 0]).max()), 2),
        "angle": angle.round(3).tolist(), "position": episode.states[:, 0].round(3).tolist(),
        "force": episode.actions[:, 0].round(2).tolist(),
    }  # fmt: skip


def stood(d: dict[str, Any]) -> bool:
    """Whether the pole stood at the end of a run, long enough not to have been passing."""
    return d["settled"] is not None and d["settled"] <= SECONDS - STANDS


def surprise(dynamics: control.Dynamics, episode: control.Episode) -> dict[str, Any]:
    """The step that went least as expected: which state variable, and what was expected of it."""
    mean, std = dynamics.predict(episode.states[:-1], episode.actions)
    away = np.abs(episode.states[1:] - mean)
    away[:, 2] = np.abs((away[:, 2] + np.pi) % (2 * np.pi) - np.pi)
    step, column = np.unravel_index(int(np.argmax(away / std)), away.shape)
    return {
        "at": round(float(step * episode.dt), 1), "of": dynamics.states[column], "by": round(float(away[step, column]), 3),
        "expected within": round(float(std[step, column]), 3),
    }  # fmt: skip


def planned(seed: int, inertia: float) -> dict[str, Any]:
    """The text's: 200 transitions, five steps ahead, forces up to 4 N, from hanging at rest."""
    env = control.CartPole(inertia=inertia)
    dynamics = identified(env, 200, seed)
    planner = control.Receding(5, "mean", max_evaluations=30)
    controller = control.Controller(planner, dynamics, env.loss, horizon=5)
    episode = controller.run(env, round(SECONDS / env.dt), seed=0)
    return {"errors": errors(env, dynamics), **outcome(episode), "surprise": surprise(dynamics, episode)}


def valued(
    env: control.CartPole,
    dynamics: control.Dynamics,
    reward: control.Bumps,
    grid: np.ndarray,
    counts: tuple[int, ...],
) -> tuple[control.ValuePolicy, dict[str, Any]]:
    """A policy by values on a grid of support states, and how wrong its values are there and between them."""
    D = len(counts)
    wide = 1.5 * (grid - grid.mean(0)) + grid.mean(0)
    wide[:, D - 2] = [-np.inf, np.inf]
    found = control.gp_policy_iteration(
        Turned(dynamics.plant, D - 2), reward, control.support_grid(grid, counts), env.low, env.high, gamma=0.9,
        box=wide, max_iterations=6, progress=False,
    )  # fmt: skip
    between = np.random.default_rng(0).uniform(*grid, (300, D))
    largest = float(np.abs(found.values).max())
    return found, {
        "support": list(counts), "iterations": len(found.history), "beyond": sum(h.beyond for h in found.history),
        "largest": round(largest, 2), "change": round(float(found.history[-1].change), 3),
        "wrong at them": round(float(np.quantile(np.abs(found.residual(found.support)), 0.9)) / largest, 4),
        "wrong between": round(float(np.quantile(np.abs(found.residual(between)), 0.9)) / largest, 4),
    }  # fmt: skip


def simplified(seed: int) -> tuple[control.ValuePolicy, control.Episode, dict[str, Any]]:
    """The text's: the cart's place is ignored, forces up to 8 N, 300 transitions, 5 x 9 x 9 support states."""
    env = control.CartPole(force=8.0)
    columns = slice(1, None)
    dynamics = identified(env, 300, seed, columns)
    reward = control.Bumps.at([0.0, TOP, 0.0], 0.8, columns=[1])
    found, came = valued(env, dynamics, reward, env.box[:, 1:], (5, 9, 9))
    episode = control.record(
        env, lambda s: found([s[1], s[2] % (2 * np.pi), s[3]]), round(SECONDS / env.dt), state=np.zeros(4)
    )
    return found, episode, {"errors": errors(env, dynamics, columns), **came, **outcome(episode)}


def whole(near: bool) -> tuple[control.ValuePolicy, control.Episode, dict[str, Any]]:
    """All four state variables: support states everywhere, from hanging; or about the top alone, from beside it."""
    env = control.CartPole()
    dynamics = identified(env, 300, 0)
    about = np.array([[-0.5, -1.5, TOP - 0.6, -3.0], [0.5, 1.5, TOP + 0.6, 3.0]])
    reward = control.Bumps.at([0.0, 0.0, TOP, 0.0], 0.5, columns=[0, 2])
    found, came = valued(env, dynamics, reward, about if near else env.box, (5, 5, 7, 5))
    start = np.array([0.0, 0.0, TOP - 0.15 if near else 0.0, 0.0])
    episode = control.record(
        env, lambda s: found([s[0], s[1], s[2] % (2 * np.pi), s[3]]), round(SECONDS / env.dt), state=start
    )
    return found, episode, {"errors": errors(env, dynamics), **came, **outcome(episode)}


# -------------------------------------------------------------------------------------------------- pictures


ANGLES = {"xlabel": "angle / rad (pi is upright)", "ylabel": "angular velocity / (rad/s)"}


def maps(out: Path, name: str, found: control.ValuePolicy, title: str) -> None:
    """Values and actions over angle and angular velocity, everything else at rest at 0."""
    import matplotlib.pyplot as plt

    D = found.support.shape[1]
    at = np.zeros(D)
    figure, axes = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    viz.value_map(found, axes[0], (D - 2, D - 1), at, **ANGLES)
    viz.policy_map(found, axes[1], (D - 2, D - 1), at, **ANGLES)
    axes[0].set_title(f"{title}: values", fontsize=10)
    axes[1].set_title("forces (N)", fontsize=10)
    figure.savefig(out / f"cart_pole_{name}.png", dpi=100)
    plt.close(figure)


def runs(out: Path, done: list[dict[str, Any]]) -> None:
    """The angles of every run, and the cart's places."""
    import matplotlib.pyplot as plt

    titles = {
        "planned": "planned, 5 steps ahead", "planned, inertia 0.015": "planned, a thinner pole",
        "simplified": "values, simplified task",
        "whole": "values, whole task", "near the top": "values, supports near the top",
    }  # fmt: skip
    figure, axes = plt.subplots(2, 5, figsize=(15, 5.0), layout="constrained", sharex=True)
    for column, (name, title) in enumerate(titles.items()):
        for d in (d for d in done if d["task"] == name):
            stands = stood(d)
            style = {
                "color": "#0072B2" if stands else "#D55E00",
                "alpha": 0.6 if SEEDS[name] > 1 else 1.0,
                "linewidth": 1.0,
            }
            time_of = 0.2 * np.arange(len(d["angle"]))
            angle = np.unwrap(d["angle"])
            turns = np.round((angle[-1] - TOP) / (2 * np.pi)) if stands else 0.0
            axes[0, column].plot(time_of, angle - 2 * np.pi * turns, **style)
            axes[1, column].plot(time_of, d["position"], **style)
        axes[0, column].set_title(title, fontsize=10)
        axes[0, column].axhline(TOP, color="0.7", linewidth=0.8, zorder=0)
        axes[1, column].set_xlabel("time / s")
    axes[0, 0].set_ylabel("angle / rad")
    axes[1, 0].set_ylabel("position / m")
    figure.savefig(out / "cart_pole_runs.png", dpi=100)
    plt.close(figure)


# ------------------------------------------------------------------------------------------------------ page


def computed(task: str, seed: int, out: Path) -> dict[str, Any]:
    """One line of results, and the maps of the first seed."""
    begun = time.process_time()
    if task in INERTIA:
        line = planned(seed, INERTIA[task])
    else:
        found, _, line = simplified(seed) if task == "simplified" else whole(task == "near the top")
        if seed == 0:
            maps(
                out,
                task.replace(" ", "_"),
                found,
                f"{task}" if task != "near the top" else "supports near the top",
            )
    return {"task": task, "seed": seed, **line, "cpu": round(time.process_time() - begun, 1)}


def run(out: Path | None = None, compute: bool = True) -> str:
    """The page; runs that are kept in `out` are not repeated, with compute=False none is made."""
    folder = Path(out or "docs/results")
    path = folder / "cart_pole.jsonl"
    done = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    for seed in range(max(SEEDS.values()) if compute else 0):
        for task, seeds in SEEDS.items():
            if seed < seeds and not any(d["task"] == task and d["seed"] == seed for d in done):
                done.append(computed(task, seed, folder))
                with path.open("a") as file:
                    file.write(json.dumps(done[-1]) + "\n")
    if compute:
        runs(folder, done)
    return page(done)


def page(done: list[dict[str, Any]]) -> str:
    by = {task: [d for d in done if d["task"] == task] for task in SEEDS}
    rows = []
    for task, some in by.items():
        if some:
            times = [d["settled"] for d in some if stood(d)]
            rows.append([
                task, f"{len(some)} of {SEEDS[task]}", f"{len(times)} of {len(some)}",
                f"{np.median(times):.1f} ({min(times):.1f} to {max(times):.1f})" if times else "-",
                f"{np.median([d['upright'] for d in some]):.0%}", f"{np.median([d['furthest'] for d in some]):.1f}",
                " ".join(f"{e:.3f}" for e in np.median([d["errors"] for d in some], 0)),
            ])  # fmt: skip
    values = [
        [
            task, " x ".join(map(str, d["support"])), f"{d['largest']:.1f}", f"{d['beyond']} of {d['iterations']}",
            f"{d['wrong at them']:.1%}", f"{d['wrong between']:.1%}", f"{d['upright']:.0%}",
        ]
        for task in SEEDS if task not in INERTIA for d in by[task]
    ]  # fmt: skip
    failed = [
        [
            d["task"], str(d["seed"]), f"{d['upright']:.0%}", f"{d['furthest']:.1f}", f"{d['surprise']['of']} at {d['surprise']['at']} s",
            f"{d['surprise']['by']:.2f}, within {d['surprise']['expected within']:.2f}",
        ]
        for task in INERTIA for d in by[task] if not stood(d)
    ]  # fmt: skip
    return "\n\n".join(
        [
            "# The pole on a cart: planned, and by values",
            "Random transitions are all that is known of the pole (Kuss 2006, 7.3 and 7.4; inertia 0.06). A run begins with the pole hanging at rest and lasts 12 s; it stood where it was within 0.3 rad of "
            "upright for the last 2 s and more. Planned: 200 transitions, five steps of 0.2 s ahead along expected states, up to 4 N, the loss (7.55). Simplified: the cart's place is ignored, up to 8 N, 300 transitions, "
            "5 x 9 x 9 support states. Whole: four state variables, 5 x 5 x 7 x 5 support states; near the top: as many of them within 0.6 rad of upright, begun 0.15 rad from it. A seed is another draw of the transitions.",
            table(
                ["task", "seeds", "stood to the end", "from / s", "time upright", "furthest / m", "errors of dynamics"], rows
            ),
            "The text leaves the width of rewards and where states may be open. For the simplified task 0.8 rad, and 1.5 times the region of the support states, were chosen after a trial on seeds 0 and 1, in which 0.5 rad and "
            "the region itself did not balance; the other eight seeds were run once. On the whole task the width is 0.5 m and 0.5 rad, and no other was tried.",
            "Published: planned, upright after about 4 s and held; of the simplified task some runs swing up and balance, some fail; of the whole task the pole is not swung up, even with 10 support states along "
            "each of the four variables, and balanced only with support states placed where it balances.",
            "![angles and places of all runs; blue where the pole stood to the end](cart_pole_runs.png)",
            "## Runs that were planned and did not stand",
            table(["task", "seed", "time upright", "furthest / m", "least expected", "off by"], failed) if failed else "None.",
            "Dynamics are sparse, of 100 inducing inputs. In a trial with all 200 rows seeds 0 to 3 stood from 9.4, 6.0, 4.4 and 6.8 s on, seed 2 among them: its failure goes with the inducing inputs.",
            "The text's inertia, 0.06, is that of a thin rod about its end; about its centre it is 0.015. Such a pole turns faster: in steps of 0.2 s its angular velocity is learned four times worse from as many transitions, "
            "and fewer seeds stand; those that do, earlier.",
            "## Why values fail",
            "Values are right by their own measure where the best reward and value one step later is the value: of the largest value, how far they are from that (90 % of states are nearer), at the support states "
            "and at random states between them. Iterations beyond: the linear system said more than rewards allow.",
            table(
                ["task", "support states", "largest", "iterations beyond", "wrong at them", "wrong between", "time upright"], values
            ),
            WHY,
            *(
                f"![values and forces over angle and angular velocity: {task}](cart_pole_{task.replace(' ', '_')}.png)"
                for task in SEEDS if task not in INERTIA and by[task]
            ),
        ]
    )  # fmt: skip


WHY = (
    "The dynamics are not to blame: their errors are those of the task that is planned. Nor is it how well values are solved for: at the support states they are right. Between them they are what the Gaussian process makes of "
    "its neighbours, and on the whole task the only support angle within a radian of upright is upright itself. Values there are a smooth ridge (picture) that promises nearly as much for a pole half a radian off as "
    "for one that stands; the policy swings it up to there again and again, waits on the ridge, and the pole falls back. Ten along each of four variables are still 0.7 rad apart, and are 10,000, whose linear system alone is "
    "800 MB. With support states near the top the pole is held until the cart has drifted out of their region (0.5 m), and falls there. On the simplified task one variable less leaves nine along the angle, and twice the "
    "force forgives more; the cart, whose place nobody asks for, drifts away. Planning needs no support states: five steps ahead are enough."
)
