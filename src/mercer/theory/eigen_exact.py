"""Eigenfunctions that are known exactly: of the SE under a Gaussian density,
and of Ornstein and Uhlenbeck on an interval.
"""

from __future__ import annotations

import dataclasses
import heapq
import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq

from mercer.inputs import as_inputs
from mercer.theory.eigen import AbstractExpansion


@dataclasses.dataclass(frozen=True, eq=False)
class GaussianSE(AbstractExpansion):
    """Eigenfunctions of the SE kernel under a Gaussian density: products over the columns of Gaussians times
    Hermite polynomials.

    orders (m, d): the order of the polynomial in each column.
    """

    lengthscale: np.ndarray
    sd: np.ndarray
    mean: np.ndarray
    orders: np.ndarray

    def __call__(self, X: Any) -> np.ndarray:
        values = as_inputs(X).values - self.mean
        if values.shape[1] != len(self.sd):
            raise ValueError(f"X has {values.shape[1]} columns, the expansion {len(self.sd)}.")
        out = np.ones((len(values), len(self.eigenvalues)))
        for j, (l, s) in enumerate(zip(self.lengthscale, self.sd, strict=True)):
            out *= _hermite_functions(values[:, j], l, s, int(self.orders[:, j].max()))[:, self.orders[:, j]]
        return out


def se_under_gaussian(
    lengthscale: ArrayLike, sd: ArrayLike, m: int = 10, variance: float = 1.0, mean: ArrayLike = 0.0
) -> GaussianSE:
    """The m largest eigenvalues and eigenfunctions of SE(lengthscale, variance) under the density N(mean,
    sd^2) (4.40-4.41).

    In one column, with a = 1/(4 sd^2), b = 1/(2 lengthscale^2), c = sqrt(a^2 + 2ab), A = a + b + c and B =
    b/A, the k-th eigenvalue is sqrt(2a/A) B^k. Vectors speak of several independent columns, where
    eigenvalues are products: with d equal columns (2a/A)^(d/2) B^k comes C(k + d - 1, d - 1) times.

    >>> se_under_gaussian(1.0, [1.0, 1.0], m=6).eigenvalues
    """
    l, s, mu = np.broadcast_arrays(*(np.atleast_1d(np.asarray(v, float)) for v in (lengthscale, sd, mean)))
    if not ((l > 0).all() and (s > 0).all() and variance > 0 and m >= 1):
        raise ValueError("lengthscale, sd and variance must be positive, and m at least 1.")
    first, ratio = np.array([_leading(lj, sj) for lj, sj in zip(l, s, strict=True)]).T
    orders = np.array(_smallest(-np.log(ratio), m))
    return GaussianSE(variance * np.prod(first * ratio**orders, 1), l, s, mu, orders)


def _constants(l: float, s: float) -> tuple[float, float, float]:
    a, b = 1.0 / (4.0 * s**2), 1.0 / (2.0 * l**2)
    return a, b, math.sqrt(a**2 + 2.0 * a * b)


def _leading(l: float, s: float) -> tuple[float, float]:
    """The first eigenvalue and the ratio of one to the next."""
    a, b, c = _constants(l, s)
    return math.sqrt(2.0 * a / (a + b + c)), b / (a + b + c)


def _hermite_functions(x: np.ndarray, l: float, s: float, most: int) -> np.ndarray:
    """phi_0 ... phi_most at x: (n, most + 1), orthonormal:
    (c/a)^1/4 exp(-(c-a)x^2) H_k(sqrt(2c) x) / sqrt(2^k k!).
    """
    a, _, c = _constants(l, s)
    z = math.sqrt(2.0 * c) * x
    out = np.empty((len(x), most + 1))
    out[:, 0] = (c / a) ** 0.25 * np.exp(-(c - a) * x**2)
    if most:
        out[:, 1] = math.sqrt(2.0) * z * out[:, 0]
    for k in range(1, most):
        out[:, k + 1] = math.sqrt(2.0 / (k + 1)) * z * out[:, k] - math.sqrt(k / (k + 1)) * out[:, k - 1]
    return out


def _smallest(costs: np.ndarray, m: int) -> list[tuple[int, ...]]:
    """The m vectors of whole numbers >= 0 with the smallest costs . vector, smallest first."""
    start = (0,) * len(costs)
    heap, seen = [(0.0, start)], {start}
    out: list[tuple[int, ...]] = []
    while len(out) < m:
        _, orders = heapq.heappop(heap)
        out.append(orders)
        for j in range(len(costs)):
            further = (*orders[:j], orders[j] + 1, *orders[j + 1 :])
            if further not in seen:
                seen.add(further)
                heapq.heappush(heap, (float(costs @ np.array(further)), further))
    return out


@dataclasses.dataclass(frozen=True, eq=False)
class UniformOU(AbstractExpansion):
    """Eigenfunctions of the Ornstein-Uhlenbeck kernel under the uniform density on [low, high]:
    waves of these frequencies (m,).
    """

    lengthscale: float
    low: float
    high: float
    frequencies: np.ndarray

    def __call__(self, X: Any) -> np.ndarray:
        length = self.high - self.low
        x, w, l = (
            (as_inputs(X).values[:, :1] - self.low) / length,
            self.frequencies,
            self.lengthscale / length,
        )
        wave = np.cos(w * x) + np.sin(w * x) / (w * l)
        # the integral of its square over [0, 1]
        size = (
            0.5 * (1 + 1 / (w * l) ** 2)
            + np.sin(2 * w) / (4 * w) * (1 - 1 / (w * l) ** 2)
            + np.sin(w) ** 2 / (l * w**2)
        )
        return wave / np.sqrt(size)


def ou_on_interval(
    lengthscale: float, m: int = 10, variance: float = 1.0, low: float = 0.0, high: float = 1.0
) -> UniformOU:
    """The m largest eigenvalues and eigenfunctions of variance * exp(-|x - x'| / lengthscale) under the
    uniform density.

    On [0, 1] they are (2/l) / (w^2 + 1/l^2) for the positive roots of (w^2 - 1/l^2) sin w = 2 (w/l) cos w.
    """
    if not (lengthscale > 0 and variance > 0 and high > low and m >= 1):
        raise ValueError("lengthscale and variance must be positive, high above low, and m at least 1.")
    l = lengthscale / (high - low)

    def condition(w):
        return (w**2 - 1 / l**2) * math.sin(w) - 2 * (w / l) * math.cos(w)

    w = np.array(
        [
            brentq(condition, max(i * math.pi, 1e-9), (i + 1) * math.pi, xtol=1e-14, rtol=1e-15)
            for i in range(m)
        ]
    )
    return UniformOU(variance * (2 / l) / (w**2 + 1 / l**2), float(lengthscale), float(low), float(high), w)
