"""The dense solver: one n x n buffer, filled tile by tile, factored by LAPACK. n^3/3 flops to factor,
2 n^3/3 for a gradient.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, ClassVar

import jax
import numpy as np

from mercer.linalg import blocked, lapack, memory, tiles
from mercer.linalg.cholesky import factor, invert
from mercer.params import strip
from mercer.solvers.coupled import CoupledState, CoupledWorkspace
from mercer.solvers.host import AbstractHostState, Columns
from mercer.solvers.protocol import (
    AbstractSolver,
    AbstractWorkspace,
    Cost,
    Diagnostics,
    Proposal,
    Sites,
    SolverError,
    condition_from_pivots,
    is_coupled,
)

WEAK = 1e-4  # below this W k(x, x) the variance at a datum is computed as if it were a test input
PREDICT_BYTES = 256 * 2**20  # working memory of a blocked prediction


@dataclasses.dataclass(frozen=True)
class Dense(AbstractSolver):
    """Exact Gaussian algebra with a Cholesky factor.

    backend: "lapack" (tiles on the host: the fast way on a CPU), "jax" (pure JAX, for use inside jit and on
    accelerators) or "auto":
    "jax" if any leaf is traced, else "lapack".
    """

    backend: str = "auto"

    offers: ClassVar[frozenset[str]] = frozenset(
        {"variance", "logdet", "sample", "full", "exact", "blocks", "indefinite"}
    )

    def __post_init__(self):
        if self.backend not in ("auto", "lapack", "jax"):
            raise ValueError(f"Dense.backend must be 'auto', 'lapack' or 'jax', got {self.backend!r}.")

    @classmethod
    def propose(cls, task):
        n = task.n
        rounds = 1 if task.gaussian else 10  # factorisations until the sites are found
        seconds = 3e-3 + rounds * (n**3 / task.rate + 2e-8 * n**2)
        return [Proposal(cls(), seconds, 8.0 * n**2 * (1.1 if task.gaussian else 3.0), 0.0, "exact, n^3")]

    def workspace(self, prior, X):
        return CoupledWorkspace(self, prior, X) if isinstance(prior, tuple) else Workspace(prior, X)

    def factor(self, prior, X, sites, workspace=None):
        traced = any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves((strip(prior), X, sites)))
        if self.backend == "jax" or traced:
            if self.backend == "lapack":
                raise SolverError(
                    "backend 'lapack' runs on the host and cannot be traced: use Dense(backend='jax')."
                )
            from mercer.solvers.dense_jax import JaxState

            return JaxState(prior, X, sites)
        if is_coupled(sites):
            return CoupledState(self, prior, X, sites, workspace)
        return DenseState(prior, X, sites, workspace)

    def cost(self, n, d, L=1):
        return Cost(flops=L * (n**3 / 3 + n**2 * (2 * d + 20)), bytes=8.0 * L * n**2)


def square(n: int, dtype: Any = np.float64) -> np.ndarray:
    """A buffer for an n x n matrix, if there is room for it."""
    need, there = (
        np.dtype(dtype).itemsize * float(n) ** 2,
        memory.available() if n >= blocked.FROM else np.inf,
    )
    if need > there:
        raise SolverError(
            f"solver 'dense' needs {memory.text(need)} for {n:,} data, but {memory.text(there)} are free: "
            "use solvers.VFE(m=1024) "
            f"({memory.text(8.0 * n * 1024)}), solvers.Vecchia() for inputs of few columns, or solver='auto'."
        )
    return np.empty((n, n), dtype)


class Workspace(AbstractWorkspace):
    """Encoded inputs cut into tiles, and one buffer, reused while X stays the same; with `hold`,
    the matrix K in a second one.
    """

    def __init__(self, prior, X):
        self.memory: dict[str, Any] = {}
        self.held: Any = None
        self.gram: np.ndarray | None = None
        self.X, self.columns = X, Columns(X)
        self.encoded = prior.kernel.encode(X)
        self.panels = tiles.Panels(self.encoded, tiles.tile_size(X.shape[0]))
        self._buffer: np.ndarray | None = None
        self._scratch: np.ndarray | None = None

    def buffer(self) -> np.ndarray:
        if self._buffer is None:
            self._buffer = square(self.X.shape[0])
        return self._buffer

    def scratch(self) -> np.ndarray:
        """A second buffer."""
        if self._scratch is None:
            self._scratch = square(self.X.shape[0])
        return self._scratch

    def hold(self, prior):
        if self.gram is None:
            self.gram = square(self.X.shape[0])
        tiles.upper(strip(prior.kernel), self.panels, np.ones(self.X.shape[0]), self.gram)
        lapack.symmetrise(self.gram)
        self.held = prior.kernel

    def share(self, other: Workspace) -> None:
        """Use the matrix that another workspace holds."""
        self.gram, self.held = other.gram, other.held


class DenseState(AbstractHostState):
    """B = I + W^1/2 K W^1/2 factored; R = W^1/2 B^-1 W^1/2.
    A State made with a workspace is valid until the next one is.
    """

    def __init__(self, prior, X, sites: Sites, workspace: Workspace | None = None):
        own = workspace is None
        workspace = workspace or Workspace(prior, X)
        super().__init__(prior, X, sites, workspace.columns, "dense")
        self.kernel = strip(prior.kernel)
        self.panels, self.encoded = workspace.panels, workspace.encoded
        self.gram = workspace.gram if workspace.held is prior.kernel else None
        self.transient = not own
        self.scratch = None if own else workspace.scratch
        self.root = np.sqrt(self.precision)
        self.U: np.ndarray | None = square(X.shape[0]) if own else workspace.buffer()
        self._inverse: np.ndarray | None = None
        self.jitter = factor(self._fill, self.U)
        self.pivots = np.diagonal(self.U).copy()
        self.logdet = 2.0 * float(np.sum(np.log(self.pivots)))

    def _fill(self, buffer: np.ndarray) -> None:
        if self.gram is None:
            tiles.upper(self.kernel, self.panels, self.root, buffer)
        else:
            lapack.scale_upper(self.gram, self.root, buffer)
        np.einsum("ii->i", buffer)[:] += 1.0

    def _factor(self) -> np.ndarray:
        if self.U is None:
            raise RuntimeError("this State was spent by pullback(consume=True); factor again.")
        return self.U

    def diagnostics(self) -> Diagnostics:
        condition = condition_from_pivots(self.pivots)
        return Diagnostics(condition, "B = I + W^1/2 K W^1/2", self.jitter, notes=self.notes)

    def apply(self, V):
        Y = np.asfortranarray(self.root[:, None] * V)
        U = self._factor()
        lapack.solve_lower(U, lapack.solve_lower(U, Y), transpose=True)
        return self.root[:, None] * Y

    def times_K(self, V):
        return self._product(self.panels, V) if self.gram is None else lapack.matmul(self.gram, V)

    def rows_times_K(self, rows, V):
        """K[rows] V."""
        if self.gram is not None:
            return lapack.matmul(self.gram[rows], V)
        return self._product(self._some(rows), V)

    def downdate(self, rows, P):
        if self.gram is None:
            K = np.empty((rows.shape[0], self.centre.shape[0]))
            tiles.rectangle(self.kernel, self._some(rows), self.panels, K)
        else:
            K = self.gram[rows]
        K *= P[:, None]
        M = -P * K[:, rows]
        K *= self.root
        V = lapack.solve_lower(self._factor(), K.T)
        M += lapack.matmul(V.T, V)  # P'K R K P
        G = lapack.solve_lower(self._factor(), V, transpose=True)
        G *= -self.root[:, None]
        G[rows, np.arange(rows.shape[0])] += P
        return G, M

    def cross(self, Xs, V):
        return self._product(self._test_panels(Xs), V)

    def _product(self, panels, V):
        """K(rows of panels, X) V; wide V by blocks of K, so that nothing is compiled for its width."""
        if V.shape[1] <= 32:
            return tiles.times(self.kernel, panels, self.panels, V)
        return np.concatenate([lapack.matmul(K, V) for _, K in self._rectangles(panels)])

    def prior_variance(self):
        """k(x, x) at the data (n,)."""
        return tiles.diagonal(self.kernel, self.panels) if self.gram is None else np.diag(self.gram).copy()

    def _some(self, rows: np.ndarray) -> tiles.Panels:
        return tiles.Panels(jax.tree.map(lambda a: a[rows], self.encoded), self.panels.size)

    def _test_panels(self, Xs):
        return tiles.Panels(self.kernel.encode(Xs), self.panels.size)

    # -- the inverse: computed once for kappa, kept only during a pullback -----------------------------------

    def prepare_inverse(self, consume):
        if self._inverse is None:
            self._inverse = self._factor() if consume else self._factor().copy()
            if consume:
                self.U = None
            invert(self._inverse)
        self._kappa = self.precision * np.einsum("ii->i", self._inverse)

    @functools.cached_property
    def _kappa(self) -> np.ndarray:
        inverse = self._factor().copy()
        invert(inverse)
        if self.transient:  # a pullback is likely to follow
            self._inverse = inverse
        return self.precision * np.einsum("ii->i", inverse)

    def kappa(self):
        return self._kappa

    def variances(self):
        return self._variances

    @functools.cached_property
    def _variances(self) -> np.ndarray:
        kappa, W = self.kappa(), self.precision
        safe = np.where(W > 0, W, 1.0)
        by_dual = (1.0 - kappa / safe) / safe
        prior = self.prior_variance()
        weak = np.flatnonzero(W * prior < WEAK)  # here the site says little and by_dual loses digits
        if weak.size:
            by_dual[weak] = prior[weak] - self._explained(self._some(weak), weak.size)
        return by_dual

    def _explained(self, panels, m: int) -> np.ndarray:
        """diag(K_* R K_*') for the rows of `panels`, in blocks."""
        out = np.empty(m)
        for rows, K in self._blocks(panels):
            out[rows] = np.einsum("ij,ij->j", K, K)
        return out

    def _blocks(self, panels):
        """L^-1 W^1/2 K(X, Xs) for blocks of test rows, Fortran-ordered (n, block)."""
        for rows, block in self._rectangles(panels):
            block *= self.root
            yield rows, lapack.solve_lower(self._factor(), block.T)

    def _rectangles(self, panels):
        """K(Xs, X) for blocks of test rows (block, n)."""
        n, size = self.centre.shape[0], panels.size
        per = max(1, int(PREDICT_BYTES / (8.0 * n * size)))
        for first in range(0, len(panels.tiles), per):
            part = panels.part(first, first + per)
            block = np.empty((part.n, n))
            tiles.rectangle(self.kernel, part, self.panels, block)
            yield slice(first * size, first * size + part.n), block

    # -- predictions -----------------------------------------------------------------------------------------

    def predict(self, Xs, full=False, variance=True):
        panels = self._test_panels(Xs)
        m = np.asarray(self.prior.mean.value(Xs), float)
        if not variance or not full:
            mean = m + tiles.times(self.kernel, panels, self.panels, self.alpha[:, None])[:, 0]
            if not variance:
                return mean[:, None], None
            prior = tiles.diagonal(self.kernel, panels)
            return mean[:, None], np.maximum(prior - self._explained(panels, Xs.shape[0]), 0.0)[:, None]
        K = np.empty((Xs.shape[0], self.centre.shape[0]))
        tiles.rectangle(self.kernel, panels, self.panels, K)
        mean = m + K @ self.alpha
        V = lapack.solve_lower(self._factor(), (K * self.root).T)
        covariance = np.empty((Xs.shape[0],) * 2)
        tiles.rectangle(self.kernel, panels, panels, covariance)
        covariance -= V.T @ V
        return mean[:, None], covariance

    # -- cotangents ------------------------------------------------------------------------------------------

    def _full_R(self) -> np.ndarray:
        assert self._inverse is not None
        R = lapack.symmetrise(self._inverse.copy())
        R *= self.root[:, None]
        R *= self.root[None, :]
        return R

    def _full_N(self, R: np.ndarray) -> np.ndarray:
        """N = I - R K; where W > 0 its column is R / W."""
        if (self.precision > 0).all():
            return R / self.precision[None, :]
        K = np.empty_like(R)
        tiles.rectangle(self.kernel, self.panels, self.panels, K)
        return np.eye(R.shape[0]) - lapack.matmul(R, K)

    def resolvent(self, reuse=False):
        inverse, self._inverse = self._inverse, None
        if inverse is None:
            inverse = self.scratch() if reuse and self.scratch is not None else np.empty_like(self._factor())
            np.copyto(inverse, self._factor())
            invert(inverse)
        self._kappa = self.precision * np.einsum("ii->i", inverse)
        lapack.scale_upper(inverse, self.root, inverse)
        return lapack.symmetrise(inverse)

    def pull_matrix(self, bar, P, Q, inputs):
        return tiles.pull_symmetric(self.kernel, self.panels, 1.0, bar, np.ones_like(self.root), P, Q, inputs)

    def weighted_squares(self, k, v):
        R = self._full_R()
        N = self._full_N(R)
        out = np.zeros(R.shape[0])
        if k is not None:
            out += k @ (N * N)
        if v is not None:
            K = np.empty_like(R)
            tiles.rectangle(self.kernel, self.panels, self.panels, K)
            A = lapack.matmul(K, N)
            out -= (A * A) @ v
        return out

    def pull_kernel(self, coefficient, P, Q, k, v, inputs):
        inverse, scale = self._inverse, self.root
        assert inverse is not None
        if k is not None or v is not None:
            R = self._full_R()
            bar = coefficient * R
            if k is not None:
                bar -= lapack.matmul(R * k, R)
            if v is not None:
                N = self._full_N(R)
                bar += lapack.matmul(N * v, N.T)
            inverse, scale, coefficient = bar, np.ones_like(scale), 1.0
        out = tiles.pull_symmetric(self.kernel, self.panels, coefficient, inverse, scale, P, Q, inputs)
        self._inverse = None
        return out
