"""Relatives of Gaussian processes, and the plain methods they are measured against."""

import importlib
from typing import Any

from mercer.registry import exporter as _exporter

_MODULES = {
    "calibration": "PlattScaling platt",
    "classifiers": "GaussianClassConditional ProbabilisticNearestNeighbour",
    "kernel_pca": "KernelPCA",
    "kernel_ridge": "KernelRidge",
    "least_squares": "LeastSquaresClassifier",
    "linear": "LeastAbsoluteDeviations LinearRegression",
    "nadaraya_watson": "NadarayaWatson",
    "neural_network": "BayesianNeuralNetwork",
    "penalties": "Penalty grid_precision",
    "preprocessing": "Preprocessor",
    "protocol": "GridOptimum search_grid stratified_folds",
    "regularised": "Regularised RegularisedClassifier",
    "relevance_vector": "RVM RVMClassifier",
    "rkhs": "KernelFunction interpolant mercer_inner",
    "splines": "SmoothingSpline ramps",
    "student_process": "StudentTPosterior StudentTProcess",
    "support_vector": "SVC SupportVectorRegression",
    "thin_plate": "Polyharmonic ThinPlate",
}

__all__ = sorted(["losses", *" ".join(_MODULES.values()).split()])
_export = _exporter(__name__, _MODULES)


def __getattr__(name: str) -> Any:
    return importlib.import_module(f"{__name__}.losses") if name == "losses" else _export(name)


def __dir__() -> list[str]:
    return sorted(__all__)
