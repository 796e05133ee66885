"""The dense solver: one n x n buffer, filled tile by tile, factored by LAPACK. n^3/3 flops to factor,
2 n^3/3 for a gradient.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

import jax
import numpy as np

from mercer.linalg import blocked, lapack, memory, tiles
from mercer.linalg.cholesky import factor, invert_factor, multiply_factor
from mercer.params import strip
from mercer.prior import AbstractPrior
from mercer.solvers.coupled import CoupledState, CoupledWorkspace
from mercer.solvers.host import (
    AbstractHostState,
    AbstractMatrixState,
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
    AbstractWorkspace,
    Cost,
    Diagnostics,
    MeanWeights,
    Proposal,
    Sites,
    SolverError,
    condition_from_pivots,
    is_coupled,
)

WEAK = 1e-4  # below this W k(x, x) the variance at a datum is computed as if it were a test input
PREDICT_BYTES = 16 * 2**20  # of covariances at a time in a prediction: the allocator keeps such blocks


@dataclasses.dataclass(frozen=True)
class Dense(AbstractSolver):
    """Exact Gaussian algebra with a Cholesky factor: n^3 / 3 operations, one n x n matrix.

    backend: "lapack" (tiles on the host: the fast way on a CPU), "jax" (pure JAX, for use inside jit and on
        accelerators) or "auto": "jax" if any leaf is traced, else "lapack"

    >>> mercer.GP(kernels.SE()).condition(X, y, noise_variance=0.1, solver=Dense("lapack")).mean(Xs)
    """

    backend: str = "auto"

    offers: ClassVar[frozenset[str]] = frozenset(
        {"variance", "logdet", "sample", "full", "exact", "blocks", "indefinite"}
    )

    def __post_init__(self) -> None:
        if self.backend not in ("auto", "lapack", "jax"):
            raise ValueError(f"Dense.backend must be 'auto', 'lapack' or 'jax', got {self.backend!r}.")

    @classmethod
    def propose(cls, task: Any) -> Iterable[Proposal]:
        n = task.n
        seconds = 3e-3 + task.rounds * (n**3 / RATE + 2e-8 * n**2)
        return [Proposal(cls(), seconds, 8.0 * n**2 * (1.1 if task.gaussian else 3.0), 0.0, "exact, n^3")]

    def workspace(self, prior: Any, X: np.ndarray) -> AbstractWorkspace:
        return CoupledWorkspace(self, prior, X) if isinstance(prior, tuple) else DenseWorkspace(prior, X)

    def factor(self, prior: Any, X: np.ndarray, sites: Sites, workspace: Any = None) -> AbstractState:
        traced = any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves((prior, X, sites)))
        if self.backend == "jax" or traced:
            if self.backend == "lapack":
                raise SolverError(
                    "backend 'lapack' runs on the host and cannot be traced: use Dense(backend='jax')."
                )
            from mercer.solvers.dense_jax import JaxState

            return JaxState(prior, X, sites)
        if is_coupled(sites):
            return CoupledState(DenseState, prior, X, sites, workspace)
        return DenseState(prior, X, sites, workspace)

    def one_matrix(self, n: int) -> bool:
        return self.backend != "jax"

    def check_room(self, n: int) -> None:
        check_square(n)

    def cost(self, n: int, d: int, L: int = 1) -> Cost:
        return Cost(flops=L * (n**3 / 3 + n**2 * (2 * d + 20)), bytes=8.0 * L * n**2)


def square(n: int, dtype: Any = np.float64) -> np.ndarray:
    """A buffer for an n x n matrix, if there is room for it."""
    check_square(n, dtype)
    return np.empty((n, n), dtype)


def check_square(n: int, dtype: Any = np.float64) -> None:
    """Refuse an n x n matrix that does not fit into memory."""
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


class DenseWorkspace(AbstractWorkspace):
    """Encoded inputs cut into tiles, and one buffer, reused while X stays the same; with `hold`,
    the matrix K in a second one (in double precision only).
    """

    def __init__(self, prior: AbstractPrior, X: np.ndarray, dtype: Any = np.float64):
        self.held: Any = None
        self.gram: np.ndarray | None = None
        self.X, self.columns, self.dtype = X, Columns(X), dtype
        self.encoded = prior.kernel.encode(X)
        self.panels = tiles.Panels(self.encoded, tiles.tile_size(X.shape[0]))
        self._buffer: np.ndarray | None = None
        self._scratch: np.ndarray | None = None

    def buffer(self) -> np.ndarray:
        if self._buffer is None:
            self._buffer = square(self.X.shape[0], self.dtype)
        return self._buffer

    def scratch(self) -> np.ndarray:
        """A second buffer."""
        if self._scratch is None:
            self._scratch = square(self.X.shape[0])
        return self._scratch

    def hold(self, prior: Any) -> None:
        if self.dtype != np.float64:
            return
        if self.gram is None:
            self.gram = square(self.X.shape[0])
        tiles.upper(strip(prior.kernel), self.panels, np.ones(self.X.shape[0]), self.gram)
        lapack.symmetrise(self.gram)
        self.held = prior.kernel

    def share(self, other: DenseWorkspace) -> None:
        """Use the matrix that another workspace holds."""
        self.gram, self.held = other.gram, other.held


class AbstractDenseState(AbstractHostState):
    """B = I + W^1/2 K W^1/2 factored, in double or single precision; R = W^1/2 B^-1 W^1/2.
    A State made with a workspace is valid until the next one is.

    Where W = 0 a row of B is that of I, and of R nothing: only the rows that sites tell of, `told`, are
    factored.
    """

    pulls = EVERYTHING

    def __init__(
        self, prior: AbstractPrior, X: np.ndarray, sites: Sites, workspace: DenseWorkspace, own: bool
    ):
        super().__init__(prior, X, sites, workspace.columns)
        self.kernel = strip(prior.kernel)
        self.panels, self.encoded = workspace.panels, workspace.encoded
        self.gram = workspace.gram if workspace.held is prior.kernel else None
        self.transient = not own
        self.scratch = None if own else workspace.scratch
        told = self.precision > 0
        self.told: slice | np.ndarray = slice(None) if told.all() else np.flatnonzero(told)
        self.root = np.sqrt(self.precision[self.told])
        m = self.root.shape[0]
        self.U: np.ndarray | None = workspace.buffer()[:m, :m]
        self._factor_inverse: np.ndarray | None = None
        self._inverse: np.ndarray | None = None
        self.jitter = factor(self._fill, self.U)
        self.pivots = np.ones(told.shape[0])
        self.pivots[self.told] = np.diagonal(self.U)
        self.logdet = 2.0 * float(np.sum(np.log(self.pivots)))

    def _fill(self, buffer: np.ndarray) -> None:
        """B in the upper triangle."""
        if self.gram is None:
            panels = self.panels if isinstance(self.told, slice) else self._some(self.told)
            tiles.upper(self.kernel, panels, self.root, buffer)
        else:
            lapack.scale_upper(self.columns_told(self.gram[self.told]), self.root, buffer)
        diagonal = np.einsum("ii->i", buffer)
        diagonal += 1.0
        self.check_size(diagonal)

    # -- what the precision decides --------------------------------------------------------------------------

    @abc.abstractmethod
    def check_size(self, diagonal: np.ndarray) -> None:
        """Refuse to factor a B whose diagonal is beyond the precision."""

    @abc.abstractmethod
    def half(self, K: np.ndarray) -> np.ndarray:
        """V = L^-1 W^1/2 K' (told, m) for covariances K (m, n), which may be overwritten."""

    # -- algebra ---------------------------------------------------------------------------------------------

    def spread(self, V: np.ndarray) -> np.ndarray:
        """What is told (told, ...) among zeros (n, ...)."""
        if isinstance(self.told, slice):
            return V
        out = np.zeros((self.precision.shape[0], *V.shape[1:]))
        out[self.told] = V
        return out

    def columns_told(self, K: np.ndarray) -> np.ndarray:
        """K (m, n) itself where all are told of, else a copy of these columns."""
        return K if isinstance(self.told, slice) else np.take(K, self.told, 1)

    def _spread_square(self, M: np.ndarray) -> np.ndarray:
        """The same for both sides of a matrix."""
        return M if isinstance(self.told, slice) else self.spread(self.spread(M.T).T)

    def factored(self) -> np.ndarray:
        """The factor of B in its upper triangle, of the rows that are told of."""
        if self.U is None:
            raise RuntimeError("this State was spent by pullback(consume=True); factor again.")
        return self.U

    def diagnostics(self) -> Diagnostics:
        condition = condition_from_pivots(self.pivots)
        return Diagnostics(condition, "B = I + W^1/2 K W^1/2", self.jitter, notes=self.notes)

    def times_K(self, V: np.ndarray) -> np.ndarray:
        return self._product(self.panels, V) if self.gram is None else lapack.matmul(self.gram, V)

    def cross(self, Xs: np.ndarray, V: np.ndarray) -> np.ndarray:
        return self._product(self._test_panels(Xs), V)

    def _product(self, panels: tiles.Panels, V: np.ndarray) -> np.ndarray:
        """K(rows of panels, X) V; wide V by blocks of K, so that nothing is compiled for its width."""
        if V.shape[1] <= 32:
            return tiles.times(self.kernel, panels, self.panels, V)
        return np.concatenate([lapack.matmul(K, V) for _, K in self._rectangles(panels)])

    def prior_variance(self) -> np.ndarray:
        """k(x, x) at the data (n,)."""
        return tiles.diagonal(self.kernel, self.panels) if self.gram is None else np.diag(self.gram).copy()

    def _some(self, rows: np.ndarray) -> tiles.Panels:
        return tiles.Panels(jax.tree.map(lambda a: a[rows], self.encoded), self.panels.size)

    def _test_panels(self, Xs: np.ndarray) -> tiles.Panels:
        return tiles.Panels.beside(self.panels, self.kernel.encode(Xs))

    # -- the inverse: kappa needs half of the work, the factor's inverse; the rest is done for a pullback ----

    def prepare_inverse(self, consume: bool) -> None:
        half, self._factor_inverse = self._factor_inverse, None
        if half is None:
            half = self.factored() if consume else self.factored().copy()
            if consume:
                self.U = None
            invert_factor(half)
        self._inverse = self._multiplied(half)

    def _multiplied(self, half: np.ndarray) -> np.ndarray:
        """B^-1 in its upper triangle, in place of the factor's inverse."""
        multiply_factor(half)
        self._kappa = self._kappa_of(np.einsum("ii->i", half))
        return half

    @functools.cached_property
    def _kappa(self) -> np.ndarray:
        half = self.factored().copy()
        invert_factor(half)
        if self.transient:  # a pullback is likely to follow
            self._factor_inverse = half
        return self._kappa_of(lapack.row_squares(half))

    def _kappa_of(self, diagonal: np.ndarray) -> np.ndarray:
        return self.spread(self.precision[self.told] * diagonal)

    def kappa(self) -> np.ndarray:
        return self._kappa

    def variances(self) -> np.ndarray:
        return self._variances

    @functools.cached_property
    def _variances(self) -> np.ndarray:
        kappa, W = self.kappa(), self.precision
        safe = np.where(W > 0, W, 1.0)
        by_dual = (1.0 - kappa / safe) / safe
        prior = self.prior_variance()
        weak = np.flatnonzero(W * prior < WEAK)  # here the site says little and by_dual loses digits
        if weak.size:
            by_dual[weak] = prior[weak] - self._explained_at(weak)
        return by_dual

    def _explained_at(self, rows: np.ndarray) -> np.ndarray:
        """diag(K R K) at some rows."""
        if self.gram is None:
            return self._explained(self._some(rows))
        parts = np.array_split(rows, -(-self.gram.itemsize * rows.size * self.gram.shape[0] // PREDICT_BYTES))
        return np.concatenate([self._squares(self.gram[part]) for part in parts])

    # -- predictions -----------------------------------------------------------------------------------------

    def predict(
        self, Xs: np.ndarray, full: bool = False, variance: bool = True
    ) -> tuple[np.ndarray, np.ndarray | None]:
        test = self._test_panels(Xs)
        m = np.asarray(self.prior.mean.value(Xs), float)
        if variance and full:
            K = tiles.between(self.kernel, test, self.panels)
            mean = m + K @ self.alpha
            return mean[:, None], conditional(tiles.between(self.kernel, test, test), self.half(K))
        if not variance:
            return (m + self._times_alpha(test))[:, None], None
        prior = tiles.diagonal(self.kernel, test)
        if tiles.few(test):  # one matrix serves both, multiplied as in `tiles.times`
            K = tiles.between(self.kernel, test, self.panels)
            mean, explained = (K @ self.alpha[:, None])[:, 0], self._squares(K)
        elif len(test.tiles) <= self._at_a_time(test):  # the same means, to the bit, as without variances
            mean, explained = self._times_alpha(test), self._explained(test)
        else:
            mean, explained = np.empty(test.n), np.empty(test.n)
            for rows, K in self._rectangles(test):
                mean[rows], explained[rows] = lapack.matmul(K, self.alpha[:, None])[:, 0], self._squares(K)
        return (m + mean)[:, None], np.maximum(prior - explained, 0.0)[:, None]

    def _times_alpha(self, test: tiles.Panels) -> np.ndarray:
        return tiles.times(self.kernel, test, self.panels, self.alpha[:, None])[:, 0]

    def mean_weights(self) -> MeanWeights:
        return MeanWeights(self.alpha[:, None])

    def _explained(self, panels: tiles.Panels) -> np.ndarray:
        """diag(K_* R K_*') (m,) for the rows of `panels`, in blocks."""
        out = np.empty(panels.n)
        for rows, K in self._rectangles(panels):
            out[rows] = self._squares(K)
        return out

    def _squares(self, K: np.ndarray) -> np.ndarray:
        """diag(K R K') of some rows of K, which are spent."""
        V = self.half(K)
        return np.einsum("ij,ij->j", V, V)

    def _at_a_time(self, panels: tiles.Panels) -> int:
        """Tiles of test rows whose covariances are held at a time."""
        return max(1, int(PREDICT_BYTES / (8.0 * self.centre.shape[0] * panels.size)))

    def _rectangles(self, panels: tiles.Panels) -> Iterator[tuple[slice, np.ndarray]]:
        """K(Xs, X) for blocks of test rows (block, n)."""
        per, size = self._at_a_time(panels), panels.size
        for first in range(0, len(panels.tiles), per):
            part = panels.part(first, first + per)
            rows = slice(first * size, first * size + part.n)
            yield rows, tiles.between(self.kernel, part, self.panels)

    # -- cotangents ------------------------------------------------------------------------------------------

    def _R(self) -> np.ndarray:
        assert self._inverse is not None
        R = lapack.symmetrise(np.array(self._inverse, float))
        R *= self.root[:, None]
        R *= self.root[None, :]
        return self._spread_square(R)

    def _N(self, R: np.ndarray) -> np.ndarray:
        """N = I - R K; where W > 0 its column is R / W."""
        if (self.precision > 0).all():
            return R / self.precision[None, :]
        return np.eye(R.shape[0]) - lapack.matmul(R, tiles.between(self.kernel, self.panels, self.panels))

    def weighted_squares(self, k: np.ndarray | None, v: np.ndarray | None) -> np.ndarray:
        N = self._N(self._R())
        out = np.zeros(N.shape[0])
        if k is not None:
            out += k @ (N * N)
        if v is not None:
            A = lapack.matmul(tiles.between(self.kernel, self.panels, self.panels), N)
            out -= (A * A) @ v
        return out

    def pull_kernel(self, bar: KernelBar, inputs: bool) -> Pulled:
        assert self._inverse is not None
        if bar.kappa is None and bar.var is None:
            matrix, scale, coefficient = (
                self._spread_square(self._inverse),
                self.spread(self.root),
                bar.coefficient,
            )
        else:
            R = self._R()
            matrix, scale, coefficient = bar.coefficient * R, np.ones_like(self.precision), 1.0
            if bar.kappa is not None:
                matrix -= lapack.matmul(R * bar.kappa, R)
            if bar.var is not None:
                N = self._N(R)
                matrix += lapack.matmul(N * bar.var, N.T)
        pulled = tiles.pull_symmetric(
            self.kernel, self.panels, coefficient, matrix, scale, bar.P, bar.Q, inputs
        )
        self._inverse = None
        return Pulled(*pulled)


class DenseState(AbstractDenseState, AbstractMatrixState):
    """The factor in double precision."""

    def __init__(
        self, prior: AbstractPrior, X: np.ndarray, sites: Sites, workspace: DenseWorkspace | None = None
    ):
        super().__init__(prior, X, sites, workspace or DenseWorkspace(prior, X), own=workspace is None)

    def check_size(self, diagonal: np.ndarray) -> None:
        pass  # the jitter policy sees to it

    def half(self, K: np.ndarray) -> np.ndarray:
        K = self.columns_told(K)
        K *= self.root
        return lapack.solve_lower(self.factored(), K.T)

    def apply(self, V: np.ndarray) -> np.ndarray:
        Y = np.asfortranarray(self.root[:, None] * V[self.told])
        U = self.factored()
        lapack.solve_lower(U, lapack.solve_lower(U, Y), transpose=True)
        return self.spread(self.root[:, None] * Y)

    # -- as a matrix -----------------------------------------------------------------------------------------

    def rows_times_K(self, rows: np.ndarray, V: np.ndarray) -> np.ndarray:
        if self.gram is not None:
            return lapack.matmul(self.gram[rows], V)
        return self._product(self._some(rows), V)

    def downdate(self, rows: np.ndarray, P: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        K = self.gram[rows] if self.gram is not None else self._rows_of_K(rows)
        K *= P[:, None]
        M = -P * np.take(K, rows, 1)
        V = self.half(K)
        lapack.syrk("T", 1.0, V.T, 1.0, M)  # P'K R K P
        G = np.zeros((rows.shape[0], self.precision.shape[0]))
        G[:, self.told] = -self.root * lapack.solve_lower(self.factored(), V, transpose=True).T
        G[np.arange(rows.shape[0]), rows] += P
        return G.T, M

    def _rows_of_K(self, rows: np.ndarray) -> np.ndarray:
        return tiles.between(self.kernel, self._some(rows), self.panels)

    def resolvent(self, reuse: bool = False) -> np.ndarray:
        half, self._factor_inverse = self._factor_inverse, None
        if half is None:
            U = self.factored()
            m = U.shape[0]
            half = self.scratch()[:m, :m] if reuse and self.scratch is not None else np.empty_like(U)
            np.copyto(half, U)
            invert_factor(half)
        inverse = self._multiplied(half)
        lapack.scale_upper(inverse, self.root, inverse)
        return self._spread_square(lapack.symmetrise(inverse))

    def pull_matrix(self, bar: np.ndarray) -> Any:
        nothing = np.zeros((self.precision.shape[0], 1))
        ones = np.ones_like(self.precision)
        return tiles.pull_symmetric(self.kernel, self.panels, 1.0, bar, ones, nothing, nothing)[0]
