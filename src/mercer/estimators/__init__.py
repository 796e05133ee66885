"""Scikit-learn's face of Mercer, and saving to one file."""

from mercer.estimators.classifier import GPClassifier
from mercer.estimators.persist import ModelFileError, load, save
from mercer.estimators.regressor import GPRegressor

__all__ = ["GPClassifier", "GPRegressor", "ModelFileError", "load", "save"]
