"""What a kernel says of itself beyond its numbers: read by `flags`, `smoothness`,
`describe` and the pictures.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.params import ParameterError, Parametrised

if TYPE_CHECKING:
    from mercer.kernels.base import AbstractKernel


@dataclasses.dataclass(frozen=True)
class Traits:
    """What is known of a kernel on d columns; whatever is left out is "no" or "not known".

    stationary: it depends on x - x' only. isotropic: on |x - x'| only. dot_product: on x . x' only.
    smoothness: how many mean-square derivatives the functions have; inf, 0: only continuous, -1: not even
    that, None: not known. lengthscale, period: in the units of the inputs; one number, or one for each
    column.
    recurs: it never forgets, its spectrum is lines at single frequencies (periodic kernels, constants).
    max_dimension: the largest number of columns on which it is a covariance function; None: any.
    beyond: what a prediction does far from the data, ending the sentence "Far from the data it ...".
    """

    stationary: bool = False
    isotropic: bool = False
    dot_product: bool = False
    smoothness: float | None = None
    lengthscale: Any = None
    period: Any = None
    recurs: bool = False
    max_dimension: int | None = None
    beyond: str = ""


def repeating(period: Any) -> Traits:
    """Of a stationary kernel on one column whose functions are smooth and repeat."""
    return Traits(
        stationary=True,
        isotropic=True,
        smoothness=math.inf,
        period=period,
        recurs=True,
        max_dimension=1,
        beyond="repeats exactly",
    )


@dataclasses.dataclass(frozen=True)
class Flags:
    """The classes of covariance functions of GPML 4.1 that a kernel belongs to;
    `rank` is None unless it is degenerate.
    """

    stationary: bool
    isotropic: bool
    dot_product: bool
    degenerate: bool
    rank: int | None
    max_dimension: int | None


def joint(parts: Iterable[Traits], product: bool = False) -> Traits:
    """Traits of a sum, or of a product: that inherits the length-scale of a single factor, a common period,
    and any forgetting.
    """
    parts = list(parts)
    smooth = [t.smoothness for t in parts]
    out = Traits(
        stationary=all(t.stationary for t in parts),
        isotropic=all(t.isotropic for t in parts),
        dot_product=all(t.dot_product for t in parts),
        smoothness=None if None in smooth else min(s for s in smooth if s is not None),
        recurs=all(t.recurs for t in parts) if product else any(t.recurs for t in parts),
        max_dimension=min((t.max_dimension for t in parts if t.max_dimension is not None), default=None),
    )
    if not product:
        return out
    returning = next((t.beyond for t in parts if t.beyond.startswith("returns")), "")
    said = {t.beyond for t in parts}
    return dataclasses.replace(
        out,
        lengthscale=_only(t.lengthscale for t in parts),
        period=_common(t.period for t in parts),
        beyond=returning or (said.pop() if len(said) == 1 else ""),
    )


def _only(values) -> Any:
    given = [v for v in values if v is not None]
    return given[0] if len(given) == 1 else None


def _common(values) -> Any:
    given = [v for v in values if v is not None]
    return given[0] if given and all(np.array_equal(v, given[0]) for v in given) else None


def columns_of(kernel: AbstractKernel, d: int | None = None) -> tuple[AbstractKernel, int]:
    """The kernel bound to d columns, or to the fewest that its vectors and its choices of columns need,
    and that number.
    """
    names = tuple(sorted(_names(kernel)))
    for width in range(max(1, len(names)), 65) if d is None else [d]:
        padded = (*names, *(f"column {i}" for i in range(len(names), width))) if names else None
        try:
            return kernel.bind(width, padded), width
        except ParameterError:
            if d is not None or width == 64:
                raise
    raise ParameterError(f"{kernel.formula()} reads more than 64 named columns: give d.")


def _names(kernel) -> set[str]:
    """Names of columns that the kernel or its parts read."""
    found: set[str] = set()
    stack = [kernel]
    while stack:
        node = stack.pop()
        if isinstance(node, (tuple, list)):
            stack.extend(node)
        elif isinstance(node, Parametrised):
            columns = getattr(node, "columns", ())
            if isinstance(columns, tuple):  # of `On`; others count them
                found |= {c for c in columns if isinstance(c, str)}
            stack.extend(getattr(node, f.name) for f in dataclasses.fields(node))
    return found
