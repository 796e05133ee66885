"""Decisions under uncertainty: point predictions and classes that suit a loss, and Bayesian analysis of small models."""

from mercer.decide.bayes import Density, GridPosterior, grid_posterior, map_estimate, to_constrained, to_unconstrained
from mercer.decide.classes import ClassDecision, decide, empirical_risk, expected_class_loss, thresholds
from mercer.decide.loss import (
    AbstractPredictive,
    Decision,
    Mixture,
    Samples,
    expected_loss,
    gaussian,
    optimal_prediction,
)

__all__ = [
    "AbstractPredictive",
    "ClassDecision",
    "Decision",
    "Density",
    "GridPosterior",
    "Mixture",
    "Samples",
    "decide",
    "empirical_risk",
    "expected_class_loss",
    "expected_loss",
    "gaussian",
    "grid_posterior",
    "map_estimate",
    "optimal_prediction",
    "thresholds",
    "to_constrained",
    "to_unconstrained",
]
