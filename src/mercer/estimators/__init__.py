"""scikit-learn's face of Mercer: estimators with fit and predict. Each is imported when first used."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mercer.estimators.classification.classifier import GPClassifier
    from mercer.estimators.hidden.experts import GPMixture
    from mercer.estimators.hidden.hmm import HMM
    from mercer.estimators.hidden.mixture import GaussianMixture
    from mercer.estimators.persist import ModelFileError, load, save
    from mercer.estimators.regression.regressor import GPRegressor
    from mercer.estimators.series.forecaster import GPTimeSeries

_MODULES = {
    "GPClassifier": "classification.classifier",
    "GPMixture": "hidden.experts",
    "GPRegressor": "regression.regressor",
    "GPTimeSeries": "series.forecaster",
    "GaussianMixture": "hidden.mixture",
    "HMM": "hidden.hmm",
    "ModelFileError": "persist",
    "load": "persist",
    "save": "persist",
}

__all__ = [
    "HMM",
    "GPClassifier",
    "GPMixture",
    "GPRegressor",
    "GPTimeSeries",
    "GaussianMixture",
    "ModelFileError",
    "load",
    "save",
]


def __getattr__(name: str):
    if name in _MODULES:
        return getattr(importlib.import_module(f"mercer.estimators.{_MODULES[name]}"), name)
    raise AttributeError(f"module 'mercer.estimators' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
