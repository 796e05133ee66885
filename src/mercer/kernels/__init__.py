"""Covariance functions and their algebra.

>>> from mercer import kernels as k
>>> k.SE(lengthscale=1.0, variance=2.0) + 0.5 * k.Periodic(period=1.0) * k.SE(10.0)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mercer.kernels.algebra.additive import Additive, direct_sum, tensor_product
    from mercer.kernels.algebra.columns import On
    from mercer.kernels.algebra.conditioned import PosteriorKernel, tied_down
    from mercer.kernels.algebra.functions import (
        AbstractFunction,
        Function,
        LinearMap,
        LogLinear,
        LogProcess,
        LogRadial,
    )
    from mercer.kernels.algebra.observed import Observed
    from mercer.kernels.algebra.powers import Power
    from mercer.kernels.algebra.preference import Preference
    from mercer.kernels.algebra.shared import Shared
    from mercer.kernels.algebra.sums import Product, Scale, Sum
    from mercer.kernels.algebra.symmetry import Invariant
    from mercer.kernels.algebra.transforms import Blurred, Normalised, Rescale, Warp
    from mercer.kernels.base import AbstractKernel
    from mercer.kernels.checks import PSDCheck, Sigmoid, check_psd
    from mercer.kernels.families.autoregressive import ContinuousAR, Oscillator
    from mercer.kernels.families.brownian import (
        BrownianBridge,
        FractionalBrownian,
        IntegratedOrnsteinUhlenbeck,
        IntegratedWiener,
        Wiener,
    )
    from mercer.kernels.families.categorical import Categorical, CategoricalCovariance
    from mercer.kernels.families.compact import PiecewisePolynomial
    from mercer.kernels.families.dot import Constant, Linear, LinearCovariance, Polynomial
    from mercer.kernels.families.factors import lower_factor
    from mercer.kernels.families.features import Features, varying_coefficients
    from mercer.kernels.families.fisher import TOP, Fisher
    from mercer.kernels.families.graphs import Graph, GraphDiffusion, GraphMatern
    from mercer.kernels.families.networks import ArcCosine, GaussianNetwork, NeuralNetwork
    from mercer.kernels.families.nonstationary import ChangePoint, Gibbs, PaciorekSchervish
    from mercer.kernels.families.objects import ObjectKernel, Precomputed
    from mercer.kernels.families.outputs import OutputNoise, ProcessConvolution
    from mercer.kernels.families.periodic import PeriodicOf, Periodised, ZeroSumPeriodic, locally_periodic
    from mercer.kernels.families.stationary import (
        SE,
        AbstractStationary,
        GammaExponential,
        Matern,
        OrnsteinUhlenbeck,
        Periodic,
        RationalQuadratic,
        SteinMatern,
    )
    from mercer.kernels.families.structural import LocalLinear, Seasonal
    from mercer.kernels.families.white import White
    from mercer.kernels.spectral.band_limited import BesselJ, Cosine, Sinc
    from mercer.kernels.spectral.density import SpectralError, integrable, line_spectrum, spectral_density
    from mercer.kernels.spectral.mixture import LengthscaleMixture, SpectralMixture, lengthscale_mixture
    from mercer.kernels.spectral.sampled import FourierFeatures, random_fourier_features
    from mercer.kernels.spectral.smoothness import (
        Regularity,
        derivative_covariance,
        input_gradient,
        regularity,
        smoothness,
        upcrossings,
    )
    from mercer.kernels.text.alignment import PairHMM
    from mercer.kernels.text.counts import BagOfCharacters, BagOfWords, Spectrum
    from mercer.kernels.text.strings import GapWeighted, Mismatch, Substring
    from mercer.kernels.text.trees import Subtree
    from mercer.kernels.words.reader import KernelSyntaxError, parse

# where each name lives; a module is imported when one of its names is first used, so that importing mercer
# stays fast
_MODULES = {
    "algebra.additive": "Additive direct_sum tensor_product",
    "algebra.columns": "On",
    "algebra.conditioned": "PosteriorKernel tied_down",
    "algebra.functions": "AbstractFunction Function LinearMap LogLinear LogProcess LogRadial",
    "algebra.observed": "Observed",
    "algebra.powers": "Power",
    "algebra.preference": "Preference",
    "algebra.shared": "Shared",
    "algebra.sums": "Product Scale Sum",
    "algebra.symmetry": "Invariant",
    "algebra.transforms": "Blurred Normalised Rescale Warp",
    "base": "AbstractKernel",
    "checks": "PSDCheck Sigmoid check_psd",
    "families.autoregressive": "ContinuousAR Oscillator",
    "families.brownian": (
        "BrownianBridge FractionalBrownian IntegratedOrnsteinUhlenbeck IntegratedWiener Wiener"
    ),
    "families.categorical": "Categorical CategoricalCovariance",
    "families.compact": "PiecewisePolynomial",
    "families.dot": "Constant Linear LinearCovariance Polynomial",
    "families.factors": "lower_factor",
    "families.features": "Features varying_coefficients",
    "families.fisher": "TOP Fisher",
    "families.graphs": "Graph GraphDiffusion GraphMatern",
    "families.networks": "ArcCosine GaussianNetwork NeuralNetwork",
    "families.nonstationary": "ChangePoint Gibbs PaciorekSchervish",
    "families.objects": "ObjectKernel Precomputed",
    "families.outputs": "OutputNoise ProcessConvolution",
    "families.periodic": "PeriodicOf Periodised ZeroSumPeriodic locally_periodic",
    "families.stationary": (
        "SE AbstractStationary GammaExponential Matern OrnsteinUhlenbeck Periodic RationalQuadratic "
        "SteinMatern"
    ),
    "families.structural": "LocalLinear Seasonal",
    "families.white": "White",
    "spectral.band_limited": "BesselJ Cosine Sinc",
    "spectral.density": "SpectralError integrable line_spectrum spectral_density",
    "spectral.mixture": "LengthscaleMixture SpectralMixture lengthscale_mixture",
    "spectral.sampled": "FourierFeatures random_fourier_features",
    "spectral.smoothness": (
        "Regularity derivative_covariance input_gradient regularity smoothness upcrossings"
    ),
    "text.alignment": "PairHMM",
    "text.counts": "BagOfCharacters BagOfWords Spectrum",
    "text.strings": "GapWeighted Mismatch Substring",
    "text.trees": "Subtree",
    "words.reader": "KernelSyntaxError parse",
}
_WHERE = {name: module for module, names in _MODULES.items() for name in names.split()}

__all__ = [
    "SE",
    "TOP",
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
    "ContinuousAR",
    "Cosine",
    "Features",
    "Fisher",
    "FourierFeatures",
    "FractionalBrownian",
    "Function",
    "GammaExponential",
    "GapWeighted",
    "GaussianNetwork",
    "Gibbs",
    "Graph",
    "GraphDiffusion",
    "GraphMatern",
    "IntegratedOrnsteinUhlenbeck",
    "IntegratedWiener",
    "Invariant",
    "KernelSyntaxError",
    "LengthscaleMixture",
    "Linear",
    "LinearCovariance",
    "LinearMap",
    "LocalLinear",
    "LogLinear",
    "LogProcess",
    "LogRadial",
    "Matern",
    "Mismatch",
    "NeuralNetwork",
    "Normalised",
    "ObjectKernel",
    "Observed",
    "On",
    "OrnsteinUhlenbeck",
    "Oscillator",
    "OutputNoise",
    "PSDCheck",
    "PaciorekSchervish",
    "PairHMM",
    "Periodic",
    "PeriodicOf",
    "Periodised",
    "PiecewisePolynomial",
    "Polynomial",
    "PosteriorKernel",
    "Power",
    "Precomputed",
    "Preference",
    "ProcessConvolution",
    "Product",
    "RationalQuadratic",
    "Regularity",
    "Rescale",
    "Scale",
    "Seasonal",
    "Shared",
    "Sigmoid",
    "Sinc",
    "SpectralError",
    "SpectralMixture",
    "Spectrum",
    "SteinMatern",
    "Substring",
    "Subtree",
    "Sum",
    "Warp",
    "White",
    "Wiener",
    "ZeroSumPeriodic",
    "check_psd",
    "derivative_covariance",
    "direct_sum",
    "input_gradient",
    "integrable",
    "lengthscale_mixture",
    "line_spectrum",
    "locally_periodic",
    "lower_factor",
    "parse",
    "random_fourier_features",
    "regularity",
    "smoothness",
    "spectral_density",
    "tensor_product",
    "tied_down",
    "upcrossings",
    "varying_coefficients",
]


def __getattr__(name: str):
    if name not in _WHERE:
        raise AttributeError(f"module 'mercer.kernels' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"mercer.kernels.{_WHERE[name]}"), name)
    globals()[name] = value
    return value


def __dir__():
    return sorted(__all__)
