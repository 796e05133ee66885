"""The multivariate normal distribution as a value, and the algebra that stays inside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mercer.linalg.semidefinite import EPS, SemidefiniteFactor, semidefinite_factor

LOG_2PI = float(np.log(2 * np.pi))


@dataclass(frozen=True, eq=False, init=False)
class GaussianVector:
    """N(mean, covariance) in n dimensions; the covariance may be singular, down to a point mass.

    ``mean`` is (n,), ``covariance`` (n, n); two numbers make a one-dimensional normal. Methods return new
    values and never invert a covariance: a singular one lives on the affine subspace mean +
    range(covariance), and densities, entropies and divergences are then those on that subspace (Kuss 3.22).
    ``floor`` is the variance, per coordinate, that is only rounding left over from earlier steps; the methods
    set it, users rarely do.

    >>> prior = GaussianVector([0.0, 0.0], [[1.0, 0.8], [0.8, 1.0]])
    >>> prior.condition(1, 2.0)                 # x0 given x1 = 2
    GaussianVector(mean=array([1.6]), covariance=array([[0.36]]))
    """

    mean: np.ndarray
    covariance: np.ndarray
    floor: np.ndarray = field(repr=False)

    def __init__(self, mean: ArrayLike, covariance: ArrayLike, floor: ArrayLike = 0.0) -> None:
        m = np.atleast_1d(np.array(mean, dtype=float))
        C = np.atleast_2d(np.array(covariance, dtype=float))
        n = len(m)
        if m.ndim != 1 or n == 0 or C.shape != (n, n):
            raise ValueError(
                "a Gaussian needs a mean of shape (n,) and a covariance of shape (n, n), n > 0; got "
                f"{m.shape} and {C.shape}"
            )
        if not (np.isfinite(m).all() and np.isfinite(C).all()):
            raise ValueError("the mean or the covariance of a Gaussian has a value that is not finite")
        if np.abs(C - C.T).max() > 1e-8 * np.abs(C).max():
            raise ValueError(
                "the covariance of a Gaussian must be symmetric; pass (C + C.T) / 2 if it should be"
            )
        C = _symmetric(C)
        rounding = np.array(np.broadcast_to(np.asarray(floor, dtype=float), (n,)))
        if (np.diagonal(C) < -rounding).any():
            where = int(np.argmin(np.diagonal(C) + rounding))
            raise ValueError(f"variance {C[where, where]:.3g} of coordinate {where} is negative")
        for name, value in (("mean", m), ("covariance", C), ("floor", rounding)):
            value.setflags(write=False)
            object.__setattr__(self, name, value)

    @classmethod
    def from_natural(cls, shift: ArrayLike, precision: ArrayLike) -> GaussianVector:
        """The normal proportional to exp(shiftᵀx − ½ xᵀ precision x): mean P⁻¹ shift, covariance P⁻¹."""
        covariance = cls(shift, precision).precision
        return cls(covariance @ np.atleast_1d(np.asarray(shift, dtype=float)), covariance)

    @classmethod
    def from_samples(cls, samples: ArrayLike, weights: ArrayLike | None = None) -> GaussianVector:
        """The normal with the mean and covariance of ``samples`` (N, n), each counted ``weights`` (N,) times.

        Of all normals q it minimises KL(p ‖ q) from the empirical distribution p (A.24): the weights are
        normalised to sum to one and the covariance divides by that sum, not by N − 1.
        """
        X = np.asarray(samples, dtype=float)
        X = X[:, None] if X.ndim == 1 else X
        w = _normalised(np.ones(len(X)) if weights is None else weights, len(X))
        mean = w @ X
        centred = X - mean
        return cls(mean, (w[:, None] * centred).T @ centred)

    @classmethod
    def from_mixture(cls, weights: ArrayLike, components: Sequence[GaussianVector]) -> GaussianVector:
        """The normal with the mean and covariance of the mixture Σ weights[k] components[k]:
        the best in KL(p ‖ q).
        """
        w = _normalised(weights, len(components))
        means = np.stack([component.mean for component in components])
        between = cls.from_samples(means, w)
        within = np.tensordot(w, np.stack([component.covariance for component in components]), axes=1)
        return cls(between.mean, between.covariance + within)

    @property
    def dim(self) -> int:
        """Number of coordinates n."""
        return len(self.mean)

    @property
    def rank(self) -> int:
        """Dimension of the support: n, or less for a singular covariance."""
        return self.factor.rank

    @cached_property
    def factor(self) -> SemidefiniteFactor:
        """A root F of the covariance, F Fᵀ = covariance;
        raises ValueError if it is not positive semi-definite.
        """
        return semidefinite_factor(self.covariance, self.floor)

    @property
    def log_determinant(self) -> float:
        """log |covariance| = 2 Σ log L_ii (A.18); over the non-zero eigenvalues if singular."""
        return self.factor.log_determinant

    @property
    def precision(self) -> np.ndarray:
        """The inverse covariance; raises ValueError for a singular covariance, which has none."""
        if self.rank < self.dim:
            raise ValueError(f"a covariance of rank {self.rank} in {self.dim} dimensions has no inverse")
        return _symmetric(self.factor.solve(np.eye(self.dim)))

    def marginal(self, index: Any) -> GaussianVector:
        """The distribution of the coordinates in ``index`` (a number, list, slice or mask),
        in that order (A.6).
        """
        keep = _positions(self.dim, index)
        return GaussianVector(self.mean[keep], self.covariance[np.ix_(keep, keep)], self.floor[keep])

    def condition(self, index: Any, value: ArrayLike) -> GaussianVector:
        """The other coordinates, in their order, given that those in ``index`` equal ``value`` (A.6, B.22).

        Mean μ_x + C B⁻¹ (y − μ_y), covariance the Schur complement A − C B⁻¹ Cᵀ. Raises ValueError if the
        value is impossible, which happens only when the given coordinates are themselves singular.
        """
        given, keep = _split(self.dim, index)
        known = self.marginal(given)
        residual = np.broadcast_to(np.asarray(value, dtype=float), known.mean.shape) - known.mean
        known._require(residual, "the value")
        F, sizes = self.factor.root, self.factor.row_sizes
        gain = F[keep] @ known.factor.solve(F[given]).T
        size = sizes[keep] + np.abs(gain) @ sizes[given]
        return _from_root(self.mean[keep] + gain @ residual, F[keep] - gain @ F[given], size)

    def product(self, other: GaussianVector) -> tuple[GaussianVector, float]:
        """N(x|a, A) N(x|b, B) = Z N(x|c, C): the normalised product and log Z = log N(a|b, A + B) (A.7,
        B.16).

        C = A (A + B)⁻¹ B, so either covariance may be singular. Raises ValueError if the supports do not
        meet.
        """
        evidence = GaussianVector(other.mean, self.covariance + other.covariance, self.floor + other.floor)
        residual = self.mean - other.mean
        evidence._require(residual, "the other mean")
        F, G = self.factor.root, other.factor.root
        gain, rest = F @ evidence.factor.solve(F).T, G @ evidence.factor.solve(G).T
        root = np.hstack([rest @ F, gain @ G])
        size = np.abs(rest) @ self.factor.row_sizes + np.abs(gain) @ other.factor.row_sizes
        return _from_root(self.mean - gain @ residual, root, size), float(evidence.log_prob(self.mean))

    def affine(self, A: ArrayLike, b: ArrayLike = 0.0, noise: ArrayLike = 0.0) -> GaussianVector:
        """The distribution of y = A x + b + ε, ε ~ N(0, noise): N(Aμ + b, A Σ Aᵀ + noise).

        A is (m, n), or (n,) for one number; b is (m,) or a number; noise is a covariance (m, m), variances
        (m,), or one variance for all. Averaging N(x|a, A) over a ~ N(b, B) (B.24) is ``GaussianVector(b,
        B).affine(I, noise=A)``.
        """
        A = self._map(A)
        moved = _from_root(A @ self.mean + b, A @ self.factor.root, np.abs(A) @ self.factor.row_sizes)
        return GaussianVector(moved.mean, moved.covariance + _covariance(noise, len(A)), moved.floor)

    def joint(self, A: ArrayLike, b: ArrayLike = 0.0, noise: ArrayLike = 0.0) -> GaussianVector:
        """The distribution of x and y = A x + b + ε stacked, x first; arguments as for `affine`."""
        A = self._map(A)
        m, n = A.shape
        both = np.vstack([np.eye(n), A])
        spread = np.zeros((n + m, n + m))
        spread[n:, n:] = _covariance(noise, m)
        return self.affine(both, np.concatenate([np.zeros(n), np.broadcast_to(b, (m,))]), spread)

    def update(
        self, y: ArrayLike, A: ArrayLike, b: ArrayLike = 0.0, noise: ArrayLike = 0.0
    ) -> tuple[GaussianVector, float]:
        """Bayes' rule for a linear observation: x given y = A x + b + ε, and the log evidence log p(y).

        Covariance (Σ⁻¹ + Aᵀ N⁻¹ A)⁻¹ and mean C (Aᵀ N⁻¹ (y − b) + Σ⁻¹ μ) with N = noise (B.20), computed from
        the gain Σ Aᵀ (A Σ Aᵀ + N)⁻¹, so that Σ and N may be singular; arguments as for `affine`.
        """
        A = self._map(A)
        predicted = self.affine(A, b, noise)
        y = np.broadcast_to(np.asarray(y, dtype=float), predicted.mean.shape)
        residual = y - predicted.mean
        predicted._require(residual, "the observation")
        F, G = self.factor.root, semidefinite_factor(_covariance(noise, len(A))).root
        gain = F @ predicted.factor.solve(A @ F).T
        root = np.hstack([F - gain @ (A @ F), gain @ G])
        size = self.factor.row_sizes + np.abs(gain) @ (np.abs(A) @ self.factor.row_sizes)
        return _from_root(self.mean + gain @ residual, root, size), float(predicted.log_prob(y))

    def log_prob(self, x: ArrayLike) -> np.ndarray:
        """log density at x (..., n), one number per leading index;
        −inf off the support of a singular normal.
        """
        x = np.atleast_1d(np.asarray(x, dtype=float))
        if x.shape[-1] != self.dim:
            raise ValueError(f"the last axis of x must have {self.dim} coordinates; x has shape {x.shape}")
        residual = (x - self.mean).reshape(-1, self.dim).T
        mahalanobis = np.sum(self.factor.whiten(residual) ** 2, axis=0)
        density = -0.5 * (mahalanobis + self.log_determinant + self.rank * LOG_2PI)
        return np.where(self._possible(residual), density, -np.inf).reshape(x.shape[:-1])

    def sample(
        self, size: int | tuple[int, ...], seed: int | np.random.Generator, jitter: float = 0.0
    ) -> np.ndarray:
        """Draws μ + F u, u ~ N(0, I), F Fᵀ = covariance: shape (size, n), or (n,) for ``size=()`` (A.2,
        B.32).

        A singular covariance needs no ``jitter``: F then has one column per non-zero eigenvalue and draws
        stay on the support. A positive jitter ε adds independent noise of variance ε to every coordinate, as
        ε I does.
        """
        rng = np.random.default_rng(seed)
        shape = (size,) if isinstance(size, (int, np.integer)) else tuple(size)
        root = (self if jitter == 0 else self.affine(np.eye(self.dim), noise=jitter)).factor.root
        return self.mean + rng.standard_normal((*shape, root.shape[1])) @ root.T

    def entropy(self) -> float:
        """½ log |2πe Σ| in nats (A.20, B.29); of the density on the support if Σ is singular.
        It can be negative.
        """
        return 0.5 * (self.rank * (LOG_2PI + 1) + self.log_determinant)

    def kl(self, other: GaussianVector) -> float:
        """KL(self ‖ other) in nats: ½ Δᵀ Σ₂⁻¹ Δ − ½ log |Σ₁ Σ₂⁻¹| + ½ tr(Σ₁ Σ₂⁻¹ − I) (A.23).

        Infinite when the two do not live on the same subspace. (Kuss's B.31 prints the first term without its
        ½.)
        """
        if self.dim != other.dim:
            raise ValueError(f"KL between normals in {self.dim} and {other.dim} dimensions")
        target = other.factor
        difference = self.mean - other.mean
        same_support = self.rank == other.rank and bool(
            other._possible(difference) and target.contains(self.factor.root).all()
        )
        if not same_support:
            return float("inf")
        squares = np.sum(target.whiten(difference) ** 2) + np.sum(target.whiten(self.factor.root) ** 2)
        return max(0.0, 0.5 * float(squares - self.rank + other.log_determinant - self.log_determinant))

    def expect_linear(self, c: ArrayLike) -> np.ndarray:
        """E[cᵀx], or E[C x] for a matrix C (B.25)."""
        return np.asarray(c, dtype=float) @ self.mean

    def expect_quadratic(self, A: ArrayLike, c: ArrayLike = 0.0) -> float:
        """E[(x − c)ᵀ A (x − c)] = (μ − c)ᵀ A (μ − c) + tr(A Σ) (B.26)."""
        A = np.asarray(A, dtype=float)
        d = self.mean - c
        return float(d @ A @ d + np.sum(A * self.covariance.T))

    def expect_outer(self) -> np.ndarray:
        """E[x xᵀ] = Σ + μ μᵀ (B.27)."""
        return self.covariance + np.outer(self.mean, self.mean)

    def _map(self, A: ArrayLike) -> np.ndarray:
        matrix = np.atleast_2d(np.asarray(A, dtype=float))
        if matrix.ndim != 2 or matrix.shape[1] != self.dim:
            raise ValueError(
                f"a map of {self.dim} coordinates needs a matrix (m, {self.dim}), not {matrix.shape}"
            )
        return matrix

    def _possible(self, residual: np.ndarray) -> np.ndarray:
        size = np.abs(self.mean).max() + np.abs(residual).max(axis=0)
        return self.factor.contains(residual, 10 * self.dim * EPS * size)

    def _require(self, residual: np.ndarray, what: str) -> None:
        if not self._possible(residual):
            raise ValueError(
                f"{what} lies {float(self.factor.outside(residual)):.3g} away from the support of a normal "
                "of rank "
                f"{self.rank} in {self.dim} dimensions: it has density zero. Add noise, or give a value it "
                "can take"
            )


def condition_by_precision(
    mean: ArrayLike, precision: ArrayLike, index: Any, value: ArrayLike
) -> GaussianVector:
    """The other coordinates given those in ``index``, from the joint's precision matrix (A.6, second form).

    N(μ_x − P_xx⁻¹ P_xy (y − μ_y), P_xx⁻¹): only the block of the coordinates that stay is factored, which is
    the cheap way round when the precision is what is known (Markov models).
    """
    mean, precision = np.asarray(mean, dtype=float), np.asarray(precision, dtype=float)
    given, keep = _split(len(mean), index)
    shift = -precision[np.ix_(keep, given)] @ (np.broadcast_to(value, given.shape) - mean[given])
    centred = GaussianVector.from_natural(shift, precision[np.ix_(keep, keep)])
    return GaussianVector(mean[keep] + centred.mean, centred.covariance)


def _positions(n: int, index: Any) -> np.ndarray:
    positions = np.atleast_1d(np.arange(n)[list(index) if isinstance(index, tuple) else index])
    if len(positions) == 0 or len(np.unique(positions)) < len(positions):
        raise ValueError(f"index {index!r} must name at least one of the {n} coordinates, and none twice")
    return positions


def _split(n: int, index: Any) -> tuple[np.ndarray, np.ndarray]:
    given = _positions(n, index)
    keep = np.setdiff1d(np.arange(n), given)
    if len(keep) == 0:
        raise ValueError("conditioning on every coordinate leaves none; leave at least one out of `index`")
    return given, keep


def _from_root(mean: np.ndarray, root: np.ndarray, size: np.ndarray) -> GaussianVector:
    """N(mean, root rootᵀ), semi-definite whatever the rounding;
    ``size`` (n,) bounds the terms summed in each row.
    """
    return GaussianVector(mean, root @ root.T, (10 * len(mean) * EPS * size) ** 2)


def _covariance(noise: ArrayLike, m: int) -> np.ndarray:
    noise = np.asarray(noise, dtype=float)
    if noise.ndim < 2 and (noise < 0).any():
        raise ValueError(f"noise variances cannot be negative; got {noise.min():.3g}")
    return noise if noise.ndim == 2 else np.diag(np.broadcast_to(noise, (m,)))


def _symmetric(M: np.ndarray) -> np.ndarray:
    return (M + M.T) / 2


def _normalised(weights: ArrayLike, count: int) -> np.ndarray:
    w = np.asarray(weights, dtype=float)
    if w.shape != (count,) or not (np.isfinite(w).all() and (w >= 0).all() and w.sum() > 0):
        raise ValueError(f"weights must be {count} non-negative numbers, not all zero; got shape {w.shape}")
    return w / w.sum()
