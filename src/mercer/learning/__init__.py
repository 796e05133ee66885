"""Learning hyperparameters: objectives, starts, optimisation."""

from mercer.learning.alignment import Aligned, align, alignment, alignment_weights
from mercer.learning.assess import Verdict, assess
from mercer.learning.compare import (
    Comparison,
    ModelEvidence,
    compare,
    model_evidence,
    model_posterior,
    overall_scale,
)
from mercer.learning.fitting import fit
from mercer.learning.integrate import integrate
from mercer.learning.objectives import Objective
from mercer.learning.result import Fit, FitWarning, Status

__all__ = [
    "Aligned",
    "Comparison",
    "Fit",
    "FitWarning",
    "ModelEvidence",
    "Objective",
    "Status",
    "Verdict",
    "align",
    "alignment",
    "alignment_weights",
    "assess",
    "compare",
    "fit",
    "integrate",
    "model_evidence",
    "model_posterior",
    "overall_scale",
]
