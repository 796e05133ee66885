"""The prior seen through m inducing inputs Z: K_mm = L L' and the features Psi = K_nm L^-T (n, m),
so that Q = Psi Psi'.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import numpy as np

from mercer.linalg import lapack, parallel, tiles
from mercer.linalg.cholesky import factor
from mercer.params import strip
from mercer.prior import AbstractPrior
from mercer.solvers.host import AbstractHoldingWorkspace, Columns

JITTER = 1e-9  # of the mean prior variance, on the diagonal of K_mm: inducing inputs may nearly coincide
BLOCK_BYTES = 4 * 2**20  # rows of Psi that a thread works on at a time
STORE_BYTES = 3 * 2**30  # up to this size Psi is kept, beyond it is computed again in every pass


class InducingWorkspace(AbstractHoldingWorkspace):
    """Encoded inputs cut into tiles, inducing inputs, and the features of the prior that is held."""

    def __init__(self, prior: AbstractPrior, X: np.ndarray, Z: np.ndarray, store: bool | None, jitter: float):
        self.jitter = jitter
        self.columns, self.Z = Columns(X), np.asarray(Z)
        self.panels = tiles.Panels(prior.kernel.encode(X), tiles.tile_size(X.shape[0], len(self.Z)))
        self.store = 8.0 * X.shape[0] * self.Z.shape[0] <= STORE_BYTES if store is None else store
        self.buffer: np.ndarray | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        """What a person should know of the inducing inputs."""
        repeated = len(self.Z) - len(
            np.unique(self.Z.astype(str) if self.Z.dtype == object else self.Z, axis=0)
        )
        return (
            (f"{repeated} of {len(self.Z)} inducing inputs repeat others and add nothing",)
            if repeated
            else ()
        )

    def move_inducing(self, Z: np.ndarray) -> None:
        self.Z = Z

    def compute(self, prior: AbstractPrior) -> Features:
        """The features of the data, as the inducing inputs are now."""
        return Features(prior, self)


class Block(NamedTuple):
    """Some rows of the features, which must not be changed."""

    rows: slice
    panels: tiles.Panels
    Psi: np.ndarray


class Inducing:
    """Inducing inputs Z (m, d) and K_mm = L L' (L' in the upper triangle of `U`): the features k(x, Z) L^-T
    of any inputs. Tiles have `size` rows; K_mm has `jitter` times its mean
    diagonal added to it.
    """

    def __init__(self, kernel: Any, Z: np.ndarray, size: int, jitter: float):
        self.kernel: Any = strip(kernel)
        self.panels = tiles.Panels(self.kernel.encode(Z), size)
        m = self.panels.n
        self.U = np.empty((m, m))

        def fill(buffer):
            tiles.upper(self.kernel, self.panels, np.ones(m), buffer)
            diagonal = np.einsum("ii->i", buffer)
            diagonal += jitter * np.mean(diagonal)

        self.jitter = factor(fill, self.U)

    def of(self, Xs: np.ndarray) -> np.ndarray:
        """The features (k, m) of inputs (k, d)."""
        panels = tiles.Panels(self.kernel.encode(Xs), self.panels.size)
        return self.fill(panels, np.empty((panels.n, self.panels.n)))

    def fill(self, panels: tiles.Panels, Psi: np.ndarray) -> np.ndarray:
        """The features of the rows of `panels`, into Psi."""
        tiles.rectangle(self.kernel, panels, self.panels, Psi)
        lapack.solve_lower(self.U, Psi.T)
        return Psi

    def solve(self, B: np.ndarray) -> np.ndarray:
        """L^-1 B."""
        return lapack.solve_lower(self.U, np.array(B, order="F"))

    @functools.cached_property
    def L1(self) -> np.ndarray:
        """L^-1 (m, m)."""
        return self.solve(np.eye(self.panels.n))

    def pull(self, inner: np.ndarray, jitter: float, ends: bool) -> tuple[Any, Any]:
        """Cotangents of the kernel and, if `ends`, of the encoded inducing inputs, for
        K_mm_bar = -L^-T sym(inner) L^-1, where inner = 1/2 Psi' Psi_bar; `jitter` scales with the diagonal.
        """
        m, L1 = self.panels.n, self.L1
        K_mm_bar = -(L1.T @ (0.5 * (inner + inner.T)) @ L1)
        np.einsum("ii->i", K_mm_bar)[:] += jitter * np.trace(K_mm_bar) / m
        none = np.zeros((m, 1))
        return tiles.pull_symmetric(self.kernel, self.panels, 1.0, K_mm_bar, np.ones(m), none, none, ends)


class RowBar(NamedTuple):
    """The cotangent of the features in weights of their rows and products,

        1/2 Psi_bar = Lambda Psi by_Lambda + P by_P' + w Psi by_w + u Psi,

    and that of k(x, x), `t`. None: there is none.
    """

    Lambda: np.ndarray  # (n,)
    by_Lambda: np.ndarray  # (m, m)
    P: np.ndarray  # (n, q)
    by_P: np.ndarray  # (m, q)
    w: np.ndarray | None = None  # (n,)
    by_w: np.ndarray | None = None  # (m, m)
    u: np.ndarray | None = None  # (n,)
    t: np.ndarray | None = None  # (n,)


class RowPull(NamedTuple):
    """What the cotangent of the features of rows says: of the kernel, of the encoded inputs and inducing
    inputs where asked, and the row sums of K_nm times its cotangent (n,).
    """

    kernel: Any
    left: Any
    right: Any
    products: np.ndarray


class Features:
    """Psi = K_nm L^-T in blocks of rows, kept or computed again; `of` gives those of test inputs. What is
    asked of them is a sum over rows (`gram`, `project`, `pull`) or a number for each row (the others): so
    that rows may be in several places, see `mercer.solvers.chunked`.
    """

    def __init__(self, prior: AbstractPrior, workspace: InducingWorkspace):
        self.panels = workspace.panels
        self.inducing = Inducing(prior.kernel, workspace.Z, self.panels.size, workspace.jitter)
        self.kernel, self.jitter = self.inducing.kernel, self.inducing.jitter
        self.Z_panels, m = self.inducing.panels, self.inducing.panels.n
        self.of, self.solve = self.inducing.of, self.inducing.solve
        self.Psi: np.ndarray | None = None
        self.diagonal = tiles.diagonal(self.kernel, self.panels)  # k(x, x)
        if workspace.store:
            if workspace.buffer is None:
                workspace.buffer = np.empty((self.panels.n, m))
            self.explained = np.concatenate(self.each(_squares, workspace.buffer))
            self.Psi = workspace.buffer

    @functools.cached_property
    def explained(self) -> np.ndarray:
        """q(x, x) at the data (n,)."""
        return np.concatenate(self.each(_squares))

    @property
    def m(self) -> int:
        return self.Z_panels.n

    def each(self, work: Callable[[Iterator[Block]], Any], out: np.ndarray | None = None) -> list[Any]:
        """What `work` makes of the blocks of each thread; see `mercer.linalg.parallel.share`.
        Psi is computed into `out`.
        """
        return parallel.share(
            lambda cuts: work(self._block(rows, panels, out) for rows, panels in cuts), list(self._cuts())
        )

    def _block(self, rows: slice, panels: tiles.Panels, out: np.ndarray | None) -> Block:
        if self.Psi is not None:
            return Block(rows, panels, self.Psi[rows])
        room = np.empty((panels.n, self.m)) if out is None else out[rows]
        return Block(rows, panels, self.inducing.fill(panels, room))

    def _cuts(self):
        size = self.panels.size
        per = max(1, int(BLOCK_BYTES / (8.0 * self.m * size)))
        for first in range(0, len(self.panels.tiles), per):
            part = self.panels.part(first, first + per)
            yield slice(first * size, first * size + part.n), part

    def gram(self, weight: np.ndarray, V: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray | None]:
        """Psi' diag(weight) Psi for weights of any sign, and Psi' V."""
        equal = bool((weight == weight[0]).all())
        root = np.sqrt(weight) if (weight >= 0).all() else None

        def work(blocks):
            G, p = np.zeros((self.m, self.m)), None if V is None else np.zeros((self.m, V.shape[1]))
            for rows, _, Psi in blocks:
                if equal:
                    G += Psi.T @ Psi  # one syrk
                elif root is None:
                    G += (weight[rows, None] * Psi).T @ Psi
                else:
                    S = root[rows, None] * Psi
                    G += S.T @ S
                if V is not None:
                    p += Psi.T @ V[rows]
            return G, p

        G, p = zip(*self.each(work), strict=True)
        return (weight[0] if equal else 1.0) * sum(G), None if V is None else sum(p)

    def project(self, V: np.ndarray) -> np.ndarray:
        """Psi' V."""
        return sum(self.each(lambda blocks: sum(Psi.T @ V[rows] for rows, _, Psi in blocks)))

    def expand(self, w: np.ndarray) -> np.ndarray:
        """Psi w for w (m, q)."""
        return np.concatenate(self.each(lambda blocks: np.concatenate([Psi @ w for _, _, Psi in blocks])))

    def leverage(self, U: np.ndarray) -> np.ndarray:
        """h = diag(Psi C^-1 Psi') (n,), for C = U'U."""

        def work(blocks):
            solved = (lapack.solve_lower(U, np.array(Psi, order="C").T) for _, _, Psi in blocks)
            return np.concatenate([np.einsum("ij,ij->j", V, V) for V in solved])

        return np.concatenate(self.each(work))

    def quadratic(self, M: np.ndarray) -> np.ndarray:
        """diag(Psi M Psi') (n,)."""

        def work(blocks):
            return np.concatenate([np.einsum("ij,ij->i", Psi @ M, Psi) for _, _, Psi in blocks])

        return np.concatenate(self.each(work))

    def pull(self, bar: RowBar, inputs: bool = False, inducing: bool = False) -> RowPull:
        """Cotangents for K_nm_bar = Psi_bar L^-1, block of rows by block; those of inputs and of inducing
        inputs if asked.
        """
        L1 = self.inducing.L1
        of_Lambda, of_P = 2.0 * (bar.by_Lambda @ L1), 2.0 * (bar.by_P.T @ L1)
        of_w = None if bar.by_w is None else 2.0 * (bar.by_w @ L1)

        def work(blocks):
            pull = tiles.PullRectangle(self.kernel, self.Z_panels, inputs or inducing)
            for rows, panels, Psi in blocks:
                K_bar = Psi @ of_Lambda
                K_bar *= bar.Lambda[rows, None]
                K_bar += bar.P[rows] @ of_P
                if bar.w is not None:
                    K_bar += bar.w[rows, None] * (Psi @ of_w)
                if bar.u is not None:
                    K_bar += bar.u[rows, None] * (Psi @ (2.0 * L1))
                pull.add(panels, K_bar)
            return pull.kernel, pull.left, pull.right, pull.products

        kernel, left, right, products = zip(*self.each(work), strict=True)
        t = np.zeros(self.panels.n) if bar.t is None else bar.t
        if t.any():
            kernel = (*kernel, tiles.pull_diagonal(self.kernel, self.panels, t))
        encoded = None
        if inputs:
            encoded = jax.tree.map(lambda *parts: np.concatenate(parts), *left)
            encoded = add_trees(encoded, _pull_diagonal_inputs(self.kernel, self.panels, t))
        return RowPull(
            add_trees(*kernel), encoded, add_trees(*right) if inducing else None, np.concatenate(products)
        )


def _squares(blocks: Iterator[Block]) -> np.ndarray:
    return np.concatenate([np.einsum("ij,ij->i", Psi, Psi) for _, _, Psi in blocks])


def add_trees(*trees: Any) -> Any:
    """The sum of values of one structure."""
    return jax.tree.map(lambda *xs: functools.reduce(np.add, map(np.asarray, xs)), *trees)


def _pull_diagonal_inputs(kernel: Any, panels: tiles.Panels, bar: np.ndarray) -> Any:
    """The cotangents of the encoded inputs for that of k(x, x)."""
    pieces = panels.vector(bar)
    return panels.join([jax.vjp(kernel.diag, A)[1](b)[0] for A, b in zip(panels.tiles, pieces, strict=True)])
