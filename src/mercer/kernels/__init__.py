"""Covariance functions and their algebra.

>>> from mercer import kernels as k
>>> k.SE(lengthscale=1.0, variance=2.0) + 0.5 * k.Periodic(period=1.0) * k.SE(10.0)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mercer.kernels.additive import Additive, direct_sum, tensor_product
    from mercer.kernels.algebra import Product, Scale, Sum
    from mercer.kernels.autoregressive import ContinuousAR, Oscillator
    from mercer.kernels.band_limited import BesselJ, Cosine, Sinc
    from mercer.kernels.base import AbstractKernel
    from mercer.kernels.categorical import Categorical, CategoricalCovariance
    from mercer.kernels.checks import PSDCheck, Sigmoid, White, check_psd
    from mercer.kernels.columns import On
    from mercer.kernels.compact import PiecewisePolynomial
    from mercer.kernels.conditioned import PosteriorKernel, tied_down
    from mercer.kernels.counts import BagOfCharacters, BagOfWords, Spectrum
    from mercer.kernels.differentiability import Regularity, derivative_covariance, regularity, smoothness, upcrossings
    from mercer.kernels.dot import Constant, Linear, LinearCovariance, Polynomial
    from mercer.kernels.factors import lower_factor
    from mercer.kernels.features import Features, varying_coefficients
    from mercer.kernels.fisher import TOP, Fisher
    from mercer.kernels.fourier import FourierFeatures, random_fourier_features
    from mercer.kernels.functions import AbstractFunction, Function, LinearMap, LogLinear, LogProcess, LogRadial
    from mercer.kernels.networks import ArcCosine, GaussianNetwork, NeuralNetwork
    from mercer.kernels.nonstationary import ChangePoint, Gibbs, PaciorekSchervish
    from mercer.kernels.objects import ObjectKernel, Precomputed
    from mercer.kernels.paths import BrownianBridge, FractionalBrownian, IntegratedWiener, Wiener
    from mercer.kernels.periodic import PeriodicOf, Periodised, locally_periodic
    from mercer.kernels.powers import Power
    from mercer.kernels.reader import KernelSyntaxError, parse
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
    from mercer.kernels.structural import LocalLinear, Seasonal
    from mercer.kernels.symmetry import Invariant
    from mercer.kernels.transforms import Blurred, Normalised, Rescale, Warp
    from mercer.kernels.trees import Subtree

# where each name lives; a module is imported when one of its names is first used, so that importing mercer stays fast
_MODULES = {
    "additive": "Additive direct_sum tensor_product",
    "algebra": "Product Scale Sum",
    "autoregressive": "ContinuousAR Oscillator",
    "band_limited": "BesselJ Cosine Sinc",
    "base": "AbstractKernel",
    "categorical": "Categorical CategoricalCovariance",
    "checks": "PSDCheck Sigmoid White check_psd",
    "columns": "On",
    "compact": "PiecewisePolynomial",
    "conditioned": "PosteriorKernel tied_down",
    "counts": "BagOfCharacters BagOfWords Spectrum",
    "differentiability": "Regularity derivative_covariance regularity smoothness upcrossings",
    "dot": "Constant Linear LinearCovariance Polynomial",
    "factors": "lower_factor",
    "features": "Features varying_coefficients",
    "fisher": "TOP Fisher",
    "fourier": "FourierFeatures random_fourier_features",
    "functions": "AbstractFunction Function LinearMap LogLinear LogProcess LogRadial",
    "networks": "ArcCosine GaussianNetwork NeuralNetwork",
    "nonstationary": "ChangePoint Gibbs PaciorekSchervish",
    "objects": "ObjectKernel Precomputed",
    "paths": "BrownianBridge FractionalBrownian IntegratedWiener Wiener",
    "periodic": "PeriodicOf Periodised locally_periodic",
    "powers": "Power",
    "reader": "KernelSyntaxError parse",
    "spectral": "SpectralError integrable line_spectrum spectral_density",
    "spectral_mixture": "ScaleMixture SpectralMixture scale_mixture",
    "stationary": "SE AbstractStationary GammaExponential Matern OrnsteinUhlenbeck Periodic RationalQuadratic",
    "strings": "GapWeighted Mismatch Substring",
    "structural": "LocalLinear Seasonal",
    "symmetry": "Invariant",
    "transforms": "Blurred Normalised Rescale Warp",
    "trees": "Subtree",
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
    "IntegratedWiener",
    "Invariant",
    "KernelSyntaxError",
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
    "On",
    "OrnsteinUhlenbeck",
    "Oscillator",
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
    "Seasonal",
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


def __getattr__(name: str):
    if name not in _WHERE:
        raise AttributeError(f"module 'mercer.kernels' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"mercer.kernels.{_WHERE[name]}"), name)
    globals()[name] = value
    return value


def __dir__():
    return sorted(__all__)
