"""Runs as moving pictures: a GIF, or a page that needs nothing else."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from mercer.files import written_whole
from mercer.viz._style import BLACK, BLUE, CYCLE, GREY, VERMILLION, frame, legend

FRAMES = 400  # at most


def animation(
    episode: Any,
    path: str | os.PathLike[str],
    sketch: Callable[[np.ndarray], Any] | None = None,
    title: str = "",
) -> Path:
    """A recorded `mercer.control.Episode` as a moving picture at the speed at which it happened: the states
    and actions as they came, and above them the world, where it can be drawn. Returns the path.

    path: ending in .gif, or in .html for a page with buttons that needs nothing else; written whole or not at
        all
    sketch: state (D,) -> lines (x, y) of the world in that state, such as `env.sketch`

    >>> viz.animation(mc.control.record(env, policy, steps=10), "run.gif", env.sketch)
    """
    import matplotlib.pyplot as plt
    from matplotlib.animation import FuncAnimation, PillowWriter

    target = Path(path)
    if target.suffix.lower() not in (".gif", ".html"):
        raise ValueError(
            f"a run is drawn as .gif or .html, not as {target.suffix or 'a file without ending'}."
        )
    count = min(len(episode.states), FRAMES)
    shown = np.linspace(0, len(episode.states) - 1, count).astype(int)
    figure, draw = _scene(episode, sketch, title)
    try:
        film = FuncAnimation(figure, lambda k: draw(int(shown[k])), frames=count, blit=False)
        speed = float(np.clip(1.0 / max(episode.dt, 1e-3), 2.0, 30.0))
        with written_whole(target) as new:
            if target.suffix.lower() == ".gif":
                film.save(new, writer=PillowWriter(fps=round(speed)), dpi=80)
            else:
                new.write_text(film.to_jshtml(fps=round(speed)), encoding="utf-8")
    finally:
        plt.close(figure)
    return target


def _scene(episode: Any, sketch: Any, title: str) -> tuple[Any, Callable[[int], Any]]:
    """A figure, and what draws frame k of it."""
    import matplotlib.pyplot as plt

    heights = [2.2, 1.3, 1.0] if sketch else [1.3, 1.0]
    figure, axes = plt.subplots(
        len(heights), 1, figsize=(6.4, 1.7 * sum(heights)), height_ratios=heights, layout="constrained"
    )
    times = np.arange(len(episode.states)) * episode.dt
    held = np.concatenate([episode.actions, episode.actions[-1:]])
    names = (*episode.names[0], *episode.names[1])
    moving: list[tuple[Any, np.ndarray, np.ndarray]] = []
    for ax, values, words, step in (
        (axes[-2], episode.states, episode.names[0], False),
        (axes[-1], held, episode.names[1], True),
    ):
        frame(ax, "time / s" if step else "", "action" if step else "state")
        style = {"drawstyle": "steps-post"} if step else {}
        for j, word in enumerate(words):
            colour = CYCLE[names.index(word) % len(CYCLE)]
            ax.plot(times, values[:, j], color=colour, alpha=0.2, **style)
            (line,) = ax.plot([], [], color=colour, label=word, **style)
            moving.append((line, times, values[:, j]))
        ax.set_xlim(times[0], times[-1])
        legend(ax)
    bodies: list[Any] = []
    if sketch:
        world = frame(axes[0])
        parts = [sketch(state) for state in episode.states]
        for i, _ in enumerate(parts[0]):
            still = all(_same(part[i], parts[0][i]) for part in parts)
            (line,) = world.plot(
                [], [], color=GREY if still else (BLUE, VERMILLION, BLACK)[(i - 1) % 3],
                linewidth=1.5 if still else 3.5, marker="" if len(parts[0][i][0]) > 1 else "o", markersize=11,
            )  # fmt: skip
            bodies.append(line)
        xs, ys = (np.concatenate([np.ravel(line[k]) for part in parts for line in part]) for k in (0, 1))
        margin = 0.08 * max(np.ptp(xs), np.ptp(ys), 1e-6)
        world.set_xlim(xs.min() - margin, xs.max() + margin)
        world.set_ylim(ys.min() - margin, ys.max() + margin)
        world.set_aspect("equal")
    axes[0].set_title(title, loc="right", fontsize="medium")

    def draw(k: int) -> list[Any]:
        for line, at, values in moving:
            line.set_data(at[: k + 1], values[: k + 1])
        for line, (x, y) in zip(bodies, sketch(episode.states[k]) if sketch else (), strict=True):
            line.set_data(np.atleast_1d(x), np.atleast_1d(y))
        return [*bodies, *(line for line, _, _ in moving)]

    return figure, draw


def _same(one: Any, other: Any) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))
