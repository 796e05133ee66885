"""Expectation-Maximisation: a driver for models with hidden variables, mixtures of any densities, hidden Markov models."""

from mercer.em.driver import EMError, Iteration, Outcome, em
from mercer.em.emission import Categorical, Gaussian, GaussianMixtures
from mercer.em.families import Exponential, Normal, Poisson
from mercer.em.gaussian import Gaussians, InverseWishart
from mercer.em.hmm import HMM, Filter, Q, left_right
from mercer.em.mixture import GaussianMixture, Mixture
from mercer.em.symmetric import log_det_gradient, quadratic_gradient, trace_gradient

__all__ = [
    "HMM",
    "Categorical",
    "EMError",
    "Exponential",
    "Filter",
    "Gaussian",
    "GaussianMixture",
    "GaussianMixtures",
    "Gaussians",
    "InverseWishart",
    "Iteration",
    "Mixture",
    "Normal",
    "Outcome",
    "Poisson",
    "Q",
    "em",
    "left_right",
    "log_det_gradient",
    "quadratic_gradient",
    "trace_gradient",
]
