"""Whether a function is a covariance, and one that is asked for but is none."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from mercer.params import ParameterError


@dataclasses.dataclass(frozen=True)
class PSDCheck:
    """What `check_psd` found. It is true where the matrix is symmetric and has no negative eigenvalue beyond
    rounding.
    """

    symmetric: bool
    smallest: float
    largest: float
    tolerance: float

    @property
    def semidefinite(self) -> bool:
        """Whether no eigenvalue is more negative than rounding explains."""
        return self.smallest >= -self.tolerance * max(self.largest, 0.0)

    def __bool__(self) -> bool:
        return self.symmetric and self.semidefinite

    def __str__(self) -> str:
        verdict = (
            "a covariance matrix"
            if self
            else "not symmetric"
            if not self.symmetric
            else "not positive semi-definite"
        )
        return f"{verdict}: eigenvalues from {self.smallest:.3g} to {self.largest:.3g}"


def check_psd(kernel: Callable[[Any, Any], Any], X: Any, tolerance: float | None = None) -> PSDCheck:
    """Is the Gram matrix (4.1-4.2) of a kernel, or of any function (X1, X2) -> matrix, on X symmetric, with
    no negative eigenvalue?

    A failure proves that the function is no covariance; success speaks only of these inputs. tolerance:
    relative to the largest eigenvalue, by default n times the rounding error.

    >>> check_psd(lambda A, B: np.tanh(1 + A @ B.T), X)
    """
    K = np.asarray(kernel(X, X), float)
    if K.ndim != 2 or K.shape[0] != K.shape[1] or not np.isfinite(K).all():
        raise ValueError(f"the kernel gave shape {K.shape}, or entries that are not finite: no Gram matrix.")
    if tolerance is None:
        tolerance = 16 * K.shape[0] * float(np.finfo(float).eps)
    symmetric = bool(np.abs(K - K.T).max() <= tolerance * np.abs(K).max())
    eigenvalues = np.linalg.eigvalsh(0.5 * (K + K.T))
    return PSDCheck(symmetric, float(eigenvalues[0]), float(eigenvalues[-1]), tolerance)


def Sigmoid(*arguments: Any, **named: Any) -> NoReturn:
    """Refused: tanh(a + b x . x') is not positive semi-definite for any a, b."""
    raise ParameterError(
        "tanh(a + b x . x') is not a covariance function: it is not positive semi-definite for any a and b "
        "(see check_psd). "
        "The kernel of a network of sigmoid units is NeuralNetwork()."
    )
