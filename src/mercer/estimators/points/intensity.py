"""The intensity of points, with its uncertainty: a log-Gaussian Cox process."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.special import ndtri
from sklearn.utils.validation import check_is_fitted

from mercer.estimators.points.shared import DRAWS, AbstractPoints
from mercer.estimators.regression.predictions import check_level, seed_of
from mercer.means import Zero


class ExpectedCount(NamedTuple):
    """The expected number of points in a box: its posterior mean and standard deviation, and the ends of an
    interval that holds it.
    """

    mean: float
    std: float
    lower: float
    upper: float


class GPIntensity(AbstractPoints):
    """How many points there are to be expected where: accidents along a road, trees in a wood, events in
    time. A log-Gaussian Cox process: points fall independently with the intensity exp(f(x)), in points for
    each unit of length, area or volume, and f is a Gaussian process.

    Points are counted in the cells of a grid, whose counts are Poisson with the size of a cell as exposure;
    as cells become smaller nothing depends on them. The overall level is integrated over.

    kernel: kernel, str or None. Of f, in units of the columns; None is an ARD Matern 5/2, learned under weak
        priors that the spread of the points scales
    region: (lower, upper) of one column, or a pair for each; None. Where points could have been seen. None
        takes the box of the points, made wider by the factor (n + 1) / (n - 1), as suits uniform points
        (Ripley and Rasson 1977); give it where it is known, as a place without points is an observation, too
    cells: int, tuple or None. How many there are along each column: 200 for one column, 32 for two, 10 for
        three. A warning says where f changes within a cell
    inference: "variational" (default), "ep" or "laplace"
    solver, restarts, max_evaluations, learn, memory, random_state, progress, parallel: as in `GPRegressor`

    points_: the points (n, d)
    cells_: the grid: `lower`, `upper`, `shape`, `exposure`, `centres` and the like
    kernel_, model_, posterior_, fit_: the learned kernel, model, its posterior of f, and the `Fit`
    log_marginal_likelihood_: log density of the points, for each unit of exposure and size; it converges as
        cells become smaller

    >>> model = GPIntensity(region=(1851.2, 1962.3)).fit(dates)
    >>> model.predict(times), model.predict_interval(times)       # events a year, and their 95 % bands
    >>> model.expected_count(1900, 1910)                          # mean, std, lower, upper
    >>> GPIntensity().fit(trees, exposure=lambda X: X[:, 1] > 2 * X[:, 0])              # seen there alone
    """

    word: ClassVar[str] = "intensity"

    def predict(self, X: Any) -> np.ndarray:
        """The intensity (m,) at places X (m, d): its posterior mean, in points for each unit of size."""
        return self._intensity(self._new(X))

    def predict_interval(self, X: Any, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends, (m,) each, of the interval that holds the intensity at each place with
        probability `level`.
        """
        check_level(level)
        mean, std = self.posterior_.mean_and_std(self._new(X), latent=True)
        half = ndtri(0.5 + 0.5 * level) * std
        return np.exp(mean - half), np.exp(mean + half)

    def expected_count(self, lower: Any = None, upper: Any = None, level: float = 0.95) -> ExpectedCount:
        """How many points are to be expected in the box from `lower` to `upper` (d,) where exposure is 1: the
        integral of the intensity. Its spread is that of what is not known of the intensity; a new pattern
        scatters about it as a Poisson count besides. None: the end of the region.

        >>> model.expected_count([0, 0], [5, 5]).mean
        """
        check_level(level)
        check_is_fitted(self, "fit_")
        cells = self.cells_
        box = (cells.lower if lower is None else lower, cells.upper if upper is None else upper)
        share = cells.overlap(*box)
        touched = share > 0
        weights = cells.size * share[touched]
        totals = self._draws(cells.centres[touched], DRAWS, self._seed()) @ weights
        ends = np.quantile(totals, [0.5 - 0.5 * level, 0.5 + 0.5 * level])
        mean = float(self._intensity(cells.centres[touched]) @ weights)
        return ExpectedCount(mean, float(totals.std()), *map(float, ends))

    def score_samples(self, X: Any) -> np.ndarray:
        """Log of the intensity (m,) at places X."""
        return np.log(self.predict(X))

    def score(self, X: Any, y: Any = None, exposure: float = 1.0) -> float:
        """Log density of another pattern X (m, d) of the same region and window, divided by its number of
        points: the mean log intensity less the expected number for each point. Higher is better.

        exposure: how much was observed of it, relative to the training points: (1 - p) / p where a share p of
            the points was trained on
        """
        points = self._new(X)
        self.cells_.check(points, "points")
        cells = self.cells_
        total = exposure * cells.size * float(self._at_cells() @ cells.exposure)
        return float(np.mean(np.log(exposure * self._intensity(points)))) - total / len(points)

    def sample_intensity(
        self, X: Any, n_samples: int = 1, random_state: int | np.random.RandomState | None = 0
    ) -> np.ndarray:
        """Joint draws of the intensity at places X: (m, n_samples), one in each column."""
        return self._draws(self._new(X), n_samples, seed_of(random_state)).T

    def sample(self, random_state: int | np.random.RandomState | None = None) -> np.ndarray:
        """Another pattern (m, d) where exposure is 1: points of an intensity that is drawn from the
        posterior. random_state: None is that of the estimator.
        """
        check_is_fitted(self, "fit_")
        rng, cells = self._generator(random_state), self.cells_
        rates = self._draws(cells.centres, 1, rng)[0] * cells.size
        return cells.within(np.repeat(np.arange(len(rates)), rng.poisson(rates)), rng)

    def summary(self) -> str:
        """What was learned, as text."""
        total = self.expected_count()
        return self._lines() + (
            f"\nexpected number of points in the region: {total.mean:.4g} ({total.lower:.4g} to "
            f"{total.upper:.4g})"
        )

    def _margin(self, points: np.ndarray) -> np.ndarray:
        return np.ptp(points, axis=0) / (len(points) - 1)

    def _mean(self, points: np.ndarray) -> Zero:
        return Zero()
