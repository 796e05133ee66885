"""Which expert speaks where: the gating of a mixture of experts, fitted to responsibilities."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax

from mercer.em.mixture import shares
from mercer.registry import Saved

RIDGE = 1e-3  # precision of the prior of a softmax gate's weights, for standardised columns
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
        H = self.features(X)

        def cost(w):
            W = w.reshape(self.weights.shape)
            log_p = log_softmax(H @ W.T, axis=1)
            gradient = (np.exp(log_p) - responsibilities).T @ H + RIDGE * W
            return 0.5 * RIDGE * np.sum(W**2) - np.sum(responsibilities * log_p), gradient.ravel()

        found = minimize(cost, self.weights.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": 200})
        better = found.fun <= cost(self.weights.ravel())[0]
        return replace(self, weights=found.x.reshape(self.weights.shape)) if better else self

    def log_prior(self) -> float:
        """The weak Gaussian prior of the weights, up to a constant."""
        return float(-0.5 * RIDGE * np.sum(self.weights**2))


GATES: dict[str, Any] = {"softmax": SoftmaxGate, "constant": ConstantGate}
