"""What is known of a function that does not change when its inputs are transformed (GPML 9.10): copies of the
data that count once, and derivatives that are zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from mercer.inputs import InputError, as_inputs, as_targets
from mercer.observe.observations import Observations, derivatives

__all__ = ["VirtualExamples", "tangents", "virtual_examples"]

STEP = 1e-4  # of the parameter of a transformation, for its derivative at 0


class VirtualExamples(NamedTuple):
    """Inputs (N, d) and targets (N,) of data and their transformed copies, the data first, and the weight of
    each (N,): those of one datum sum to one.
    """

    X: np.ndarray
    y: np.ndarray
    weight: np.ndarray


def virtual_examples(
    X: Any, y: ArrayLike, transformations: Sequence[Callable[[np.ndarray], Any]]
) -> VirtualExamples:
    """Data with transformed copies of every row, which have the same target: rotated, shifted, mirrored
    inputs. A datum and its copies count once together: each has the weight 1 / (1 + number of
    transformations), by which its noise variance is divided.

    transformations: functions of X (n, d) that give (n, d), without the identity

    What a copy has in common with its datum is then learned from the data alone. Where the function is
    invariant under a whole finite group, `kernels.Invariant` says so exactly.

    >>> mercer.GPRegressor().fit(*virtual_examples(X, y, [lambda X: X @ turn, lambda X: X @ turn.T]))
    """
    inputs = as_inputs(X)
    rows, given = inputs.values, list(transformations)
    n = len(rows)
    targets = as_targets(y, n)
    copies = [rows]
    for i, transformation in enumerate(given):
        moved = np.asarray(transformation(rows), float)
        if moved.shape != rows.shape or not np.isfinite(moved).all():
            raise InputError(
                f"transformation {i} must give finite numbers of the shape of X, {rows.shape}; it gave "
                f"{moved.shape}."
            )
        copies.append(moved)
    times = len(copies)
    return VirtualExamples(np.concatenate(copies), np.tile(targets, times), np.full(n * times, 1.0 / times))


def tangents(
    X: Any, transformation: Callable[[np.ndarray, float], Any], y_error: ArrayLike | None = None
) -> Observations:
    """That f does not change at X (n, d) as its inputs begin to be transformed: its derivative along the
    tangent d/dt transformation(X, t) at t = 0 is zero. In place of copies, and for transformations that hold
    in the small alone. Rows that the transformation leaves where they are say nothing, and are left out.

    transformation: a function of X (n, d) and a number t that gives (n, d), and X itself for t = 0: rotated
        by the angle t, shifted by t. Its derivative is by differences
    y_error: how far from zero the derivative may be, its standard deviation; None: exactly zero, up to the
        noise of the model

    >>> def rotated(X, t):
    ...     return X @ np.array([[np.cos(t), np.sin(t)], [-np.sin(t), np.cos(t)]])
    >>> data = values(X, y) + tangents(X, rotated)
    >>> mercer.GP(kernels.SE()).condition(data, noise_variance=0.01)
    """
    rows = as_inputs(X).values
    here, ahead, behind = (np.asarray(transformation(rows, t), float) for t in (0.0, STEP, -STEP))
    if here.shape != rows.shape or not np.allclose(here, rows, rtol=1e-8, atol=1e-12):
        raise InputError("transformation(X, 0.0) must be X itself: tangents are those of where it begins.")
    along = (ahead - behind) / (2.0 * STEP)
    size = np.linalg.norm(along, axis=1)
    moves = size > 1e-9 * max(float(size.max(initial=0.0)), 1e-300)
    if not moves.any():
        raise InputError("the transformation moves no row of X: it has no tangents there.")
    error = None if y_error is None else np.broadcast_to(np.asarray(y_error, float), len(rows))[moves]
    return derivatives(rows[moves], np.zeros(int(moves.sum())), direction=along[moves], y_error=error)
