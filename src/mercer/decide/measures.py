"""Measures to integrate against, and the averages of kernels under them.

Of a kernel k and a measure p, quadrature needs z(x), the average of k(x, x') over x', and its average over x
again. Both are closed for sums and products of SE and constant kernels; for others they are weighted sums
over nodes, Gauss's in up to three columns and Sobol points in more.
"""

from __future__ import annotations

import abc
import functools
import math
import warnings

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from mercer.kernels.algebra.boxes import Boxes, averaged
from mercer.kernels.base import AbstractKernel
from mercer.kernels.families.stationary import SE
from mercer.observe.rows import unit_nodes
from mercer.registry import unknown
from mercer.uncertain.anywhere import NODES, hermite_grid
from mercer.uncertain.terms import Term, kernel_terms

__all__ = ["AbstractMeasure", "NormalMeasure", "UniformMeasure"]

GAUSS = 3  # columns up to which nodes are Gauss's
POWER = 11  # of two: Sobol points for more columns, each with the one opposite
BLOCK = 1024  # rows of a kernel matrix at once


class AbstractMeasure(abc.ABC):
    """A probability measure over d columns, of standard deviations `scale` (d,). A point is an array (d,), or
    a plain number where it is `single`.
    """

    d: int
    scale: np.ndarray
    single: bool

    @abc.abstractmethod
    def place(self, unit: np.ndarray, spread: float = 1.0) -> np.ndarray:
        """Points (n, d) of the measure from points in the unit cube; of one wider by the factor `spread`
        where it has no edges.
        """

    @abc.abstractmethod
    def log_density(self, X: np.ndarray) -> np.ndarray:
        """Of points (n, d): (n,)."""

    @abc.abstractmethod
    def _gauss(self) -> tuple[np.ndarray, np.ndarray]: ...

    @abc.abstractmethod
    def _closed(self, terms: list[Term], X: np.ndarray | None) -> np.ndarray | None:
        """The average over one argument at X (n,), or over both (); None where there is no closed form."""

    def points(self, size: int, seed: int = 0, spread: float = 1.0) -> np.ndarray:
        """Sobol points (size, d)."""
        return self.place(sobol(size, self.d, seed), spread)

    @functools.cached_property
    def nodes(self) -> tuple[np.ndarray, np.ndarray]:
        """Points (N, d) and weights (N,), which sum to 1, that stand for the measure."""
        if self.d <= GAUSS:
            return self._gauss()
        unit = sobol(2**POWER, self.d, 0)
        points = self.place(np.concatenate([unit, 1.0 - unit]))  # straight lines are averaged exactly
        return points, np.full(len(points), 1.0 / len(points))

    def kernel_mean(self, kernel: AbstractKernel, X: np.ndarray) -> np.ndarray:
        """z (n,): the averages of k(x_i, x) over x, for a kernel that is bound to its columns."""
        X = np.asarray(X, float)
        terms = _gaussians(kernel, self.d)
        found = None if terms is None else self._closed(terms, X)
        if found is None:
            at, weights = self.nodes
            found = weights @ kernel(at, X)
        return np.asarray(found, float)

    def kernel_variance(self, kernel: AbstractKernel) -> float:
        """The average of k(x, x') over both: the prior variance of the integral."""
        terms = _gaussians(kernel, self.d)
        found = None if terms is None else self._closed(terms, None)
        if found is None:
            at, weights = self.nodes
            rows = range(0, len(at), BLOCK)
            found = sum(weights[i : i + BLOCK] @ kernel(at[i : i + BLOCK], at) @ weights for i in rows)
        return float(found)


class NormalMeasure(AbstractMeasure):
    """The normal density.

    mean: a number, or (d,)
    covariance: a number; or (d,), the variances of independent columns; or (d, d)

    >>> NormalMeasure(0.0, 4.0), NormalMeasure([0.0, 1.0], [[1.0, 0.5], [0.5, 2.0]])
    """

    def __init__(self, mean: ArrayLike = 0.0, covariance: ArrayLike = 1.0):
        self.single = np.ndim(mean) == 0 and np.ndim(covariance) == 0
        covariance = np.asarray(covariance, float)
        d = max(np.size(mean), len(covariance) if covariance.ndim else 1)
        self.d, self.mean = d, np.broadcast_to(np.asarray(mean, float), d).copy()
        self.covariance = np.diag(np.broadcast_to(covariance, d)) if covariance.ndim < 2 else covariance
        if self.covariance.shape != (d, d):
            raise ValueError(f"covariance has shape {covariance.shape}, the mean {np.size(mean)} columns.")
        if not (np.isfinite(self.mean).all() and np.isfinite(self.covariance).all()):
            raise ValueError("mean and covariance of a measure must be finite.")
        try:
            self._factor = np.linalg.cholesky(0.5 * (self.covariance + self.covariance.T))
        except np.linalg.LinAlgError:
            raise ValueError("the covariance of a measure must be positive definite.") from None
        self.scale = np.sqrt(np.diag(self.covariance))

    def __repr__(self) -> str:
        return f"NormalMeasure({self.mean.tolist()}, {self.covariance.tolist()})"

    def place(self, unit: np.ndarray, spread: float = 1.0) -> np.ndarray:
        return self.mean + spread * ndtri(np.clip(unit, 1e-12, 1 - 1e-12)) @ self._factor.T

    def log_density(self, X: np.ndarray) -> np.ndarray:
        factor = self._factor
        away = np.linalg.solve(factor, (X - self.mean).T)
        return (
            -0.5 * np.sum(away**2, 0) - np.log(np.diag(factor)).sum() - 0.5 * self.d * math.log(2 * math.pi)
        )

    def _gauss(self) -> tuple[np.ndarray, np.ndarray]:
        at, weights = hermite_grid(self.d)
        return self.mean + at @ self._factor.T, weights

    def _closed(self, terms: list[Term], X: np.ndarray | None) -> np.ndarray:
        """With P the precision of a term and B the covariance of the measure: v |I + BP|^-1/2 times
        exp(-1/2 (x - b)' P (I + BP)^-1 (x - b)), and over both v |I + 2BP|^-1/2.
        """
        B, one = self.covariance, np.eye(self.d)
        total = np.zeros(() if X is None else len(X))
        for term in terms:
            v, P = float(term.variance), np.asarray(term.precision)
            A = one + (2.0 if X is None else 1.0) * B @ P
            log = -0.5 * np.linalg.slogdet(A)[1] * np.ones_like(total)
            if X is not None:
                away = X - self.mean
                log = log - 0.5 * np.sum((away @ np.linalg.solve(A.T, P)) * away, 1)
            total = total + v * np.exp(log)
        return total


class UniformMeasure(AbstractMeasure):
    """The uniform density over a box: an integral under it is an average, times the volume an integral over
    the box.

    low, high: numbers, or (d,)

    >>> UniformMeasure(0.0, 2 * np.pi), UniformMeasure([0.0, 0.0], [1.0, 3.0])
    """

    def __init__(self, low: ArrayLike = 0.0, high: ArrayLike = 1.0):
        self.single = np.ndim(low) == 0 and np.ndim(high) == 0
        low, high = np.broadcast_arrays(np.atleast_1d(np.asarray(low, float)), np.asarray(high, float))
        if low.ndim != 1 or not (np.isfinite(low) & np.isfinite(high) & (low < high)).all():
            raise ValueError(f"low must be below high in every column, both finite: got {low} and {high}.")
        self.d, self.low, self.high = len(low), low, high
        self.scale = (high - low) / math.sqrt(12.0)

    def __repr__(self) -> str:
        return f"UniformMeasure({self.low.tolist()}, {self.high.tolist()})"

    @property
    def volume(self) -> float:
        """Of the box."""
        return float(np.prod(self.high - self.low))

    def place(self, unit: np.ndarray, spread: float = 1.0) -> np.ndarray:
        return self.low + (self.high - self.low) * unit

    def log_density(self, X: np.ndarray) -> np.ndarray:
        inside = ((self.low <= X) & (self.high >= X)).all(1)
        return np.where(inside, -math.log(self.volume), -np.inf)

    def _gauss(self) -> tuple[np.ndarray, np.ndarray]:
        at, weights = unit_nodes(NODES[self.d])
        grid = np.stack([axis.ravel() for axis in np.meshgrid(*[at] * self.d, indexing="ij")], 1)
        product = functools.reduce(np.multiply.outer, [weights] * self.d)
        return self.place(grid), np.asarray(product).ravel()

    def _closed(self, terms: list[Term], X: np.ndarray | None) -> np.ndarray | None:
        """Of Gaussians whose columns stand apart, by their antiderivatives."""
        width = self.high - self.low
        box = Boxes(self.low[None], width[None], tuple(range(self.d)))
        at = box if X is None else Boxes(X, np.zeros_like(X), ())
        total = np.zeros(() if X is None else len(X))
        for term in terms:
            P = np.asarray(term.precision)
            if np.any(P - np.diag(np.diag(P))):
                return None
            v, p = float(term.variance), np.diag(P)
            if not p.any():
                total = total + v
                continue
            lengthscale = 1.0 / np.sqrt(np.maximum(p, 1e-16 / width**2))  # a column that is not read
            found = np.asarray(averaged(SE(lengthscale, v), at, box))[:, 0]
            total = total + (found[0] if X is None else found)
        return total


def as_measure(measure: AbstractMeasure | str) -> AbstractMeasure:
    """A measure, or the standard one of this name in one column."""
    if isinstance(measure, AbstractMeasure):
        return measure
    known = {"normal": NormalMeasure, "uniform": UniformMeasure}
    if isinstance(measure, str) and measure in known:
        return known[measure]()
    raise ValueError(
        unknown("measure", measure, known, "NormalMeasure(mean, covariance), UniformMeasure(low, high)")
    )


def sobol(size: int, d: int, seed: int) -> np.ndarray:
    """Scrambled Sobol points (size, d) in the unit cube."""
    from scipy.stats import qmc

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that size is no power of two
        return np.asarray(qmc.Sobol(d, seed=seed).random(size))


def _gaussians(kernel: AbstractKernel, d: int) -> list[Term] | None:
    """The kernel as a sum of Gaussians and constants; None where it is none."""
    terms = kernel_terms(kernel, d)
    return terms if terms is not None and not any(term.factors for term in terms) else None
