"""A person's bounds on hyperparameters: starts are moved inside them, and ends that press against one are
told.
"""

from __future__ import annotations

import numpy as np

from mercer.params import Flattened, element_names

Bound = tuple[float | None, float | None]  # lower and upper of an unconstrained parameter; None: open
AT = 1e-6  # of an unconstrained parameter: this close to a bound is on it
STEEP = 0.05  # nats per unit of an unconstrained parameter: a slope that matters
COSTS = 0.5  # the same of a bound that may show in predictions: not that of a column without effect
NARROW = 0.1  # of an unconstrained parameter: bounds this close hold a value on purpose


def clip(flat: Flattened, vector: np.ndarray) -> np.ndarray:
    """The nearest vector (p,) within the bounds."""
    lower, upper = _sides(flat.bounds())
    return np.clip(vector, lower, upper)


def pressed(bounds: list[Bound], vector: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """Which entries (p,) stand at a bound beyond which the objective still rises: -1 at a lower one, 1 at an
    upper one, 0 elsewhere.
    """
    lower, upper = _sides(bounds)
    at_lower, at_upper = vector <= lower + AT, vector >= upper - AT
    return np.where(at_upper & (gradient > 0), 1, np.where(at_lower & (gradient < 0), -1, 0))


def moved_starts(flat: Flattened) -> str:
    """What to say of given values outside their bounds; nothing where there are none."""
    inside = clip(flat, flat.vector)
    moved = np.abs(inside - flat.vector) > AT
    said = []
    for p, s in flat.slots:
        before, after = (p.constraint.value(vector[s]) for vector in (flat.vector, inside))
        for i in np.flatnonzero(moved[s]):
            name = list(element_names(p.name, np.shape(p.value)))[i]
            outside = f"{name} = {before[i]:g} is outside its bounds {p.info.bounds}"
            said.append(f"{outside}, the search starts at {after[i]:g}")
    return _listed(said)


def ends(flat: Flattened, vector: np.ndarray, gradient: np.ndarray) -> str:
    """What to say of hyperparameters that were stopped by a bound; nothing where there are none.

    A bound of a hyperparameter with a prior is where that prior ends: its most probable value may be there.
    Nor is anything said of bounds so narrow that they hold a value on purpose, or where hardly anything is
    lost.
    """
    where = pressed(flat.bounds(), vector, gradient) * (np.abs(gradient) > COSTS)
    said = []
    for p, s in flat.slots:
        if p.info.bounds is None or p.info.prior is not None:
            continue
        lower, upper = p.constraint.unconstrained(np.asarray(p.info.bounds))
        if upper - lower <= NARROW:
            continue
        for i in np.flatnonzero(where[s]):
            name = list(element_names(p.name, np.shape(p.value)))[i]
            kind, value = ("upper", p.info.bounds[1]) if where[s][i] > 0 else ("lower", p.info.bounds[0])
            said.append(f"{name} is at its {kind} bound {value:g}")
    return _listed(said)


def _sides(bounds: list[Bound]) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper bounds (p,) of the unconstrained vector; infinite where there are none."""
    lower = np.array([-np.inf if low is None else low for low, _ in bounds])
    upper = np.array([np.inf if high is None else high for _, high in bounds])
    return lower, upper


def _listed(said: list[str], most: int = 3) -> str:
    more = [f"{len(said) - most} more"] if len(said) > most else []
    return "; ".join(said[:most] + more)
