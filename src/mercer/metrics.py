"""How good are predictions? Scores for means, predictive densities, intervals and class probabilities.

Every score takes the test targets `y` first and predictions second, all of the same shape (a single number
stands for the same prediction everywhere), and returns a float: an average over test cases. `std` is always
the standard deviation of the predictive distribution of *observations*, noise included.

    >>> report = regression_report(y_test, mean, std, y_train)
    >>> report["smse"], report["msll"]

Scores of class probabilities `proba` (n, C) take labels of any kind; see `information`.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


def regression_report(y: ArrayLike, mean: ArrayLike, std: ArrayLike, y_train: ArrayLike) -> dict[str, float]:
    """All scores of a Gaussian prediction N(mean, std²) of the targets y.

    `y_train` gives the yardstick of MSLL: the prediction of someone who ignores the inputs.
    `calibration_error` is the mean distance between nominal and empirical coverage over `calibration_curve`'s
    default levels.
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
    y: ArrayLike,
    mean: ArrayLike | None = None,
    std: ArrayLike | None = None,
    *,
    log_density: ArrayLike | None = None,
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
    """Standardised log loss of each test case: its log loss less that of N(mean(y_train),
    var(y_train)) (GPML §2.5).
    """
    if y_train is None:
        raise ValueError(
            "sll and msll need y_train, the training targets: their mean and variance are the yardstick."
        )
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

    The average of ∫ (F(t) - 1[y ≤ t])² dt. It is the absolute error of a certain prediction (std → 0), and
    unlike `nlpd` an outlier costs it only in proportion to its distance.
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


def calibration_curve(
    y: ArrayLike, mean: ArrayLike, std: ArrayLike, levels: ArrayLike | None = None
) -> tuple[Array, Array]:
    """Nominal against empirical coverage of the central intervals of N(mean, std²).

    `levels` lie strictly between 0 and 1 (default 0.05, 0.10, ... 0.95). Returns (levels, empirical
    coverage): a curve above the diagonal says that the predictions claim too little, one below it that they
    claim too much.
    """
    y, mean, std = _gaussian(y, mean, std)
    nominal = np.arange(1, 20) / 20 if levels is None else np.atleast_1d(_finite("levels", levels))
    if np.any((nominal <= 0) | (nominal >= 1)):
        raise ValueError(
            f"levels must lie strictly between 0 and 1; got {nominal.min():g} to {nominal.max():g}."
        )
    z = np.abs(y - mean) / std
    empirical = np.array([np.mean(z <= _normal_quantile((1 + level) / 2)) for level in nominal.ravel()])
    return nominal, empirical.reshape(nominal.shape)


def pinball(y: ArrayLike, quantile: ArrayLike, q: float) -> float:
    """Pinball loss of a predicted q-quantile, in units of y; the true quantile minimises it.
    At q = ½ it is MAE / 2.
    """
    y, quantile = _same_shape(y=y, quantile=quantile)
    if not 0 < q < 1:
        raise ValueError(f"q must lie strictly between 0 and 1; got {q!r}.")
    return float(np.mean(np.maximum(q * (y - quantile), (q - 1) * (y - quantile))))


def interval_score(y: ArrayLike, lower: ArrayLike, upper: ArrayLike, level: float = 0.95) -> float:
    """Score of central intervals of the given level, in units of y: width plus 2/(1-level) times any miss.

    Rewards narrow intervals that cover: the one between the true (1-level)/2 and (1+level)/2 quantiles
    minimises it.
    """
    y, lower, upper = _intervals(y, lower, upper)
    if not 0 < level < 1:
        raise ValueError(f"level must lie strictly between 0 and 1; got {level!r}.")
    miss = np.maximum(lower - y, 0) + np.maximum(y - upper, 0)
    return float(np.mean(upper - lower + 2 / (1 - level) * miss))


# --- class probabilities


class Reliability(NamedTuple):
    """Of the cases in each bin: mean claimed probability, fraction that came true, number of cases."""

    claimed: Array
    observed: Array
    cases: NDArray[np.intp]


class ErrorReject(NamedTuple):
    """What is left when cases that score below each threshold are refused;
    the first entry refuses nothing.
    """

    threshold: Array
    rejected: Array
    error: Array
    information: Array


def classification_report(
    y: ArrayLike, proba: ArrayLike, y_train: ArrayLike | None = None, *, classes: ArrayLike | None = None
) -> dict[str, float]:
    """All scores of predicted class probabilities; arguments as in `information`."""
    names = _names(y, y_train, classes)
    index, p = _labels(y, proba, names)
    return {
        "error_rate": error_rate(index, p.argmax(axis=1)),
        "log_loss": log_loss(y, p, classes=names),
        "information": information(y, p, y_train, classes=names),
        "brier": brier(y, p, classes=names),
        "calibration_error": expected_calibration_error(y, p, classes=names),
    }


def error_rate(y: ArrayLike, predicted: ArrayLike) -> float:
    """Fraction of cases whose predicted label is not the true one; both (n,), of any kind of label."""
    labels, guesses = np.asarray(y), np.asarray(predicted)
    if labels.ndim != 1 or labels.shape != guesses.shape or labels.size == 0:
        raise ValueError(
            f"y and predicted must be labels of shape (cases,), at least one; got {labels.shape} and "
            f"{guesses.shape}."
        )
    if (labels.dtype.kind in "OUS") != (guesses.dtype.kind in "OUS"):
        raise ValueError(
            f"y has labels such as {labels[0]!r} but predicted has {guesses[0]!r}; they must be of the "
            "same kind."
        )
    return float(np.mean(labels != guesses))


def log_loss(y: ArrayLike, proba: ArrayLike, *, classes: ArrayLike | None = None, log: bool = False) -> float:
    """Average of -log p(y*|x*, D) in nats; lower is better. Arguments as in `information`."""
    return -float(np.mean(_log_probability(y, proba, _names(y, None, classes), log)[1]))


def information(
    y: ArrayLike,
    proba: ArrayLike,
    y_train: ArrayLike | None = None,
    *,
    classes: ArrayLike | None = None,
    log: bool = False,
) -> float:
    """What the predictions tell about the labels, in bits per case: average log₂ p(y*|x*, D) above a
    baseline.

    With `y_train` the baseline is the frequency of the label among the training labels (GPML 3.76), and the
    most that can be reached is `information_baseline(y, y_train)`. Without it the baseline is a guess among
    the C classes, log₂ 1/C: for two classes 1 is certain and right, 0 a coin flip (Kuss 6.12). Negative is
    worse than the baseline.

    `proba` (n, C) has a column for each of `classes`, by default the sorted labels of `y_train`, else of `y`;
    for two classes (n,) probabilities of the second also serve. With `log=True` these are natural logarithms
    of probabilities, which keep apart the mistakes of models too certain for probabilities (1e-400 is 0, and
    then the score is -inf).

        >>> information([1, 1, -1], [0.9, 0.6, 0.2])           # P(y = 1); above a coin flip
        >>> information(y, model.predict_proba(X), y_train)    # above the training frequencies
    """
    names = _names(y, y_train, classes)
    index, logs = _log_probability(y, proba, names, log)
    return float(np.mean(logs / math.log(2) - _baseline(index, y_train, names)))


def information_bits(y: ArrayLike, proba: ArrayLike, y_train: ArrayLike) -> float:
    """`information` above the training frequencies (GPML 3.76)."""
    return information(y, proba, y_train)


def information_baseline(y: ArrayLike, y_train: ArrayLike) -> float:
    """Bits per case that are missing when only the training frequencies of the labels are known (GPML 3.76).

    The average of -log₂ frequency over the test labels y: what a perfect classifier scores in `information`.
    """
    names = _names(y, y_train, None)
    return -float(np.mean(_baseline(_columns(y, names), y_train, names)))


def brier(y: ArrayLike, proba: ArrayLike, *, classes: ArrayLike | None = None) -> float:
    """Brier score, the average of Σ_c (p_c - 1[y = c])²: 0 is perfect, 2 is certain and wrong.

    For two classes it is twice the mean square of P(second) - 1[y = second].
    """
    index, p = _labels(y, proba, _names(y, None, classes))
    return float(np.mean(np.sum((p - np.eye(p.shape[1])[index]) ** 2, axis=1)))


def reliability_curve(
    y: ArrayLike, proba: ArrayLike, bins: int = 10, *, label: Any = None, classes: ArrayLike | None = None
) -> Reliability:
    """Claimed against observed: how often do predictions made with probability p come true?

    The unit interval is cut in `bins` equal parts; empty ones are left out. The probability is that of the
    likeliest class, or of the class `label` if one is given. On the diagonal, claimed = observed, the
    probabilities can be taken at their word; below it they claim too much.
    """
    if not bins >= 1:
        raise ValueError(f"bins must be at least 1; got {bins!r}.")
    names = _names(y, None, classes)
    index, p = _labels(y, proba, names)
    column = p.argmax(axis=1) if label is None else np.broadcast_to(_columns([label], names), len(p))
    claimed, true = p[np.arange(len(p)), column], column == index
    part = np.minimum((claimed * bins).astype(int), bins - 1)
    count = np.bincount(part, minlength=bins)
    full = count > 0
    claimed, observed = (
        np.bincount(part, weights=values, minlength=bins)[full] / count[full] for values in (claimed, true)
    )
    return Reliability(claimed, observed, count[full])


def expected_calibration_error(
    y: ArrayLike, proba: ArrayLike, bins: int = 10, *, label: Any = None, classes: ArrayLike | None = None
) -> float:
    """Distance between claimed and observed of `reliability_curve`, averaged over cases:
    0 when calibrated.
    """
    curve = reliability_curve(y, proba, bins, label=label, classes=classes)
    return float(np.average(np.abs(curve.claimed - curve.observed), weights=curve.cases))


def error_reject_curve(
    y: ArrayLike,
    proba: ArrayLike,
    classes: ArrayLike | None = None,
    *,
    by: str | ArrayLike = "largest",
    y_train: ArrayLike | None = None,
) -> ErrorReject:
    """Error rate and information of the cases that remain when the doubtful ones are left undecided (GPML
    §3.7).

    `by` says which are doubtful: those whose "largest" class probability, or whose "gap" between the two
    largest, is below a threshold; or any score (n,), for instance minus the distance to the nearest training
    case. Returns (threshold, rejected fraction, error rate, information in bits of the rest), one entry for
    each distinct score, ascending. `classes` and `y_train` as in `information`.

        >>> curve = error_reject_curve(y, proba, by="gap")
        >>> plt.step(100 * curve.rejected, 100 * curve.error)
    """
    names = _names(y, y_train, classes)
    index, logs = _log_probability(y, proba, names, log=False)
    p = _labels(y, proba, names)[1]
    bits = logs / math.log(2) - _baseline(index, y_train, names)
    score = _score(p, by)
    order = np.argsort(score, kind="stable")
    wrong = p.argmax(axis=1) != index
    threshold, first = np.unique(score[order], return_index=True)
    kept = len(p) - first
    error, rest = (np.cumsum(values[order][::-1])[::-1][first] / kept for values in (wrong, bits))
    return ErrorReject(threshold, first / len(p), error, rest)


# --- checks and helpers

_erf = np.vectorize(math.erf, otypes=[np.float64])
_normal_quantile = NormalDist().inv_cdf


def _log_loss(
    y: ArrayLike, mean: ArrayLike | None, std: ArrayLike | None, log_density: ArrayLike | None
) -> Array:
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
            f"std must be positive; {np.sum(std <= 0)} of {std.size} values are not (the least is "
            f"{std.min():g}). "
            "Use the standard deviation of observations, which includes the noise."
        )
    return y, mean, std


def _intervals(y: ArrayLike, lower: ArrayLike, upper: ArrayLike) -> tuple[Array, ...]:
    y, lower, upper = _same_shape(y=y, lower=lower, upper=upper, may_be_infinite=("lower", "upper"))
    if np.any(lower > upper):
        raise ValueError(
            f"lower exceeds upper in {np.sum(lower > upper)} of {y.size} intervals; are they swapped?"
        )
    return y, lower, upper


def _names(y: ArrayLike, y_train: ArrayLike | None, classes: ArrayLike | None) -> NDArray:
    """The labels that the columns of `proba` stand for."""
    if classes is None:
        return np.unique(np.asarray(y if y_train is None else y_train))
    names = np.asarray(classes)
    if names.ndim != 1 or len(np.unique(names)) != names.size:
        raise ValueError(f"classes must be a list of different labels; got {classes!r}.")
    return names


def _columns(y: ArrayLike, names: NDArray) -> NDArray[np.intp]:
    """The column that belongs to each label."""
    labels = np.asarray(y)
    if labels.ndim != 1 or labels.size == 0:
        raise ValueError(f"y must be labels of shape (cases,), at least one; got shape {labels.shape}.")
    match = labels[:, None] == names
    if not match.any(axis=1).all():
        raise ValueError(
            f"Label {labels[~match.any(axis=1)][0]!r} in y is none of the classes {list(names)}."
        )
    return match.argmax(axis=1)


def _labels(
    y: ArrayLike, proba: ArrayLike, names: NDArray, log: bool = False
) -> tuple[NDArray[np.intp], Array]:
    """Column of `proba` that belongs to each label, and the checked (n,
    C) probabilities or their logarithms.
    """
    index, p = _columns(y, names), _finite("proba", proba, may_be_infinite=log)
    if p.ndim == 1 and len(names) == 2:
        if np.any((p > 0) if log else (p < 0) | (p > 1)):
            raise ValueError("proba must lie between 0 and 1 (its logarithm below 0).")
        with np.errstate(divide="ignore"):
            p = np.column_stack([np.log(-np.expm1(p)) if log else 1 - p, p])
    if p.shape != (len(index), len(names)):
        raise ValueError(
            f"proba must have shape (cases, classes) = ({len(index)}, {len(names)}); got {p.shape}. "
            f"The classes are {list(names)}: if there are others, name all with classes=."
        )
    total = (np.exp(p) if log else p).sum(axis=1)
    if (not log and np.any(p < 0)) or not np.allclose(total, 1, rtol=0, atol=1e-6):
        raise ValueError("Every row of proba must be non-negative and sum to 1.")
    return index, p


def _log_probability(
    y: ArrayLike, proba: ArrayLike, names: NDArray, log: bool
) -> tuple[NDArray[np.intp], Array]:
    """Column of each label, and the natural logarithm of the probability it was given."""
    index, p = _labels(y, proba, names, log)
    chosen = p[np.arange(len(p)), index]
    with np.errstate(divide="ignore"):
        return index, chosen if log else np.log(chosen)


def _baseline(index: NDArray[np.intp], y_train: ArrayLike | None, names: NDArray) -> Array:
    """log₂ of what the baseline gives to each label: its training frequency,
    or one in as many as there are classes.
    """
    if y_train is None:
        return np.full(len(index), -math.log2(len(names)))
    frequency = np.bincount(_columns(y_train, names), minlength=len(names)) / np.size(y_train)
    if np.any(frequency[index] == 0):
        unseen = names[index][frequency[index] == 0][0]
        raise ValueError(
            f"Label {unseen!r} is in y but not in y_train: its training frequency, the baseline, is zero."
        )
    return np.log2(frequency[index])


def _score(p: Array, by: str | ArrayLike) -> Array:
    """How sure each case is: larger is surer."""
    if isinstance(by, str):
        if by not in ("largest", "gap"):
            raise ValueError(f'by must be "largest", "gap" or a score for each case; got {by!r}.')
        top = np.sort(p, axis=1)
        return top[:, -1] if by == "largest" else top[:, -1] - top[:, -2]
    score = _finite("by", by, may_be_infinite=True)
    if score.shape != (len(p),):
        raise ValueError(f"by must have a score for each of the {len(p)} cases; got shape {score.shape}.")
    return score


def _same_shape(may_be_infinite: tuple[str, ...] = (), **arguments: ArrayLike) -> tuple[Array, ...]:
    """The arguments as float arrays of the first one's shape; only single numbers are broadcast."""
    arrays = {name: _finite(name, a, name in may_be_infinite) for name, a in arguments.items()}
    (first, y), *others = arrays.items()
    for name, a in others:
        if a.ndim and a.shape != y.shape:
            raise ValueError(
                f"{name} has shape {a.shape} but {first} has shape {y.shape}; they must be the same."
            )
    return tuple(np.broadcast_to(a, y.shape) for a in arrays.values())


def _finite(name: str, values: ArrayLike, may_be_infinite: bool = False) -> Array:
    a = np.asarray(values, dtype=np.float64)
    if a.size == 0:
        raise ValueError(f"{name} is empty.")
    bad = np.isnan(a) if may_be_infinite else ~np.isfinite(a)
    if bad.any():
        where = tuple(int(i) for i in np.argwhere(bad)[0])
        raise ValueError(
            f"{name} has {bad.sum()} value(s) that are NaN or infinite, the first at index {where}."
        )
    return a


def _spread(a: Array, name: str) -> float:
    """Standard deviation about the mean (divisor n), refused when zero."""
    spread = float(np.std(a))
    if spread == 0:
        raise ValueError(f"{name} is constant: its variance is zero, so nothing can be standardised by it.")
    return spread
