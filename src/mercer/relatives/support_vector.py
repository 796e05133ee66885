"""Support vector regression with settings chosen by cross-validation:
the baseline of the robust experiments.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.svm import SVR

from mercer.relatives.checks import Array, test_inputs, training_data
from mercer.relatives.protocol import search_grid, stratified_folds


class SupportVectorRegression(RegressorMixin, BaseEstimator):
    """Epsilon-insensitive support vector regression with a squared-exponential kernel (Kuss 5.6).

    C, epsilon and the length-scale are those with the lowest cross-validated loss, on a grid that moves until
    the optimum is inside and is then refined (`search_grid`). X and y are standardised; predictions are in
    the units of y, without uncertainty.

    folds: int, default 5. Stratified folds of the cross-validation.
    loss: "mae" or "mse", default "mae". What the cross-validation minimises.
    refinements: int, default 1. How often the spacing of the grid, at first a factor of 10, is replaced by
        its square root.
    random_state: int, default 0. Seed of the folds.

    C_, epsilon_, lengthscale_: float. The settings chosen, in units of the standardised data.
    loss_: float, cross-validated, in units of y (squared for "mse")
    interior_: bool, False where the grid met its limits

    >>> SupportVectorRegression().fit(X, y).predict(Xs)
    """

    def __init__(self, folds: int = 5, loss: str = "mae", refinements: int = 1, random_state: int = 0):
        self.folds = folds
        self.loss = loss
        self.refinements = refinements
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> SupportVectorRegression:
        """Choose the settings and fit inputs X (n, d), targets y (n,)."""
        if self.loss not in ("mae", "mse"):
            raise ValueError(f"loss must be 'mae' or 'mse', got {self.loss!r}.")
        inputs, targets = training_data(self, X, y)
        n, d = inputs.shape
        if n < 2:
            raise ValueError(f"cross-validation needs at least 2 rows; X has n_samples = {n}.")
        self.location_, self.spread_ = inputs.mean(0), np.std(inputs, 0)
        self.spread_[self.spread_ == 0] = 1.0
        self.centre_, self.scale_ = float(targets.mean()), float(np.std(targets)) or 1.0
        Z, t = (inputs - self.location_) / self.spread_, (targets - self.centre_) / self.scale_
        parts = stratified_folds(t, min(self.folds, n), self.random_state)
        rest = [np.setdiff1d(np.arange(n), part) for part in parts]

        def score(settings: dict[str, float]) -> float:
            errors = np.empty(n)
            for train, test in zip(rest, parts, strict=True):
                errors[test] = t[test] - _machine(settings).fit(Z[train], t[train]).predict(Z[test])
            return float(np.mean(np.abs(errors) if self.loss == "mae" else errors**2))

        start = {"C": 1.0, "epsilon": 0.1, "lengthscale": float(np.sqrt(d))}
        found = search_grid(score, start, refinements=self.refinements, limit=1e4, tol=1e-3)
        self.C_, self.epsilon_, self.lengthscale_ = (
            found.values[name] for name in ("C", "epsilon", "lengthscale")
        )
        self.loss_ = found.score * (self.scale_ if self.loss == "mae" else self.scale_**2)
        self.interior_ = found.interior
        self.machine_ = _machine(found.values).fit(Z, t)
        return self

    def predict(self, X: ArrayLike) -> Array:
        """Predicted targets (n,)."""
        inputs = test_inputs(self, X)
        return self.centre_ + self.scale_ * self.machine_.predict((inputs - self.location_) / self.spread_)


def _machine(settings: dict[str, float]) -> SVR:
    return SVR(C=settings["C"], epsilon=settings["epsilon"], gamma=0.5 / settings["lengthscale"] ** 2)
