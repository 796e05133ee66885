"""Columns of a covariance matrix, computed when they are asked for."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import numpy as np

from mercer.kernels.base import AbstractKernel
from mercer.linalg import tiles
from mercer.params import strip

STRIP = 4096  # rows of a column computed by one call


class Columns:
    """Columns of K at inputs X (n, d): `columns([3, 7])` is (n, 2); `diagonal` is k(x, x) (n,)."""

    def __init__(self, kernel: AbstractKernel, X: np.ndarray):
        self.kernel, self.n = strip(kernel), X.shape[0]
        self.encoded = self.kernel.encode(X)
        self.panels = tiles.Panels(
            self.encoded, tiles.tile_size(self.n) if self.n <= tiles.SIZES[-1] else STRIP
        )
        self.diagonal = tiles.diagonal(self.kernel, self.panels)

    def __call__(self, rows: Sequence[int] | np.ndarray) -> np.ndarray:
        out = np.empty((self.n, len(rows)))
        size = 1 if len(rows) == 1 else tiles.tile_size(len(rows))
        some = tiles.Panels(jax.tree.map(lambda a: a[np.asarray(rows)], self.encoded), size)
        tiles.rectangle(self.kernel, self.panels, some, out)
        return out
