"""Columns of a covariance matrix, computed when they are asked for."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import numpy as np

from mercer.kernels.base import AbstractKernel
from mercer.linalg import tiles
from mercer.params import strip

STRIPS = (256, 512, 1024, 2048, 4096)  # rows of a column computed by one call


class Columns:
    """Columns of K at inputs X (n, d): `columns([3, 7])` is (n, 2); `diagonal` is k(x, x) (n,)."""

    def __init__(self, kernel: AbstractKernel, X: np.ndarray):
        self.kernel, self.n = strip(kernel), X.shape[0]
        self.encoded = jax.tree.map(np.asarray, self.kernel.encode(X))
        small = self.n <= tiles.SIZES[-1]
        height = tiles.tile_size(self.n) if small else next((s for s in STRIPS if self.n <= s), STRIPS[-1])
        self.panels = tiles.Panels(self.encoded, height)
        self.diagonal = tiles.diagonal(self.kernel, self.panels)
        self._strips = tiles.strips(self.kernel, self.panels)

    def __call__(self, rows: Sequence[int] | np.ndarray) -> np.ndarray:
        encoded = jax.tree.map(lambda a: a[np.asarray(rows)], self.encoded)
        if len(rows) == 1:
            return self._strips(encoded)
        return tiles.between(self.kernel, self.panels, tiles.Panels(encoded, tiles.tile_size(len(rows))))
