"""Decisions under uncertainty: point predictions that suit a loss, and Bayesian analysis of small models."""

from mercer.decide.bayes import Density, GridPosterior, grid_posterior, map_estimate, to_constrained, to_unconstrained
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
    "Decision",
    "Density",
    "GridPosterior",
    "Mixture",
    "Samples",
    "expected_loss",
    "gaussian",
    "grid_posterior",
    "map_estimate",
    "optimal_prediction",
    "to_constrained",
    "to_unconstrained",
]
