"""Sampling: Markov chains on any log density, their diagnostics, importance sampling, and the densities of GP
models.

`sample` runs chains on a density of yours; `mercer.inference.MCMC` and `mercer.inference.AIS` run them on a
model.
"""

from mercer.sampling.chains import Chains, sample
from mercer.sampling.conditionals import gibbs, over_relaxed_bernoulli
from mercer.sampling.diagnostics import (
    Diagnostics,
    autocorrelation,
    autocorrelation_time,
    effective_sample_size,
    r_hat,
)
from mercer.sampling.elliptical import EllipticalSlice
from mercer.sampling.hmc import HMC, NUTS, leapfrog
from mercer.sampling.importance import Weighted, importance_sample, self_normalised
from mercer.sampling.metropolis import RandomWalk, metropolis_hastings
from mercer.sampling.multimodal import Mode, modes
from mercer.sampling.pareto import SmoothedWeights, fit_pareto, pareto_smooth
from mercer.sampling.thermodynamics import Thermodynamic, thermodynamic

__all__ = [
    "HMC",
    "NUTS",
    "Chains",
    "Diagnostics",
    "EllipticalSlice",
    "Mode",
    "RandomWalk",
    "SmoothedWeights",
    "Thermodynamic",
    "Weighted",
    "autocorrelation",
    "autocorrelation_time",
    "effective_sample_size",
    "fit_pareto",
    "gibbs",
    "importance_sample",
    "leapfrog",
    "metropolis_hastings",
    "modes",
    "over_relaxed_bernoulli",
    "pareto_smooth",
    "r_hat",
    "sample",
    "self_normalised",
    "thermodynamic",
]
