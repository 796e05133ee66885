"""A region cut into equal boxes: how many points lie in each, and how much of each was observed."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from mercer.inputs import InputError

ALONG = {1: 200, 2: 32, 3: 10}  # cells along each column, by the number of columns: about 1,000 at most
WITHIN = {1: 16, 2: 4, 3: 3}  # places along each column of a cell at which an exposure is averaged
Exposure = Callable[[np.ndarray], Any] | np.ndarray | None


@dataclasses.dataclass(frozen=True, eq=False)
class Cells:
    """Equal boxes that fill a region, the last column running fastest.

    lower, upper: (d,), the ends of the region
    shape: how many cells there are along each column
    exposure: (K,), how much was observed of each for each unit of its size: 1 where all of it was, 0 none

    >>> cells = Cells.of(points, region=[(0, 10), (0, 5)], along=32)
    >>> cells.counts(points), cells.centres                       # (K,), (K, d)
    """

    lower: np.ndarray
    upper: np.ndarray
    shape: tuple[int, ...]
    exposure: np.ndarray

    @classmethod
    def of(
        cls,
        points: np.ndarray,
        region: Any,
        along: int | tuple[int, ...] | None,
        exposure: Exposure,
        margin: np.ndarray,
    ) -> Cells:
        """The cells for points (n, d), each of which must lie where something was observed.

        region: (lower, upper) of each column; None: from the first point to the last, and `margin` (d,) more
        at each end
        """
        d = points.shape[1]
        if d not in ALONG:
            raise InputError(
                f"the points have {d} columns, and a grid has too many cells beyond three: for densities of "
                "more see GaussianMixture."
            )
        if region is None:
            lower, upper = points.min(0) - margin, points.max(0) + margin
            if not (upper > lower).all():
                raise InputError(
                    f"column {int(np.argmin(upper - lower))} does not vary: say where points could have been "
                    "seen, region=(lower, upper)."
                )
        else:
            lower, upper = read_region(region, d)
        whole = cls(lower, upper, _shape(along, d), np.ones(1))
        cells = dataclasses.replace(whole, exposure=whole._observed(exposure))
        cells.check(points, "points")
        if (unseen := cells.exposure[cells.numbers(points)] == 0).any():
            raise InputError(
                f"{int(unseen.sum())} of the points lie where the exposure is 0, the first in row "
                f"{int(np.argmax(unseen))}: nothing was observed there."
            )
        return cells

    @property
    def widths(self) -> np.ndarray:
        """Of a cell (d,)."""
        return (self.upper - self.lower) / np.array(self.shape)

    @property
    def size(self) -> float:
        """Length, area or volume of a cell."""
        return float(np.prod(self.widths))

    @property
    def centres(self) -> np.ndarray:
        """(K, d)."""
        return self._places(1)[:, 0]

    @property
    def seen(self) -> np.ndarray:
        """(K,): where something was observed."""
        return self.exposure > 0

    def axes(self) -> list[np.ndarray]:
        """Centres along each column."""
        ends = zip(self.lower, self.widths, self.shape, strict=True)
        return [low + width * (np.arange(count) + 0.5) for low, width, count in ends]

    def inside(self, X: np.ndarray) -> np.ndarray:
        """Whether each row lies in the region (m,)."""
        return np.all((self.lower <= X) & (self.upper >= X), axis=1)

    def check(self, X: np.ndarray, what: str) -> None:
        """Refuse rows beyond the region."""
        if not (inside := self.inside(X)).all():
            raise InputError(
                f"{int((~inside).sum())} of the {what} lie outside the region, the first in row "
                f"{int(np.argmin(inside))}: leave them out, or give a wider region=."
            )

    def numbers(self, X: np.ndarray) -> np.ndarray:
        """The cell in which each row lies (m,)."""
        along = np.floor((X - self.lower) / self.widths).astype(int)
        along = np.clip(along, 0, np.array(self.shape) - 1)
        return np.ravel_multi_index(tuple(along.T), self.shape)

    def counts(self, X: np.ndarray) -> np.ndarray:
        """How many rows lie in each cell (K,)."""
        return np.bincount(self.numbers(X), minlength=math.prod(self.shape)).astype(float)

    def overlap(self, lower: Any, upper: Any) -> np.ndarray:
        """Which share of each cell lies in the box from `lower` to `upper` (d,): (K,)."""
        low, high = (np.broadcast_to(np.asarray(end, float), self.lower.shape) for end in (lower, upper))
        slack = 1e-9 * (self.upper - self.lower)
        if not (high > low).all():
            raise InputError(f"a box has its upper ends above the lower ones, got {lower} to {upper}.")
        if (low < self.lower - slack).any() or (high > self.upper + slack).any():
            raise InputError(
                f"the box from {lower} to {upper} reaches beyond the region, {self.words()}, where nothing "
                "is known."
            )
        shares = np.ones(())
        for centre, a, b, width in zip(self.axes(), low, high, self.widths, strict=True):
            within = np.minimum(b, centre + width / 2) - np.maximum(a, centre - width / 2)
            shares = np.multiply.outer(shares, np.maximum(within, 0.0) / width)
        return shares.ravel()

    def within(self, numbers: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """A place in each of these cells (m, d), uniformly."""
        return self.centres[numbers] + self.widths * (rng.random((len(numbers), len(self.shape))) - 0.5)

    def words(self) -> str:
        """The region: "0 to 10 by 0 to 5"."""
        return " by ".join(f"{a:g} to {b:g}" for a, b in zip(self.lower, self.upper, strict=True))

    def _places(self, count: int) -> np.ndarray:
        """(K, s, d): `count` places along each column of every cell, in the middle of equal parts."""
        d = len(self.shape)
        offsets = ((np.arange(count) + 0.5) / count - 0.5)[:, None] * self.widths
        grid = np.stack(np.meshgrid(*self.axes(), indexing="ij"), -1).reshape(-1, 1, d)
        steps = np.stack(np.meshgrid(*offsets.T, indexing="ij"), -1).reshape(1, -1, d)
        return grid + steps

    def _observed(self, exposure: Exposure) -> np.ndarray:
        """(K,): the mean over each cell."""
        K = math.prod(self.shape)
        if exposure is None:
            return np.ones(K)
        if callable(exposure):
            places = self._places(WITHIN[len(self.shape)])
            found = np.asarray(exposure(places.reshape(-1, len(self.shape))), float)
            if found.shape != (places.shape[0] * places.shape[1],):
                raise InputError(
                    f"exposure must answer with one number for each row of X (m, d), got {found.shape} for "
                    f"{places.shape[0] * places.shape[1]} rows."
                )
            values = found.reshape(places.shape[:2]).mean(1)
        else:
            values = np.asarray(exposure, float)
            if values.shape != self.shape:
                raise InputError(
                    f"exposure must be a function of places, or have the shape of the cells, {self.shape}; "
                    f"got {values.shape}."
                )
            values = values.ravel()
        if not (np.isfinite(values).all() and (values >= 0).all() and values.any()):
            raise InputError("exposure must be finite and not negative, and somewhere above zero.")
        return values


def read_region(region: Any, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper ends (d,) of a region: (lower, upper) of one column, or of each of them."""
    ends = np.asarray(region, float)
    if ends.shape == (2,) and d == 1:
        ends = ends[None]
    if ends.shape != (d, 2) or not np.isfinite(ends).all() or not (ends[:, 1] > ends[:, 0]).all():
        raise InputError(
            f"region must be (lower, upper) of each of the {d} columns, with finite ends, got {region!r}."
        )
    return ends[:, 0], ends[:, 1]


def _shape(along: Any, d: int) -> tuple[int, ...]:
    counts = (ALONG[d],) * d if along is None else (along,) * d if np.ndim(along) == 0 else tuple(along)
    if len(counts) != d or any(int(c) != c or c < 2 for c in counts):
        raise InputError(
            f"cells must be how many there are along a column, at least 2, or {d} such numbers, got "
            f"{along!r}."
        )
    return tuple(int(c) for c in counts)
