"""How good are predictions? Scores for means, predictive densities, intervals and class probabilities.

Every score takes the test targets `y` first and predictions second, all of the same shape (a single number stands for
the same prediction everywhere), and returns a float: an average over test cases. `std` is always the standard
deviation of the predictive distribution of *observations*, noise included.

    >>> report = regression_report(y_test, mean, std, y_train)
    >>> report["smse"], report["msll"]
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


def regression_report(y: ArrayLike, mean: ArrayLike, std: ArrayLike, y_train: ArrayLike) -> dict[str, float]:
    """All scores of a Gaussian prediction N(mean, std²) of the targets y.

    `y_train` gives the yardstick of MSLL: the prediction of someone who ignores the inputs. `calibration_error` is the
    mean distance between nominal and empirical coverage over `calibration_curve`'s default levels.
    """
    y, mean, std = _gaussian(y, mean, std)
    half = _normal_quantile(0.975) * std
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


# --- point scores


def mse(y: ArrayLike, mean: ArrayLike) -> float:
    """Mean squared error, in squared units of y."""
    y, mean = _same_shape(y=y, mean=mean)
    return float(np.mean((y - mean) ** 2))


def rmse(y: ArrayLike, mean: ArrayLike) -> float:
    """Root mean squared error, in units of y."""
    return math.sqrt(mse(y, mean))


def mae(y: ArrayLike, median: ArrayLike) -> float:
    """Mean absolute error, in units of y; the predictive median is the point prediction that minimises it."""
    y, median = _same_shape(y=y, median=median)
    return float(np.mean(np.abs(y - median)))


def smse(y: ArrayLike, mean: ArrayLike) -> float:
    """Standardised mean squared error: MSE over the variance of the test targets (GPML §2.5).

    0 is perfect; always predicting the mean of the training targets scores about 1.
    """
    y, mean = _same_shape(y=y, mean=mean)
    return mse(y, mean) / _spread(y, "y") ** 2


# --- density scores


def nlpd(
    y: ArrayLike, mean: ArrayLike | None = None, std: ArrayLike | None = None, *, log_density: ArrayLike | None = None
) -> float:
    """Negative log predictive density, the average of -log p(y*|x*, D) in nats (GPML 2.34); lower is better.

    Give `mean` and `std` of a Gaussian prediction, or `log_density`: log p(y*|x*, D) of each test case.

        >>> nlpd(y, mean, std)
        >>> nlpd(y, log_density=posterior.log_density(Xs, y))
    """
    return float(np.mean(_log_loss(y, mean, std, log_density)))


def sll(
    y: ArrayLike,
    mean: ArrayLike | None = None,
    std: ArrayLike | None = None,
    y_train: ArrayLike | None = None,
    *,
    log_density: ArrayLike | None = None,
) -> Array:
    """Standardised log loss of each test case: its log loss less that of N(mean(y_train), var(y_train)) (GPML §2.5)."""
    if y_train is None:
        raise ValueError("sll and msll need y_train, the training targets: their mean and variance are the yardstick.")
    train = _finite("y_train", y_train)
    trivial = _log_loss(y, np.mean(train), _spread(train, "y_train"), None)
    return _log_loss(y, mean, std, log_density) - trivial


def msll(
    y: ArrayLike,
    mean: ArrayLike | None = None,
    std: ArrayLike | None = None,
    y_train: ArrayLike | None = None,
    *,
    log_density: ArrayLike | None = None,
) -> float:
    """Mean standardised log loss: 0 for the trivial model that ignores the inputs, negative for better ones.

    >>> msll(y, mean, std, y_train)
    >>> msll(y, y_train=y_train, log_density=log_density)
    """
    return float(np.mean(sll(y, mean, std, y_train, log_density=log_density)))


def crps(y: ArrayLike, mean: ArrayLike, std: ArrayLike) -> float:
    """Continuous ranked probability score of N(mean, std²), in units of y.

    The average of ∫ (F(t) - 1[y ≤ t])² dt. It is the absolute error of a certain prediction (std → 0), and unlike
    `nlpd` an outlier costs it only in proportion to its distance.
    """
    y, mean, std = _gaussian(y, mean, std)
    z = (y - mean) / std
    density = np.exp(-0.5 * z**2) / math.sqrt(2 * math.pi)
    return float(np.mean(std * (z * _erf(z / math.sqrt(2)) + 2 * density - 1 / math.sqrt(math.pi))))


# --- intervals, quantiles, calibration


def coverage(y: ArrayLike, lower: ArrayLike, upper: ArrayLike) -> float:
    """Fraction of targets inside their interval, ends included. Infinite ends make one-sided intervals."""
    y, lower, upper = _intervals(y, lower, upper)
    return float(np.mean((lower <= y) & (y <= upper)))


def calibration_curve(y: ArrayLike, mean: ArrayLike, std: ArrayLike, levels: ArrayLike | None = None) -> tuple[Array, Array]:
    """Nominal against empirical coverage of the central intervals of N(mean, std²).

    `levels` lie strictly between 0 and 1 (default 0.05, 0.10, ... 0.95). Returns (levels, empirical coverage): a curve
    above the diagonal says that the predictions claim too little, one below it that they claim too much.
    """
    y, mean, std = _gaussian(y, mean, std)
    nominal = np.arange(1, 20) / 20 if levels is None else np.atleast_1d(_finite("levels", levels))
    if np.any((nominal <= 0) | (nominal >= 1)):
        raise ValueError(f"levels must lie strictly between 0 and 1; got {nominal.min():g} to {nominal.max():g}.")
    z = np.abs(y - mean) / std
    empirical = np.array([np.mean(z <= _normal_quantile((1 + level) / 2)) for level in nominal.ravel()])
    return nominal, empirical.reshape(nominal.shape)


def pinball(y: ArrayLike, quantile: ArrayLike, q: float) -> float:
    """Pinball loss of a predicted q-quantile, in units of y; the true quantile minimises it. At q = ½ it is MAE / 2."""
    y, quantile = _same_shape(y=y, quantile=quantile)
    if not 0 < q < 1:
        raise ValueError(f"q must lie strictly between 0 and 1; got {q!r}.")
    return float(np.mean(np.maximum(q * (y - quantile), (q - 1) * (y - quantile))))


def interval_score(y: ArrayLike, lower: ArrayLike, upper: ArrayLike, level: float = 0.95) -> float:
    """Score of central intervals of the given level, in units of y: width plus 2/(1-level) times any miss.

    Rewards narrow intervals that cover: the one between the true (1-level)/2 and (1+level)/2 quantiles minimises it.
    """
    y, lower, upper = _intervals(y, lower, upper)
    if not 0 < level < 1:
        raise ValueError(f"level must lie strictly between 0 and 1; got {level!r}.")
    miss = np.maximum(lower - y, 0) + np.maximum(y - upper, 0)
    return float(np.mean(upper - lower + 2 / (1 - level) * miss))


# --- class probabilities


def information_bits(y: ArrayLike, proba: ArrayLike, y_train: ArrayLike) -> float:
    """Test information about the labels, in bits per case (GPML 3.76): 0 for class frequencies, positive when better.

    The average log₂ probability of the true labels, less the average log₂ of their frequency among the training labels.
    `proba` (n, C) has a column per class, in the sorted order of the labels in `y_train`.
    """
    classes, counts = np.unique(np.asarray(y_train), return_counts=True)
    index, p = _labels(y, proba, classes)
    frequency = counts / counts.sum()
    with np.errstate(divide="ignore"):
        information = np.log2(p[np.arange(len(p)), index])
    return float(np.mean(information - np.log2(frequency[index])))


def error_reject_curve(y: ArrayLike, proba: ArrayLike, classes: ArrayLike | None = None) -> tuple[Array, Array, Array]:
    """Error rate when cases whose largest class probability is below a threshold are left undecided.

    Returns (threshold, rejected fraction, error rate among the rest), one entry for each distinct confidence,
    ascending. `classes` names the columns of `proba`; by default the sorted labels in y.
    """
    index, p = _labels(y, proba, np.unique(np.asarray(y)) if classes is None else np.asarray(classes))
    order = np.argsort(p.max(axis=1), kind="stable")
    confidence, wrong = p.max(axis=1)[order], (p.argmax(axis=1) != index)[order]
    threshold, first = np.unique(confidence, return_index=True)
    kept = len(p) - first
    return threshold, first / len(p), np.cumsum(wrong[::-1])[::-1][first] / kept


# --- checks and helpers

_erf = np.vectorize(math.erf, otypes=[np.float64])
_normal_quantile = NormalDist().inv_cdf


def _log_loss(y: ArrayLike, mean: ArrayLike | None, std: ArrayLike | None, log_density: ArrayLike | None) -> Array:
    if log_density is not None:
        if mean is not None or std is not None:
            raise ValueError("Give either mean and std or log_density, not both.")
        y, log_density = _same_shape(y=y, log_density=log_density)
        return -log_density
    if mean is None or std is None:
        raise ValueError("A Gaussian prediction needs both mean and std; for another give log_density=.")
    y, mean, std = _gaussian(y, mean, std)
    return 0.5 * np.log(2 * np.pi * std**2) + (y - mean) ** 2 / (2 * std**2)


def _gaussian(y: ArrayLike, mean: ArrayLike, std: ArrayLike) -> tuple[Array, ...]:
    y, mean, std = _same_shape(y=y, mean=mean, std=std)
    if np.any(std <= 0):
        raise ValueError(
            f"std must be positive; {np.sum(std <= 0)} of {std.size} values are not (the least is {std.min():g}). "
            "Use the standard deviation of observations, which includes the noise."
        )
    return y, mean, std


def _intervals(y: ArrayLike, lower: ArrayLike, upper: ArrayLike) -> tuple[Array, ...]:
    y, lower, upper = _same_shape(y=y, lower=lower, upper=upper, may_be_infinite=("lower", "upper"))
    if np.any(lower > upper):
        raise ValueError(f"lower exceeds upper in {np.sum(lower > upper)} of {y.size} intervals; are they swapped?")
    return y, lower, upper


def _labels(y: ArrayLike, proba: ArrayLike, classes: NDArray) -> tuple[NDArray[np.intp], Array]:
    """Column of `proba` that belongs to each label, and the checked probabilities."""
    labels, p = np.asarray(y), _finite("proba", proba)
    if labels.ndim != 1 or p.shape != (len(labels), len(classes)):
        raise ValueError(
            f"proba must have shape (cases, classes) = ({labels.size}, {len(classes)}); got {p.shape}. "
            f"The classes are {list(classes)}."
        )
    if np.any(p < 0) or not np.allclose(p.sum(axis=1), 1, rtol=0, atol=1e-6):
        raise ValueError("Every row of proba must be non-negative and sum to 1.")
    match = labels[:, None] == classes
    if not match.any(axis=1).all():
        raise ValueError(f"Label {labels[~match.any(axis=1)][0]!r} in y is none of the classes {list(classes)}.")
    return match.argmax(axis=1), p


def _same_shape(may_be_infinite: tuple[str, ...] = (), **arguments: ArrayLike) -> tuple[Array, ...]:
    """The arguments as float arrays of the first one's shape; only single numbers are broadcast."""
    arrays = {name: _finite(name, a, name in may_be_infinite) for name, a in arguments.items()}
    (first, y), *others = arrays.items()
    for name, a in others:
        if a.ndim and a.shape != y.shape:
            raise ValueError(f"{name} has shape {a.shape} but {first} has shape {y.shape}; they must be the same.")
    return tuple(np.broadcast_to(a, y.shape) for a in arrays.values())


def _finite(name: str, values: ArrayLike, may_be_infinite: bool = False) -> Array:
    a = np.asarray(values, dtype=np.float64)
    if a.size == 0:
        raise ValueError(f"{name} is empty.")
    bad = np.isnan(a) if may_be_infinite else ~np.isfinite(a)
    if bad.any():
        where = tuple(int(i) for i in np.argwhere(bad)[0])
        raise ValueError(f"{name} has {bad.sum()} value(s) that are NaN or infinite, the first at index {where}.")
    return a


def _spread(a: Array, name: str) -> float:
    """Standard deviation about the mean (divisor n), refused when zero."""
    spread = float(np.std(a))
    if spread == 0:
        raise ValueError(f"{name} is constant: its variance is zero, so nothing can be standardised by it.")
    return spread
