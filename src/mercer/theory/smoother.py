"""GP regression as a linear smoother (2.35-2.36, figure 2.6)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mercer.inputs import as_inputs


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
