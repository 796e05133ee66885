"""Theory made visible: GP regression as a linear smoother, its equivalent kernel and shrinkage;
eigenfunctions of kernels.
"""

from mercer.theory.divergence import GaussianFits, gaussian_fits
from mercer.theory.eigen import (
    AbstractExpansion,
    NystromExpansion,
    eigenfunctions,
    normal_nodes,
    product_nodes,
    sampled_eigenvalues,
    uniform_nodes,
)
from mercer.theory.eigen_exact import GaussianSE, UniformOU, ou_on_interval, se_under_gaussian
from mercer.theory.grid import (
    Density,
    GridPosterior,
    grid_posterior,
    map_estimate,
    to_constrained,
    to_unconstrained,
)
from mercer.theory.sampled import SampledPosterior, sampled_posterior
from mercer.theory.smoother import Shrinkage, equivalent_kernel, shrinkage
from mercer.theory.spectrum import Decay, Degeneracy, degeneracy, spectrum_decay

__all__ = [
    "AbstractExpansion",
    "Decay",
    "Degeneracy",
    "Density",
    "GaussianFits",
    "GaussianSE",
    "GridPosterior",
    "NystromExpansion",
    "SampledPosterior",
    "Shrinkage",
    "UniformOU",
    "degeneracy",
    "eigenfunctions",
    "equivalent_kernel",
    "gaussian_fits",
    "grid_posterior",
    "map_estimate",
    "normal_nodes",
    "ou_on_interval",
    "product_nodes",
    "sampled_eigenvalues",
    "sampled_posterior",
    "se_under_gaussian",
    "shrinkage",
    "spectrum_decay",
    "to_constrained",
    "to_unconstrained",
    "uniform_nodes",
]
