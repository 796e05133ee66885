"""Tools of careful experiments: folds that look alike,
and a grid search that goes on until its optimum is inside the grid.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray


def stratified_folds(y: ArrayLike, k: int, seed: int = 0) -> list[NDArray[np.intp]]:
    """k folds of rows whose targets y (n,) have nearly the same distribution: every k neighbours in order of
    y go to k folds.

    Sizes differ by at most one. Each row is in one fold; train on the others.

    >>> for fold in stratified_folds(y, 10):
    ...     train = np.setdiff1d(np.arange(len(y)), fold)
    """
    y = np.asarray(y, dtype=np.float64)
    if y.ndim != 1 or not np.isfinite(y).all():
        raise ValueError(f"y must be a vector of finite numbers, got shape {y.shape}.")
    if not 2 <= k <= len(y):
        raise ValueError(f"the number of folds must be between 2 and the number of data ({len(y)}), got {k}.")
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(y))
    order = order[np.argsort(y[order], kind="stable")]  # equal targets in random order
    place = np.concatenate([rng.permutation(k) for _ in range(-(-len(y) // k))])[: len(y)]
    return [np.sort(order[place == j]) for j in range(k)]


class GridOptimum(NamedTuple):
    """Where a score is lowest: `values` by name, the `score`, how many settings were tried,
    and whether it is an interior point.
    """

    values: dict[str, float]
    score: float
    tried: int
    interior: bool


def search_grid(
    score: Callable[[dict[str, float]], float],
    start: Mapping[str, float],
    factor: float = 10.0,
    refinements: int = 2,
    limit: float = 1e6,
    tol: float = 0.0,
) -> GridOptimum:
    """The positive settings with the lowest score on a grid that moves and shrinks by itself (Kuss 5.6).

    The grid has three values of each setting: the centre, `factor` times more and `factor` times less. It
    moves to its best point until that is the centre, so that the optimum is not on an edge; then `factor`
    becomes its square root, `refinements` times. A move must lower the score by more than `tol` of it, so
    that a setting that hardly matters does not run away. Settings beyond `limit` times their start are not
    tried; `interior` is False where one was wanted. Scores are computed once.

    >>> search_grid(lambda v: (np.log(v["a"]) - 3) ** 2, {"a": 1.0}).values
    """
    names, first = list(start), np.log10([float(v) for v in start.values()])
    known: dict[tuple[int, ...], float] = {}
    fine = 2**refinements  # places are counted in the smallest steps
    unit, reach = np.log10(factor) / fine, np.log10(limit)

    def values(place: tuple[int, ...]) -> dict[str, float]:
        return dict(zip(names, 10.0 ** (first + unit * np.array(place)), strict=True))

    def at(place: tuple[int, ...]) -> float:
        if place not in known:
            found = float(score(values(place)))
            known[place] = found if np.isfinite(found) else np.inf
        return known[place]

    centre, interior = (0,) * len(names), True
    for step in (fine >> i for i in range(refinements + 1)):
        while True:
            around = [
                tuple(c + step * m for c, m in zip(centre, move, strict=True))
                for move in itertools.product((0, -1, 1), repeat=len(names))
            ]
            allowed = [p for p in around if unit * max(map(abs, p)) <= reach + 1e-9]
            interior = len(allowed) == len(around)
            best = min(allowed, key=at)
            if at(best) >= at(centre) - tol * abs(at(centre)):
                break
            centre = best
    return GridOptimum(values(centre), at(centre), len(known), interior)
