"""What the eigenvalues of a kernel tell: how fast they decay, and whether the kernel is degenerate."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mercer.inputs import as_inputs
from mercer.kernels import AbstractKernel
from mercer.theory.eigen import EPSILON


@dataclasses.dataclass(frozen=True)
class Decay:
    """eigenvalue_i ~ i^slope between two places;
    a process with r mean-square derivatives has slope -(2r + 2) on an interval.
    """

    slope: float
    smoothness: float
    residual: float  # root mean square of what the line leaves of the log eigenvalues


def spectrum_decay(eigenvalues: ArrayLike, first: int = 10, last: int | None = None) -> Decay:
    """The line through log eigenvalue against log i from place `first` to `last` (counted from 1).

    A residual that is not small says that the decay is no power law: for infinitely smooth processes it is
    faster than any.

    >>> spectrum_decay(eigenfunctions(Matern(nu=1.5), uniform_nodes(400), 60).eigenvalues).slope    # near -4
    """
    values = np.asarray(eigenvalues, float)
    last = len(values) if last is None else last
    if not 1 <= first < last <= len(values) or not (values[first - 1 : last] > 0).all():
        raise ValueError(
            f"places {first} to {last} need that many positive eigenvalues; there are {len(values)}."
        )
    x, y = np.log(np.arange(first, last + 1)), np.log(values[first - 1 : last])
    slope, intercept = np.polyfit(x, y, 1)
    return Decay(
        float(slope), float(-slope / 2 - 1), float(np.sqrt(np.mean((y - slope * x - intercept) ** 2)))
    )


@dataclasses.dataclass(frozen=True)
class Degeneracy:
    """Whether a kernel is degenerate (definition 4.1): what it says of itself, and what its matrix on n
    inputs shows.

    stated: the rank the kernel gives, None if it gives none
    numerical: the number of eigenvalues above rounding
    gap: by what factor the eigenvalues drop there; a large one below n marks a finite rank, a kernel with
        fast decay has none
    """

    n: int
    stated: int | None
    numerical: int
    gap: float

    @property
    def degenerate(self) -> bool:
        """Whether the kernel has finite rank: it says so, or its eigenvalues drop to rounding."""
        return self.stated is not None or (self.numerical < self.n and self.gap > 1e4)

    def __str__(self) -> str:
        verdict = "degenerate" if self.degenerate else "no sign of a finite rank"
        stated = "no finite rank stated" if self.stated is None else f"rank {self.stated} stated"
        return (
            f"{verdict}: {stated}, numerical rank {self.numerical} on {self.n} inputs, followed by a "
            f"drop by {self.gap:.2g}"
        )


def degeneracy(kernel: AbstractKernel, X: Any) -> Degeneracy:
    """The rank of a kernel, stated and numerical, on inputs X (n, d); n should be well above the rank to be
    found.

    >>> print(degeneracy(Polynomial(2), X))
    """
    inputs = as_inputs(X, objects=kernel.reads_objects())
    n, d = inputs.values.shape
    values = np.linalg.eigvalsh(kernel(inputs))[::-1]
    floor = n * EPSILON * values[0]
    rank = int(np.sum(values > floor))
    gap = values[rank - 1] / max(values[rank], EPSILON * values[0]) if 0 < rank < n else 1.0
    return Degeneracy(n, kernel.bind(d, inputs.names).rank(d), rank, float(gap))
