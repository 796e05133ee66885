"""Learning hyperparameters: objectives, starts, optimisation."""

from mercer.learning.compare import ModelEvidence, model_evidence, model_posterior, overall_scale
from mercer.learning.fit import Fit, FitWarning, Status, fit
from mercer.learning.objectives import Objective

__all__ = [
    "Fit",
    "FitWarning",
    "ModelEvidence",
    "Objective",
    "Status",
    "fit",
    "model_evidence",
    "model_posterior",
    "overall_scale",
]
