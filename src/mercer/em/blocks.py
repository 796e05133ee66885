"""Blocks of rows under several Gaussians: how log densities and moments are computed for them, fast where
that is exact enough.

A complete block is written as quadratic features (1, x, x xᵀ): log densities and moments are then one matrix
product each. Where products about one common centre would lose digits, or values are missing, each Gaussian
is taken by itself about its own mean.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import cho_solve, solve_triangular

LOG_2PI = float(np.log(2 * np.pi))
CACHE = 2**16  # doubles of features in a block
LOST = 1e-10  # error of a log density that quadratic features may have
EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Moments:
    """Weighted sums of 1, x − m and (x − m)(x − m)ᵀ (of its diagonal alone,
    for diagonal covariances) about the old means m.
    """

    weight: np.ndarray
    first: np.ndarray
    second: np.ndarray

    def __add__(self, other: Moments) -> Moments:
        return Moments(self.weight + other.weight, self.first + other.first, self.second + other.second)

    @classmethod
    def zero(cls, gaussians: Any) -> Moments:
        k, d = gaussians.means.shape
        return cls(np.zeros(k), np.zeros((k, d)), np.zeros((k, d, d) if gaussians.elliptic else (k, d)))


def blocks(gaussians: Any, X: np.ndarray) -> Iterator[Any]:
    """X in blocks that know their log densities (k, b) and, for weights (k, b), their moments.
    Rows without values come last.

    A block has `rows`, `width` (how many columns are observed), `log_norm()` (k,), the log density at the
    mean, `log_prob()`, and `moments(weights, unseen)`, where values that are not observed are spread about
    what is expected of them with the weights `unseen` (those of the rows unless told).
    """
    X = np.asarray(X, np.float64)
    if X.ndim != 2 or X.shape[1] != gaussians.dimension:
        raise ValueError(
            f"data for these Gaussians have the shape (rows, {gaussians.dimension}), got {X.shape}."
        )
    quadratic = gaussians.quadratic
    size = max(64, CACHE // quadratic.width)
    gaps = []
    for start in range(0, len(X), size):
        rows: Any = slice(start, min(start + size, len(X)))
        part = X[rows]
        if not np.isfinite(part).all():
            _refuse_infinite(part, start)
            missing = np.isnan(part)
            gaps.append(start + np.flatnonzero(missing.any(1)))
            rows = start + np.flatnonzero(~missing.any(1))
            part = X[rows]
        if len(part):
            yield quadratic.block(part, rows) or _own(gaussians, part, rows, np.ones(X.shape[1], bool))
    if gaps:
        rows = np.concatenate(gaps)
        patterns, which = np.unique(~np.isnan(X[rows]), axis=0, return_inverse=True)
        for i, observed in enumerate(patterns):
            same = rows[which.ravel() == i]
            for start in range(0, len(same), size):
                part = same[start : start + size]
                yield _own(gaussians, X[part], part, observed) if observed.any() else Nothing(gaussians, part)


def squares(block: Any) -> np.ndarray:
    """Squared Mahalanobis distances (k, b) of a block's rows from the means, of what is observed of them."""
    return np.maximum(2 * (block.log_norm()[:, None] - block.log_prob()), 0.0)


def _refuse_infinite(part: np.ndarray, start: int) -> None:
    if np.isinf(part).any():
        row = start + int(np.argmax(np.isinf(part).any(1)))
        raise ValueError(f"row {row} of the data is infinite.")


def _own(gaussians: Any, part: np.ndarray, rows: Any, observed: np.ndarray) -> Any:
    return (Elliptic if gaussians.elliptic else Diagonal)(gaussians, part, rows, observed)


class Quadratic:
    """Coefficients of the log densities in the features 1, x − c, products of x − c,
    about the Gaussians' common centre c.
    """

    def __init__(self, gaussians: Any):
        self.gaussians = gaussians
        d = gaussians.dimension
        self.centre = gaussians.means.mean(0)
        m = self.offset = gaussians.means - self.centre
        roots = gaussians.roots
        if gaussians.elliptic:
            inverse = np.stack([solve_triangular(L, np.eye(d), lower=True) for L in roots])
            P = np.swapaxes(inverse, 1, 2) @ inverse
            self.pairs = np.triu_indices(d)
            factor = np.where(self.pairs[0] == self.pairs[1], -0.5, -1.0)
            square, linear = P[:, *self.pairs] * factor, np.einsum("kij,kj->ki", P, m)
            log_det = 2 * np.log(np.diagonal(roots, axis1=1, axis2=2)).sum(1)
            self.size = np.abs(P).max(0)
        else:
            P = roots**-2.0
            self.pairs = (np.arange(d), np.arange(d))
            square, linear, log_det = -0.5 * P, P * m, 2 * np.log(roots).sum(1)
            self.size = np.diag(P.max(0))
        self.log_norm = -0.5 * (d * LOG_2PI + log_det)
        self.coefficients = np.column_stack([self.log_norm - 0.5 * (linear * m).sum(1), linear, square])
        self.width = self.coefficients.shape[1]

    def block(self, part: np.ndarray, rows: Any) -> QuadraticBlock | None:
        """The block, or None where features would lose digits."""
        d = part.shape[1]
        features = np.empty((self.width, len(part)))
        features[0] = 1.0
        x = np.subtract(part.T, self.centre[:, None], out=features[1 : d + 1])
        far = np.maximum(x.max(1), -x.min(1))
        if not far @ self.size @ far * EPS <= LOST:
            return None
        row = d + 1
        if self.gaussians.elliptic:
            for i in range(d):
                np.multiply(x[i], x[i:], out=features[row : row + d - i])
                row += d - i
        else:
            np.multiply(x, x, out=features[row:])
        return QuadraticBlock(self, features, rows)


@dataclass(frozen=True)
class QuadraticBlock:
    """Complete rows as features (width, b)."""

    quadratic: Quadratic
    features: np.ndarray
    rows: Any

    @property
    def width(self) -> int:
        return self.quadratic.offset.shape[1]

    def log_norm(self) -> np.ndarray:
        return self.quadratic.log_norm

    def log_prob(self) -> np.ndarray:
        return self.quadratic.coefficients @ self.features

    def moments(self, weights: np.ndarray, unseen: np.ndarray | None = None) -> Moments:
        sums, m, d = weights @ self.features.T, self.quadratic.offset, self.quadratic.offset.shape[1]
        weight, about = sums[:, 0], sums[:, 1 : d + 1]
        first = about - weight[:, None] * m
        if not self.quadratic.gaussians.elliptic:
            return Moments(weight, first, sums[:, d + 1 :] - 2 * about * m + weight[:, None] * m**2)
        second = np.empty((len(m), d, d))
        i, j = self.quadratic.pairs
        second[:, i, j] = second[:, j, i] = sums[:, d + 1 :]
        cross = about[:, :, None] * m[:, None, :]
        second += weight[:, None, None] * m[:, :, None] * m[:, None, :] - cross - np.swapaxes(cross, 1, 2)
        return Moments(weight, first, second)


class Elliptic:
    """Rows with one pattern of observed columns, each Gaussian about its own mean;
    the rest by conditional Gaussians (GPML A.6).
    """

    def __init__(self, gaussians: Any, part: np.ndarray, rows: Any, observed: np.ndarray):
        self.gaussians, self.rows, self.observed = gaussians, rows, observed
        self.part = part[:, observed].T
        if observed.all():
            self.roots = gaussians.roots
        else:
            matrices = gaussians.matrices()[:, observed][:, :, observed]
            self.roots = np.linalg.cholesky(matrices)
        self.width = len(self.part)

    def log_norm(self) -> np.ndarray:
        diagonals = np.diagonal(self.roots, axis1=1, axis2=2)
        return -0.5 * self.width * LOG_2PI - np.log(diagonals).sum(1)

    def log_prob(self) -> np.ndarray:
        out = np.empty((self.gaussians.count, self.part.shape[1]))
        for k, (L, norm) in enumerate(zip(self.roots, self.log_norm(), strict=True)):
            z = solve_triangular(L, self.part - self.gaussians.means[k, self.observed, None], lower=True)
            out[k] = norm - 0.5 * (z**2).sum(0)
        return out

    def moments(self, weights: np.ndarray, unseen: np.ndarray | None = None) -> Moments:
        o, total = self.observed, Moments.zero(self.gaussians)
        matrices = self.gaussians.matrices()
        unseen = weights if unseen is None else unseen
        total.weight[:] = weights.sum(1)
        for k, w in enumerate(weights):
            x = np.zeros((self.gaussians.dimension, len(w)))
            x[o] = self.part - self.gaussians.means[k, o, None]
            if not o.all():
                gain = cho_solve((self.roots[k], True), matrices[k][np.ix_(o, ~o)])
                x[~o] = gain.T @ x[o]
                left = matrices[k][np.ix_(~o, ~o)] - matrices[k][np.ix_(~o, o)] @ gain
                total.second[k][np.ix_(~o, ~o)] = unseen[k].sum() * left
            total.first[k] = x @ w
            total.second[k] += (x * w) @ x.T
        return total


class Diagonal:
    """Rows with one pattern of observed columns under diagonal covariances:
    a missing value is expected at the mean.
    """

    def __init__(self, gaussians: Any, part: np.ndarray, rows: Any, observed: np.ndarray):
        self.gaussians, self.rows, self.observed, self.part = gaussians, rows, observed, part[:, observed]
        self.means, self.roots = gaussians.means[:, observed], gaussians.roots[:, observed]
        self.width = self.part.shape[1]

    def log_norm(self) -> np.ndarray:
        return -0.5 * self.width * LOG_2PI - np.log(self.roots).sum(1)

    def log_prob(self) -> np.ndarray:
        out = np.empty((self.gaussians.count, len(self.part)))
        for k, (mean, root, norm) in enumerate(zip(self.means, self.roots, self.log_norm(), strict=True)):
            out[k] = norm - 0.5 * (((self.part - mean) / root) ** 2).sum(1)
        return out

    def moments(self, weights: np.ndarray, unseen: np.ndarray | None = None) -> Moments:
        o, total = self.observed, Moments.zero(self.gaussians)
        total.weight[:] = weights.sum(1)
        hidden = total.weight if unseen is None else unseen.sum(1)
        total.second[:, ~o] = hidden[:, None] * self.gaussians.roots[:, ~o] ** 2
        for k, w in enumerate(weights):
            x = self.part - self.gaussians.means[k, o]
            total.first[k, o] = w @ x
            total.second[k, o] = w @ x**2
        return total


@dataclass(frozen=True)
class Nothing:
    """Rows without any value: their density is one, and they say nothing of the parameters."""

    gaussians: Any
    rows: Any

    width: ClassVar[int] = 0

    def log_norm(self) -> np.ndarray:
        return np.zeros(self.gaussians.count)

    def log_prob(self) -> np.ndarray:
        return np.zeros((self.gaussians.count, len(self.rows)))

    def moments(self, weights: np.ndarray, unseen: np.ndarray | None = None) -> Moments:
        return Moments.zero(self.gaussians)
