"""Intervals with a coverage that holds for finitely many data, whether the model is right or not:
split-conformal prediction, scaled by the model's own std (Lei et al. 2018).
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from mercer.estimators.regression.predictions import AbstractPredictions, check_level
from mercer.inputs import InputError, as_targets


@dataclasses.dataclass(frozen=True, eq=False)
class Conformal:
    """A fitted regressor with intervals that were calibrated on other rows.

    scores: (n,) |y - mean| / std of these rows, in order

    If they and a new row can be exchanged (none is special by its order or origin), the interval of level p
    holds the new y with probability between p and p + 1 / (n + 1): over the draw of all these rows, not for
    each x on its own.

    >>> calibrated = model.calibrate(X_new, y_new)
    >>> lower, upper = calibrated.predict_interval(Xs, level=0.9)
    >>> print(calibrated)
    """

    regressor: AbstractPredictions
    scores: np.ndarray

    def factor(self, level: float = 0.95) -> float:
        """By what std are multiplied: the ceil((n + 1) level)-th of the scores; infinite where there are too
        few of them for the level.
        """
        check_level(level)
        rank = math.ceil((len(self.scores) + 1) * level - 1e-9)
        return math.inf if rank > len(self.scores) else float(self.scores[rank - 1])

    def predict(self, X: Any) -> np.ndarray:
        """The regressor's predicted mean (m,)."""
        return np.asarray(self.regressor.predict(X))

    def predict_interval(self, X: Any, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends (m,) of intervals that hold y with at least this probability; infinite where
        n rows cannot promise it, n < level / (1 - level).
        """
        mean, std = self.regressor.predict(X, return_std=True)
        reach = self.factor(level) * std
        return mean - reach, mean + reach

    def __str__(self) -> str:
        n = len(self.scores)
        factors = ", ".join(f"{100 * p:g} % {self.factor(p):.3g}" for p in (0.5, 0.8, 0.9, 0.95, 0.99))
        return (
            f"calibrated on {n} rows: an interval reaches so many std to each side, {factors} (of a Gaussian "
            "0.674, 1.28, 1.64, 1.96, 2.58). It holds y in at least that share of new rows if they can be "
            "exchanged with these."
        )


def calibrated(regressor: AbstractPredictions, X: Any, y: Any) -> Conformal:
    """The regressor with the scores of rows X (n, d), y (n,) that it was not fitted to."""
    mean, std = regressor.predict(X, return_std=True)
    if not len(mean):
        raise InputError("calibration needs at least one row.")
    away = np.abs(as_targets(y, len(mean)) - mean)
    if not (std > 0).all():
        raise InputError("a predicted std is zero: calibrate a model with noise.")
    return Conformal(regressor, np.sort(away / std))
