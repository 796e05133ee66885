"""Settings that are given, or chosen by rows left out: what machines of this room share."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mercer.kernels import SE, AbstractKernel
from mercer.relatives.checks import Array
from mercer.relatives.protocol import GridOptimum, search_grid
from mercer.relatives.rkhs import read_kernel

LIMIT = 1e4  # factors that settings may be from where their search starts


def settled(
    score: Callable[[dict[str, float]], float],
    settings: dict[str, tuple[float | None, float]],
    refinements: int,
    tol: float,
) -> GridOptimum:
    """The best settings: those that are given (first of the pair), the others from a search that starts at
    the second. Without any to look for the score is NaN.
    """
    given = {name: float(value) for name, (value, _) in settings.items() if value is not None}
    starts = {name: start for name, (value, start) in settings.items() if value is None}
    if not starts:
        return GridOptimum(given, np.nan, 0, True)
    found = search_grid(
        lambda free: score(given | free), starts, refinements=refinements, limit=LIMIT, tol=tol
    )
    return found._replace(values=given | found.values)


def lengthscale_start(kernel: AbstractKernel | str | None, inputs: Array) -> dict[str, tuple[None, float]]:
    """The length-scale of the default kernel, to look for from sqrt(d) standard deviations."""
    return {"lengthscale": (None, float(np.sqrt(inputs.shape[1])))} if kernel is None else {}


def kernel_family(
    kernel: AbstractKernel | str | None, inputs: Array, what: str
) -> Callable[[dict[str, float]], AbstractKernel]:
    """The kernel of some settings."""
    if kernel is not None:
        given = read_kernel(kernel, what)
        return lambda settings: given
    spread = np.std(inputs, 0)
    spread[spread == 0] = 1.0
    return lambda settings: SE(settings["lengthscale"] * spread)
