"""Decisions under uncertainty: point predictions and classes that suit a loss, ranked items."""

from mercer.decide.classes import ClassDecision, decide, empirical_risk, expected_class_loss, thresholds
from mercer.decide.loss import (
    AbstractPredictive,
    Decision,
    PredictiveMixture,
    Samples,
    expected_loss,
    gaussian,
    optimal_prediction,
)
from mercer.decide.preferences import Utilities, utilities

__all__ = [
    "AbstractPredictive",
    "ClassDecision",
    "Decision",
    "PredictiveMixture",
    "Samples",
    "Utilities",
    "decide",
    "empirical_risk",
    "expected_class_loss",
    "expected_loss",
    "gaussian",
    "optimal_prediction",
    "thresholds",
    "utilities",
]
