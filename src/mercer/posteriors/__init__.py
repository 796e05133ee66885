"""Posteriors: what conditioning and fitting return.

Every one has the face of `AbstractPosterior`. `GaussianPosterior` is one Gaussian process; `DrawsPosterior`,
`AveragedPosterior` and `EnumeratedPosterior` are mixtures of them.

>>> post = mercer.GP(kernels.SE()).condition(X, y, noise_variance=0.1)
>>> post.mean(Xs), post.std(Xs), post.sample(Xs, 5, seed=0), post.offers
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mercer.posteriors.answers import (
    Component,
    EvidenceBounds,
    EvidenceTerms,
    InferenceStatus,
    LeaveOneOut,
    PosteriorError,
    Predictive,
    UncertainPrediction,
)
from mercer.posteriors.functions import SampledFunctions
from mercer.posteriors.gaussian import GaussianPosterior
from mercer.posteriors.loo import leave_one_out
from mercer.posteriors.protocol import QUESTIONS, AbstractPosterior
from mercer.posteriors.scores import PredictiveScore, ScoreComparison, compare_scores
from mercer.registry import exporter

if TYPE_CHECKING:
    from mercer.posteriors.average import AveragedPosterior
    from mercer.posteriors.draws import DrawsPosterior
    from mercer.posteriors.enumerated import EnumeratedPosterior
    from mercer.posteriors.given import GivenHyperparameters, GivenLatents, GivenScales
    from mercer.posteriors.sensitivity import Sensitivity

__all__ = [
    "QUESTIONS",
    "AbstractPosterior",
    "AveragedPosterior",
    "Component",
    "DrawsPosterior",
    "EnumeratedPosterior",
    "EvidenceBounds",
    "EvidenceTerms",
    "GaussianPosterior",
    "GivenHyperparameters",
    "GivenLatents",
    "GivenScales",
    "InferenceStatus",
    "LeaveOneOut",
    "PosteriorError",
    "Predictive",
    "PredictiveScore",
    "SampledFunctions",
    "ScoreComparison",
    "Sensitivity",
    "UncertainPrediction",
    "compare_scores",
    "leave_one_out",
]

# imported when first used
__getattr__ = exporter(
    __name__,
    {
        "average": "AveragedPosterior",
        "draws": "DrawsPosterior",
        "enumerated": "EnumeratedPosterior",
        "given": "GivenHyperparameters GivenLatents GivenScales",
        "sensitivity": "Sensitivity",
    },
)


def __dir__() -> list[str]:
    return sorted(__all__)
