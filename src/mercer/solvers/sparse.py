"""The sparse solver: kernels of compact support (4.21), whose matrices are mostly zeros. Exact;
n b^2 flops for bandwidth b.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import csr_matrix
from scipy.spatial import cKDTree

from mercer.inputs import numeric
from mercer.kernels.algebra.columns import On
from mercer.kernels.algebra.sums import Product, Scale, Sum
from mercer.kernels.base import AbstractKernel
from mercer.kernels.families.compact import PiecewisePolynomial
from mercer.linalg import tiles
from mercer.linalg.cholesky import LADDER, NotPositiveDefinite
from mercer.linalg.sparse import PAIRS, Elimination, covariances, pull_covariances
from mercer.params import strip
from mercer.prior import AbstractPrior
from mercer.solvers.dense import WEAK
from mercer.solvers.host import (
    AbstractHoldingWorkspace,
    AbstractHostState,
    Columns,
    KernelBar,
    Pulled,
    conditional,
)
from mercer.solvers.protocol import (
    EVERYTHING,
    RATE,
    AbstractSolver,
    AbstractState,
    Cost,
    Diagnostics,
    Proposal,
    Sites,
    SolverError,
    condition_from_pivots,
)

BLOCK = 256  # columns of a matrix that is only ever seen in part
# of a value and gradient: for each pair inside the support, and times the cubes of the blocks
SECONDS, FLOPS = 1.5e-6, 10.0


@dataclasses.dataclass(frozen=True)
class SparseCholesky(AbstractSolver):
    """Exact, for `kernels.PiecewisePolynomial`, its products with any kernel, and sums of such: covariance
    zero beyond a distance.

    memory: bytes a factor may take. Length-scales decide that: where they may grow while learning, bound
    them.
    bandwidth: for `cost` only; each factorisation finds its own.

    Cheap where the support holds few data or the inputs have one column. The log evidence and its gradient
    cost n b^2 flops for bandwidth b; derivatives of variances at the data (leave-one-out objectives) n^2 b.

    >>> kernel = kernels.PiecewisePolynomial(mercer.param(0.1, bounds=(0.01, 0.3)), q=2)
    >>> GPRegressor(kernel, solver=SparseCholesky()).fit(X, y)
    """

    memory: float = 4e9
    bandwidth: int | None = None

    offers: ClassVar[frozenset[str]] = frozenset({"variance", "logdet", "sample", "full", "exact"})

    @classmethod
    def propose(cls, task: Any) -> Iterable[Proposal]:
        if (
            task.several
            or task.X.dtype == object
            or _support(task.kernel, task.X[:2], task.X[:2], np.inf) is None
        ):
            return []
        try:
            plan = elimination(task.kernel, task.X, cls.memory)
        except SolverError:  # says that it would not fit
            return []
        pairs, size = plan.i.size, np.diff(plan.edges).astype(float)
        seconds = task.rounds * (SECONDS * pairs + FLOPS * float(np.sum(size**3)) / RATE)
        return [
            Proposal(
                cls(),
                seconds,
                3.0 * plan.bytes + 100.0 * pairs,
                0.0,
                f"exact, {pairs:,} pairs inside the support",
            )
        ]

    def workspace(self, prior: Any, X: np.ndarray) -> SparseWorkspace:
        if isinstance(prior, tuple):
            raise SolverError("SparseCholesky works with one latent function; use solver='dense'.")
        return SparseWorkspace(self, prior, X)

    def factor(self, prior: Any, X: np.ndarray, sites: Sites, workspace: Any = None) -> AbstractState:
        return SparseState(prior, X, sites, workspace or SparseWorkspace(self, prior, X))

    def cost(self, n: int, d: int, L: int = 1) -> Cost:
        b = self.bandwidth or max(1, round(n ** (1 - 1 / d)))
        return Cost(flops=L * n * b * (7 * b / 3 + 2 * d + 20), bytes=90.0 * L * n * b)


class SparseWorkspace(AbstractHoldingWorkspace):
    """The inputs, and the covariances of the prior that is held."""

    def __init__(self, solver: SparseCholesky, prior: Any, X: np.ndarray):
        self.solver, self.X, self.columns, self.encoded = solver, X, Columns(X), prior.kernel.encode(X)

    def compute(self, prior: AbstractPrior) -> Gram:
        """The covariances within the support."""
        return Gram(strip(prior.kernel), self.X, self.encoded, self.solver.memory)


class Gram:
    """The covariances `values` at the pairs inside the support, the sparse matrix K of them,
    and how to eliminate.
    """

    def __init__(self, kernel: AbstractKernel, X: np.ndarray, encoded: Any, memory: float):
        self.elimination = elimination(kernel, X, memory)
        self.pairs = Pairs(kernel, encoded, self.elimination.i, self.elimination.j, len(X))
        self.values, self.K = self.pairs.values, self.pairs.K


class Pairs:
    """The covariances `values` at pairs i <= j, and the sparse symmetric matrix K that has them and zeros."""

    def __init__(self, kernel: AbstractKernel, encoded: Any, i: np.ndarray, j: np.ndarray, n: int):
        self.kernel, self.encoded, self.i, self.j = kernel, encoded, i, j
        self.values = covariances(kernel, encoded, encoded, i, j)
        half = csr_matrix((np.where(i == j, 0.5, 1.0) * self.values, (i, j)), shape=(n, n))
        self.K = (half + half.T).tocsr()

    @classmethod
    def inside(cls, kernel: AbstractKernel, X: np.ndarray, encoded: Any, memory: float) -> Pairs | None:
        """Those inside the support; None where the kernel has none,
        or they would take more than `memory` bytes.
        """
        try:
            pattern = None if X.dtype == object else _support(kernel, X, X, memory)
        except SolverError:
            return None
        if pattern is None:
            return None
        pattern = pattern.tocoo()
        upper = pattern.row <= pattern.col
        return cls(kernel, encoded, pattern.row[upper], pattern.col[upper], len(X))

    def pull(self, bar: np.ndarray, inputs: bool = False) -> tuple[Any, Any]:
        """Cotangents of the kernel (and of the inputs) for a symmetric cotangent of K, given at the pairs."""
        return pull_covariances(
            self.kernel, self.encoded, self.i, self.j, np.where(self.i == self.j, 1.0, 2.0) * bar, inputs
        )


class SparseState(AbstractHostState):
    """B = I + W^1/2 K W^1/2 factored in block-tridiagonal form; R = W^1/2 B^-1 W^1/2."""

    pulls = EVERYTHING
    who = "SparseCholesky"

    def __init__(self, prior: AbstractPrior, X: np.ndarray, sites: Sites, workspace: SparseWorkspace):
        super().__init__(prior, X, sites, workspace.columns)
        self.kernel, self.encoded = strip(prior.kernel), workspace.encoded
        gram = workspace.known(prior)
        self.pairs, self.K, self.i, self.j = gram.pairs, gram.K, gram.elimination.i, gram.elimination.j
        self.memory = workspace.solver.memory
        self.root = np.sqrt(self.precision)
        self.jitter = self._factor(gram)
        self.logdet = self.factor.logdet
        self.notes: tuple[str, ...] = ()
        if len(X) > 1000 and gram.elimination.widest > 0.5 * len(X):
            share = gram.K.nnz / len(X) ** 2
            self.notes = (
                f"the support of the kernel holds {share:.0%} of all pairs: solver='dense' would be faster",
            )

    def _factor(self, gram: Gram) -> float:
        own = self.i == self.j
        B = self.root[self.i] * gram.values * self.root[self.j] + own
        scale = float(B[own].mean())
        for relative in LADDER if np.isfinite(B).all() else ():
            try:
                self.factor = gram.elimination.factor(B + relative * scale * own)
            except np.linalg.LinAlgError:
                continue
            return relative * scale
        raise NotPositiveDefinite(
            "the sparse covariance matrix is not positive definite even with jitter: a hyperparameter is "
            "extreme, or rows are "
            "duplicated with (almost) no noise. Remedies: a larger noise_variance, bounds on the "
            "hyperparameters."
        )

    @property
    def pivots(self) -> np.ndarray:
        """The diagonal of the factor of B (n,)."""
        return np.concatenate([np.diag(L) for L in self.factor.L])

    def diagnostics(self) -> Diagnostics:
        condition = condition_from_pivots(self.pivots)
        return Diagnostics(condition, "B = I + W^1/2 K W^1/2", self.jitter, notes=self.notes)

    def apply(self, V: np.ndarray) -> np.ndarray:
        return self.root[:, None] * self.factor.solve(self.root[:, None] * V)

    def times_K(self, V: np.ndarray) -> np.ndarray:
        return self.K @ V

    @functools.cached_property
    def _inverse(self) -> np.ndarray:
        """B^-1 at the pairs."""
        return self.factor.inverse()

    def kappa(self) -> np.ndarray:
        own = self.i == self.j
        out = np.empty(self.root.size)
        out[self.i[own]] = self._inverse[own]
        return self.precision * out

    def variances(self) -> np.ndarray:
        prior, W = self.K.diagonal(), self.precision
        safe = np.where(W > 0, W, 1.0)
        out = (1.0 - self.kappa() / safe) / safe
        weak = np.flatnonzero(W * prior < WEAK)  # here the site says little and the line above loses digits
        out[weak] = prior[weak] - self._explained(self.K[weak])
        return out

    def _explained(self, K) -> np.ndarray:
        """diag(K_* R K_*') for K_* sparse (m, n), in blocks."""
        out = np.empty(K.shape[0])
        for start in range(0, K.shape[0], BLOCK):
            half = self._half(K[start : start + BLOCK])
            out[start : start + BLOCK] = np.einsum("ij,ij->j", half, half)
        return out

    def _half(self, K):
        return self.factor.forward(self.root[:, None] * K.toarray().T)

    # -- predictions -----------------------------------------------------------------------------------------

    def _cross(self, Xs):
        """K(Xs, X), sparse."""
        pattern = support(self.kernel, Xs, self.X, self.memory).tocoo()
        values = covariances(self.kernel, self.kernel.encode(Xs), self.encoded, pattern.row, pattern.col)
        return csr_matrix((values, (pattern.row, pattern.col)), shape=pattern.shape)

    def cross(self, Xs: np.ndarray, V: np.ndarray) -> np.ndarray:
        return self._cross(Xs) @ V

    def predict(
        self, Xs: np.ndarray, full: bool = False, variance: bool = True
    ) -> tuple[np.ndarray, np.ndarray | None]:
        K = self._cross(Xs)
        mean = (np.asarray(self.prior.mean.value(Xs), float) + K @ self.alpha)[:, None]
        if not variance:
            return mean, None
        test = self.kernel.encode(Xs)
        if full:
            return mean, conditional(tiles.matrix(self.kernel, test, test), self._half(K))
        prior = tiles.diagonal(self.kernel, tiles.Panels(test, tiles.tile_size(Xs.shape[0])))
        return mean, np.maximum(prior - self._explained(K), 0.0)[:, None]

    # -- cotangents ------------------------------------------------------------------------------------------

    def _blocks(self):
        """Column numbers, a block at a time."""
        n = self.root.size
        return np.split(np.arange(n), range(BLOCK, n, BLOCK))

    def _R(self, columns):
        """R[:, columns]."""
        unit = np.zeros((self.root.size, columns.size))
        unit[columns, np.arange(columns.size)] = 1.0
        return self.apply(unit)

    def _N(self, columns):
        """N[:, columns], N = I - R K."""
        out = -self.apply(self.K[:, columns].toarray())
        out[columns, np.arange(columns.size)] += 1.0
        return out

    def weighted_squares(self, k: np.ndarray | None, v: np.ndarray | None) -> np.ndarray:
        out = np.zeros(self.root.size)
        for columns in self._blocks():
            N = self._N(columns)
            if k is not None:
                out[columns] += k @ N**2
            if v is not None:
                out[columns] -= v @ (self.K @ N) ** 2
        return out

    def pull_kernel(self, bar: KernelBar, inputs: bool) -> Pulled:
        i, j = self.i, self.j
        at_pairs = bar.coefficient * self.root[i] * self._inverse * self.root[j]
        for p, q in zip(bar.P.T, bar.Q.T, strict=True):
            at_pairs += p[i] * q[j]
        for weights, matrix in ((None if bar.kappa is None else -bar.kappa, self._R), (bar.var, self._N)):
            if weights is not None:
                for columns in self._blocks():
                    at_pairs += _squares(matrix(columns), weights[columns], i, j)
        return Pulled(*self.pairs.pull(at_pairs, inputs))


def _squares(F: np.ndarray, weights: np.ndarray, i: np.ndarray, j: np.ndarray) -> np.ndarray:
    """F diag(weights) F' at the pairs."""
    scaled, out = F * weights, np.empty(i.size)
    for start in range(0, i.size, PAIRS[-1]):
        part = slice(start, start + PAIRS[-1])
        out[part] = np.einsum("pl,pl->p", scaled[i[part]], F[j[part]])
    return out


def elimination(kernel: AbstractKernel, X: np.ndarray, memory: float) -> Elimination:
    """The order and the blocks in which K(X, X) is factored;
    SolverError where a factor takes more than `memory` bytes.
    """
    pattern = support(kernel, X, X, memory).tocoo()
    upper = pattern.row <= pattern.col
    plan = Elimination(pattern.row[upper], pattern.col[upper], len(X))
    if plan.bytes > memory:
        raise SolverError(_too_much(f"a factor would take {plan.bytes:.2g}", memory))
    return plan


def support(kernel: AbstractKernel, X: np.ndarray, X2: np.ndarray, memory: float = np.inf) -> csr_matrix:
    """Where K(X, X2) may differ from zero: a sparse matrix of ones. `memory`: bytes it may take."""
    pattern = _support(kernel, X, X2, memory)
    if pattern is None:
        raise SolverError(
            "SparseCholesky needs a kernel of compact support, such as PiecewisePolynomial, a product with "
            "one, or a sum of such; "
            f"{kernel} is not. Use solver='dense', or one of the approximations for large data."
        )
    return pattern.tocsr()


def _support(kernel, X, X2, memory):
    match kernel:
        case PiecewisePolynomial():
            trees = [cKDTree(np.asarray(kernel.scale(kernel.encode(numeric(x))))) for x in (X, X2)]
            size = 40.0 * trees[0].count_neighbors(trees[1], 1.0)
            if size > memory:
                raise SolverError(
                    _too_much(f"the pairs inside the kernel's support would take {size:.2g}", memory)
                )
            pairs = trees[0].sparse_distance_matrix(trees[1], 1.0, output_type="ndarray")
            return csr_matrix((np.ones(len(pairs)), (pairs["i"], pairs["j"])), shape=(trees[0].n, trees[1].n))
        case On():
            columns = list(kernel.columns)
            return _support(kernel.kernel, X[:, columns], X2[:, columns], memory)
        case Scale():
            return _support(kernel.kernel, X, X2, memory)
        case Sum():
            parts = [_support(term, X, X2, memory) for term in kernel.terms]
            return (
                None
                if any(part is None for part in parts)
                else functools.reduce(lambda a, b: a.maximum(b), parts)
            )
        case Product():
            parts = [
                part for part in (_support(f, X, X2, memory) for f in kernel.factors) if part is not None
            ]
            return functools.reduce(lambda a, b: a.multiply(b), parts) if parts else None
    return None


def _too_much(what: str, memory: float) -> str:
    return (
        f"{what} bytes, more than SparseCholesky.memory = {memory:.2g}: the length-scale is too long for "
        "these data. Bound it, "
        "raise `memory`, or use one of the approximations for large data."
    )
