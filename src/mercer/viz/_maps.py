"""Maps of what was learned to control: what states are worth, what is done in them, where that leads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mercer.viz._style import BLACK, BLUE, GREY, VERMILLION, frame

SIDE = 51  # places along each side of a map


def value_map(
    policy: Any,
    ax: Any = None,
    columns: tuple[int, int] = (0, 1),
    at: Sequence[float] | None = None,
    episode: Any = None,
    xlabel: str | None = None,
    ylabel: str | None = None,
) -> Any:
    """What states are worth under a `mercer.control.ValuePolicy`, over two columns of the state.

    at: the other columns of the state; None is the middle of the support states
    episode: a recorded run, drawn on top

    >>> viz.value_map(found, episode=mc.control.record(env, found), xlabel="position", ylabel="velocity")
    """
    sides, states = _places(policy.support, columns, at)
    values = policy.value(states).reshape(SIDE, SIDE)
    return _map(ax, sides, values, "value", "cividis", policy, columns, episode, xlabel, ylabel)


def policy_map(
    policy: Any,
    ax: Any = None,
    columns: tuple[int, int] = (0, 1),
    at: Sequence[float] | None = None,
    action: int = 0,
    episode: Any = None,
    xlabel: str | None = None,
    ylabel: str | None = None,
) -> Any:
    """The action that a policy by values takes, over two columns of the state. Arguments as of `value_map`;
    action: which, of several.

    >>> viz.policy_map(found)
    """
    sides, states = _places(policy.support, columns, at)
    taken = policy.act(states)[:, action].reshape(SIDE, SIDE)
    return _map(ax, sides, taken, "action", "RdBu_r", policy, columns, episode, xlabel, ylabel)


def transition_map(
    policy: Any,
    ax: Any = None,
    columns: tuple[int, int] = (0, 1),
    xlabel: str | None = None,
    ylabel: str | None = None,
) -> Any:
    """Where the policy leads from each support state, as an arrow; support states from which it leaves
    what is allowed are crosses.

    >>> viz.transition_map(found)
    """
    x, y = columns
    ax = frame(ax, xlabel or f"state {x + 1}", ylabel or f"state {y + 1}", (5.4, 4.4))
    stays = ~policy.leaves
    begin, move = policy.support[stays], (policy.after - policy.support)[stays]
    ax.quiver(
        begin[:, x], begin[:, y], move[:, x], move[:, y], angles="xy", scale_units="xy", scale=1.0,
        width=0.0022, color=BLUE,
    )  # fmt: skip
    ax.plot(policy.support[~stays, x], policy.support[~stays, y], "x", color=VERMILLION, markersize=4)
    ends = policy.support[:, list(columns)]
    ax.set_xlim(ends[:, 0].min(), ends[:, 0].max())
    ax.set_ylim(ends[:, 1].min(), ends[:, 1].max())
    return ax


def _places(
    support: np.ndarray, columns: tuple[int, int], at: Sequence[float] | None
) -> tuple[list[np.ndarray], np.ndarray]:
    low, high = support.min(0), support.max(0)
    if max(columns) >= len(low):
        raise ValueError(f"the state has {len(low)} columns, columns={columns} are not all among them.")
    sides = [np.linspace(low[c], high[c], SIDE) for c in columns]
    rest = 0.5 * (low + high) if at is None else np.asarray(at, float)
    states = np.tile(rest, (SIDE * SIDE, 1))
    states[:, list(columns)] = np.stack(np.meshgrid(*sides, indexing="ij"), -1).reshape(-1, 2)
    return sides, states


def _map(
    ax: Any,
    sides: list[np.ndarray],
    values: np.ndarray,
    word: str,
    colours: str,
    policy: Any,
    columns: tuple[int, int],
    episode: Any,
    xlabel: str | None,
    ylabel: str | None,
) -> Any:
    x, y = columns
    ax = frame(ax, xlabel or f"state {x + 1}", ylabel or f"state {y + 1}", (5.4, 4.4))
    drawn = ax.pcolormesh(*sides, values.T, cmap=colours, shading="gouraud")
    ax.figure.colorbar(drawn, ax=ax, label=word)
    ax.plot(policy.support[:, x], policy.support[:, y], ".", color=GREY, markersize=1.2)
    if episode is not None:
        ax.plot(episode.states[:, x], episode.states[:, y], "-", color="white", linewidth=2.6)
        ax.plot(episode.states[:, x], episode.states[:, y], "o-", color=BLACK, linewidth=1.0, markersize=2.5)
    ax.set_xlim(sides[0][0], sides[0][-1])
    ax.set_ylim(sides[1][0], sides[1][-1])
    return ax
