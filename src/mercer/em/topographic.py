"""The generative topographic mapping (Bishop, Svensen and Williams 1998): a mixture of Gaussians whose
centres lie on a smooth surface.

Nodes z_k of a grid in the latent space have weights pi_k; the centres are f(z_k), and every column of f is a
Gaussian process of z, so that centres of near nodes are near. With features Phi Phi' = k(Z, Z) and weights W
with a standard normal prior,

    p(y | W) = sum_k pi_k N(y | W' phi_k, s2 I)

EM climbs to the most probable W and the best s2. The E-step is that of a mixture. The M-step is regression on
what each node is responsible for, (Phi' G Phi + s2 I) W = Phi' R Y with G the counts, then s2: each is best
given the other, so log p(Y | W) + log p(W) never falls.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from mercer.em.mixture import normalise
from mercer.registry import Saved

RANK = 1e-10  # of the largest eigenvalue of k(Z, Z): below, a direction is left out
SMALLEST = 1e-8  # noise variance, of a table whose columns have unit variance


@dataclass(frozen=True)
class Visits:
    """Expected sufficient statistics: counts and sums (K, D) of what each node is responsible for, cell by
    cell; the number of cells, their squares' sum, and the log-likelihood.
    """

    log_likelihood: float
    counts: np.ndarray
    sums: np.ndarray
    squares: float
    cells: int

    def __add__(self, other: Visits) -> Visits:
        return Visits(
            self.log_likelihood + other.log_likelihood, self.counts + other.counts, self.sums + other.sums,
            self.squares + other.squares, self.cells + other.cells,
        )  # fmt: skip


@Saved.register
@dataclass(frozen=True)
class TopographicMap:
    """A mixture of K Gaussians with centres features @ weights, in which rows may have empty cells (NaN).

    features: (K, M) of the nodes, with features features' = k(Z, Z); weights: (M, D); noise_variance: one for
    all columns; node_weights: (K,), of sum one

    >>> start = TopographicMap(features_of(kernel(Z)), np.zeros((M, D)), 1.0, np.full(K, 1 / K))
    >>> em(start, [Y]).model.centres
    """

    features: np.ndarray
    weights: np.ndarray
    noise_variance: float
    node_weights: np.ndarray

    def __post_init__(self) -> None:
        Phi, W, pi = (np.asarray(a, np.float64) for a in (self.features, self.weights, self.node_weights))
        K, M = Phi.shape if Phi.ndim == 2 else (0, 0)
        if not K or W.ndim != 2 or W.shape[0] != M or pi.shape != (K,):
            raise ValueError(
                "a topographic map has features (K, M), weights (M, D) and K node weights, got shapes "
                f"{Phi.shape}, {W.shape} and {pi.shape}."
            )
        if not (np.isfinite(Phi).all() and np.isfinite(W).all() and self.noise_variance > 0):
            raise ValueError(
                "a topographic map needs finite features and weights, and a positive noise variance."
            )
        if not ((pi >= 0).all() and abs(pi.sum() - 1.0) < 1e-8):
            raise ValueError("node weights must not be negative, and their sum must be one.")
        for name, value in (("features", Phi), ("weights", W), ("node_weights", pi)):
            object.__setattr__(self, name, value)

    @property
    def centres(self) -> np.ndarray:
        """Where the nodes lie among the data: (K, D)."""
        return self.features @ self.weights

    def log_joint(self, Y: np.ndarray) -> np.ndarray:
        """log pi_k N(y_i | c_k, s2 I) by the observed cells of each row: (K, n)."""
        C, s2 = self.centres, self.noise_variance
        seen = (~np.isnan(Y)).astype(np.float64)
        filled = np.nan_to_num(Y)
        apart = (C**2) @ seen.T - 2.0 * C @ filled.T + np.sum(filled**2, 1)
        with np.errstate(divide="ignore"):
            log_pi = np.log(self.node_weights)[:, None]
        return log_pi - 0.5 * np.maximum(apart, 0.0) / s2 - 0.5 * seen.sum(1) * np.log(2.0 * np.pi * s2)

    def log_prob(self, Y: np.ndarray) -> np.ndarray:
        """Log densities (n,)."""
        return normalise(self.log_joint(Y))

    def responsibilities(self, Y: np.ndarray) -> np.ndarray:
        """p(z_k | y_i): (n, K)."""
        joint = self.log_joint(Y)
        normalise(joint)
        return joint.T

    def expect(self, Y: np.ndarray) -> Visits:
        """The E-step: which nodes made the rows."""
        joint = self.log_joint(Y)
        log_likelihood = float(normalise(joint).sum())
        seen, filled = ~np.isnan(Y), np.nan_to_num(Y)
        patterns, group = np.unique(seen, axis=1, return_inverse=True)
        counts = (joint @ patterns.astype(np.float64))[:, np.ravel(group)]
        return Visits(log_likelihood, counts, joint @ filled, float(np.sum(filled**2)), int(seen.sum()))

    def maximise(self, summary: Visits) -> TopographicMap:
        """The M-step: the weights at this noise variance, and then the noise variance at these weights.
        Columns that are observed in the same rows share one factorisation.
        """
        counts, group = np.unique(summary.counts, axis=1, return_inverse=True)
        weights, right = np.empty_like(self.weights), self.features.T @ summary.sums
        for i, G in enumerate(counts.T):
            own = np.ravel(group) == i
            A = (self.features.T * G) @ self.features
            A[np.diag_indices(len(A))] += self.noise_variance
            weights[:, own] = cho_solve(cho_factor(A, lower=True), right[:, own])
        C = self.features @ weights
        rest = summary.squares + np.sum(C * (summary.counts * C - 2.0 * summary.sums))
        noise = max(float(rest) / max(summary.cells, 1), SMALLEST)
        return replace(self, weights=weights, noise_variance=noise)

    def log_prior(self) -> float:
        """Log density of the weights, up to a constant."""
        return -0.5 * float(np.sum(self.weights**2))


def features_of(K: np.ndarray) -> np.ndarray:
    """Features Phi (n, M) of a covariance matrix K (n, n), Phi Phi' = K but for directions without
    variance.
    """
    values, vectors = np.linalg.eigh(K)
    kept = values > RANK * values[-1]
    return vectors[:, kept] * np.sqrt(values[kept])
