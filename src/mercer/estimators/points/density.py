"""The density of points, with its uncertainty: a logistic Gaussian process."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy.special import ndtri
from sklearn.base import DensityMixin
from sklearn.utils.validation import check_is_fitted

from mercer.estimators.points.shared import AbstractPoints
from mercer.estimators.regression.predictions import check_level, seed_of
from mercer.means import LogGaussian

MARGIN = 1.0  # of the region, in standard deviations of a column


class GPDensity(DensityMixin, AbstractPoints):
    """The density of points of one to three columns, with its uncertainty: p(x) = exp(f(x)) / integral of
    exp(f), where f is a Gaussian process about the log density of a Gaussian with the mean and the covariance
    of the points (a logistic Gaussian process). In place of a kernel density estimate: how smooth it is is
    learned by the evidence, and the bands say what is not known of it.

    Points are counted in the cells of a grid, as for `GPIntensity`; the total of exp(f) says nothing of p.
    p is zero outside the region.

    kernel: kernel, str or None. Of f, in units of the columns; None is an ARD Matern 5/2, learned under weak
        priors that the spread of the points scales
    region: (lower, upper) of one column, or a pair for each; None. Where points may lie. None takes the box
        of the points and a standard deviation of each column more at its ends
    cells: int, tuple or None. How many there are along each column: 200 for one column, 32 for two, 10 for
        three. A warning says where f changes within a cell
    inference: "variational" (default), "ep" or "laplace"
    solver, restarts, max_evaluations, learn, memory, random_state, progress, parallel: as in `GPRegressor`

    points_, cells_, kernel_, model_, posterior_, fit_, log_marginal_likelihood_: as in `GPIntensity`

    >>> model = GPDensity().fit(X)
    >>> model.predict(Xs), model.predict_interval(Xs)             # the density (m,), and its 95 % band
    >>> model.score(X_test), model.probability(0.0, 1.5), model.sample(100)
    """

    word: ClassVar[str] = "density"

    def predict(self, X: Any) -> np.ndarray:
        """The density (m,) at places X (m, d), which integrates to one over the region."""
        X = self._new(X)
        return np.where(self._allowed(X), self._intensity(X) / self._total(), 0.0)

    def predict_interval(self, X: Any, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends, (m,) each, of the interval that holds the density at each place with
        probability `level`: log p = f(x) - log integral exp(f), the latter to first order in f.
        """
        check_level(level)
        X = self._new(X)
        mean, std = self.predict(X), self._log_std(X)
        half = ndtri(0.5 + 0.5 * level) * std
        middle = mean * np.exp(-0.5 * std**2)
        return middle * np.exp(-half), middle * np.exp(half)

    def score_samples(self, X: Any) -> np.ndarray:
        """Log densities (m,) at places X; minus infinity outside the region."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict(X))

    def score(self, X: Any, y: Any = None) -> float:
        """The mean log density of the rows."""
        return float(self.score_samples(X).mean())

    def probability(self, lower: Any = None, upper: Any = None) -> float:
        """Of a point to fall into the box from `lower` to `upper` (d,). None: the end of the region."""
        check_is_fitted(self, "fit_")
        cells = self.cells_
        box = (cells.lower if lower is None else lower, cells.upper if upper is None else upper)
        return float(self._shares() @ cells.overlap(*box))

    def sample_density(
        self, X: Any, n_samples: int = 1, random_state: int | np.random.RandomState | None = 0
    ) -> np.ndarray:
        """Joint draws of the density at places X: (m, n_samples), one in each column; each integrates to
        one.
        """
        X, cells = self._new(X), self.cells_
        drawn = self._draws(np.vstack([X, cells.centres[cells.seen]]), n_samples, seed_of(random_state))
        totals = cells.size * drawn[:, len(X) :].sum(1)
        return np.where(self._allowed(X)[:, None], (drawn[:, : len(X)] / totals[:, None]).T, 0.0)

    def sample(
        self, n_samples: int = 1, random_state: int | np.random.RandomState | None = None
    ) -> np.ndarray:
        """Points (n_samples, d) of the density that `predict` says. random_state: None is that of the
        estimator.
        """
        check_is_fitted(self, "fit_")
        rng, shares = self._generator(random_state), self._shares()
        return self.cells_.within(rng.choice(len(shares), n_samples, p=shares), rng)

    def summary(self) -> str:
        """What was learned, as text."""
        return self._lines()

    def _allowed(self, X: np.ndarray) -> np.ndarray:
        """Where the density is not zero (m,): in the region, in cells that were observed."""
        cells = self.cells_
        return cells.inside(X) & cells.seen[cells.numbers(X)]

    def _total(self) -> float:
        return self.cells_.size * float(self._at_cells()[self.cells_.seen].sum())

    def _shares(self) -> np.ndarray:
        """The probability of each cell (K,)."""
        rates = np.where(self.cells_.seen, self._at_cells(), 0.0)
        return rates / rates.sum()

    def _log_std(self, X: np.ndarray) -> np.ndarray:
        """Standard deviation (m,) of f(x) - w'f, where w (K,) are the probabilities of the cells: the
        derivative of log sum exp(f).
        """
        state, w = self.posterior_.state, self._shares()[self.cells_.seen][:, None]
        left = w - state.apply(state.times_K(w))  # cov(f*, w'f) = K_* (w - R K w)
        _, std = self.posterior_.mean_and_std(X, latent=True)
        total = float(np.sum(w * state.times_K(left)))
        return np.sqrt(np.maximum(std**2 - 2 * state.cross(X, left)[:, 0] + total, 0.0))

    def _margin(self, points: np.ndarray) -> np.ndarray:
        return MARGIN * points.std(0)

    def _mean(self, points: np.ndarray) -> LogGaussian:
        return LogGaussian(points.mean(0), np.atleast_2d(np.cov(points.T, bias=True)))
