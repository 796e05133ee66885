"""How smooth the functions of a kernel are (GPML 4.1.1): mean-square derivatives, continuity, upcrossings,
the gradient.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from mercer.inputs import as_inputs
from mercer.kernels.base import AbstractKernel
from mercer.kernels.traits import columns_of
from mercer.linalg import tiles
from mercer.params import strip

MOST = 3  # derivatives that the numerical check looks for
SLACK = {1: 0.05, 2: 0.15, 3: 0.3}  # in the exponent, for steps that rounding keeps from being small


@dataclasses.dataclass(frozen=True)
class Regularity:
    """derivatives: how often functions are mean-square differentiable (inf; 0: only continuous; -1: not even
    that).

    continuous: mean-square continuity. continuous_paths: whether sample paths are continuous by the criterion
    1 - c(tau) <= C |log tau|^-(1 + eps). numerical: found by a numerical check at one point, which sees at
    most three derivatives.
    """

    derivatives: float
    continuous: bool
    continuous_paths: bool
    numerical: bool


def smoothness(kernel: AbstractKernel, d: int | None = None) -> float:
    """How many mean-square derivatives the functions have: ceil(nu) - 1 for Matern, q for compact
    polynomials, inf for the SE.

    Known from the kernel itself where it says so, otherwise by a numerical check around x = 0.3 (at most 3).
    """
    return regularity(kernel, d).derivatives


def regularity(kernel: AbstractKernel, d: int | None = None, at: float = 0.3) -> Regularity:
    """Smoothness, mean-square and sample-path continuity; where only numbers can tell, around the input (at,
    ..., at).
    """
    bound, d = columns_of(kernel, d)
    known = bound.traits(d).smoothness
    derivatives = numerical_smoothness(bound, d, at) if known is None else known
    paths = derivatives >= 1 or (derivatives >= 0 and _continuous_paths(bound, d, at))
    return Regularity(derivatives, derivatives >= 0, paths, known is None)


def upcrossings(kernel: AbstractKernel, level: float = 0.0, d: int = 1) -> float | np.ndarray:
    """Expected upcrossings of `level` per unit length by a stationary process of mean zero (4.3); along each
    column for d > 1.

    sqrt(-k''(0) / k(0)) / (2 pi) exp(-level^2 / (2 k(0))); infinite where functions have no mean-square
    derivative.

    >>> upcrossings(SE(0.2))                                     # 1 / (2 pi 0.2)
    """
    bound = kernel.bind(d)
    if not bound.traits(d).stationary:
        raise ValueError(
            f"the rate of upcrossings is that of a stationary kernel, and {kernel.formula()} is not."
        )
    x = np.zeros((1, d))
    variance = float(bound(x)[0, 0])
    if variance == 0.0:  # noise alone: the function is zero
        rate = np.zeros(d)
    elif smoothness(kernel, d) < 1:
        rate = np.full(d, math.inf)
    else:
        curvature = np.maximum(np.diag(derivative_covariance(bound, d)(x[0], x[0])), 0.0)
        rate = np.sqrt(curvature / variance) / (2 * math.pi) * math.exp(-0.5 * level**2 / variance)
    return float(rate[0]) if d == 1 else rate


def derivative_covariance(kernel: AbstractKernel, d: int | None = None) -> Callable:
    """The covariance of the gradient: a function (x, x') -> (d, d) of inputs (d,), cov(df/dx_i, df/dx'_j) =
    d2k / dx_i dx'_j (4.4).

    >>> derivative_covariance(SE(0.5))(np.zeros(1), np.zeros(1))         # [[4.0]]
    """
    bound, d = columns_of(kernel, d)
    if smoothness(bound, d) < 1:
        raise ValueError(f"functions of {kernel.formula()} have no mean-square derivative.")
    bound = strip(bound)

    def covariance(x, x2):
        x, x2 = (np.reshape(np.asarray(v, float), (d,)) for v in (x, x2))
        return np.asarray(tiles.call(_mixed_derivative, bound, x, x2))

    return covariance


def input_gradient(kernel: AbstractKernel, X1: Any, X2: Any = None) -> np.ndarray:
    """dk(x, x') / dx for all pairs of rows: (n1, n2, d), the covariance of the gradient of f at X1 (n1, d)
    with f at X2 (n2, d), in units of k over those of the columns.

    X2: by default X1. Where functions have no mean-square derivative, k has a kink at x = x'; there the
    gradient is that of its smooth side, 0 for a stationary kernel.

    >>> input_gradient(SE(0.5), X)[0, 1]                      # -(x_0 - x_1) / 0.25 * k(x_0, x_1)
    """
    first = as_inputs(X1)
    second = first if X2 is None else as_inputs(X2, columns=first.names)
    bound = strip(kernel.bind(first.values.shape[1], first.names))
    return np.asarray(tiles.call(_gradients, bound, first.values, second.values))


def _gradients(kernel, X1, X2):
    each = jax.grad(functools.partial(_point, kernel))
    return jax.vmap(lambda x: jax.vmap(lambda x2: each(x, x2))(X2))(X1)


def _mixed_derivative(kernel, x, x2):
    return jax.jacfwd(jax.grad(functools.partial(_point, kernel), argnums=0), argnums=1)(x, x2)


def _point(kernel, x, x2):
    return kernel.block(kernel.encode(x[None]), kernel.encode(x2[None]))[0, 0]


# -------------------------------------------------------------------------------------------------
# numerically


def numerical_smoothness(kernel: AbstractKernel, d: int = 1, at: float = 0.3) -> int:
    """-1, 0, ..., 3: how often the process is mean-square differentiable at (at, ..., at), the least of the
    axes.

    The variance of the q-th difference with step h falls as h^(2 q) if there are q derivatives, and more
    slowly if not.
    """
    return min(_order(kernel, d, i, at) for i in range(d))


def _order(kernel, d: int, axis: int, at: float) -> int:
    scale = float(kernel(np.full((1, d), at))[0, 0])
    for q in range(1, MOST + 1):
        variance = functools.partial(_difference_variance, kernel, d, axis, at, q)
        slope = _slope_at_zero(lambda h, variance=variance: variance(h) / scale)
        if q == 1 and slope < 0.05:
            return -1
        if slope < 2 * q - SLACK[q]:
            return q - 1
    return MOST


def _slope_at_zero(variance: Callable) -> float:
    """d log variance / d log h at the smallest step h that rounding allows;
    infinite if the variance is zero.
    """
    h = 0.125
    while variance(h) < 1e-7 and h < 1e6:
        h *= 2
    slope, larger, smaller = math.inf, variance(h), variance(h / 2)
    while smaller > 1e-12 and h > 1e-12:
        slope = math.log2(larger / smaller)
        h, larger, smaller = h / 2, smaller, variance(h / 4)
    return slope


def _difference_variance(kernel, d: int, axis: int, at: float, q: int, h: float) -> float:
    """Of sum_i (-1)^i C(q, i) f(x + i h)."""
    X = np.full((q + 1, d), at)
    X[:, axis] += h * np.arange(q + 1)
    weights = np.array([(-1.0) ** i * math.comb(q, i) for i in range(q + 1)])
    K = kernel(X)
    variance = float(weights @ K @ weights)
    return variance if variance > 1e-13 * np.abs(K).max() else 0.0  # less is rounding


def _continuous_paths(kernel, d: int, at: float) -> bool:
    steps = 2.0 ** -np.array([16.0, 24.0, 32.0, 40.0])
    for axis in range(d):
        variance = [max(_difference_variance(kernel, d, axis, at, 1, h), 0.0) for h in steps]
        bound = np.array(variance) * np.abs(np.log(steps)) ** 1.5
        if not np.all(np.diff(bound) <= 1e-9 * bound[0]):
            return False
    return True
