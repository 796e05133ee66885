"""GP regression as a linear smoother (2.35-2.36, figure 2.6; in eigenfunctions 7.4-7.7)."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np

from mercer.inputs import as_inputs
from mercer.theory.eigen import AbstractExpansion


class Shrinkage(NamedTuple):
    """Along each eigenvector u_i of K: the eigenvalue,
    the data's coefficient u_i'y and the factor lambda / (lambda + noise).
    """

    eigenvalues: np.ndarray
    coefficients: np.ndarray
    factors: np.ndarray

    @property
    def degrees_of_freedom(self) -> float:
        """Sum of the factors: the trace of the smoother matrix."""
        return float(np.sum(self.factors))


def shrinkage(posterior: Any) -> Shrinkage:
    """How much of the data the posterior mean keeps along each eigenvector of K, largest eigenvalue first
    (2.36).

    >>> s = shrinkage(gp.condition(X, y, noise_variance=0.1)); s.degrees_of_freedom
    """
    gp, X = posterior.model.gp, posterior.inputs
    noise = np.asarray(posterior.model.likelihood.variances)
    if noise.ndim:
        raise ValueError("shrinkage along eigenvectors needs one noise variance for all data.")
    values, vectors = np.linalg.eigh(gp.kernel(X))
    values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
    residual = posterior.y - np.asarray(gp.mean.value(X.values))
    return Shrinkage(values, vectors.T @ residual, values / (values + noise))


def equivalent_kernel(gp: Any, grid: Any, n: int, noise_variance: float) -> np.ndarray:
    """Rows of the smoother matrix when n observations are smeared evenly over the grid (g, d): (g, g).

    The idealised weight function of figure 2.6: K (K + noise g/n I)^-1, so that row i weighs the whole line
    for a prediction at grid[i].
    """
    inputs = as_inputs(grid, "grid")
    if n < 1 or noise_variance <= 0:
        raise ValueError(
            f"the equivalent kernel needs n >= 1 and a positive noise variance, got {n} and {noise_variance}."
        )
    K = gp.kernel(inputs)
    g = K.shape[0]
    values, vectors = np.linalg.eigh(K)
    values = np.maximum(values, 0.0)
    return (vectors * (values / (values + noise_variance * g / n))) @ vectors.T


@dataclasses.dataclass(frozen=True, eq=False)
class EigenSmoother:
    """What n data of an input density make of a function, in the kernel's eigenfunctions under it: each
    coefficient is kept by the share `factors` (m,), l / (l + noise / n) (7.6).
    """

    expansion: AbstractExpansion
    factors: np.ndarray

    def __call__(self, X: Any, X2: Any = None) -> np.ndarray:
        """The equivalent kernel h_n(x, x') at X (a, d) and X2 (b, d), X itself if None: (a, b) (7.7)."""
        left = self.expansion(X)
        return (left * self.factors) @ (left if X2 is None else self.expansion(X2)).T

    @property
    def degrees_of_freedom(self) -> float:
        """Sum of the factors."""
        return float(np.sum(self.factors))

    @property
    def terms(self) -> int:
        """How many eigenfunctions matter: those that are kept by half or more, l >= noise / n."""
        return int(np.sum(self.factors >= 0.5))


def eigen_smoother(expansion: AbstractExpansion, n: float, noise_variance: float) -> EigenSmoother:
    """The smoother that n data with this noise variance are in the limit of many (7.4-7.7).

    expansion: eigenfunctions of the kernel under the density of the inputs, such as
        `eigenfunctions(kernel, X, m)` or `se_under_gaussian(0.5, 1.0, 40)`

    >>> smoother = eigen_smoother(ou_on_interval(0.2, 100), n=500, noise_variance=0.1)
    >>> smoother.terms, smoother.degrees_of_freedom, smoother(Xs, X)
    """
    if n <= 0 or noise_variance <= 0:
        raise ValueError(f"n and noise_variance must be positive, got {n:g} and {noise_variance:g}.")
    l = expansion.eigenvalues
    return EigenSmoother(expansion, l / (l + noise_variance / n))
