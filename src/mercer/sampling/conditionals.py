"""Gibbs sampling: one component after the other from its exact conditional (Kuss 4.30),
and over-relaxed Bernoulli components.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mercer.progress import STOPPED, Progress, shown, tell


def gibbs(
    conditionals: Mapping[str, Callable],
    start: Mapping[str, Any],
    sweeps: int,
    *,
    burn: int = 0,
    thin: int = 1,
    seed: int = 0,
    keep: tuple[str, ...] | None = None,
    progress: Progress = None,
) -> dict[str, np.ndarray]:
    """Draws of every component (or of those named in `keep`), each (kept, ...).

    conditionals: for each component, in the order of a sweep, a function (rng, state) -> new value; `state`
    is a dict with the current value of all of them. `progress` hears of every sweep;
    Ctrl-C keeps the draws made so far.

    >>> x = lambda rng, s: rng.normal(0.9 * s["y"], 0.4)
    >>> y = lambda rng, s: rng.normal(0.9 * s["x"], 0.4)
    >>> gibbs({"x": x, "y": y}, {"x": 0.0, "y": 0.0}, 1000)
    """
    missing = set(conditionals) ^ set(start)
    if missing:
        raise ValueError(
            f"conditionals and start must name the same components; {sorted(missing)} are in only one of "
            "them."
        )
    if sweeps <= burn or thin < 1 or burn < 0:
        raise ValueError(
            f"Gibbs needs sweeps > burn >= 0 and thin >= 1, got sweeps={sweeps}, burn={burn}, thin={thin}."
        )
    names = tuple(conditionals) if keep is None else keep
    rng, state = np.random.default_rng(seed), dict(start)
    draws: dict[str, list] = {name: [] for name in names}
    try:
        with shown("Gibbs sampling", progress, "Ctrl-C keeps what was drawn"):
            for sweep in range(sweeps):
                for name, conditional in conditionals.items():
                    state[name] = conditional(rng, state)
                if sweep >= burn and (sweep - burn) % thin == 0:
                    for name in names:
                        draws[name].append(np.array(state[name]))
                tell(sweep + 1, sweeps, "sweeps")
    except STOPPED:
        if not all(draws.values()):
            raise
    kept = min(len(d) for d in draws.values())
    return {name: np.array(d[:kept]) for name, d in draws.items()}


def over_relaxed_bernoulli(rng: np.random.Generator, x: ArrayLike, probability: ArrayLike) -> np.ndarray:
    """A new value of Bernoulli(probability) components that avoids the old one x where it can (5.17).

    From 0 to 1 with probability min(1, p / (1 - p)), from 1 to 0 with min(1, (1 - p) / p): p stays the
    stationary probability, and successive values are less alike than those of plain Gibbs sampling.
    """
    x, p = np.asarray(x), np.asarray(probability, float)
    with np.errstate(divide="ignore", invalid="ignore"):
        leave = np.where(x == 0, p / (1.0 - p), (1.0 - p) / p)
    return np.where(rng.random(np.broadcast_shapes(x.shape, p.shape)) < leave, 1 - x, x)
