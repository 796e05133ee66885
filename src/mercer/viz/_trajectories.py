"""What a controller did, and what it expects."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.viz._style import BLUE, GREY, VERMILLION, frame, half_width, legend, panels, percent


def trajectories(controller: Any, episodes: Any = None, level: float = 0.95, axes: Any = None) -> Any:
    """The states and actions of episodes along time, one panel each, with the tube that the controller
    expects from the first state of the last one.

    controller: what `mercer.control.learn` returned; episodes: others than those it was learned in; axes: as
    many as there are states and actions. Returns the array of Axes.

    >>> mc.viz.trajectories(controller)[0].figure.savefig("run.png")
    """
    shown = list(controller.episodes if episodes is None else episodes)
    if not shown:
        raise ValueError("there is no episode to draw: give episodes=.")
    states, actions = shown[-1].names
    count = len(states) + len(actions)
    axes = panels(count, (6.4, 1.2 + 1.5 * count)) if axes is None else axes
    for ax, name in zip(axes, (*states, *actions), strict=True):
        frame(ax, "", name)
    axes[-1].set_xlabel("time / s")
    for i, episode in enumerate(shown):
        last = i == len(shown) - 1
        style = {"color": VERMILLION if last else GREY, "linewidth": 1.6 if last else 0.8}
        time = episode.dt * np.arange(len(episode.states))
        label = "last episode" if last else "earlier" if i == 0 else None
        for j in range(len(states)):
            axes[j].plot(time, episode.states[:, j], alpha=1.0 if last else 0.5, label=label, **style)
        for j in range(len(actions)):
            axes[len(states) + j].step(
                time[:-1], episode.actions[:, j], where="post", alpha=1.0 if last else 0.5, **style
            )
    expected = controller.foresee(shown[-1].states[0])
    time = shown[-1].dt * np.arange(len(expected.tube.mean))
    width = half_width(level)
    for j in range(len(states)):
        mean, half = expected.tube.mean[:, j], width * expected.tube.std[:, j]
        axes[j].plot(time, mean, color=BLUE, linewidth=1.2, label=f"expected, {percent(level)}")
        axes[j].fill_between(time, mean - half, mean + half, color=BLUE, alpha=0.2, linewidth=0)
    for j in range(len(actions)):
        axes[len(states) + j].step(time[:-1], expected.actions[:, j], where="post", color=BLUE, linewidth=1.2)
    legend(axes[0], 3)
    return axes
