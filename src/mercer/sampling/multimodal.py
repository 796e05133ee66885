"""Chains in different modes: each has settled, but not where the others have (Kuss 4.3, 5.3:
several starts show it).
"""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import ArrayLike

# means further apart than this many standard deviations within the chains, in some quantity, are different
# modes
APART = 3.0
SETTLED = 1.2  # R-hat within a mode above this: its chains are still on their way, and modes cannot be told
MOST = 50  # quantities looked at: those in which the chains differ most


@dataclasses.dataclass(frozen=True)
class Mode:
    """Some chains that agree with each other: their numbers, the share of all draws, mean log density (nan
    where not known), R-hat among them, and the mean (q,) of each quantity."""

    chains: tuple[int, ...]
    share: float
    log_density: float
    r_hat: float
    centre: np.ndarray


def modes(draws: ArrayLike, log_density: ArrayLike | None = None) -> tuple[Mode, ...]:
    """The modes that chains (chains, draws, q) sit in, the largest first; one where they agree, none where
    they have not settled.

    Halves of chains are grouped by their means, so that a chain that moved from one mode to another is
    counted in both. The shares say how many draws were made in each mode, not how probable it is: chains that
    never switch cannot know.

    >>> modes(post.chains.draws, post.chains.log_density)
    """
    x = np.asarray(draws, float)
    x = x[..., None] if x.ndim == 2 else x
    count, half = x.shape[0], x.shape[1] // 2
    if half < 2:
        raise ValueError(f"telling modes apart needs chains of at least 4 draws, got {x.shape[1]}.")
    halves = np.concatenate([x[:, :half], x[:, -half:]])
    owner = np.tile(np.arange(count), 2)
    means, spread = halves.mean(1), np.sqrt(np.mean(halves.var(1), 0))
    with np.errstate(divide="ignore", invalid="ignore"):
        scaled = np.nan_to_num(means / spread, posinf=0.0, neginf=0.0)
    shown = np.argsort(-np.ptp(scaled, axis=0), kind="stable")[:MOST]
    groups = _connected(scaled[:, shown])
    values = None if log_density is None else np.asarray(log_density, float)
    logs = None if values is None else np.concatenate([values[:, :half], values[:, -half:]])
    out = [
        Mode(
            chains=tuple(map(int, np.unique(owner[group]))),
            share=len(group) / len(owner),
            log_density=float("nan") if logs is None else float(logs[group].mean()),
            r_hat=_agreement(halves[group][..., shown]),
            centre=halves[group].mean((0, 1)),
        )
        for group in groups
    ]
    settled = len(out) == 1 or (len(out) <= count and all(m.r_hat <= SETTLED for m in out))
    return tuple(sorted(out, key=lambda m: -m.share)) if settled else ()


def described(found: tuple[Mode, ...], between: float) -> str:
    """One line for a person, where there are several modes."""
    each = "; ".join(
        f"chain{'s' * (len(m.chains) > 1)} {', '.join(str(c + 1) for c in m.chains)}"
        + ("" if np.isnan(m.log_density) else f" (mean log density {m.log_density:.1f})")
        for m in found
    )
    switched = [
        c + 1 for c in sorted({c for m in found for c in m.chains}) if sum(c in m.chains for m in found) > 1
    ]
    moved = (
        f"chain {', '.join(map(str, switched))} went from one to another"
        if switched
        else "no chain went from one to another"
    )
    return (
        f"the chains sit in {len(found)} different modes: {each}; R-hat is at most "
        f"{max(m.r_hat for m in found):.2f} within a mode "
        f"and {between:.2f} between them, and {moved}. How probable each mode is cannot be told from these "
        "draws: "
        "compare evidences of the modes (AIS), or give priors that decide"
    )


def _connected(x: np.ndarray) -> list[np.ndarray]:
    """Groups of rows that are linked by steps of at most APART in every column."""
    near = np.abs(x[:, None] - x[None]).max(-1) <= APART
    left, out = set(range(len(x))), []
    while left:
        group, new = set(), {min(left)}
        while new:
            group |= new
            new = {int(j) for i in new for j in np.flatnonzero(near[i])} - group
        left -= group
        out.append(np.array(sorted(group)))
    return out


def _agreement(halves: np.ndarray) -> float:
    """R-hat of these halves, over the quantities that vary."""
    n = halves.shape[1]
    within = halves.var(1, ddof=1).mean(0)
    between = halves.mean(1).var(0, ddof=1) if len(halves) > 1 else np.zeros(halves.shape[2])
    varies = within > 0
    return float(np.sqrt((n - 1) / n + np.max(between[varies] / within[varies], initial=0.0)))
