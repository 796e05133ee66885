"""Probabilities from the scores of a classifier that gives none (Kuss 6.16, GPML §3.7 and 6.5)."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, log_expit, log_ndtr, ndtr
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from mercer.relatives.checks import Array


class PlattScaling(ClassifierMixin, BaseEstimator):
    """Probabilities from the scores of a classifier that gives none, such as a support vector machine.

    P(second class | score f) = s(slope_ f + intercept_), with s the logistic function (Kuss 6.16, where α =
    -slope_ and β = -intercept_) or the cumulative Gaussian (GPML §3.7, 6.5), fitted by maximum likelihood.
    Fit it to scores of cases that the classifier was not trained on: by cross-validation or leave-one-out.

    link: "logit" or "probit", default "logit"
    regularise: bool, default True. Replace the targets 1 and 0 by (n₁+1)/(n₁+2) and 1/(n₀+2), as Platt does.
        Without it, scores that separate the classes perfectly give probabilities of 0 and 1.

    classes_: (2,)
    slope_, intercept_: float

    >>> scores = cross_val_predict(SVC(), X, labels, method="decision_function")
    >>> scaling = PlattScaling().fit(scores, labels)
    >>> scaling.predict_proba(SVC().fit(X, labels).decision_function(Xs))
    """

    def __init__(self, link: str = "logit", regularise: bool = True):
        self.link = link
        self.regularise = regularise

    def fit(self, f: ArrayLike, y: ArrayLike) -> PlattScaling:
        """Fit scores f (n,) or (n, 1) and labels y (n,) of two kinds;
        larger scores speak for the second in order.
        """
        labels = np.asarray(y)
        self.classes_ = np.unique(labels)
        if labels.ndim != 1 or len(self.classes_) != 2:
            raise ValueError(
                f"y must hold labels of two classes, (cases,); got {len(self.classes_)} in shape "
                f"{labels.shape}."
            )
        self.slope_, self.intercept_ = platt(f, labels == self.classes_[1], self.link, self.regularise)
        return self

    def predict_proba(self, f: ArrayLike) -> Array:
        """Probabilities of the two classes, (cases, 2)."""
        check_is_fitted(self)
        z = self.slope_ * _scores(f) + self.intercept_
        return np.column_stack([squash(-z, self.link), squash(z, self.link)])

    def predict(self, f: ArrayLike) -> NDArray:
        """The likelier class of each score."""
        likelier = self.predict_proba(f).argmax(axis=1)
        return self.classes_[likelier]


def platt(f: ArrayLike, y: ArrayLike, link: str = "logit", regularise: bool = True) -> tuple[float, float]:
    """Slope and intercept of P(y | f) = s(slope f + intercept), from scores f (n,) and truth values y (n,).

    See `PlattScaling` for the options. The likelihood is concave: Newton's method finds its only maximum.
    Without regularisation it has none when the scores separate the classes; then a warning says so, and the
    slope is as steep as still makes a difference to the likelihood.
    """
    scores, truth = _scores(f), np.asarray(y)
    if truth.shape != scores.shape or not np.isin(truth, [0, 1]).all():
        raise ValueError(
            f"y must be true or false for each of the {len(scores)} scores; got shape {truth.shape}."
        )
    if link not in _LINKS:
        raise ValueError(f"Unknown link {link!r}; use one of {', '.join(_LINKS)}.")
    truth = truth.astype(bool)
    above, below = int(truth.sum()), int((~truth).sum())
    if above == 0 or below == 0:
        raise ValueError("Scores of both classes are needed; y is all the same.")
    high, low = ((above + 1) / (above + 2), 1 / (below + 2)) if regularise else (1.0, 0.0)
    centre, scale = scores.mean(), scores.std()
    if scale <= 1e-14 * np.abs(scores).max():
        scale = 1.0
    if not regularise and _separate(scores[truth], scores[~truth]):
        warnings.warn(
            (
                "The scores separate the two classes: without regularisation the probabilities become 0 "
                "and 1. "
                "Use regularise=True."
            ),
            stacklevel=2,
        )
    a, b = _newton((scores - centre) / scale, np.where(truth, high, low), link)
    return float(a / scale), float(b - a * centre / scale)


def squash(z: Array, link: str) -> Array:
    """The logistic function of z, or the cumulative Gaussian, by the name of the link."""
    probability: Array = _LINKS[link][0](z)
    return probability


def _newton(x: Array, t: Array, link: str) -> tuple[float, float]:
    """Maximise Σ t log s(z) + (1-t) log s(-z), z = a x + b, by Newton steps, halved until they improve."""
    log_s, slopes = _LINKS[link][1:]
    design = np.column_stack([x, np.ones_like(x)])

    def value(w: Array) -> float:
        z = design @ w
        return float(np.sum(t * log_s(z) + (1 - t) * log_s(-z)))

    w = np.zeros(2)
    best = value(w)
    for _ in range(200):
        z = design @ w
        (up, bend_up), (down, bend_down) = slopes(z), slopes(-z)
        gradient = design.T @ (t * up - (1 - t) * down)
        curvature = (design.T * (t * bend_up + (1 - t) * bend_down)) @ design
        step = np.linalg.lstsq(curvature, gradient, rcond=1e-14)[0]
        # twice the gain to expect: small enough for the last step to be a full one
        if gradient @ step <= 1e-13 * len(x):
            return float(w[0] + step[0]), float(w[1] + step[1])
        size = 1.0
        while not (new := value(w + size * step)) >= best and size > 1e-10:
            size /= 2
        w, best = w + size * step, new
    return float(w[0]), float(w[1])


def _probit_slopes(z: Array) -> tuple[Array, Array]:
    """First derivative of log Φ and minus the second."""
    r = np.exp(-0.5 * z**2 - 0.5 * np.log(2 * np.pi) - log_ndtr(z))
    return r, np.maximum(r * (z + r), 0.0)


_LINKS = {
    "logit": (expit, log_expit, lambda z: (expit(-z), expit(z) * expit(-z))),
    "probit": (ndtr, log_ndtr, _probit_slopes),
}


def _separate(first: Array, second: Array) -> bool:
    """Whether a threshold divides the two sets, which may touch there, unless all are equal."""
    low, high = (first, second) if first.mean() < second.mean() else (second, first)
    return bool(low.max() <= high.min() and low.min() < high.max())


def _scores(f: ArrayLike) -> Array:
    a = np.asarray(f, dtype=np.float64)
    a = a[:, 0] if a.ndim == 2 and a.shape[1] == 1 else a
    if a.ndim != 1 or a.size == 0:
        raise ValueError(f"Scores must have shape (cases,) or (cases, 1); got {np.shape(f)}.")
    if not np.isfinite(a).all():
        raise ValueError("Scores must not be NaN or infinite.")
    return a
