"""Decisions under uncertainty: point predictions and classes that suit a loss, ranked items, and the next
evaluation of an expensive function.
"""

from mercer.registry import exporter

_MODULES = {
    "classes": "ClassDecision decide empirical_risk expected_class_loss thresholds",
    "designs": "Design design",
    "loss": (
        "AbstractPredictive Decision PredictiveMixture Samples expected_loss gaussian optimal_prediction"
    ),
    "measures": "AbstractMeasure NormalMeasure UniformMeasure",
    "evaluations": "Evaluation Front Optimum Suggestion",
    "optimiser": "Optimiser",
    "pareto": "dominated_volume",
    "preferences": "Utilities utilities",
    "quadrature": "Integral LogEvidence evidence integral integrate",
    "run": "optimise",
    "steered": "SteeredDraws surrogate_hmc",
    "space": "AbstractSearchColumn Categorical Integer LinearConstraint Real Space SpaceError",
}

__all__ = sorted(name for names in _MODULES.values() for name in names.split())
__getattr__ = exporter(__name__, _MODULES)


def __dir__() -> list[str]:
    return sorted(__all__)
