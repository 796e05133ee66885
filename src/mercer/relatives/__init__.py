"""Relatives of Gaussian processes, and the plain methods they are measured against."""

from mercer.relatives.baselines import LinearRegression, NadarayaWatson
from mercer.relatives.calibration import PlattScaling, platt
from mercer.relatives.classifiers import GaussianClassConditional, ProbabilisticNearestNeighbour
from mercer.relatives.kernel_pca import KernelPCA

__all__ = [
    "GaussianClassConditional",
    "KernelPCA",
    "LinearRegression",
    "NadarayaWatson",
    "PlattScaling",
    "ProbabilisticNearestNeighbour",
    "platt",
]
