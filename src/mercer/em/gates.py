"""Which expert speaks where: the gating of a mixture of experts, fitted to responsibilities."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.optimize import minimize
from scipy.special import log_softmax

from mercer.em.mixture import shares
from mercer.kernels import SE
from mercer.registry import Saved

RIDGE = 1e-3  # precision of the prior of a softmax gate's weights, for standardised columns
LOGITS = 25.0  # prior variance of the functions of a GP gate
PLACES = 60  # rows that carry a GP gate
PULL = 0.5  # data that each expert is worth beforehand, in a constant gate


@Saved.register
@dataclass(frozen=True)
class ConstantGate:
    """The same probabilities (K,) everywhere: for regimes that overlap."""

    weights: np.ndarray

    def __post_init__(self) -> None:
        if self.weights.ndim != 1:
            raise ValueError(f"weights must be (K,), got the shape {self.weights.shape}.")

    @classmethod
    def start(cls, X: np.ndarray, experts: int) -> ConstantGate:
        """Equal weights for this many experts."""
        return cls(np.full(experts, 1 / experts))

    def log_prob(self, X: np.ndarray) -> np.ndarray:
        """log p(expert | x): (n, K)."""
        return np.broadcast_to(np.log(self.weights), (len(X), len(self.weights)))

    def fit(self, X: np.ndarray, responsibilities: np.ndarray) -> ConstantGate:
        """The gate with the largest Σ r log p(expert | x) + log prior."""
        return ConstantGate(shares(responsibilities.sum(0), PULL))

    def log_prior(self) -> float:
        """The weak prior that keeps weights from zero, up to a constant."""
        return float(PULL * np.log(self.weights).sum())


@Saved.register
@dataclass(frozen=True)
class SoftmaxGate:
    """softmax(W h(x)) with h(x) = 1, the standardised columns and their products: regions with boundaries of
    second order.

    weights: (K, 1 + d + d(d + 1)/2). They have a weak Gaussian prior, so that a boundary is sharp but not
    infinitely so.
    """

    weights: np.ndarray
    centre: np.ndarray
    scale: np.ndarray

    def __post_init__(self) -> None:
        if self.weights.ndim != 2 or self.centre.ndim != 1 or self.centre.shape != self.scale.shape:
            shapes = self.weights.shape, self.centre.shape, self.scale.shape
            raise ValueError(f"weights, centre and scale must be (K, terms), (d,) and (d,), got {shapes}.")

    @classmethod
    def start(cls, X: np.ndarray, experts: int) -> SoftmaxGate:
        """The gate that prefers no expert, in coordinates standardised by X (n, d)."""
        spread = X.std(0)
        gate = cls(np.zeros((experts, 1)), X.mean(0), np.where(spread > 0, spread, 1.0))
        return replace(gate, weights=np.zeros((experts, gate.features(X[:1]).shape[1])))

    def features(self, X: np.ndarray) -> np.ndarray:
        """Constant, linear and quadratic terms of the standardised X: (n, 1 + d + d (d + 1) / 2)."""
        Z = (X - self.centre) / self.scale
        i, j = np.triu_indices(Z.shape[1])
        return np.hstack([np.ones((len(Z), 1)), Z, Z[:, i] * Z[:, j]])

    def log_prob(self, X: np.ndarray) -> np.ndarray:
        """Log probability of every expert at every row of X: (n, K)."""
        return log_softmax(self.features(X) @ self.weights.T, axis=1)

    def fit(self, X: np.ndarray, responsibilities: np.ndarray) -> SoftmaxGate:
        """The gate that explains responsibilities (n, K) best, under its prior."""
        return replace(self, weights=_climb(self.features(X), responsibilities, self.weights, RIDGE)[0])

    def log_prior(self) -> float:
        """The weak Gaussian prior of the weights, up to a constant."""
        return float(-0.5 * RIDGE * np.sum(self.weights**2))


@Saved.register
@dataclass(frozen=True)
class GPGate:
    """softmax(h_1(x), ..., h_K(x)) with h_k ~ GP(0, 25 SE(lengthscale)), at their most probable values:
    regions of any shape, as many for an expert as there are.

    weights: (K, m), standard normal beforehand: h = weights . features, whitened covariances with `places`
    places: (m, d), standardised: all rows, or 60 that lie far apart (the subset of regressors, GPML 8.3.1)
    lengthscale: of the standardised columns, log-normal beforehand, found with the weights
    """

    weights: np.ndarray
    places: np.ndarray
    lengthscale: float
    centre: np.ndarray
    scale: np.ndarray

    def __post_init__(self) -> None:
        shapes = self.weights.shape, self.places.shape, self.centre.shape, self.scale.shape
        if [len(s) for s in shapes] != [2, 2, 1, 1] or self.weights.shape[1] != len(self.places):
            raise ValueError(
                f"weights, places, centre and scale must be (K, m), (m, d), (d,) and (d,), got {shapes}."
            )

    @classmethod
    def start(cls, X: np.ndarray, experts: int) -> GPGate:
        """The gate that prefers no expert, in coordinates standardised by X (n, d)."""
        spread = X.std(0)
        centre, scale = X.mean(0), np.where(spread > 0, spread, 1.0)
        places = _far_apart((X - centre) / scale, PLACES)
        return cls(np.zeros((experts, len(places))), places, 0.5, centre, scale)

    def features(self, X: np.ndarray) -> np.ndarray:
        """k(x, places) L'^-1, with L the Cholesky factor of k(places, places): (n, m)."""
        kernel = SE(self.lengthscale, LOGITS)
        K = kernel(self.places) + 1e-9 * LOGITS * np.eye(len(self.places))
        cross = kernel((X - self.centre) / self.scale, self.places)
        return solve_triangular(np.linalg.cholesky(K), cross.T, lower=True).T

    def log_prob(self, X: np.ndarray) -> np.ndarray:
        """Log probability of every expert at every row of X: (n, K)."""
        return log_softmax(self.features(X) @ self.weights.T, axis=1)

    def fit(self, X: np.ndarray, responsibilities: np.ndarray) -> GPGate:
        """The gate that explains responsibilities (n, K) best, under its prior: of the present length-scale
        and of one shorter and one longer.
        """
        found = []
        for factor in (1.0, 0.7, 1.4):
            gate = replace(self, lengthscale=factor * self.lengthscale)
            weights, cost = _climb(gate.features(X), responsibilities, self.weights, 1.0)
            found.append((cost + 0.5 * np.log(gate.lengthscale) ** 2, replace(gate, weights=weights)))
        return min(found, key=lambda pair: pair[0])[1]

    def log_prior(self) -> float:
        """Of the weights and of the length-scale, up to a constant."""
        return float(-0.5 * np.sum(self.weights**2) - 0.5 * np.log(self.lengthscale) ** 2)


def _climb(
    H: np.ndarray, responsibilities: np.ndarray, weights: np.ndarray, precision: float
) -> tuple[np.ndarray, float]:
    """Weights (K, m) of features H (n, m) with the largest sum of r log softmax(H W') under a Gaussian prior,
    never worse than those given; and minus the log of what they reach.
    """

    def cost(w):
        W = w.reshape(weights.shape)
        log_p = log_softmax(H @ W.T, axis=1)
        gradient = (np.exp(log_p) - responsibilities).T @ H + precision * W
        return 0.5 * precision * np.sum(W**2) - np.sum(responsibilities * log_p), gradient.ravel()

    before = float(cost(weights.ravel())[0])
    found = minimize(cost, weights.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": 200})
    return (found.x.reshape(weights.shape), float(found.fun)) if found.fun <= before else (weights, before)


def _far_apart(Z: np.ndarray, most: int) -> np.ndarray:
    """Rows of Z (n, d), at most so many, each the one farthest from those before."""
    chosen = [int(np.argmin(np.sum(Z**2, 1)))]
    distance = np.sum((Z - Z[chosen[0]]) ** 2, 1)
    while len(chosen) < min(most, len(Z)) and distance.max() > 0:
        chosen.append(int(np.argmax(distance)))
        distance = np.minimum(distance, np.sum((Z - Z[chosen[-1]]) ** 2, 1))
    return Z[chosen]


GATES: dict[str, Any] = {"softmax": SoftmaxGate, "gp": GPGate, "constant": ConstantGate}
