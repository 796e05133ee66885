"""How good are predictions? Scores for means, predictive densities, intervals and class probabilities.

Every score takes the test targets `y` first and predictions second, all of the same shape (a single number
stands for the same prediction everywhere), and returns a float: an average over test cases. `std` is always
the standard deviation of the predictive distribution of *observations*, noise included.

    >>> report = regression_report(y_test, mean, std, y_train)
    >>> report["smse"], report["msll"]

Scores of class probabilities `proba` (n, C) take labels of any kind; see `information`.
"""

from mercer.metrics.classes import (
    ErrorReject,
    Reliability,
    brier,
    error_rate,
    error_reject_curve,
    expected_calibration_error,
    information,
    information_baseline,
    information_bits,
    log_loss,
    reliability_curve,
)
from mercer.metrics.densities import crps, msll, nlpd, sll
from mercer.metrics.intervals import calibration_curve, coverage, interval_score, pinball
from mercer.metrics.points import mae, mase, mse, rmse, smse
from mercer.metrics.reports import classification_report, regression_report, robust_report

__all__ = [
    "ErrorReject",
    "Reliability",
    "brier",
    "calibration_curve",
    "classification_report",
    "coverage",
    "crps",
    "error_rate",
    "error_reject_curve",
    "expected_calibration_error",
    "information",
    "information_baseline",
    "information_bits",
    "interval_score",
    "log_loss",
    "mae",
    "mase",
    "mse",
    "msll",
    "nlpd",
    "pinball",
    "regression_report",
    "reliability_curve",
    "rmse",
    "robust_report",
    "sll",
    "smse",
]
