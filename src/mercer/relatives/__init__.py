"""Relatives of Gaussian processes, and the plain methods they are measured against."""

from mercer.relatives.baselines import LinearRegression, NadarayaWatson
from mercer.relatives.calibration import PlattScaling, platt
from mercer.relatives.classifiers import GaussianClassConditional, ProbabilisticNearestNeighbour
from mercer.relatives.kernel_pca import KernelPCA
from mercer.relatives.neural_network import BayesianNeuralNetwork
from mercer.relatives.protocol import GridOptimum, search_grid, stratified_folds
from mercer.relatives.support_vector import SupportVectorRegression

__all__ = [
    "BayesianNeuralNetwork",
    "GaussianClassConditional",
    "GridOptimum",
    "KernelPCA",
    "LinearRegression",
    "NadarayaWatson",
    "PlattScaling",
    "ProbabilisticNearestNeighbour",
    "SupportVectorRegression",
    "platt",
    "search_grid",
    "stratified_folds",
]
