"""Two plain classifiers to measure a Gaussian process against:
a generative one and nearest neighbours (GPML §3.1, 3.7).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import LinAlgError, cho_solve, cholesky, solve_triangular
from scipy.special import log_softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.neighbors import NearestNeighbors

from mercer.relatives.checks import Array, Indices, test_inputs, training_labels


class GaussianClassConditional(ClassifierMixin, BaseEstimator):
    """Generative classifier: a Gaussian density of the inputs for each class, turned round by Bayes' rule
    (GPML 3.1).

    With one covariance for all classes the probabilities are softmax(X @ coef_.T + intercept_), linear in the
    inputs as in (3.4) and (3.8); with separate ones the boundaries are quadratic.

    covariance: "shared" or "separate", default "shared". One covariance matrix for all classes, or one for
        each.
    priors: (C,) or None. Probabilities of the classes, in sorted order of their labels; by default their
        training frequencies.
    ridge: float, default 1e-9. Added to the variance of each column, as a fraction of its variance over all
        cases: keeps the covariances invertible when there are few cases or dependent columns.

    classes_, priors_: (C,)
    means_, covariances_: (C, d) and (C, d, d), or (1, d, d) when shared; the maximum-likelihood ones (divisor
        n)
    coef_, intercept_: (C, d) and (C,), when the covariance is shared

    >>> GaussianClassConditional().fit(X, labels).predict_proba(Xs)
    """

    def __init__(self, covariance: str = "shared", priors: ArrayLike | None = None, ridge: float = 1e-9):
        self.covariance = covariance
        self.priors = priors
        self.ridge = ridge

    def fit(self, X: ArrayLike, y: ArrayLike) -> GaussianClassConditional:
        """Fit inputs X (n, d) and labels y (n,)."""
        inputs, self.classes_, index = training_labels(self, X, y)
        if self.covariance not in ("shared", "separate"):
            raise ValueError(f'covariance must be "shared" or "separate"; got {self.covariance!r}.')
        if not (np.isfinite(self.ridge) and self.ridge >= 0):
            raise ValueError(f"ridge must not be negative; got {self.ridge!r}.")
        members = np.eye(len(self.classes_))[index]
        counts = members.sum(axis=0)
        self.priors_ = counts / counts.sum() if self.priors is None else self._given_priors(self.priors)
        self.means_ = members.T @ inputs / counts[:, None]
        residual = inputs - self.means_[index]
        groups = (
            [residual] if self.covariance == "shared" else [residual[index == c] for c in range(len(counts))]
        )
        spread = inputs.var(axis=0)
        ridge = self.ridge * np.diag(np.where(spread > 0, spread, 1.0))
        self.covariances_ = np.array([group.T @ group / len(group) + ridge for group in groups])
        self.factors_ = [self._factor(c) for c in range(len(groups))]
        if self.covariance == "shared":
            self.coef_ = cho_solve((self.factors_[0], True), self.means_.T).T
            with np.errstate(divide="ignore"):
                self.intercept_ = np.log(self.priors_) - 0.5 * np.sum(self.coef_ * self.means_, axis=1)
        return self

    def predict_log_proba(self, X: ArrayLike) -> Array:
        """Natural logarithms of the class probabilities, (rows, C)."""
        inputs = test_inputs(self, X)
        joint = np.empty((len(inputs), len(self.classes_)))
        with np.errstate(divide="ignore"):
            prior = np.log(self.priors_)
        for c, mean in enumerate(self.means_):
            L = self.factors_[c if self.covariance == "separate" else 0]
            z = solve_triangular(L, (inputs - mean).T, lower=True)
            joint[:, c] = prior[c] - np.log(np.diag(L)).sum() - 0.5 * np.sum(z**2, axis=0)
        return log_softmax(joint, axis=1)

    def predict_proba(self, X: ArrayLike) -> Array:
        """Class probabilities (rows, C), columns in the order of `classes_`."""
        return np.exp(self.predict_log_proba(X))

    def predict(self, X: ArrayLike) -> NDArray:
        """The likeliest class of each row."""
        likeliest = self.predict_log_proba(X).argmax(axis=1)
        return self.classes_[likeliest]

    def _given_priors(self, priors: ArrayLike) -> Array:
        p = np.asarray(priors, dtype=np.float64)
        if p.shape != self.classes_.shape or not np.all(p >= 0) or abs(p.sum() - 1) > 1e-9:
            raise ValueError(
                f"priors must be one probability for each of the classes {list(self.classes_)} and sum to "
                f"1; got {priors!r}."
            )
        return p

    def _factor(self, c: int) -> Array:
        try:
            return cholesky(self.covariances_[c], lower=True)
        except LinAlgError:
            who = "shared" if self.covariance == "shared" else f"{self.classes_[c]!r}"
            raise ValueError(
                f"The covariance matrix ({who}) is singular: too few cases or dependent columns. "
                f"Raise ridge (now {self.ridge:g}) or drop columns."
            ) from None


class ProbabilisticNearestNeighbour(ClassifierMixin, BaseEstimator):
    """Nearest neighbours with a probability: how often they are right on the training cases (P1NN of GPML
    §3.7).

    The class that most of the k nearest training cases have (the nearest of them decides ties) gets
    probability `pi_`, the fraction of training cases that are classified correctly when left out; the other
    classes share the rest.

    k: int or sequence of int, default 1. Number of neighbours; of several the one with the fewest errors in
        cross-validation, the least of equals.
    folds: int or None, default None. Parts for this cross-validation, assigned at random by `random_state`;
    None
        leaves out one case at a time.
    smoothing: float, default 0. Adds this many right and as many wrong answers to the count behind `pi_`,
        which else may be exactly 1.
    random_state: int, default 0

    classes_: (C,)
    k_: int, the number of neighbours chosen
    pi_: float, how often they are right
    errors_: dict of the cross-validated error rate for each candidate k

    >>> model = ProbabilisticNearestNeighbour(k=range(1, 20, 2)).fit(X, labels)
    >>> curve = mercer.metrics.error_reject_curve(ys, model.predict_proba(Xs), by=-model.distance(Xs))
    """

    def __init__(
        self,
        k: int | Sequence[int] = 1,
        folds: int | None = None,
        smoothing: float = 0.0,
        random_state: int = 0,
    ):
        self.k = k
        self.folds = folds
        self.smoothing = smoothing
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> ProbabilisticNearestNeighbour:
        """Keep inputs X (n, d) and labels y (n,), choose k and measure how often it is right."""
        inputs, self.classes_, index = training_labels(self, X, y)
        candidates = self._candidates()
        if not (np.isfinite(self.smoothing) and self.smoothing >= 0):
            raise ValueError(f"smoothing must not be negative; got {self.smoothing!r}.")
        self.X_, self.index_ = inputs, index
        parts = self._parts(len(inputs))
        smallest = len(inputs) - (1 if parts is None else int(np.bincount(parts).max()))
        if candidates[-1] > smallest:
            raise ValueError(
                f"k = {candidates[-1]} neighbours are wanted, but only {smallest} of {len(inputs)} "
                "training cases are left."
            )
        self.errors_ = self._cross_validate(candidates, parts)
        self.k_ = min(candidates, key=lambda k: (self.errors_[k], k))
        self.neighbours_ = NearestNeighbors(n_neighbors=self.k_).fit(inputs)
        right = np.sum(self._vote(index[self.neighbours_.kneighbors(return_distance=False)]) == index)
        self.pi_ = float((right + self.smoothing) / (len(index) + 2 * self.smoothing))
        return self

    def predict_proba(self, X: ArrayLike) -> Array:
        """Class probabilities (rows, C), columns in the order of `classes_`: pi_ for the winner."""
        winner = self._winner(X)
        others = (1 - self.pi_) / (len(self.classes_) - 1)
        return np.where(np.arange(len(self.classes_)) == winner[:, None], self.pi_, others)

    def predict(self, X: ArrayLike) -> NDArray:
        """The class of the winner of the vote."""
        winner = self._winner(X)
        return self.classes_[winner]

    def distance(self, X: ArrayLike) -> Array:
        """Euclidean distance (rows,) to the nearest training case: the larger,
        the more reason to refuse a decision.
        """
        inputs, nearest = self._nearest(X)
        return np.sqrt(np.sum((inputs - self.X_[nearest[:, 0]]) ** 2, axis=1))

    def _winner(self, X: ArrayLike) -> Indices:
        nearest = self._nearest(X)[1]
        return self._vote(self.index_[nearest])

    def _nearest(self, X: ArrayLike) -> tuple[Array, Indices]:
        inputs = test_inputs(self, X)
        return inputs, self.neighbours_.kneighbors(inputs, return_distance=False)

    def _vote(self, labels: Indices) -> Indices:
        """The commonest entry of each row of (rows, k), nearest first; of equals the one that comes first."""
        rows = np.arange(len(labels))[:, None]
        counts = np.zeros((len(labels), len(self.classes_)), dtype=np.intp)
        np.add.at(counts, (rows, labels), 1)
        first = counts[rows, labels].argmax(axis=1)
        return labels[rows[:, 0], first]

    def _cross_validate(self, candidates: list[int], parts: Indices | None) -> dict[int, float]:
        """Error rate of each candidate on cases that took no part."""
        most = candidates[-1]
        labels = np.empty((len(self.index_), most), dtype=np.intp)
        if parts is None:
            nearest = NearestNeighbors(n_neighbors=most).fit(self.X_).kneighbors(return_distance=False)
            labels[:] = self.index_[nearest]
        else:
            for part in np.unique(parts):
                out = parts == part
                nearest = (
                    NearestNeighbors(n_neighbors=most)
                    .fit(self.X_[~out])
                    .kneighbors(self.X_[out], return_distance=False)
                )
                labels[out] = self.index_[~out][nearest]
        return {k: float(np.mean(self._vote(labels[:, :k]) != self.index_)) for k in candidates}

    def _candidates(self) -> list[int]:
        given = np.atleast_1d(np.asarray(self.k))
        if given.ndim != 1 or given.size == 0 or given.dtype.kind not in "iu" or given.min() < 1:
            raise ValueError(f"k must be a whole number of at least 1, or several; got {self.k!r}.")
        return sorted({int(k) for k in given})

    def _parts(self, n: int) -> Indices | None:
        if self.folds is None:
            return None
        if not (isinstance(self.folds, (int, np.integer)) and 2 <= self.folds <= n):
            raise ValueError(
                f"folds must be None or a whole number from 2 to the number of cases, {n}; got "
                f"{self.folds!r}."
            )
        return np.random.default_rng(self.random_state).permutation(np.arange(n) % self.folds)
