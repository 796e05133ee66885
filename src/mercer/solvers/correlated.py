"""Errors of the data that covary, with a known covariance: the dense solver, with that matrix added to K at
the data. It is part of y there, and not of f: predictions of f, and of y at other places, are without it.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import numpy as np

from mercer.inputs import InputError
from mercer.solvers.dense import Dense, DenseState, DenseWorkspace, check_square
from mercer.solvers.protocol import AbstractSolver, AbstractState, Cost, Sites, SolverError, check_sites

ROUNDING = 1e-8  # of the largest entry: how far from symmetric, or below zero, a covariance may be


@dataclasses.dataclass(frozen=True)
class CorrelatedNoise(AbstractSolver):
    """Exact algebra where y = f + e + noise, with e ~ N(0, covariance) known at the data, n^3 / 3 operations.

    covariance: (n, n), positive semi-definite, in squared units of y, in the order of the data

    The noise of the likelihood is beside it. f at the data is then what the posterior says of f + e there.

    >>> model.condition(X, y, solver=CorrelatedNoise(0.2 * 0.7 ** np.abs(t[:, None] - t)))   # AR(1) errors
    """

    covariance: Any = dataclasses.field(compare=False, repr=False)

    offers: ClassVar[frozenset[str]] = frozenset({"variance", "logdet", "sample", "exact"})

    def __post_init__(self) -> None:
        object.__setattr__(self, "covariance", checked(self.covariance))

    def some_rows(self, X: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
        return np.arange(X.shape[0])

    def workspace(self, prior: Any, X: np.ndarray) -> DenseWorkspace:
        self._check(prior, X)
        return DenseWorkspace(prior, X)

    def factor(self, prior: Any, X: np.ndarray, sites: Sites, workspace: Any = None) -> AbstractState:
        check_sites(sites, "CorrelatedNoise")
        self._check(prior, X)
        space = workspace or DenseWorkspace(prior, X)
        space.hold(prior)
        space.gram += self.covariance
        return DenseState(prior, X, sites, space)

    def _check(self, prior: Any, X: np.ndarray) -> None:
        if isinstance(prior, tuple):
            raise SolverError("CorrelatedNoise is of one latent function: use solver='dense'.")
        if len(self.covariance) != len(X):
            raise SolverError(
                f"the covariance of errors is of {len(self.covariance)} data, but there are {len(X)}."
            )

    def check_room(self, n: int) -> None:
        check_square(n)

    def cost(self, n: int, d: int, L: int = 1) -> Cost:
        dense = Dense().cost(n, d, L)
        return Cost(flops=dense.flops, bytes=2.0 * dense.bytes)


def checked(covariance: Any) -> np.ndarray:
    """A covariance matrix (n, n); an error says why one is none."""
    try:
        C = np.asarray(covariance, float)
    except (TypeError, ValueError):
        raise InputError("the covariance of errors must be a square table of numbers.") from None
    if C.ndim != 2 or C.shape[0] != C.shape[1] or not C.size:
        raise InputError(f"the covariance of errors must be (n, n), one row for each datum, got {C.shape}.")
    if not np.isfinite(C).all():
        raise InputError("the covariance of errors has entries that are not finite.")
    grain = ROUNDING * float(np.abs(C).max())
    if (off := np.abs(C - C.T)).max() > grain:
        i, j = np.unravel_index(int(np.argmax(off)), C.shape)
        raise InputError(
            f"the covariance of errors is not symmetric: {C[i, j]:g} and {C[j, i]:g} at {i}, {j}."
        )
    if (least := float(np.linalg.eigvalsh(C)[0])) < -grain:
        raise InputError(
            f"the covariance of errors is not positive semi-definite (its least eigenvalue is {least:.3g}): "
            "no errors covary like this. Check its entries; a correlation is to be multiplied by both "
            "standard deviations."
        )
    return C
