"""`GPTimeSeries` as a forecaster of sktime's, for its pipelines, tuning and backtests."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

try:
    import pandas as pd
    from sktime.forecasting.base import BaseForecaster
except ImportError as error:
    raise ImportError('GPForecaster is for sktime: pip install "mercer[sktime]".') from error

from mercer.estimators import GPTimeSeries

__all__ = ["GPForecaster"]


class GPForecaster(BaseForecaster):
    """A forecaster of sktime's around `mercer.GPTimeSeries`: mean, quantiles, intervals, variances; values
    are added in `update`, where hyperparameters stay as they are.

    seasonal, trend, irregular, likelihood, transform, harmonics, max_evaluations, integrate, random_state: as
        in `GPTimeSeries`. Numbered steps have no seasons that are known beforehand: seasonal=[12.0] says one.
        X, where it is given, has linear effects (`regressors`), and is needed where it is predicted.

    >>> from mercer.interop.sktime import GPForecaster
    >>> from sktime.datasets import load_airline
    >>> forecaster = GPForecaster(integrate=False).fit(load_airline(), fh=[1, 2, 3])
    >>> forecaster.predict_interval(coverage=0.9).shape
    (3, 2)
    """

    _tags: ClassVar[dict[str, Any]] = {
        "authors": "The Mercer developers",
        "python_dependencies": None,
        "y_inner_mtype": "pd.Series",
        "X_inner_mtype": "pd.DataFrame",
        "scitype:y": "univariate",
        "requires-fh-in-fit": False,
        "capability:exogenous": True,
        "capability:missing_values": True,
        "capability:insample": True,
        "capability:pred_int": True,
        "capability:pred_int:insample": True,
        "capability:update": True,
        "capability:random_state": True,
    }

    def __init__(
        self,
        seasonal: Any = "auto",
        trend: str = "auto",
        irregular: bool = True,
        likelihood: Any = "gaussian",
        transform: str | None = "auto",
        harmonics: int | None = None,
        max_evaluations: int = 200,
        integrate: bool = True,
        random_state: int = 0,
    ):
        self.seasonal = seasonal
        self.trend = trend
        self.irregular = irregular
        self.likelihood = likelihood
        self.transform = transform
        self.harmonics = harmonics
        self.max_evaluations = max_evaluations
        self.integrate = integrate
        self.random_state = random_state
        super().__init__()

    def _fit(self, y: Any, X: Any, fh: Any) -> GPForecaster:
        self.series_ = GPTimeSeries(**self.get_params(deep=False), progress=False)
        self._values, self._known = y, X if X is not None and len(X.columns) else None
        known = None if self._known is None else _columns(self._known)
        self.series_.fit(_stamps(y.index), y.to_numpy(float), regressors=known)
        return self

    def _update(self, y: Any, X: Any = None, update_params: bool = True) -> GPForecaster:
        new = ~y.index.isin(self._values.index)
        values = pd.concat([self._values, y[new]])
        known = None if self._known is None else pd.concat([self._known, X[new]])
        if update_params:
            return self._fit(values, known, None)
        self._values, self._known = values, known
        if new.any() and known is not None:
            rows = {
                self.series_.time_name_: _stamps(y.index[new]),
                self.series_.value_name_: y[new].to_numpy(float),
            }
            self.series_.update(rows | _columns(X[new]))
        elif new.any():
            self.series_.update(_stamps(y.index[new]), y[new].to_numpy(float))
        return self

    def _ahead(self, fh: Any, X: Any) -> tuple[Any, Any, Any]:
        """Index of the answer, stamps, and what is known of the regressors."""
        index = fh.to_absolute_index(self.cutoff)
        known = None
        if self.series_.regressors_:
            before: Any = self._known
            new = [] if X is None else [X[~X.index.isin(before.index)]]
            known = _columns(pd.concat([before, *new]).loc[index])
        return index, _stamps(index), known

    def _predict(self, fh: Any, X: Any = None) -> Any:
        index, stamps, known = self._ahead(fh, X)
        _, columns = self.series_.forecast_columns(stamps, 0.95, known)
        return pd.Series(columns["mean"], index=index, name=self._values.name)

    def _predict_quantiles(self, fh: Any, X: Any, alpha: Any) -> Any:
        index, stamps, known = self._ahead(fh, X)
        predictive = self.series_._predictive(self.series_._ahead(stamps), known)
        names = pd.MultiIndex.from_product([self._get_varnames(), alpha])
        values = np.column_stack([predictive.quantile(float(a)) for a in alpha])
        return pd.DataFrame(values, index=index, columns=names)

    def _predict_var(self, fh: Any, X: Any = None, cov: bool = False) -> Any:
        index, stamps, known = self._ahead(fh, X)
        if cov:
            drawn = self.series_.sample(stamps, 2000, known, random_state=self.random_state)
            return pd.DataFrame(np.atleast_2d(np.cov(drawn.T)), index=index, columns=index)
        _, columns = self.series_.forecast_columns(stamps, 0.95, known)
        return pd.DataFrame(columns["std"] ** 2, index=index, columns=self._get_varnames())

    @classmethod
    def get_test_params(cls, parameter_set: str = "default") -> list[dict[str, Any]]:
        """Settings with which sktime tests it: small ones."""
        small = {"trend": "level", "irregular": False, "max_evaluations": 5, "integrate": False}
        return [small, small | {"seasonal": [4.0], "harmonics": 1}]


def _stamps(index: Any) -> np.ndarray:
    """Times as Mercer reads them: dates, or numbers."""
    if isinstance(index, pd.PeriodIndex):
        index = index.to_timestamp()
    if isinstance(index, pd.DatetimeIndex):
        return index.to_numpy()
    return np.asarray(index, float)


def _columns(X: Any) -> dict[str, np.ndarray]:
    return {str(name): X[name].to_numpy(float) for name in X.columns}
