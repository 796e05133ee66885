"""Relatives of Gaussian processes, and the plain methods they are measured against."""

from mercer.relatives import losses
from mercer.relatives.calibration import PlattScaling, platt
from mercer.relatives.classifiers import GaussianClassConditional, ProbabilisticNearestNeighbour
from mercer.relatives.kernel_pca import KernelPCA
from mercer.relatives.kernel_ridge import KernelRidge
from mercer.relatives.least_squares import LeastSquaresClassifier
from mercer.relatives.linear import LeastAbsoluteDeviations, LinearRegression
from mercer.relatives.nadaraya_watson import NadarayaWatson
from mercer.relatives.neural_network import BayesianNeuralNetwork
from mercer.relatives.penalties import Penalty, grid_precision
from mercer.relatives.preprocessing import Preprocessor
from mercer.relatives.protocol import GridOptimum, search_grid, stratified_folds
from mercer.relatives.regularised import Regularised, RegularisedClassifier
from mercer.relatives.relevance_vector import RVM, RVMClassifier
from mercer.relatives.rkhs import KernelFunction, interpolant, mercer_inner
from mercer.relatives.splines import SmoothingSpline, ramps
from mercer.relatives.student_process import StudentTPosterior, StudentTProcess
from mercer.relatives.support_vector import SVC, SupportVectorRegression
from mercer.relatives.thin_plate import Polyharmonic, ThinPlate

__all__ = [
    "RVM",
    "SVC",
    "BayesianNeuralNetwork",
    "GaussianClassConditional",
    "GridOptimum",
    "KernelFunction",
    "KernelPCA",
    "KernelRidge",
    "LeastAbsoluteDeviations",
    "LeastSquaresClassifier",
    "LinearRegression",
    "NadarayaWatson",
    "Penalty",
    "PlattScaling",
    "Polyharmonic",
    "Preprocessor",
    "ProbabilisticNearestNeighbour",
    "RVMClassifier",
    "Regularised",
    "RegularisedClassifier",
    "SmoothingSpline",
    "StudentTPosterior",
    "StudentTProcess",
    "SupportVectorRegression",
    "ThinPlate",
    "grid_precision",
    "interpolant",
    "losses",
    "mercer_inner",
    "platt",
    "ramps",
    "search_grid",
    "stratified_folds",
]
