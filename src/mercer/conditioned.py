"""What has seen data: a posterior, a fit, a fitted estimator. Pictures and assessments are of these."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from mercer.inputs import Inputs

__all__ = [
    "AbstractConditioned",
    "AbstractSubject",
    "Bars",
    "ClassFunction",
    "Classified",
    "LatentSpace",
    "PointFunction",
]


class Classified(NamedTuple):
    """What a classifier says of rows: the labels of the classes (C,), which one each row has (n,), the
    predicted probabilities (n, C), and how they were predicted, in words.
    """

    labels: tuple[str, ...]
    codes: np.ndarray
    probability: np.ndarray
    how: str


class ClassFunction(NamedTuple):
    """A fitted classifier as a function: the training inputs and which class each row has (n,), the labels of
    the classes, and their probabilities (m, C) at inputs (m, d).
    """

    inputs: Inputs
    codes: np.ndarray
    labels: tuple[str, ...]
    probability: Callable[[np.ndarray], np.ndarray]


class PointFunction(NamedTuple):
    """An intensity or a density as a function: what it is called, the points (n, d) and the names of their
    columns, the ends of the region along each column, and what it is at places (m, d): its mean (m,), and the
    ends of its interval of a level.
    """

    word: str
    points: np.ndarray
    names: tuple[str, ...] | None
    region: list[tuple[float, float]]
    mean: Callable[[np.ndarray], np.ndarray]
    interval: Callable[[np.ndarray, float], tuple[np.ndarray, np.ndarray]]


class LatentSpace(NamedTuple):
    """Rows of a table as points of a latent space: the points (n, q), their standard deviations (n, q), and a
    shade behind them: a function of places in the first two dimensions, (m, 2) to (m,), and what it is.
    """

    points: np.ndarray
    std: np.ndarray
    shade: Callable[[np.ndarray], np.ndarray]
    shade_name: str


class Bars(NamedTuple):
    """What a picture of an explanation shows: names (k,) and lengths (k,) of bars, their standard deviations
    (k,), NaN where not known, what the lengths are, a title; `start`: where the first bar begins, and each
    goes on from the one before it, or None, where all begin at zero.
    """

    names: tuple[str, ...]
    lengths: np.ndarray
    std: np.ndarray
    what: str
    title: str
    start: float | None


class AbstractSubject(abc.ABC):  # noqa: B024  (hooks)
    """What a picture may be of. Each question is answered by None where there is nothing to say."""

    def input_importance(self) -> Any:
        """How much each column matters (`mercer.explain.Importance`)."""
        return None

    def column_effects(self, columns: Any = None, most: int = 6, level: float = 0.95) -> Any:
        """How columns matter (a tuple of `mercer.explain.Effect`)."""
        return None

    def explanation(self, rows: Any = None) -> Any:
        """What it has learned, or its predictions of rows, explained: something with `bars`."""
        return None

    def classified(self, X: Any = None, y: Any = None) -> Classified | None:
        """What it says of the classes of rows X with labels y; without them, of the training rows left out
        one at a time.
        """
        return None

    def class_function(self) -> ClassFunction | None:
        """Probabilities of classes as a function of the inputs."""
        return None

    def point_function(self) -> PointFunction | None:
        """The intensity or density of points as a function of places."""
        return None

    def coverage(self, levels: Any, X: Any = None, y: Any = None) -> tuple[int, np.ndarray] | None:
        """How many rows there are, and the shares of them in their intervals of these `levels`: rows X with
        targets y, or the training rows left out one at a time.
        """
        return None

    def outlier_report(self) -> Any:
        """Which training rows are outliers (`GPRegressor.outliers_`)."""
        return None

    def latent_space(self) -> LatentSpace | None:
        """The rows as points of a latent space."""
        return None

    def course(self) -> Any:
        """The fit that learned it (`mercer.Fit`), with its history."""
        return None


class AbstractConditioned(AbstractSubject):
    """Something that holds a posterior."""

    @abc.abstractmethod
    def one_posterior(self) -> Any:
        """The posterior it holds (`mercer.posteriors.AbstractPosterior`); an error that says which to choose
        where there are several, or what to do first where there is none yet.
        """
