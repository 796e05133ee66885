"""Functions of a reproducing kernel Hilbert space (GPML 6.1): sums of kernels at points."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import cho_factor, cho_solve

from mercer.kernels import AbstractKernel
from mercer.relatives.checks import Array


@dataclasses.dataclass(frozen=True, eq=False)
class KernelFunction:
    """f = sum_i weights_i k(., points_i): points (n, d), weights (n,).

    Such functions, and limits of them, are the Hilbert space of the kernel. A GP's posterior mean is one of
    them; draws of a GP are not, unless the kernel has finite rank: their norm is infinite.

    >>> f = KernelFunction(SE(1.0), X, weights)
    >>> f(Xs), f.norm, f.inner(g), (f - 2.0 * g)(Xs)
    """

    kernel: AbstractKernel
    points: Array
    weights: Array

    def __post_init__(self) -> None:
        if self.points.ndim != 2 or self.weights.shape != self.points.shape[:1]:
            raise ValueError(
                f"points (n, d) and weights (n,) have shapes {self.points.shape} and {self.weights.shape}."
            )

    def __call__(self, X: ArrayLike) -> Array:
        """Values (m,) at X (m, d): by the reproducing property, inner products with k(., x)."""
        return self.kernel(np.asarray(X, float), self.points) @ self.weights

    def inner(self, other: KernelFunction) -> float:
        """The inner product with another function of the same kernel: sum_ij a_i b_j k(x_i, x_j') (6.6)."""
        self._same(other)
        return float(self.weights @ self.kernel(self.points, other.points) @ other.weights)

    @property
    def norm(self) -> float:
        """The root of (f, f): |f(x)| is never above norm * sqrt(k(x, x))."""
        return float(np.sqrt(max(self.inner(self), 0.0)))

    def projected(self, X: ArrayLike) -> KernelFunction:
        """The function of the span of k(., x_i), x_i the rows of X (m, d), that is nearest in the norm: it
        has the same values at X, and the smallest norm of all that have.
        """
        return interpolant(self.kernel, X, self(X))

    def __add__(self, other: KernelFunction) -> KernelFunction:
        self._same(other)
        points = np.concatenate([self.points, other.points])
        return KernelFunction(self.kernel, points, np.concatenate([self.weights, other.weights]))

    def __rmul__(self, factor: float) -> KernelFunction:
        return dataclasses.replace(self, weights=factor * self.weights)

    def __sub__(self, other: KernelFunction) -> KernelFunction:
        return self + (-1.0) * other

    def _same(self, other: KernelFunction) -> None:
        if self.kernel.formula() != other.kernel.formula():
            raise ValueError(
                f"functions of different spaces: {self.kernel.formula()} and {other.kernel.formula()}."
            )


def interpolant(
    kernel: AbstractKernel, X: ArrayLike, values: ArrayLike, jitter: float = 1e-12
) -> KernelFunction:
    """The function of least norm with these values (n,) at X (n, d): weights K^-1 values, and norm^2 =
    values' K^-1 values. jitter: added to the diagonal of K, in units of its mean.
    """
    inputs, f = np.asarray(X, float), np.asarray(values, float)
    K = kernel(inputs)
    factor = cho_factor(K + jitter * np.mean(np.diag(K)) * np.eye(len(f)), lower=True)
    return KernelFunction(kernel, inputs, cho_solve(factor, f))


def mercer_inner(f: ArrayLike, g: ArrayLike, eigenvalues: ArrayLike) -> float:
    """The inner product of two functions with coefficients f, g (m,) in the kernel's eigenfunctions:
    sum f_i g_i / eigenvalue_i (6.1), the same whatever measure the eigenfunctions belong to.
    """
    a, b, l = (np.asarray(v, float) for v in (f, g, eigenvalues))
    if not (l > 0).all():
        raise ValueError("eigenvalues must be positive: leave out those at rounding level.")
    return float(np.sum(a * b / l))


def read_kernel(kernel: Any, what: str) -> AbstractKernel:
    """A kernel as the estimators of this room take one: an instance, or a formula."""
    from mercer.kernels import parse

    if isinstance(kernel, str):
        return parse(kernel)
    if not isinstance(kernel, AbstractKernel):
        raise ValueError(f"{what} takes a kernel such as kernels.SE(1.0), got {kernel!r}.")
    return kernel
