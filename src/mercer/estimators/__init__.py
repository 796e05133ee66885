"""scikit-learn's face of Mercer: estimators with fit and predict. Each is imported when first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mercer.registry import exporter

if TYPE_CHECKING:
    from mercer.estimators.classification.classifier import GPClassifier
    from mercer.estimators.files import predict_files
    from mercer.estimators.hidden.bayesian import BayesianGaussianMixture, BayesianHMM
    from mercer.estimators.hidden.experts import GPMixture
    from mercer.estimators.hidden.hmm import HMM
    from mercer.estimators.hidden.mixture import GaussianMixture
    from mercer.estimators.latent.gplvm import GPLVM
    from mercer.estimators.latent.gtm import GTM
    from mercer.estimators.points.density import GPDensity
    from mercer.estimators.points.intensity import ExpectedCount, GPIntensity
    from mercer.estimators.regression.regressor import GPRegressor
    from mercer.estimators.regression.searched import RankedModel, Ranking, SearchResult, search
    from mercer.estimators.series.events import Event
    from mercer.estimators.series.forecaster import GPTimeSeries
    from mercer.estimators.series.panel import GPPanel

__all__ = [
    "GPLVM",
    "GTM",
    "HMM",
    "BayesianGaussianMixture",
    "BayesianHMM",
    "Event",
    "ExpectedCount",
    "GPClassifier",
    "GPDensity",
    "GPIntensity",
    "GPMixture",
    "GPPanel",
    "GPRegressor",
    "GPTimeSeries",
    "GaussianMixture",
    "RankedModel",
    "Ranking",
    "SearchResult",
    "predict_files",
    "search",
]


__getattr__ = exporter(
    __name__,
    {
        "classification.classifier": "GPClassifier",
        "files": "predict_files",
        "hidden.bayesian": "BayesianGaussianMixture BayesianHMM",
        "hidden.experts": "GPMixture",
        "hidden.hmm": "HMM",
        "hidden.mixture": "GaussianMixture",
        "latent.gplvm": "GPLVM",
        "latent.gtm": "GTM",
        "points.density": "GPDensity",
        "points.intensity": "ExpectedCount GPIntensity",
        "regression.regressor": "GPRegressor",
        "regression.searched": "RankedModel Ranking SearchResult search",
        "series.events": "Event",
        "series.forecaster": "GPTimeSeries",
        "series.panel": "GPPanel",
    },
)


def __dir__() -> list[str]:
    return sorted(__all__)
