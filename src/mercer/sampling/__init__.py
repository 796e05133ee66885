"""Sampling: Markov chains on any log density, their diagnostics, importance sampling, and the densities of GP models.

`sample` runs chains on a density of yours; `mercer.inference.MCMC` and `mercer.inference.AIS` run them on a model.
"""

from mercer.sampling.chains import Chains, sample
from mercer.sampling.diagnostics import Diagnostics, autocorrelation, autocorrelation_time, effective_sample_size, r_hat
from mercer.sampling.elliptical import EllipticalSlice
from mercer.sampling.gibbs import gibbs, over_relaxed_bernoulli
from mercer.sampling.hmc import HMC, NUTS, leapfrog
from mercer.sampling.importance import Weighted, importance_sample, self_normalised
from mercer.sampling.metropolis import RandomWalk, metropolis_hastings

__all__ = [
    "HMC", "NUTS", "Chains", "Diagnostics", "EllipticalSlice", "RandomWalk", "Weighted", "autocorrelation", "autocorrelation_time",
    "effective_sample_size", "gibbs", "importance_sample", "leapfrog", "metropolis_hastings", "over_relaxed_bernoulli", "r_hat",
    "sample", "self_normalised",
]  # fmt: skip
