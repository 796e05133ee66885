"""The prior seen through m inducing inputs Z: K_mm = L L' and the features Psi = K_nm L^-T (n, m),
so that Q = Psi Psi'.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

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


class Features:
    """Psi = K_nm L^-T in blocks of rows, kept or computed again; `of` gives those of test inputs."""

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


def _squares(blocks: Iterator[Block]) -> np.ndarray:
    return np.concatenate([np.einsum("ij,ij->i", Psi, Psi) for _, _, Psi in blocks])
