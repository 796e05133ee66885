"""Learning hyperparameters: `fit`, what it climbs and returns; evidences compared, hyperparameters integrated
out, approximations assessed. Each is imported when first used.

>>> learned = learning.fit(Model(GP(kernels.SE()), likelihoods.Gaussian()), X, y)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mercer.registry import exporter

if TYPE_CHECKING:
    from mercer.learning.assessment import Verdict, assess
    from mercer.learning.comparison import (
        Comparison,
        ModelEvidence,
        compare,
        model_evidence,
        model_posterior,
        overall_scale,
    )
    from mercer.learning.fitting import fit
    from mercer.learning.integration import integrate
    from mercer.learning.kernel_target import Aligned, align, alignment, alignment_weights
    from mercer.learning.newton import prior_curvature
    from mercer.learning.objectives import Objective, objective_and_gradient
    from mercer.learning.result import Fit, FitWarning, Status
    from mercer.learning.unconverged import UnconvergedWarning

__all__ = [
    "Aligned",
    "Comparison",
    "Fit",
    "FitWarning",
    "ModelEvidence",
    "Objective",
    "Status",
    "UnconvergedWarning",
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
    "objective_and_gradient",
    "overall_scale",
    "prior_curvature",
]

__getattr__ = exporter(
    __name__,
    {
        "assessment": "Verdict assess",
        "comparison": "Comparison ModelEvidence compare model_evidence model_posterior overall_scale",
        "fitting": "fit",
        "integration": "integrate",
        "kernel_target": "Aligned align alignment alignment_weights",
        "newton": "prior_curvature",
        "objectives": "Objective objective_and_gradient",
        "result": "Fit FitWarning Status",
        "unconverged": "UnconvergedWarning",
    },
)


def __dir__() -> list[str]:
    return sorted(__all__)
