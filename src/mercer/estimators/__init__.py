"""Scikit-learn's face of Mercer, and saving to one file."""

from mercer.estimators.regressor import GPRegressor

__all__ = ["GPRegressor"]
