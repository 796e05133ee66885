"""Learning hyperparameters: objectives, starts, optimisation."""

from mercer.learning.alignment import Aligned, align, alignment, alignment_weights
from mercer.learning.compare import ModelEvidence, model_evidence, model_posterior, overall_scale
from mercer.learning.fit import Fit, FitWarning, Status, fit
from mercer.learning.objectives import Objective

__all__ = [
    "Aligned",
    "Fit",
    "FitWarning",
    "ModelEvidence",
    "Objective",
    "Status",
    "align",
    "alignment",
    "alignment_weights",
    "fit",
    "model_evidence",
    "model_posterior",
    "overall_scale",
]
