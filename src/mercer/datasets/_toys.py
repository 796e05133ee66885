"""Small classification problems to draw and look at."""

from __future__ import annotations

import numpy as np

from mercer.datasets._loaders import Dataset


def toy_classification_1d(seed: int = 0) -> Dataset:
    """Sixty points on a line: 20 at -6 and 10 at 2 of class +1, 30 at 0 of class -1, all spread by 0.8 (GPML
    Fig. 3.6).

    The book's own draw is not printed; at its optimum of Laplace's evidence the length-scale is 2.6 and the
    standard deviation of the latent function 7.0. Kuss (§6.3.1) uses the same three groups.
    """
    rng = np.random.default_rng(seed)
    centre = np.repeat([-6.0, 0.0, 2.0], [20, 30, 10])
    return Dataset(
        X=rng.normal(centre, 0.8)[:, None],
        y=np.where(centre == 0.0, -1, 1).astype(np.int64),
        columns=("x",),
        target="class",
        units={},
        source=f"drawn with seed {seed}, as stated for Figure 3.6 of Rasmussen and Williams (2006)",
        description="three groups of points on a line, two classes",
    )


def toy_classification_2d(seed: int = 0, n: int = 40) -> Dataset:
    """Points of two classes in the unit square, one of each on the wrong side of the border: for pictures
    like GPML Fig. 3.5.

    A draw of our own, since the book does not print its points: uniform in the square, but not within 0.1 of
    the border x2 = 0.5 + 0.2 sin(2 π x1) nor within 0.15 of an outlier; class +1 above the border. The last
    two of the n points are the outliers, at (0.2, 0.9) and (0.7, 0.1). A short length-scale (0.1) follows
    them, a long one (0.3) overrules them.
    """
    if n < 3:
        raise ValueError(f"n must be at least 3, two outliers and a point; got {n!r}.")
    rng = np.random.default_rng(seed)
    outliers = np.array([[0.2, 0.9], [0.7, 0.1]])
    points = rng.uniform(size=(4 * n + 100, 2))
    height = points[:, 1] - 0.5 - 0.2 * np.sin(2 * np.pi * points[:, 0])
    lonely = np.min(np.linalg.norm(points[:, None] - outliers, axis=2), axis=1) > 0.15
    chosen = np.flatnonzero((np.abs(height) > 0.1) & lonely)[: n - 2]
    return Dataset(
        X=np.concatenate([points[chosen], outliers]),
        y=np.concatenate([np.where(height[chosen] > 0, 1, -1), [-1, 1]]).astype(np.int64),
        columns=("x1", "x2"),
        target="class",
        units={},
        source=f"drawn with seed {seed} by mercer",
        description="two classes in the unit square with one outlier each",
    )
