"""The prior seen through m inducing inputs Z: K_mm = L L' and the features Psi = K_nm L^-T (n, m), so that Q = Psi Psi'."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np

from mercer.linalg import lapack, tiles
from mercer.linalg.cholesky import factor
from mercer.params import strip
from mercer.solvers.host import Columns
from mercer.solvers.protocol import AbstractWorkspace

JITTER = 1e-9  # of the mean prior variance, added to the diagonal of K_mm: inducing inputs may nearly coincide
BLOCK_BYTES = 64 * 2**20  # rows of Psi worked on at a time
STORE_BYTES = 3 * 2**30  # up to this size Psi is kept, beyond it is computed again in every pass


class Workspace(AbstractWorkspace):
    """Encoded inputs cut into tiles, inducing inputs, and the features of the prior that is held."""

    def __init__(self, prior, X, Z, store: bool | None):
        self.memory: dict[str, Any] = {}
        self.columns, self.Z = Columns(X), np.asarray(Z)
        size = tiles.tile_size(X.shape[0])
        self.panels = tiles.Panels(prior.kernel.encode(X), size)
        self.store = 8.0 * X.shape[0] * self.Z.shape[0] <= STORE_BYTES if store is None else store
        self.buffer: np.ndarray | None = None
        self.held: Features | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        """What a person should know of the inducing inputs."""
        repeated = len(self.Z) - len(np.unique(self.Z.astype(str) if self.Z.dtype == object else self.Z, axis=0))
        return (f"{repeated} of {len(self.Z)} inducing inputs repeat others and add nothing",) if repeated else ()

    def hold(self, prior):
        self.held = Features(prior, self)

    def share(self, other: Workspace) -> None:
        self.held = other.held

    def features(self, prior) -> Features:
        if self.held is not None and self.held.source is prior.kernel:
            return self.held
        return Features(prior, self)


class Features:
    """Psi = K_nm L^-T in blocks of rows, kept or computed again; `of` gives those of test inputs."""

    def __init__(self, prior, workspace: Workspace):
        self.source, self.kernel, self.panels = prior.kernel, strip(prior.kernel), workspace.panels
        self.Z_panels = tiles.Panels(self.kernel.encode(workspace.Z), self.panels.size)
        m = self.Z_panels.n
        self.U = np.empty((m, m))

        def fill(buffer):
            tiles.upper(self.kernel, self.Z_panels, np.ones(m), buffer)
            diagonal = np.einsum("ii->i", buffer)
            diagonal += JITTER * np.mean(diagonal)

        self.jitter = factor(fill, self.U)
        self.Psi: np.ndarray | None = None
        self.diagonal = tiles.diagonal(self.kernel, self.panels)  # k(x, x)
        if workspace.store:
            if workspace.buffer is None:
                workspace.buffer = np.empty((self.panels.n, m))
            for rows, _, Psi in self._computed(workspace.buffer):
                del rows, Psi
            self.Psi = workspace.buffer

    @property
    def m(self) -> int:
        return self.U.shape[0]

    def blocks(self) -> Iterator[tuple[slice, Any, np.ndarray]]:
        """(rows, panels of those rows, Psi of those rows), which the caller must not change."""
        if self.Psi is None:
            yield from self._computed(None)
            return
        for rows, panels in self._cuts(self.panels):
            yield rows, panels, self.Psi[rows]

    def _cuts(self, panels):
        size = panels.size
        per = max(1, int(BLOCK_BYTES / (8.0 * self.m * size)))
        for first in range(0, len(panels.tiles), per):
            part = panels.part(first, first + per)
            yield slice(first * size, first * size + part.n), part

    def _computed(self, out: np.ndarray | None):
        for rows, panels in self._cuts(self.panels):
            Psi = np.empty((panels.n, self.m)) if out is None else out[rows]
            yield rows, panels, self._fill(panels, Psi)

    def _fill(self, panels, Psi):
        tiles.rectangle(self.kernel, panels, self.Z_panels, Psi)
        lapack.solve_lower(self.U, Psi.T)
        return Psi

    def of(self, Xs) -> np.ndarray:
        panels = tiles.Panels(self.kernel.encode(Xs), self.panels.size)
        return self._fill(panels, np.empty((panels.n, self.m)))

    def gram(self, weight: np.ndarray, V: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray | None]:
        """Psi' diag(weight) Psi for weights of any sign, and Psi' V."""
        G, p = np.zeros((self.m, self.m)), None if V is None else np.zeros((self.m, V.shape[1]))
        positive = bool((weight >= 0).all())
        for rows, _, Psi in self.blocks():
            if positive:
                S = np.sqrt(weight[rows])[:, None] * Psi
                G += S.T @ S  # one syrk
            else:
                G += (weight[rows, None] * Psi).T @ Psi
            if V is not None:
                p += Psi.T @ V[rows]
        return G, p

    def project(self, V: np.ndarray) -> np.ndarray:
        """Psi' V."""
        return functools.reduce(np.add, (Psi.T @ V[rows] for rows, _, Psi in self.blocks()))

    def expand(self, w: np.ndarray) -> np.ndarray:
        """Psi w for w (m, q)."""
        return np.concatenate([Psi @ w for _, _, Psi in self.blocks()])

    def solve(self, B: np.ndarray) -> np.ndarray:
        """L^-1 B."""
        return lapack.solve_lower(self.U, np.array(B, order="F"))
