"""Theory made visible: GP regression as a linear smoother, its equivalent kernel and shrinkage;
eigenfunctions of kernels; learning curves, consistency, how many data it takes; whether data tell two
processes apart; PAC-Bayes bounds.
"""

from mercer.theory.apart import (
    Apart,
    model_probability,
    periodic_divergence,
    symmetric_divergence,
    tell_apart,
)
from mercer.theory.curves import (
    LearningCurve,
    generalisation_error,
    learning_curve,
    micchelli_wahba,
    opper_vivarelli,
    ou_error,
    ou_learning_curve,
    sollich,
    williams_vivarelli,
)
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
from mercer.theory.equivalent import (
    cutoff_se,
    equivalent_matern32,
    equivalent_ou,
    equivalent_se,
    equivalent_spline,
    equivalent_weights,
    half_width,
)
from mercer.theory.grid import (
    Density,
    GridPosterior,
    grid_posterior,
    map_estimate,
    to_constrained,
    to_unconstrained,
)
from mercer.theory.growing import Consistency, DataNeeded, consistency, data_needed
from mercer.theory.pac_bayes import inverse_bernoulli_kl, mcallester, seeger
from mercer.theory.sampled import SampledPosterior, sampled_posterior
from mercer.theory.smoother import EigenSmoother, Shrinkage, eigen_smoother, equivalent_kernel, shrinkage
from mercer.theory.spectrum import Decay, Degeneracy, degeneracy, spectrum_decay

__all__ = [
    "AbstractExpansion",
    "Apart",
    "Consistency",
    "DataNeeded",
    "Decay",
    "Degeneracy",
    "Density",
    "EigenSmoother",
    "GaussianFits",
    "GaussianSE",
    "GridPosterior",
    "LearningCurve",
    "NystromExpansion",
    "SampledPosterior",
    "Shrinkage",
    "UniformOU",
    "consistency",
    "cutoff_se",
    "data_needed",
    "degeneracy",
    "eigen_smoother",
    "eigenfunctions",
    "equivalent_kernel",
    "equivalent_matern32",
    "equivalent_ou",
    "equivalent_se",
    "equivalent_spline",
    "equivalent_weights",
    "gaussian_fits",
    "generalisation_error",
    "grid_posterior",
    "half_width",
    "inverse_bernoulli_kl",
    "learning_curve",
    "map_estimate",
    "mcallester",
    "micchelli_wahba",
    "model_probability",
    "normal_nodes",
    "opper_vivarelli",
    "ou_error",
    "ou_learning_curve",
    "ou_on_interval",
    "periodic_divergence",
    "product_nodes",
    "sampled_eigenvalues",
    "sampled_posterior",
    "se_under_gaussian",
    "seeger",
    "shrinkage",
    "sollich",
    "spectrum_decay",
    "symmetric_divergence",
    "tell_apart",
    "to_constrained",
    "to_unconstrained",
    "uniform_nodes",
    "williams_vivarelli",
]
