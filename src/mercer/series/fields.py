"""Gaussian Markov random fields: sparse precisions on lattices and graphs (GPML B.5)."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from mercer.linalg.sparse import BlockCholesky, Elimination

COUNTS = {"once": 2.0, "twice": 4.0}


class MarkovField:
    """x ~ N(mean, precision^-1) at n sites, sparse precision (n, n): given all others a site depends on its
    neighbours only.

    The factor is block-tridiagonal in an order of small bandwidth b: n b^2 operations. See `lattice` and
    `graph` for fields made of neighbours' differences.

    >>> field = lattice((30, 40), alpha1=0.1, alpha2=1.0)
    >>> posterior = field.observe(y, noise_variance=0.5)      # NaN in y: not observed
    >>> posterior.mean, posterior.variances(), field.log_evidence(y, 0.5)
    """

    def __init__(self, precision: Any, mean: ArrayLike = 0.0):
        self.precision = sp.csr_array(precision, dtype=float)
        n = self.precision.shape[0]
        if self.precision.shape != (n, n) or n == 0:
            raise ValueError(f"the precision must be a square matrix, got shape {self.precision.shape}.")
        if not np.isfinite(self.precision.data).all():
            raise ValueError("the precision has entries that are not finite.")
        gap = abs(self.precision - self.precision.T)
        if gap.nnz and gap.max() > 1e-10 * abs(self.precision).max():
            raise ValueError("the precision is not symmetric.")
        self.precision.eliminate_zeros()
        self.mean = np.broadcast_to(np.asarray(mean, float), (n,)).copy()

    @property
    def n(self) -> int:
        """Number of sites."""
        return self.mean.size

    def neighbours(self, i: int) -> np.ndarray:
        """The sites that site i depends on given all others."""
        found = self.precision[[i]].tocoo().col
        return np.sort(found[found != i])

    def regression(self, i: int) -> tuple[np.ndarray, np.ndarray, float]:
        """E[x_i | rest] = mean_i + weights . (x - mean)[neighbours]: the neighbours, their weights,
        and the variance given them.
        """
        near = self.neighbours(i)
        own = float(self.precision[i, i])
        return near, -self.precision[[i]].toarray()[0, near] / own, 1.0 / own

    def conditional(self, i: int, x: ArrayLike) -> tuple[float, float]:
        """Mean and variance of x_i given all other entries of x (n,)."""
        near, weights, variance = self.regression(i)
        return float(self.mean[i] + weights @ (np.asarray(x, float) - self.mean)[near]), variance

    def log_density(self, x: ArrayLike) -> float:
        """log p(x) of x (n,)."""
        d = self._vector(x) - self.mean
        return 0.5 * (
            self._factor.logdet - float(d @ (self.precision @ d)) - self.n * float(np.log(2.0 * np.pi))
        )

    def sample(self, size: int = 1, seed: Any = None) -> np.ndarray:
        """`size` draws (size, n)."""
        factor = self._factor
        Z = np.random.default_rng(seed).standard_normal((self.n, size))
        LZ = np.empty_like(Z)  # has covariance `precision`, so that solving gives its inverse
        for p, (rows, L) in enumerate(zip(factor.blocks, factor.L, strict=True)):
            LZ[rows] = L @ Z[rows]
            if p:
                LZ[rows] += factor.M[p - 1] @ Z[factor.blocks[p - 1]]
        V = np.empty_like(Z)
        V[factor.plan.order] = LZ
        return self.mean + factor.solve(V).T

    def variances(self) -> np.ndarray:
        """Var x_i (n,), without the rest of the inverse."""
        plan = self._factor.plan
        diagonal = plan.i == plan.j
        out = np.empty(self.n)
        out[plan.i[diagonal]] = self._factor.inverse()[diagonal]
        return out

    def covariance(self, sites: ArrayLike) -> np.ndarray:
        """The columns of the covariance (n, m) for these sites (m,)."""
        sites = np.atleast_1d(sites)
        unit = np.zeros((self.n, sites.size))
        unit[sites, np.arange(sites.size)] = 1.0
        return self._factor.solve(unit)

    def condition(self, sites: ArrayLike, values: ArrayLike) -> tuple[np.ndarray, MarkovField]:
        """The other sites, and their field given the values at these sites."""
        sites, values = np.atleast_1d(sites), np.atleast_1d(np.asarray(values, float))
        rest = np.setdiff1d(np.arange(self.n), sites)
        if rest.size == 0 or sites.size != values.size or rest.size + sites.size != self.n:
            raise ValueError(
                "condition needs different sites, one value for each, and at least one site left."
            )
        own, across = self.precision[rest][:, rest], self.precision[rest][:, sites]
        field = MarkovField(own)
        shift = field._factor.solve((across @ (values - self.mean[sites]))[:, None])[:, 0]
        field.mean = self.mean[rest] - shift
        return rest, field

    def observe(self, y: ArrayLike, noise_variance: ArrayLike) -> MarkovField:
        """The posterior field given y (n,) = x + noise. NaN in y: not observed; one variance,
        or n of them.
        """
        weight, told = self._told(y, noise_variance)
        posterior = MarkovField(self.precision + sp.diags_array(weight))
        posterior.mean = self.mean + posterior._factor.solve(told[:, None])[:, 0]
        return posterior

    def log_evidence(self, y: ArrayLike, noise_variance: ArrayLike) -> float:
        """log p(y) of observations y (n,) = x + noise, NaN where there is none."""
        weight, told = self._told(y, noise_variance)
        posterior, seen = self.observe(y, noise_variance), weight > 0
        fit = float(np.sum(told[seen] ** 2 / weight[seen]) - told @ (posterior.mean - self.mean))
        logdet = (
            posterior._factor.logdet - self._factor.logdet + float(np.sum(np.log(2.0 * np.pi / weight[seen])))
        )
        return -0.5 * (fit + logdet)

    def _told(self, y, noise_variance) -> tuple[np.ndarray, np.ndarray]:
        """1 / noise variance, and that times y - mean; zero where nothing was observed."""
        y = self._vector(y)
        noise = np.broadcast_to(np.asarray(noise_variance, float), (self.n,))
        seen = ~np.isnan(y)
        if not (noise[seen] > 0).all():
            raise ValueError("noise_variance must be positive; for exact values use condition.")
        weight = np.divide(1.0, noise, out=np.zeros(self.n), where=seen)
        return weight, np.where(seen, weight * (np.where(seen, y, 0.0) - self.mean), 0.0)

    @functools.cached_property
    def _factor(self) -> BlockCholesky:
        half = sp.triu(self.precision, format="coo")
        missing = np.setdiff1d(np.arange(self.n), half.row[half.row == half.col])
        i, j = np.append(half.row, missing), np.append(half.col, missing)
        plan = Elimination(i, j, self.n)
        values = np.asarray(self.precision[plan.i, plan.j]).ravel()
        try:
            return plan.factor(values)
        except np.linalg.LinAlgError:
            raise ValueError(
                "the precision is not positive definite, so the field is not proper: give every connected "
                "part a positive alpha1, "
                "or observations."
            ) from None

    def _vector(self, x) -> np.ndarray:
        x = np.asarray(x, float)
        if x.shape != (self.n,):
            raise ValueError(f"the field has {self.n} sites, got an array of shape {x.shape}.")
        return x


def graph(adjacency: Any, alpha1: float, alpha2: float = 1.0, edges: str = "twice") -> MarkovField:
    """The field on a graph with log p(x) = -alpha1 sum_i x_i^2 - alpha2 sum over edges of w_ij (x_i - x_j)^2
    + constant (B.56).

    adjacency: symmetric (n, n), entries w_ij >= 0. edges: "twice", each edge is counted from both of its ends
    as the sum over neighbours in (B.56) does, so that the precision is 2 alpha1 I + 4 alpha2 L with the graph
    Laplacian L; or "once", 2 alpha1 I + 2 alpha2 L. alpha1 = 0 leaves the level of a connected part free:
    such a field must be observed before it is a density.
    """
    if edges not in COUNTS:
        raise ValueError(f'edges must be "once" or "twice", got {edges!r}.')
    W = sp.csr_array(adjacency, dtype=float)
    if W.shape[0] != W.shape[1] or (W.nnz and (W.data.min() < 0 or abs(W - W.T).max() > 0)):
        raise ValueError("adjacency must be a symmetric square matrix without negative entries.")
    if alpha1 < 0 or alpha2 < 0:
        raise ValueError(f"alpha1 and alpha2 must be zero or positive, got {alpha1} and {alpha2}.")
    W = W - sp.diags_array(W.diagonal())
    laplacian = sp.diags_array(W.sum(1)) - W
    return MarkovField(2.0 * alpha1 * sp.eye_array(W.shape[0]) + COUNTS[edges] * alpha2 * laplacian)


def lattice(
    shape: tuple[int, ...], alpha1: float, alpha2: float = 1.0, torus: bool = False, edges: str = "twice"
) -> MarkovField:
    """The field of (B.56) on a regular lattice: every site with its nearest neighbours along each axis, four
    of them in the plane.

    Sites are in the order of `numpy.ravel`. torus: the ends of each axis meet.
    """
    n = int(np.prod(shape))
    if n == 0 or any(m < 1 for m in shape):
        raise ValueError(f"every axis of a lattice has at least one site, got {shape}.")
    number = np.arange(n).reshape(shape)
    pairs = []
    for axis, m in enumerate(shape):
        ahead = np.roll(number, -1, axis)
        inside = (
            np.ones(shape, bool)
            if torus and m > 2
            else np.arange(m)[(slice(None), *[None] * (len(shape) - axis - 1))] < m - 1
        )
        keep = np.broadcast_to(inside, shape)
        pairs.append((number[keep], ahead[keep]))
    i, j = (np.concatenate(ends) for ends in zip(*pairs, strict=True))
    W = sp.coo_array((np.ones(i.size), (i, j)), shape=(n, n))
    return graph((W + W.T).tocsr(), alpha1, alpha2, edges)
