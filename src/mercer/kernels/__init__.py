"""Covariance functions and their algebra.

>>> from mercer import kernels as k
>>> k.SE(lengthscale=1.0, variance=2.0) + 0.5 * k.Periodic(period=1.0) * k.SE(10.0)
"""

from mercer.kernels.additive import Additive, direct_sum, tensor_product
from mercer.kernels.algebra import Product, Scale, Sum
from mercer.kernels.band_limited import BesselJ, Cosine, Sinc
from mercer.kernels.base import AbstractKernel
from mercer.kernels.categorical import Categorical, CategoricalCovariance
from mercer.kernels.checks import PSDCheck, Sigmoid, White, check_psd
from mercer.kernels.columns import On
from mercer.kernels.compact import PiecewisePolynomial
from mercer.kernels.conditioned import PosteriorKernel, tied_down
from mercer.kernels.counts import BagOfCharacters, BagOfWords, Spectrum
from mercer.kernels.dot import Constant, Linear, LinearCovariance, Polynomial
from mercer.kernels.factors import lower_factor
from mercer.kernels.features import Features, varying_coefficients
from mercer.kernels.fourier import FourierFeatures, random_fourier_features
from mercer.kernels.functions import AbstractFunction, Function, LinearMap, LogLinear, LogProcess, LogRadial
from mercer.kernels.networks import ArcCosine, GaussianNetwork, NeuralNetwork
from mercer.kernels.nonstationary import ChangePoint, Gibbs, PaciorekSchervish
from mercer.kernels.objects import ObjectKernel, Precomputed
from mercer.kernels.parse import KernelSyntaxError, parse
from mercer.kernels.paths import BrownianBridge, FractionalBrownian, IntegratedWiener, Wiener
from mercer.kernels.periodic import PeriodicOf, Periodised, locally_periodic
from mercer.kernels.powers import Power
from mercer.kernels.regularity import Regularity, derivative_covariance, regularity, smoothness, upcrossings
from mercer.kernels.spectral import SpectralError, integrable, line_spectrum, spectral_density
from mercer.kernels.spectral_mixture import ScaleMixture, SpectralMixture, scale_mixture
from mercer.kernels.stationary import (
    SE,
    AbstractStationary,
    GammaExponential,
    Matern,
    OrnsteinUhlenbeck,
    Periodic,
    RationalQuadratic,
)
from mercer.kernels.strings import GapWeighted, Mismatch, Substring
from mercer.kernels.symmetry import Invariant
from mercer.kernels.transforms import Blurred, Normalised, Rescale, Warp
from mercer.kernels.trees import Subtree

__all__ = [
    "SE",
    "AbstractFunction",
    "AbstractKernel",
    "AbstractStationary",
    "Additive",
    "ArcCosine",
    "BagOfCharacters",
    "BagOfWords",
    "BesselJ",
    "Blurred",
    "BrownianBridge",
    "Categorical",
    "CategoricalCovariance",
    "ChangePoint",
    "Constant",
    "Cosine",
    "Features",
    "FourierFeatures",
    "FractionalBrownian",
    "Function",
    "GammaExponential",
    "GapWeighted",
    "GaussianNetwork",
    "Gibbs",
    "IntegratedWiener",
    "Invariant",
    "KernelSyntaxError",
    "Linear",
    "LinearCovariance",
    "LinearMap",
    "LogLinear",
    "LogProcess",
    "LogRadial",
    "Matern",
    "Mismatch",
    "NeuralNetwork",
    "Normalised",
    "ObjectKernel",
    "On",
    "OrnsteinUhlenbeck",
    "PSDCheck",
    "PaciorekSchervish",
    "Periodic",
    "PeriodicOf",
    "Periodised",
    "PiecewisePolynomial",
    "Polynomial",
    "PosteriorKernel",
    "Power",
    "Precomputed",
    "Product",
    "RationalQuadratic",
    "Regularity",
    "Rescale",
    "Scale",
    "ScaleMixture",
    "Sigmoid",
    "Sinc",
    "SpectralError",
    "SpectralMixture",
    "Spectrum",
    "Substring",
    "Subtree",
    "Sum",
    "Warp",
    "White",
    "Wiener",
    "check_psd",
    "derivative_covariance",
    "direct_sum",
    "integrable",
    "line_spectrum",
    "locally_periodic",
    "lower_factor",
    "parse",
    "random_fourier_features",
    "regularity",
    "scale_mixture",
    "smoothness",
    "spectral_density",
    "tensor_product",
    "tied_down",
    "upcrossings",
    "varying_coefficients",
]
