"""Learning curves (GPML 7.3): the squared error to expect of n data, averaged over functions, inputs and
designs, with the right model or a wrong one; bounds and approximations from the kernel's eigenvalues.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import brentq

from mercer.inputs import as_inputs
from mercer.kernels import AbstractKernel
from mercer.params import strip

Rule = tuple[np.ndarray, np.ndarray]  # nodes (g, d) and weights (g,) that sum to 1, of the density of inputs
Draw = Callable[[np.random.Generator, int], Any]  # (n, d) inputs of that density


@dataclasses.dataclass(frozen=True, eq=False)
class LearningCurve:
    """Generalisation errors (s,) for numbers of data `sizes` (s,): the mean over designs, and its standard
    error.
    """

    sizes: np.ndarray
    error: np.ndarray
    standard_error: np.ndarray


def generalisation_error(
    kernel: AbstractKernel,
    X: Any,
    noise_variance: float,
    rule: Rule,
    truth: tuple[AbstractKernel, float] | None = None,
) -> float:
    """Expected squared error of the predicted mean of f, over functions and new inputs, of the design X
    (n, d) (7.20-7.24).

    kernel, noise_variance: what the predictor believes
    rule: nodes and weights of the density of new inputs, such as `uniform_nodes(200)` or `normal_nodes(40)`
    truth: kernel and noise variance that the data come from, where they are others: then the error is that of
        the wrong model, (7.23); where they are not it is the average predictive variance

    >>> generalisation_error(SE(0.5), X, 0.1, normal_nodes(60), truth=(Matern(nu=0.5), 0.1))
    """
    inputs, (nodes, weights) = as_inputs(X), _rule(rule)
    n = inputs.values.shape[0]
    L = cholesky(kernel(inputs) + noise_variance * np.eye(n), lower=True)
    Ks = kernel(inputs, nodes)
    if truth is None:
        V = solve_triangular(L, Ks, lower=True)
        return float(weights @ (_diagonal(kernel, nodes) - np.sum(V**2, 0)))
    own, own_noise = truth
    # the weights k_1' K_1y^-1 that the predictor gives the data: (n, g)
    H = solve_triangular(L.T, solve_triangular(L, Ks, lower=True))
    K0 = own(inputs) + own_noise * np.eye(n)
    error = _diagonal(own, nodes) - 2 * np.sum(H * own(inputs, nodes), 0) + np.sum(H * (K0 @ H), 0)
    return float(weights @ error)


def learning_curve(
    kernel: AbstractKernel,
    draw: Draw,
    sizes: Sequence[int],
    noise_variance: float,
    rule: Rule,
    truth: tuple[AbstractKernel, float] | None = None,
    repeats: int = 100,
    seed: int = 0,
) -> LearningCurve:
    """The learning curve by simulation: `generalisation_error` averaged over designs draw(rng, n).

    Designs of one repeat grow by adding points, so that the curve is smooth; with the right model all sizes
    take one factorisation.

    >>> curve = learning_curve(SE(0.5), lambda rng, n: rng.normal(size=(n, 1)), [1, 10, 100], 0.1,
    ...                        normal_nodes(60))
    """
    numbers, rng = np.asarray(sizes, int), np.random.default_rng(seed)
    if numbers.ndim != 1 or not numbers.size or numbers.min() < 1 or repeats < 2:
        raise ValueError("sizes are numbers of data of at least 1, and repeats at least 2.")
    errors = np.empty((repeats, numbers.size))
    for row in errors:
        X = np.asarray(as_inputs(draw(rng, int(numbers.max()))).values)
        if truth is None:
            row[:] = _nested(kernel, X, noise_variance, rule)[numbers - 1]
        else:
            row[:] = [generalisation_error(kernel, X[:n], noise_variance, rule, truth) for n in numbers]
    return LearningCurve(numbers, errors.mean(0), errors.std(0, ddof=1) / np.sqrt(repeats))


def _nested(kernel: AbstractKernel, X: np.ndarray, noise_variance: float, rule: Rule) -> np.ndarray:
    """The average predictive variance (n,) after the first 1, 2, ... n rows."""
    nodes, weights = _rule(rule)
    L = cholesky(kernel(X) + noise_variance * np.eye(len(X)), lower=True)
    V = solve_triangular(L, kernel(X, nodes), lower=True)
    return weights @ _diagonal(kernel, nodes) - np.cumsum(V**2 @ weights)


# --------------------------------------------------------------------------------------- from the eigenvalues


def opper_vivarelli(eigenvalues: ArrayLike, n: ArrayLike, noise_variance: float) -> np.ndarray:
    """Lower bound of the learning curve at n (any shape): sum of noise l / (noise + n l) over the eigenvalues
    l of the kernel under the density of inputs (7.26).

    >>> opper_vivarelli(se_under_gaussian(0.5, 1.0, 60).eigenvalues, [1, 10, 100], 0.1)
    """
    l, count = _eigenvalues(eigenvalues), np.asarray(n, float)
    return np.sum(noise_variance * l / (noise_variance + count[..., None] * l), -1)


def micchelli_wahba(eigenvalues: ArrayLike, n: ArrayLike) -> np.ndarray:
    """Lower bound of the learning curve without noise: the sum of all eigenvalues after the first n."""
    l = _eigenvalues(eigenvalues)
    rest = np.append(np.cumsum(l[::-1])[::-1], 0.0)
    return rest[np.minimum(np.asarray(n, int), l.size)]


def sollich(eigenvalues: ArrayLike, n: ArrayLike, noise_variance: float) -> np.ndarray:
    """Sollich's approximation of the learning curve (1999), no bound: the error e that solves
    e = sum of l / (1 + n l / (noise + e)).
    """
    l, count = _eigenvalues(eigenvalues), np.asarray(n, float)

    def at(n: float) -> float:
        return float(brentq(lambda e: np.sum(l / (1 + n * l / (noise_variance + e))) - e, 0.0, l.sum()))

    return np.array([at(one) if one > 0 else l.sum() for one in count.ravel()]).reshape(count.shape)


def williams_vivarelli(
    kernel: AbstractKernel, n: ArrayLike, noise_variance: float, neighbours: int = 2
) -> np.ndarray:
    """Upper bound of the learning curve of an isotropic kernel for inputs uniform on [0, 1]: the error of
    predicting from the nearest datum alone, or from the nearest on each side (neighbours=2).

    n data leave n + 1 gaps of density n (1 - g)^(n - 1), two of them at the ends (Williams and Vivarelli
    2000).

    >>> williams_vivarelli(SE(0.2), [1, 10, 100], 0.01)
    """
    if neighbours not in (1, 2):
        raise ValueError(f"neighbours must be 1 or 2, got {neighbours!r}.")
    bound = kernel.bind(1)
    if not bound.traits(1).isotropic:
        raise ValueError(f"the bound is for isotropic kernels; {kernel.formula()} is none.")

    def k(r: np.ndarray) -> np.ndarray:
        return bound(np.ravel(r)[:, None], np.zeros((1, 1)))[:, 0].reshape(np.shape(r))

    x, w = np.polynomial.legendre.leggauss(64)
    x, w = 0.5 * (x + 1), 0.5 * w  # on [0, 1]
    k0 = float(k(np.zeros(1))[0])
    total = k0 + noise_variance

    def one(g: np.ndarray, near: np.ndarray) -> np.ndarray:
        """The integral over distances 0 to g of the variance given one datum, near = k(g x)."""
        return g * ((k0 - near**2 / total) @ w)

    def both(g: np.ndarray, left: np.ndarray) -> np.ndarray:
        """The integral over a gap of the variance given its two ends."""
        right, between = left[:, ::-1], k(g)[:, None]  # Gauss's nodes are symmetric
        det = total**2 - between**2
        # gaps that close without noise: two data at one place say what one does
        safe = np.where(det > 1e-12 * total**2, det, np.inf)
        explained = (total * (left**2 + right**2) - 2 * between * left * right) / safe
        return g * ((k0 - np.where(np.isfinite(safe), explained, left**2 / total)) @ w)

    def at(n: int) -> float:
        # gaps by u = (1 - g)^n, which is uniform: finely near the long ones
        u, share = _graded()
        g = -np.expm1(np.log(u) / n)
        near = k(g[:, None] * x)
        inner = 2 * one(g / 2, k(g[:, None] / 2 * x)) if neighbours == 1 else both(g, near)
        return float(share @ (2 * one(g, near) + (n - 1) * inner))

    count = np.asarray(n, int)
    if count.size and count.min() < 1:
        raise ValueError("n must be at least 1.")
    return np.array([at(int(one)) for one in count.ravel()]).reshape(count.shape)


def _graded(panels: int = 24) -> Rule:
    """Nodes and weights on [0, 1], graded towards 0."""
    x, w = np.polynomial.legendre.leggauss(16)
    edges = np.append(0.0, 2.0 ** -np.arange(panels, -1.0, -1.0))
    half = 0.5 * np.diff(edges)
    return (edges[:-1, None] + half[:, None] * (1 + x)).ravel(), (half[:, None] * w).ravel()


# ------------------------------------------------------------------------------- Ornstein-Uhlenbeck, exactly


def ou_error(X: ArrayLike, lengthscale: float) -> float:
    """The generalisation error of exp(-r / lengthscale) without noise, for new inputs uniform on [0, 1], of
    the design X (n,) in [0, 1] (7.44).
    """
    x = np.sort(np.ravel(np.asarray(X, float)))
    if not x.size or x[0] < 0 or x[-1] > 1:
        raise ValueError("the design must have at least one input, all of them in [0, 1].")
    gaps = np.diff(x, prepend=0.0, append=1.0)
    ends = _end_gap(gaps[[0, -1]], 1 / lengthscale)
    return float(np.sum(ends) + np.sum(_inner_gap(gaps[1:-1], 1 / lengthscale)))


def ou_learning_curve(n: ArrayLike, lengthscale: float) -> np.ndarray:
    """The same averaged over designs of n inputs that are uniform on [0, 1], exactly: n times the error tends
    to 2 / (3 lengthscale), twice that of an even grid.

    >>> ou_learning_curve([1, 10, 100], 1.0)                          # 0.432, 0.0715, 0.00679
    """
    u, share = _graded(48)

    def at(n: float) -> float:
        g = -np.expm1(np.log(u) / n)  # gaps of density n (1 - g)^(n - 1)
        a = 1 / lengthscale
        return float(share @ (2 * _end_gap(g, a) + (n - 1) * _inner_gap(g, a)))

    count = np.asarray(n, float)
    return np.array([at(one) for one in count.ravel()]).reshape(count.shape)


def _inner_gap(g: np.ndarray, a: float) -> np.ndarray:
    """The integral of the variance over a gap between two data (7.41), a series where it is short."""
    z = a * g
    short = z < 1e-2
    safe = np.where(short, 1.0, z)
    exact = safe - 1.0 + 2 * safe / np.expm1(2 * safe)
    return np.where(short, z**2 / 3 - z**4 / 45 + 2 * z**6 / 945, exact) / a


def _end_gap(g: np.ndarray, a: float) -> np.ndarray:
    """The same beyond the first or last datum (7.43)."""
    z = a * g
    short = z < 1e-3
    exact = z + np.expm1(-2 * z) / 2
    return np.where(short, z**2 - 2 * z**3 / 3 + z**4 / 3, exact) / a


def _rule(rule: Rule) -> Rule:
    nodes, weights = np.asarray(rule[0], float), np.asarray(rule[1], float)
    if nodes.ndim != 2 or weights.shape != nodes.shape[:1]:
        raise ValueError("rule must be nodes (g, d) and weights (g,), such as uniform_nodes(200).")
    return nodes, weights


def _diagonal(kernel: AbstractKernel, nodes: np.ndarray) -> np.ndarray:
    bound = strip(kernel.bind(nodes.shape[1]))
    return np.asarray(bound.diag(bound.encode(nodes)))


def _eigenvalues(values: ArrayLike) -> np.ndarray:
    l = np.asarray(values, float)
    if l.ndim != 1 or not (l >= 0).all():
        raise ValueError("eigenvalues must be a vector of numbers that are not negative.")
    return np.sort(l)[::-1]
