"""Expectation-Maximisation: a driver for models with hidden variables; mixtures of any densities, Markov
chains, hidden Markov models, mixtures of Gaussian-process experts.
"""

from mercer.em.chain import MarkovChain
from mercer.em.driver import EMError, Iteration, Outcome, em
from mercer.em.emission import Categorical, Gaussian, GaussianMixtures
from mercer.em.experts import GPExperts, GPExpertsPosterior
from mercer.em.families import Exponential, Normal, Poisson
from mercer.em.gates import ConstantGate, SoftmaxGate
from mercer.em.gaussian import Gaussians, InverseWishart
from mercer.em.hmm import HMM, Filter, Q, left_right
from mercer.em.mixture import GaussianMixture, Mixture
from mercer.em.symmetric import log_det_gradient, quadratic_gradient, trace_gradient

__all__ = [
    "HMM",
    "Categorical",
    "ConstantGate",
    "EMError",
    "Exponential",
    "Filter",
    "GPExperts",
    "GPExpertsPosterior",
    "Gaussian",
    "GaussianMixture",
    "GaussianMixtures",
    "Gaussians",
    "InverseWishart",
    "Iteration",
    "MarkovChain",
    "Mixture",
    "Normal",
    "Outcome",
    "Poisson",
    "Q",
    "SoftmaxGate",
    "em",
    "left_right",
    "log_det_gradient",
    "quadratic_gradient",
    "trace_gradient",
]
