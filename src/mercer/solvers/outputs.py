"""Several outputs of common inputs: a covariance over outputs times one over inputs.

Data at every pair of n inputs and p outputs, k((x, o), (x', o')) = k_x(x, x') B[o, o'], noise of a precision
of each output's own, W = D x I, and noise that the outputs of a row share, S x I, in the kernel
(`kernels.OutputNoise`). The noise is whitened and the p x p side diagonalised: with

    I + D^1/2 S D^1/2 = C C',   Q = D^1/2 C^-T,   Q'B Q = U diag(beta) U',   T = Q U,

    R = (K + W^-1)^-1 = sum_j t_j t_j' x G_j,   G_j = (I + beta_j K_x)^-1:

p problems of size n in place of one of size np.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

import jax
import numpy as np

from mercer.kernels.algebra.columns import On
from mercer.kernels.algebra.sums import Product, Sum
from mercer.kernels.base import AbstractKernel
from mercer.kernels.families.outputs import OutputNoise
from mercer.linalg import lapack, tiles
from mercer.params import strip
from mercer.prior import AbstractPrior
from mercer.solvers.grid import block_size
from mercer.solvers.host import AbstractHostState, Columns, KernelBar, Pulled
from mercer.solvers.kronecker import columns_read
from mercer.solvers.protocol import (
    EVERYTHING,
    RATE,
    AbstractSolver,
    AbstractWorkspace,
    Cost,
    Diagnostics,
    MeanWeights,
    Proposal,
    Sites,
    SolverError,
)
from mercer.solvers.resolvents import AbstractResolvents, Factored, Spectral

SPECTRAL = 6  # outputs, from which one eigendecomposition is faster than a Cholesky factor of each


@dataclasses.dataclass(frozen=True)
class Outputs(AbstractSolver):
    """Exact for several outputs that are all known at the same n inputs: rows (x, output) of a kernel that is
    a product of one on x and one on the output's column, with one noise variance for each output.

    p Cholesky factors of size n, or one eigendecomposition from 6 outputs on, in place of a factor of size
    n p. Noise that outputs share is a term `kernels.OutputNoise`. The order of the rows does not matter.

    column: which column says the output
    outputs: for `cost` only; the data know how many there are

    >>> kernel = Matern().on(0) * CategoricalCovariance([0, 1], [[1.0], [0.5]]).on(1)
    >>> GPRegressor(kernel, noise_by=1, solver=Outputs()).fit(rows, y)
    """

    column: int = -1
    outputs: int = 2

    offers: ClassVar[frozenset[str]] = frozenset({"variance", "logdet", "sample", "full", "exact"})

    @classmethod
    def propose(cls, task: Any) -> Iterable[Proposal]:
        if not task.gaussian or task.several:
            return []
        try:
            found = cls().workspace(task.prior, task.X)
            found.precisions(np.broadcast_to(1.0 / np.asarray(task.noise_variance), (task.n,)))
        except SolverError:
            return []
        solver = cls(outputs=found.p)
        cost = solver.cost(task.n, task.d)
        return [Proposal(solver, 3e-3 + cost.seconds, cost.bytes, 0.0, "exact, all outputs at all inputs")]

    def workspace(self, prior: Any, X: np.ndarray) -> OutputsWorkspace:
        return OutputsWorkspace(prior, X, self.column)

    def factor(self, prior: Any, X: np.ndarray, sites: Sites, workspace: Any = None) -> OutputsState:
        return OutputsState(prior, X, sites, workspace or self.workspace(prior, X))

    def some_rows(self, X: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
        """All outputs of some of the inputs."""
        index = complete(X, self.column)
        n = index.shape[1]
        kept = rng.choice(n, int(np.clip(size // len(index), 2, n)), replace=False)
        return np.sort(index[:, kept].ravel())

    def cost(self, n: int, d: int, L: int = 1) -> Cost:
        each, p = n / self.outputs, self.outputs
        cubic = 2.0 if p >= SPECTRAL else p / 3.0
        matrices = 3 if p >= SPECTRAL else p + 2
        return Cost(
            flops=L * (cubic * each**3 + each**2 * (2 * d + 20)),
            bytes=8.0 * L * each**2 * matrices,
            rate=RATE,
        )


def complete(X: np.ndarray, column: int) -> np.ndarray:
    """The rows (p, n) of each output, in an order in which all their other columns agree."""
    if X.dtype == object:
        raise SolverError("Outputs needs numeric inputs: use solver='dense'.")
    which, rest = X[:, column], np.delete(X, column, 1)
    index = [np.flatnonzero(which == value) for value in np.unique(which)]
    counts = sorted({len(rows) for rows in index})
    if len(counts) == 1:
        index = [rows[np.lexsort(rest[rows].T)] if rest.shape[1] else rows for rows in index]
        if all(np.array_equal(rest[rows], rest[index[0]]) for rows in index[1:]):
            return np.stack(index)
    raise SolverError(
        f"Outputs needs every one of the {len(index)} outputs at the same inputs; they are known at "
        f"{' to '.join(map(str, counts))} inputs that differ. solver='dense' does without."
    )


class OutputsWorkspace(AbstractWorkspace):
    """The rows of each output, and the inputs of the two sides cut into tiles."""

    def __init__(self, prior: AbstractPrior, X: np.ndarray, column: int):
        if isinstance(prior, tuple):
            raise SolverError("Outputs solves for one latent function: use solver='dense'.")
        self.X, self.columns, self.column = X, Columns(X), column % X.shape[1]
        self.index = complete(X, self.column)
        self.p, self.n = self.index.shape
        self.values = X[self.index[:, 0], self.column]
        sides = Sides(prior.kernel, X.shape[1], self.column)
        if sides.noise is not None:
            rows = X[self.index[0], sides.row]
            if len(np.unique(rows)) < self.n or (rows < 0).any():
                raise SolverError("Outputs: rows with noise that outputs share need a number each, from 0.")
        self.inputs = tiles.Panels(sides.x.encode(X[self.index[0]]), tiles.tile_size(self.n))
        self.outputs = X[self.index[:, 0]]
        self._buffers: list[np.ndarray] = []

    def buffer(self, j: int) -> np.ndarray:
        """The j-th n x n matrix to work in."""
        while len(self._buffers) <= j:
            self._buffers.append(np.empty((self.n, self.n)))
        return self._buffers[j]

    def precisions(self, W: np.ndarray) -> np.ndarray:
        """The precision (p,) of each output's noise, from that of each row."""
        each = W[self.index]
        if (each != each[:, :1]).any() or not (each > 0).all():
            raise SolverError(
                "Outputs needs one noise variance for each output, as with Gaussian noise and "
                "inference='exact'; solver='dense' takes any."
            )
        return each[:, 0]


class Sides:
    """A kernel taken apart: `x`, the factors that do not read the output, `o`, those that read it alone, and
    `noise`, the term of noise that outputs share, with the column `row` of its rows; None where there is
    none.
    """

    def __init__(self, kernel: AbstractKernel, d: int, column: int):
        self.kernel = kernel
        self.terms = kernel.terms if isinstance(kernel, Sum) else (kernel,)
        shared = [i for i, term in enumerate(self.terms) if isinstance(_inner(term), OutputNoise)]
        signal = [i for i in range(len(self.terms)) if i not in shared]
        product = self.terms[signal[0]] if len(signal) == 1 else None
        if not isinstance(product, Product) or len(shared) > 1:
            raise self._refusal()
        self.factors, all_columns = product.factors, list(range(d))
        reads = [columns_read(f, all_columns) for f in self.factors]
        self.on_output = [column in read for read in reads]
        if any(column in read and read != {column} for read in reads) or len(set(self.on_output)) < 2:
            raise self._refusal()
        self.x, self.o = (
            _product(tuple(f for f, on in zip(self.factors, self.on_output, strict=True) if on == which))
            for which in (False, True)
        )
        self.noise = self.terms[shared[0]] if shared else None
        if self.noise is not None:
            columns = self.noise.columns if isinstance(self.noise, On) else (0, 1)
            self.row, last = (int(c) % d for c in columns)
            if last != column:
                raise self._refusal()

    def _refusal(self) -> SolverError:
        return SolverError(
            "Outputs needs one product of a kernel on the inputs and one on the output's column, as in "
            f"Matern().on(0) * CategoricalCovariance(...).on(1), not {self.kernel}: use solver='dense'."
        )

    def join(self, x: Any, o: Any, noise: Any) -> Any:
        """A tree of the kernel's structure from trees of the sides'."""
        parts = {False: iter(_parts(x, self.on_output.count(False)))}
        parts[True] = iter(_parts(o, self.on_output.count(True)))
        signal = [next(parts[on]) for on in self.on_output]
        leaves = [noise if term is self.noise else signal for term in self.terms]
        return jax.tree.unflatten(jax.tree.structure(self.kernel), jax.tree.leaves(leaves))


def _inner(term: AbstractKernel) -> AbstractKernel:
    return term.kernel if isinstance(term, On) else term


def _product(factors: tuple[AbstractKernel, ...]) -> AbstractKernel:
    return factors[0] if len(factors) == 1 else Product(factors)


def _parts(side: Any, count: int) -> tuple[Any, ...]:
    return (side,) if count == 1 else side.factors


class OutputsState(AbstractHostState):
    """R = sum_j t_j t_j' x G_j. Vectors of all rows are (p, n) here, V (p, n, q)."""

    pulls = EVERYTHING - {"inputs", "var"}

    def __init__(self, prior: AbstractPrior, X: np.ndarray, sites: Sites, workspace: OutputsWorkspace):
        super().__init__(prior, X, sites, workspace.columns)
        self.space, self.kernel = workspace, strip(prior.kernel)
        self.sides = Sides(self.kernel, X.shape[1], workspace.column)
        self.Kx = np.empty((workspace.n, workspace.n))
        tiles.upper(self.sides.x, workspace.inputs, np.ones(workspace.n), self.Kx)
        lapack.symmetrise(self.Kx)
        self.B = self._among_outputs(self.sides.o)
        self.S = None if self.sides.noise is None else self._among_outputs(self.sides.noise)
        self.D = workspace.precisions(self.precision)
        root = np.sqrt(self.D)
        M = np.eye(workspace.p) if self.S is None else np.eye(workspace.p) + root[:, None] * self.S * root
        C = np.linalg.cholesky(M)
        Q = root[:, None] * np.linalg.inv(C).T
        beta, U = np.linalg.eigh(Q.T @ self.B @ Q)
        self.T = Q @ U
        self.beta = np.maximum(beta, 0.0)
        self.G: AbstractResolvents
        if workspace.p >= SPECTRAL:
            self.G = Spectral(self.Kx, self.beta)
        else:
            self.G = Factored(self.Kx, self.beta, [workspace.buffer(j) for j in range(workspace.p)])
        self.jitter = self.G.jitter
        self.logdet = 2.0 * workspace.n * float(np.sum(np.log(np.diagonal(C)))) + self.G.logdet
        self.BT = self.B @ self.T
        self.ST = None if self.S is None else self.S @ self.T

    def _among_outputs(self, kernel: AbstractKernel) -> np.ndarray:
        return tiles.matrix(kernel, *[kernel.encode(self.space.outputs)] * 2)

    def diagnostics(self) -> Diagnostics:
        return Diagnostics(self.G.condition, "B = I + W^1/2 K W^1/2", self.jitter, notes=self.notes)

    def mean_weights(self) -> MeanWeights:
        return MeanWeights(self.alpha[:, None])

    # -- algebra ---------------------------------------------------------------------------------------------

    def _onto(self, V: np.ndarray) -> np.ndarray:
        return V[self.space.index]

    def _back(self, V: np.ndarray) -> np.ndarray:
        out = np.empty((self.X.shape[0], *V.shape[2:]))
        out[self.space.index] = V
        return out

    def apply(self, V: np.ndarray) -> np.ndarray:
        mixed = np.einsum("oj,onq->jnq", self.T, self._onto(V))
        solved = np.stack([self.G.solve(j, one) for j, one in enumerate(mixed)])
        return self._back(np.einsum("oj,jnq->onq", self.T, solved))

    def times_K(self, V: np.ndarray) -> np.ndarray:
        stacked = self._onto(V)
        out = np.einsum("op,pnq->onq", self.B, np.stack([lapack.matmul(self.Kx, one) for one in stacked]))
        if self.S is not None:
            out += np.einsum("op,pnq->onq", self.S, stacked)
        return self._back(out)

    def kappa(self) -> np.ndarray:
        return self._kappa

    @functools.cached_property
    def _kappa(self) -> np.ndarray:
        return self._back(self.T**2 @ self.G.diagonals)

    def variances(self) -> np.ndarray:
        """diag(K - K R K) (n p,), where K R K = sum_j c_j G_j c_j', c_j = b_j x K_x + s_j x I."""
        out = np.outer(np.diagonal(self.B), np.diagonal(self.Kx))
        shared = np.zeros_like(self.T) if self.ST is None else self.ST
        if self.S is not None:
            out += np.diagonal(self.S)[:, None]
        for j, (b, s) in enumerate(zip(self.BT.T, shared.T, strict=True)):
            KG = self.G.solve(j, self.Kx).T
            explained = np.einsum("ik,ik->i", KG, self.Kx)
            out -= np.outer(b**2, explained) + np.outer(2 * b * s, np.diagonal(KG))
            out -= np.outer(s**2, self.G.diagonals[j])
        return self._back(np.maximum(out, 0.0))

    # -- test inputs -----------------------------------------------------------------------------------------

    def _test_rows(self, Xs: np.ndarray) -> Iterator[tuple[slice, np.ndarray, np.ndarray, Any]]:
        """Blocks of test rows; k_x with the inputs (m, n), the covariances with the outputs (m, p), and of
        noise that test rows share with training rows whether they do (m, n) and (m, p), None where none does.
        """
        step = block_size(self.space.n)
        for first in range(0, Xs.shape[0], step):
            part = Xs[first : first + step]
            left = tiles.Panels(self.sides.x.encode(part), tiles.tile_size(step))
            k = tiles.between(self.sides.x, left, self.space.inputs)
            yield slice(first, first + len(part)), k, self._with_outputs(self.sides.o, part), self._same(part)

    def _with_outputs(self, kernel: AbstractKernel, part: np.ndarray) -> np.ndarray:
        return tiles.matrix(kernel, kernel.encode(part), kernel.encode(self.space.outputs))

    def _same(self, part: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        if self.sides.noise is None:
            return None
        row = self.sides.row
        same = part[:, row, None] == self.X[self.space.index[0], row]
        if not same.any():
            return None
        at_row = part.copy()
        at_row[:, row] = self.space.outputs[0, row]
        return same.astype(float), self._with_outputs(self.sides.noise, at_row)

    def cross(self, Xs: np.ndarray, V: np.ndarray) -> np.ndarray:
        out, stacked = np.empty((Xs.shape[0], V.shape[1])), self._onto(V)
        for where, k, b, shared in self._test_rows(Xs):
            out[where] = _crossed(k, b, stacked)
            if shared is not None:
                same, s = shared
                out[where] += _crossed(same, s, stacked)
        return out

    def _halves(self, Xs: np.ndarray) -> Iterator[tuple[slice, int, np.ndarray]]:
        """Blocks of test rows, j, and c_j (m, n): K_* R K_*' = sum_j c_j G_j c_j'."""
        for where, k, b, shared in self._test_rows(Xs):
            for j, t in enumerate(self.T.T):
                c = (b @ t)[:, None] * k
                if shared is not None:
                    c += (shared[1] @ t)[:, None] * shared[0]
                yield where, j, c

    def predict(
        self, Xs: np.ndarray, full: bool = False, variance: bool = True
    ) -> tuple[np.ndarray, np.ndarray | None]:
        mean = np.asarray(self.prior.mean.value(Xs), float) + self.cross(Xs, self.alpha[:, None])[:, 0]
        if not variance:
            return mean[:, None], None
        A = self.kernel.encode(Xs)
        if not full:
            prior = tiles.diagonal(self.kernel, tiles.Panels(A, tiles.tile_size(Xs.shape[0])))
            for where, j, c in self._halves(Xs):
                prior[where] -= np.einsum("mn,nm->m", c, self.G.solve(j, c.T))
            return mean[:, None], np.maximum(prior, 0.0)[:, None]
        covariance, halves = tiles.matrix(self.kernel, A, A), list(self._halves(Xs))
        for j in range(self.space.p):
            c = np.concatenate([part for _, which, part in halves if which == j])
            covariance -= c @ self.G.solve(j, c.T)
        return mean[:, None], 0.5 * (covariance + covariance.T)

    # -- cotangents ------------------------------------------------------------------------------------------

    def prepare_inverse(self, consume: bool) -> None:
        self.G.prepare(consume)

    def weighted_squares(self, k: np.ndarray | None, v: np.ndarray | None) -> np.ndarray:
        """With N = R W^-1, a block of outputs (o, q) at a time."""
        assert k is not None and v is None
        G, bars = [self.G.matrix(j) for j in range(self.space.p)], self._onto(k)
        out = np.zeros_like(bars)
        for o, q in np.ndindex(len(out), len(out)):
            N = sum(t * one for t, one in zip(self.T[o] * self.T[q] / self.D[q], G, strict=True))
            out[q] += bars[o] @ N**2
        return self._back(out)

    def pull_kernel(self, bar: KernelBar, inputs: bool) -> Pulled:
        """K_bar = sum over terms of a (p, p) x (n, n): contracted with B for K_x, with K_x for B, with I for
        S.
        """
        n, T = self.space.n, self.T
        P, Q = self._onto(bar.P), self._onto(bar.Q)
        BQ = np.einsum("op,pnq->onq", self.B, Q)
        left, right = (np.moveaxis(V, 0, 1).reshape(n, -1) for V in (P, BQ))
        Kx_bar = self.G.combined(bar.coefficient * self.beta)
        KQ = np.stack([lapack.matmul(self.Kx, one) for one in Q])
        B_bar = np.einsum("onq,pnq->op", P, KQ) + bar.coefficient * (T * self.G.traces()) @ T.T
        S_bar = np.einsum("onq,pnq->op", P, Q) + bar.coefficient * (T * self.G.diagonals.sum(1)) @ T.T
        if bar.kappa is not None:
            for pulled, more in zip((Kx_bar, B_bar, S_bar), self._pull_kappa(bar.kappa), strict=True):
                pulled -= more
        x = tiles.pull_symmetric(self.sides.x, self.space.inputs, 1.0, Kx_bar, np.ones(n), left, right)[0]
        noise = self.sides.noise
        shared = None if noise is None else self._pull_outputs(noise, S_bar)
        return Pulled(self.sides.join(x, self._pull_outputs(self.sides.o, B_bar), shared))

    def _pull_kappa(self, kappa: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The same for R diag(kappa) R = sum_jl t_j t_l' x G_j diag(d_jl) G_l, d_jl = sum_o t_j t_l kappa_o;
        of which t_j' B t_l = beta_j where j = l leaves p products for K_x.
        """
        p, n = self.space.p, self.space.n
        d = np.einsum("oj,ol,on->jln", self.T, self.T, self._onto(kappa))
        G = [self.G.matrix(j) for j in range(p)]
        KG = [lapack.matmul(self.Kx, one) for one in G]
        Kx_bar = np.zeros((n, n))
        by_K, by_I = np.zeros((p, p)), np.zeros((p, p))
        for j in range(p):
            Kx_bar += self.beta[j] * lapack.matmul(G[j] * d[j, j], G[j])
            for m in range(p):
                by_K[j, m] = np.sum(G[m] * KG[j].T, 1) @ d[j, m]
                by_I[j, m] = np.sum(G[m] * G[j], 1) @ d[j, m]
        return Kx_bar, self.T @ by_K @ self.T.T, self.T @ by_I @ self.T.T

    def _pull_outputs(self, kernel: AbstractKernel, bar: np.ndarray) -> Any:
        p = self.space.p
        panels = tiles.Panels(kernel.encode(self.space.outputs), tiles.tile_size(p))
        nothing, symmetric = np.zeros((p, 1)), 0.5 * (bar + bar.T)
        return tiles.pull_symmetric(kernel, panels, 1.0, symmetric, np.ones(p), nothing, nothing)[0]


def _crossed(k: np.ndarray, b: np.ndarray, V: np.ndarray) -> np.ndarray:
    """sum_o b[:, o] (k V_o) for V (p, n, q): (m, q)."""
    products = np.stack([lapack.matmul(k, one) for one in V])
    out: np.ndarray = np.einsum("mo,omq->mq", b, products)
    return out
