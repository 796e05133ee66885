"""What classifiers by scores share (GPML 6.4, 6.5): many classes as problems of two, and probabilities from
scores of rows that were left out.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable
from itertools import combinations
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.metaestimators import available_if

from mercer.kernels import AbstractKernel
from mercer.registry import unknown
from mercer.relatives.calibration import platt, squash
from mercer.relatives.checks import Array, Indices, test_inputs, training_labels
from mercer.relatives.protocol import stratified_folds
from mercer.relatives.rkhs import KernelFunction

SCHEMES = ("one-vs-rest", "one-vs-one", "error-correcting")
Scheme = Literal["one-vs-rest", "one-vs-one", "error-correcting"]
EXHAUSTIVE = 6  # classes, up to which all divisions of them in two are contests
DRAWS = 200  # of random codes, of which the one with the largest distances is taken
ROUNDS = 2000  # of the coupling, at most


@dataclasses.dataclass(frozen=True, eq=False)
class Machines:
    """J functions f_j = sum_i weights_ij k(., x_i) + bias_j: weights (n, J), bias (J,); of each the value of
    what it minimises, (J,), and how far that may be above the minimum, (J,).
    """

    weights: Array
    bias: Array
    objective: Array
    gap: Array

    def scores(self, K: Array) -> Array:
        """Values (m, J) from covariances K (m, n) with the training rows."""
        return K @ self.weights + self.bias


# covariances (n, n) and labels (n, J) of -1, 1, and 0 for rows that take no part -> the functions
Trainer = Callable[[Array, Array], Machines]


def each(train: Callable[[Array, Array], tuple[Array, float, float, float]]) -> Trainer:
    """A trainer from what trains one function of the rows that take part: weights, bias, objective, gap."""

    def trainer(K: Array, signs: Array) -> Machines:
        n, J = signs.shape
        weights, rest = np.zeros((n, J)), np.zeros((J, 3))
        for j, y in enumerate(signs.T):
            rows = np.flatnonzero(y)
            if len(np.unique(y[rows])) < 2:  # a class that is left out as a whole
                rest[j, 0] = y[rows[0]] if rows.size else 0.0
                continue
            weights[rows, j], *rest[j] = train(K[np.ix_(rows, rows)], y[rows])
        return Machines(weights, *rest.T)

    return trainer


def held_out(K: Array, signs: Array, parts: list[Indices], trainer: Trainer) -> Array:
    """Scores (n, J) of rows by functions of the other parts."""
    scores = np.empty(signs.shape)
    for part in parts:
        rest = np.setdiff1d(np.arange(len(K)), part)
        scores[part] = trainer(K[np.ix_(rest, rest)], signs[rest]).scores(K[np.ix_(part, rest)])
    return scores


# ------------------------------------------------------------------------------------------ many classes


def codes(classes: int, scheme: Scheme, seed: int = 0) -> Array:
    """What each class is called in each problem of two, (C, J): 1, -1, or 0 where it takes no part. Of two
    classes the one problem is the second against the first.

    scheme: "one-vs-rest", each class against all others; "one-vs-one", all pairs; "error-correcting", many
        ways to divide the classes in two, so that a class is known even where some of the answers are wrong
        (Dietterich and Bakiri 1995): all ways for up to six classes, else 10 log2 C random ones
    """
    if scheme not in SCHEMES:
        raise ValueError(unknown("multi_class", scheme, SCHEMES))
    if classes == 2:
        return np.array([[-1.0], [1.0]])
    if scheme == "one-vs-rest":
        return 2.0 * np.eye(classes) - 1.0
    if scheme == "one-vs-one":
        pairs = list(combinations(range(classes), 2))
        found = np.zeros((classes, len(pairs)))
        for column, (i, j) in enumerate(pairs):
            found[j, column], found[i, column] = 1.0, -1.0
        return found
    if classes <= EXHAUSTIVE:
        numbers = np.arange(1, 2 ** (classes - 1))
        bits = (numbers >> np.arange(classes - 1)[:, None]) & 1
        return np.vstack([2.0 * bits - 1.0, -np.ones(len(numbers))])
    rng = np.random.default_rng(seed)
    J = int(np.ceil(10 * np.log2(classes)))
    return max((_random_code(rng, classes, J) for _ in range(DRAWS)), key=_least_distance)


def _random_code(rng: np.random.Generator, classes: int, J: int) -> Array:
    columns: dict[bytes, Array] = {}
    while len(columns) < J:
        column = rng.choice([-1.0, 1.0], classes) * 1.0
        column = column * -column[-1]  # a division and its mirror image are one
        if (column > 0).any():
            columns[column.tobytes()] = column
    return np.column_stack(list(columns.values()))


def _least_distance(code: Array) -> float:
    return float(-np.max(code @ code.T - 2 * code.shape[1] * np.eye(len(code))))


def decode(scores: Array, code: Array) -> Array:
    """What speaks for each class, (m, C), from scores (m, J) in the problems of two.

    Where all classes take part in every problem, the sum of the scores in the class' favour; else the number
    of problems it wins, with less than a half added for how clearly.
    """
    if (code != 0).all():
        return scores @ code.T
    clear = scores @ code.T
    return np.where(scores > 0, 1.0, -1.0) @ code.T / 2 + clear / (3 * (np.abs(clear) + 1))


def couple(p: Array, code: Array) -> Array:
    """Class probabilities (m, C) that agree best with the probabilities p (m, J) of the side called 1 in each
    problem of two: the least sum of divergences of p_j from P(side 1) / P(both sides) (Hastie and Tibshirani
    1998, for any code Zadrozny 2002), by iteration.
    """
    r = np.clip(p, 1e-12, 1 - 1e-12)
    first, second = (code > 0).astype(float), (code < 0).astype(float)
    wanted = r @ first.T + (1 - r) @ second.T
    q = np.full((len(r), len(code)), 1.0 / len(code))
    for _ in range(ROUNDS):
        a, b = q @ first, q @ second
        share = a / (a + b)
        step = wanted / (share @ first.T + (1 - share) @ second.T)
        new = q * step
        new /= new.sum(1, keepdims=True)
        moved = np.max(np.abs(new - q), initial=0.0)
        q = new
        if moved < 1e-10:
            break
    return q


# ------------------------------------------------------------------------------------------ the estimator


def _calibrated(estimator: AbstractMachineClassifier) -> bool:
    if estimator.link is None:
        raise AttributeError(
            f"{type(estimator).__name__}(link=None) gives no probabilities: set link='logit' or 'probit'."
        )
    return True


class AbstractMachineClassifier(ClassifierMixin, BaseEstimator, abc.ABC):
    """A classifier by functions of a kernel's space, one for each problem of two classes."""

    multi_class: Scheme
    link: str | None
    regularise: bool
    folds: int
    random_state: int

    @abc.abstractmethod
    def _chosen(self, inputs: Array, index: Indices, parts: list[Indices]) -> tuple[AbstractKernel, Trainer]:
        """The kernel and how to train with it, what was not given chosen by rows left out."""

    @abc.abstractmethod
    def _held_out(self, K: Array, signs: Array, parts: list[Indices], trainer: Trainer) -> Array:
        """Scores (n, J) of the training rows by functions that did not see them."""

    def fit(self, X: ArrayLike, y: ArrayLike) -> AbstractMachineClassifier:
        """Learn from labels y (n,) at X (n, d)."""
        inputs, self.classes_, index = training_labels(self, X, y)
        if self.link not in ("logit", "probit", None):
            raise ValueError(f"link must be 'logit', 'probit' or None, got {self.link!r}.")
        if not self.folds >= 2:
            raise ValueError(f"folds must be 2 or more, got {self.folds!r}.")
        self.codes_ = codes(len(self.classes_), self.multi_class, self.random_state)
        signs, parts = self.codes_[index], self._parts(index)
        self.kernel_, trainer = self._chosen(inputs, index, parts)
        K = self.kernel_(inputs)
        self.machines_ = trainer(K, signs)
        self.objective_ = float(self.machines_.objective.sum())
        self.duality_gap_ = float(self.machines_.gap.max())
        self.functions_ = [KernelFunction(self.kernel_, inputs, w) for w in self.machines_.weights.T]
        self.support_ = np.flatnonzero((self.machines_.weights != 0).any(1))
        self.points_ = inputs
        self.scalings_ = None
        if self.link is not None:
            scores = self._held_out(K, signs, parts, trainer)
            self.scalings_ = [
                platt(f[s != 0], s[s != 0] > 0, self.link, self.regularise)
                for f, s in zip(scores.T, signs.T, strict=True)
            ]
        return self

    def decision_function(self, X: ArrayLike) -> Array:
        """Two classes: the score (m,), positive for the second. More: what speaks for each, (m, C)."""
        scores = self._scores(X)
        return scores[:, 0] if len(self.classes_) == 2 else decode(scores, self.codes_)

    def predict(self, X: ArrayLike) -> NDArray:
        """The class (m,) that the scores speak for."""
        found = self.decision_function(X)
        chosen = (found > 0).astype(int) if found.ndim == 1 else found.argmax(1)
        return self.classes_[chosen]

    @available_if(_calibrated)
    def predict_proba(self, X: ArrayLike) -> Array:
        """Probabilities (m, C) of the classes, from the scores by `PlattScaling`; its threshold need not be
        that of `predict`.
        """
        scores = self._scores(X)
        assert self.link is not None
        slope, intercept = np.transpose(np.array(self.scalings_))
        z = scores * slope + intercept
        if len(self.classes_) == 2:
            return squash(np.column_stack([-z, z]), self.link)
        return couple(squash(z, self.link), self.codes_)

    def _scores(self, X: ArrayLike) -> Array:
        inputs = test_inputs(self, X)
        return self.machines_.scores(self.kernel_(inputs, self.points_))

    def _parts(self, index: Indices) -> list[Indices]:
        return stratified_folds(index, min(self.folds, len(index)), self.random_state)

    def _errors(self, K: Array, index: Indices, parts: list[Indices], trainer: Trainer) -> float:
        """The share of rows that functions of the other parts classify wrongly."""
        scores = held_out(K, self.codes_[index], parts, trainer)
        found = (scores[:, 0] > 0) if len(self.classes_) == 2 else decode(scores, self.codes_).argmax(1)
        return float(np.mean(found != index))
