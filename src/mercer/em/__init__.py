"""Expectation-Maximisation: a driver for models with hidden variables; mixtures of any densities, Markov
chains, hidden Markov models, mixtures of Gaussian-process experts.
"""

from mercer.em.chain import MarkovChain
from mercer.em.conjugate import DirichletEmission, Dirichlets, GammaEmission, NormalWisharts, Sticks
from mercer.em.counts import MultinomialEmission, PoissonEmission
from mercer.em.driver import EMError, Iteration, Outcome, em
from mercer.em.emission import CategoricalEmission, GaussianEmission, GaussianMixtureEmission
from mercer.em.experts import ConditionedExperts, GPExperts
from mercer.em.families import ExponentialComponent, NormalComponent, PoissonComponent
from mercer.em.gates import ConstantGate, GPGate, SoftmaxGate
from mercer.em.gaussian import Gaussians, InverseWishart, NormalInverseWishart
from mercer.em.hmm import HMM, Filter, Prepared, Q, left_right
from mercer.em.mixture import GaussianMixture, Labelled, Mixture
from mercer.em.student import StudentTEmission
from mercer.em.symmetric import log_det_gradient, quadratic_gradient, trace_gradient
from mercer.em.topographic import TopographicMap
from mercer.em.variational import VariationalHMM, VariationalMixture

__all__ = [
    "HMM",
    "CategoricalEmission",
    "ConditionedExperts",
    "ConstantGate",
    "DirichletEmission",
    "Dirichlets",
    "EMError",
    "ExponentialComponent",
    "Filter",
    "GPExperts",
    "GPGate",
    "GammaEmission",
    "GaussianEmission",
    "GaussianMixture",
    "GaussianMixtureEmission",
    "Gaussians",
    "InverseWishart",
    "Iteration",
    "Labelled",
    "MarkovChain",
    "Mixture",
    "MultinomialEmission",
    "NormalComponent",
    "NormalInverseWishart",
    "NormalWisharts",
    "Outcome",
    "PoissonComponent",
    "PoissonEmission",
    "Prepared",
    "Q",
    "SoftmaxGate",
    "Sticks",
    "StudentTEmission",
    "TopographicMap",
    "VariationalHMM",
    "VariationalMixture",
    "em",
    "left_right",
    "log_det_gradient",
    "quadratic_gradient",
    "trace_gradient",
]
