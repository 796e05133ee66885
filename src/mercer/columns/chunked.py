"""Chunks of a table as numbers: the columns of all chunks are read alike."""

from __future__ import annotations

import dataclasses

import numpy as np

from mercer.columns.columns import Columns
from mercer.inputs import Chunk, as_targets
from mercer.registry import Saved

__all__ = ["Reader"]


@Saved.register
@dataclasses.dataclass(frozen=True)
class Reader:
    """How each chunk becomes inputs (n, d) and targets (n,). Errors name the chunk, its row and column.

    names, d: of the columns that a kernel reads as they are; names is None where they have none
    objects: whether they may be other things than numbers
    columns: what they are instead, where that was learned
    """

    names: tuple[str, ...] | None
    d: int
    objects: bool = False
    columns: Columns | None = None

    def read(self, chunk: Chunk) -> tuple[np.ndarray, np.ndarray]:
        """Inputs and targets of a chunk."""
        if self.columns is None:
            inputs, y = chunk.numbers(self.names, self.objects, self.d)
            return inputs.values, y
        return chunk.checked(lambda: self._encoded(chunk))

    def _encoded(self, chunk: Chunk) -> tuple[np.ndarray, np.ndarray]:
        assert self.columns is not None
        X = self.columns.encode(chunk.table).inputs.values
        return X, as_targets(chunk.target, X.shape[0])
