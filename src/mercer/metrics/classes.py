"""Scores of class probabilities `proba` (n, C); labels may be of any kind, see `information`."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mercer.metrics.checks import Array, finite
from mercer.metrics.labels import baseline, class_names, columns_of, labelled, log_probability


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
    return -float(np.mean(log_probability(y, proba, class_names(y, None, classes), log)[1]))


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
    names = class_names(y, y_train, classes)
    index, logs = log_probability(y, proba, names, log)
    return float(np.mean(logs / math.log(2) - baseline(index, y_train, names)))


def information_bits(y: ArrayLike, proba: ArrayLike, y_train: ArrayLike) -> float:
    """`information` above the training frequencies (GPML 3.76)."""
    return information(y, proba, y_train)


def information_baseline(y: ArrayLike, y_train: ArrayLike) -> float:
    """Bits per case that are missing when only the training frequencies of the labels are known (GPML 3.76).

    The average of -log₂ frequency over the test labels y: what a perfect classifier scores in `information`.
    """
    names = class_names(y, y_train, None)
    return -float(np.mean(baseline(columns_of(y, names), y_train, names)))


def brier(y: ArrayLike, proba: ArrayLike, *, classes: ArrayLike | None = None) -> float:
    """Brier score, the average of Σ_c (p_c - 1[y = c])²: 0 is perfect, 2 is certain and wrong.

    For two classes it is twice the mean square of P(second) - 1[y = second].
    """
    index, p = labelled(y, proba, class_names(y, None, classes))
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
    names = class_names(y, None, classes)
    index, p = labelled(y, proba, names)
    column = p.argmax(axis=1) if label is None else np.broadcast_to(columns_of([label], names), len(p))
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
    names = class_names(y, y_train, classes)
    index, logs = log_probability(y, proba, names, log=False)
    p = labelled(y, proba, names)[1]
    bits = logs / math.log(2) - baseline(index, y_train, names)
    score = _score(p, by)
    order = np.argsort(score, kind="stable")
    wrong = p.argmax(axis=1) != index
    threshold, first = np.unique(score[order], return_index=True)
    kept = len(p) - first
    error, rest = (np.cumsum(values[order][::-1])[::-1][first] / kept for values in (wrong, bits))
    return ErrorReject(threshold, first / len(p), error, rest)


def _score(p: Array, by: str | ArrayLike) -> Array:
    """How sure each case is: larger is surer."""
    if isinstance(by, str):
        if by not in ("largest", "gap"):
            raise ValueError(f'by must be "largest", "gap" or a score for each case; got {by!r}.')
        top = np.sort(p, axis=1)
        return top[:, -1] if by == "largest" else top[:, -1] - top[:, -2]
    score = finite("by", by, may_be_infinite=True)
    if score.shape != (len(p),):
        raise ValueError(f"by must have a score for each of the {len(p)} cases; got shape {score.shape}.")
    return score
