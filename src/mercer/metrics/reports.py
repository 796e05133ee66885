"""All scores of a kind at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from mercer.metrics.checks import gaussian
from mercer.metrics.classes import brier, error_rate, expected_calibration_error, information, log_loss
from mercer.metrics.densities import crps, msll, nlpd
from mercer.metrics.intervals import calibration_curve, coverage, interval_score, normal_quantile, pinball
from mercer.metrics.labels import class_names, labelled
from mercer.metrics.points import mae, mse, rmse, smse


def regression_report(y: ArrayLike, mean: ArrayLike, std: ArrayLike, y_train: ArrayLike) -> dict[str, float]:
    """All scores of a Gaussian prediction N(mean, std²) of the targets y.

    `y_train` gives the yardstick of MSLL: the prediction of someone who ignores the inputs.
    `calibration_error` is the mean distance between nominal and empirical coverage over `calibration_curve`'s
    default levels.
    """
    y, mean, std = gaussian(y, mean, std)
    half = normal_quantile(0.975) * std
    lower, upper = mean - half, mean + half
    nominal, empirical = calibration_curve(y, mean, std)
    return {
        "mse": mse(y, mean),
        "rmse": rmse(y, mean),
        "mae": mae(y, mean),
        "smse": smse(y, mean),
        "nlpd": nlpd(y, mean, std),
        "msll": msll(y, mean, std, y_train),
        "crps": crps(y, mean, std),
        "coverage_95": coverage(y, lower, upper),
        "interval_score_95": interval_score(y, lower, upper, level=0.95),
        "pinball_025": pinball(y, lower, q=0.025),
        "pinball_975": pinball(y, upper, q=0.975),
        "calibration_error": float(np.mean(np.abs(empirical - nominal))),
    }


def robust_report(
    y: ArrayLike, mean: ArrayLike, log_density: ArrayLike, median: ArrayLike | None = None
) -> dict[str, float]:
    """RMSE and MAE of the predicted means, and the average negative log density, "nlp" (Kuss 5.61-5.63).

    For predictions that need not be Gaussian. `log_density` is that of y where the test targets are noisy,
    and of the function where they are free of noise. With `median` also "mae_median", which a heavy-tailed
    prediction should minimise.

        >>> robust_report(y, model.predict(Xs), model.log_density(Xs, y))
    """
    report = {"rmse": rmse(y, mean), "mae": mae(y, mean), "nlp": nlpd(y, log_density=log_density)}
    return report if median is None else report | {"mae_median": mae(y, median)}


def classification_report(
    y: ArrayLike, proba: ArrayLike, y_train: ArrayLike | None = None, *, classes: ArrayLike | None = None
) -> dict[str, float]:
    """All scores of predicted class probabilities; arguments as in `information`."""
    names = class_names(y, y_train, classes)
    index, p = labelled(y, proba, names)
    return {
        "error_rate": error_rate(index, p.argmax(axis=1)),
        "log_loss": log_loss(y, p, classes=names),
        "information": information(y, p, y_train, classes=names),
        "brier": brier(y, p, classes=names),
        "calibration_error": expected_calibration_error(y, p, classes=names),
    }
