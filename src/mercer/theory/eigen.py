"""Eigenfunctions of covariance functions (GPML 4.3): integral of k(x, x') phi(x) p(x) dx = lambda phi(x').

For any kernel and density, by Nystrom's method on samples or on the nodes of a quadrature rule.
"""

from __future__ import annotations

import abc
import dataclasses
import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import eigh

from mercer.inputs import Inputs, as_inputs
from mercer.kernels import AbstractKernel

EPSILON = float(np.finfo(float).eps)


@dataclasses.dataclass(frozen=True, eq=False)
class AbstractExpansion(abc.ABC):
    """Eigenvalues (m,), largest first, and as many eigenfunctions: calling it on inputs gives their values
    (n, m).

    The eigenfunctions are orthonormal under the density, so that k(x, x') = sum_i eigenvalues_i phi_i(x)
    phi_i(x') (4.37).
    """

    eigenvalues: np.ndarray

    @abc.abstractmethod
    def __call__(self, X: Any) -> np.ndarray: ...

    def truncated(self, X: Any, X2: Any = None, terms: int | None = None) -> np.ndarray:
        """The covariance matrix of the kernel made of the first terms of the expansion:
        of rank `terms` at most.
        """
        left = self(X)[:, :terms]
        right = left if X2 is None else self(X2)[:, :terms]
        return (left * self.eigenvalues[:terms]) @ right.T


@dataclasses.dataclass(frozen=True, eq=False)
class NystromExpansion(AbstractExpansion):
    """Numerical eigenfunctions from nodes and weights: exact at the nodes, and extended elsewhere by the
    kernel (4.44).

    at_nodes (n, m): their values at the nodes. total: the average of k(x, x) under the density, which all
    eigenvalues sum to.
    """

    kernel: AbstractKernel
    nodes: Inputs
    weights: np.ndarray
    at_nodes: np.ndarray
    total: float

    def __call__(self, X: Any) -> np.ndarray:
        inputs = as_inputs(X, "X", self.nodes.names, self.kernel.reads_objects())
        return self.kernel(inputs, self.nodes) @ (self.weights[:, None] * self.at_nodes) / self.eigenvalues

    @property
    def explained(self) -> np.ndarray:
        """The part of the average variance that the first 1, 2, ... m eigenfunctions explain."""
        return np.cumsum(self.eigenvalues) / self.total


def eigenfunctions(kernel: AbstractKernel, X: Any, m: int = 10) -> NystromExpansion:
    """The m largest eigenvalues of a kernel and their eigenfunctions, by Nystrom's method (4.42-4.44).

    X: samples of the input density, (n, d) or whatever the kernel reads; or a pair (nodes, weights), a
    quadrature rule for it with positive weights. The matrix that is decomposed is the symmetric P^1/2 K P^1/2
    (exercise 4.5.8). Eigenvalues at rounding level are left out, so there may be fewer than m.

    >>> e = eigenfunctions(SE(0.5), normal_nodes(40), m=5)
    >>> e.eigenvalues, e(Xs)
    """
    values, weights = X if isinstance(X, tuple) and len(X) == 2 else (X, None)
    nodes = as_inputs(values, "X", objects=kernel.reads_objects())
    n = nodes.values.shape[0]
    p = np.full(n, 1.0 / n) if weights is None else np.asarray(weights, float)
    if p.shape != (n,) or not (np.isfinite(p) & (p > 0)).all():
        raise ValueError(f"the weights must be one positive number for each of the {n} nodes.")
    if m < 1:
        raise ValueError(f"m must be at least 1, got {m}.")
    root = np.sqrt(p)
    K = kernel(nodes)
    found, vectors = eigh(root[:, None] * K * root[None, :], subset_by_index=[max(n - m, 0), n - 1])
    found, vectors = found[::-1], vectors[:, ::-1]
    kept = found > n * EPSILON * max(found[0], 0.0)
    if not kept.any():
        raise ValueError("the kernel is zero at all nodes.")
    at_nodes = vectors[:, kept] / root[:, None]
    at_nodes *= np.where(
        at_nodes[np.argmax(np.abs(at_nodes), 0), np.arange(at_nodes.shape[1])] < 0, -1.0, 1.0
    )
    return NystromExpansion(found[kept], kernel, nodes, p, at_nodes, float(p @ np.diag(K)))


def sampled_eigenvalues(
    kernel: AbstractKernel,
    draw: Callable[[np.random.Generator, int], Any],
    n: int,
    m: int,
    repeats: int = 20,
    seed: int = 0,
) -> np.ndarray:
    """The m largest eigenvalues of K / n for fresh samples X = draw(rng, n): (repeats, m).

    In expectation their partial sums are at least those of the true eigenvalues, and what is left is at most
    the true rest: large eigenvalues are overestimated, small ones underestimated (Shawe-Taylor and Williams
    2003).
    """
    rng = np.random.default_rng(seed)
    out = np.empty((repeats, m))
    for row in out:
        X = as_inputs(draw(rng, n), objects=kernel.reads_objects())
        row[:] = eigh(kernel(X) / n, eigvals_only=True, subset_by_index=[n - m, n - 1])[::-1]
    return out


# ------------------------------------------------------------------------------------------------- quadrature


def normal_nodes(n: int, sd: float = 1.0, mean: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Nodes (n, 1) and weights (n,) of Gauss-Hermite quadrature for the density N(mean, sd^2)."""
    x, w = np.polynomial.hermite_e.hermegauss(n)
    kept = w > 0  # the outermost underflow for large n
    return (mean + sd * x[kept])[:, None], w[kept] / w.sum()


def uniform_nodes(n: int, low: float = 0.0, high: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Nodes (n, 1) and weights (n,) of Gauss-Legendre quadrature for the uniform density on [low, high]."""
    x, w = np.polynomial.legendre.leggauss(n)
    return (low + 0.5 * (high - low) * (x + 1.0))[:, None], 0.5 * w


def product_nodes(*rules: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The rule for independent columns: all combinations of the nodes, with the products of their weights."""
    nodes = np.array([np.concatenate(c) for c in itertools.product(*(rule[0] for rule in rules))])
    return nodes, np.array([math.prod(c) for c in itertools.product(*(rule[1] for rule in rules))])
