"""Data at random: all alike, or in proportion to their prior variance."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import numpy as np

from mercer.selection.protocol import AbstractSelection, Pool


@dataclasses.dataclass(frozen=True)
class Random(AbstractSelection):
    """Uniformly, without replacement. Looks at nothing.

    >>> rows = Random().rows(Pool(gp, X), 100, seed=3)
    """

    name: ClassVar[str] = "random"

    def choose(self, pool: Pool, m: int, rng: np.random.Generator) -> np.ndarray:
        return rng.choice(pool.n, m, replace=False)


@dataclasses.dataclass(frozen=True)
class Biased(AbstractSelection):
    """In proportion to k(x, x)^2, without replacement (Drineas and Mahoney; GPML 8.1): uniform for a
    stationary kernel.

    >>> rows = Biased().rows(Pool(GP(kernels.Linear()), X), 100)
    """

    name: ClassVar[str] = "biased"

    def choose(self, pool: Pool, m: int, rng: np.random.Generator) -> np.ndarray:
        weight = pool.columns.diagonal**2
        some = np.count_nonzero(weight)
        if some < m:
            raise ValueError(f"only {some} data have prior variance; cannot select {m} of them.")
        return rng.choice(pool.n, m, replace=False, p=weight / weight.sum())
