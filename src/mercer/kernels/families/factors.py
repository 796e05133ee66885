"""Covariance matrices of weights, held as lower Cholesky factors:
every value that learning visits is positive definite.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mercer.params import Constraint, ParameterError


@dataclasses.dataclass(frozen=True)
class LowerTriangular(Constraint):
    """A lower-triangular matrix with a positive diagonal: exp on the diagonal, real numbers below it,
    zeros above.
    """

    def value(self, u: Any, xp: Any = np) -> Any:
        p = math.isqrt(np.size(u))
        U = xp.reshape(u, (p, p))
        return (xp.tril(U, -1) + xp.diag(xp.exp(xp.diag(U)))).reshape(np.shape(u))

    def unconstrained(self, value: np.ndarray) -> np.ndarray:
        if np.ndim(value) == 0:
            raise ParameterError(
                "a factor of a covariance takes no bounds: its entries are free below a positive diagonal."
            )
        return np.tril(value, -1) + np.diag(np.log(np.diag(value)))

    def slope(self, value: np.ndarray) -> np.ndarray:
        return np.where(_on_diagonal(value), value, 1.0)

    def log_slope_derivative(self, value: np.ndarray) -> np.ndarray:
        return _on_diagonal(value).astype(float)

    def check(self, value: np.ndarray, where: str) -> None:
        if value.ndim != 2 or value.shape[0] != value.shape[1]:
            raise ParameterError(f"{where} must be a square matrix, got shape {value.shape}.")
        if not np.isfinite(value).all():
            raise ParameterError(f"{where} must be finite, got {value}.")
        if np.triu(value, 1).any() or not (np.diag(value) > 0).all():
            raise ParameterError(
                f"{where} must be {self.name}: it is L in the weight covariance L L'. "
                "For a covariance matrix give kernels.lower_factor(covariance)."
            )


lower_triangular = LowerTriangular("lower triangular with a positive diagonal")


def lower_factor(covariance: ArrayLike) -> np.ndarray:
    """L with L L' = covariance: how a kernel takes a full covariance of weights.

    >>> LinearCovariance(lower_factor([[1.0, 0.3], [0.3, 2.0]]))
    """
    matrix = np.array(covariance, dtype=float)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ParameterError(f"covariance must be a square matrix, got shape {matrix.shape}.")
    if not np.isfinite(matrix).all():
        raise ParameterError("covariance must be finite.")
    if not np.allclose(matrix, matrix.T, rtol=1e-10, atol=0):
        raise ParameterError("covariance must be symmetric.")
    try:
        return np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        smallest = np.linalg.eigvalsh(matrix)[0]
        raise ParameterError(
            f"covariance must be positive definite, but its smallest eigenvalue is {smallest:.3g}."
        ) from None


def _on_diagonal(value) -> np.ndarray:
    p = math.isqrt(np.size(value))
    return np.eye(p, dtype=bool).reshape(np.shape(value))
