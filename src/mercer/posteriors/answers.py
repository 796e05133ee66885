"""What a posterior answers with: small named values."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Literal, NamedTuple

import numpy as np


class PosteriorError(ValueError):
    """A posterior was asked for something it cannot say; the message names what can."""


@dataclasses.dataclass(frozen=True)
class InferenceStatus:
    """How the search for a posterior ended: whether it converged, after how many factorisations (or draws),
    and what it had to do.
    """

    converged: bool = True
    iterations: int = 1
    message: str = "exact"


@dataclasses.dataclass(frozen=True, eq=False)
class LeaveOneOut:
    """Predictions of each y_i from all the others: mean and variance of y (noise included) and log density of
    what was observed, each (n,).

    For classes `probability` (n, C) is that of every class, and the mean is that of class 1 where there are
    two, (n, C) where there are more.

    >>> loo = post.loo(); loo.log_density.sum(), (y - loo.mean) / np.sqrt(loo.variance)
    """

    mean: np.ndarray
    variance: np.ndarray
    log_density: np.ndarray
    probability: np.ndarray | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class Component:
    """Posterior of one additive term of the kernel at the test inputs:
    mean and standard deviation (m,) of that part of f.
    """

    name: str
    mean: np.ndarray
    std: np.ndarray


class Predictive(NamedTuple):
    """What is predicted of y: mean (m,), standard deviation (m,) and quantiles (m, k)."""

    mean: np.ndarray
    std: np.ndarray
    quantiles: np.ndarray


class EvidenceBounds(NamedTuple):
    """The exact log evidence lies between these two, in nats.

    >>> lower, upper = post.evidence_bounds(); post.evidence_bounds().gap
    """

    lower: float
    upper: float

    @property
    def gap(self) -> float:
        """How much the approximation may have lost."""
        return self.upper - self.lower

    def __str__(self) -> str:
        return f"log evidence between {self.lower:.4f} and {self.upper:.4f} (a gap of {self.gap:.3g} nats)"


class EvidenceTerms(NamedTuple):
    """The log evidence in nats as a sum of three (5.8): how well the data are fitted, what the flexibility of
    the model costs, and -n/2 log 2 pi.

    >>> print(post.evidence_terms()); post.evidence_terms().data_fit
    """

    data_fit: float
    complexity: float
    constant: float

    @property
    def total(self) -> float:
        """The log evidence."""
        return self.data_fit + self.complexity + self.constant

    def __str__(self) -> str:
        return (
            f"log evidence {self.total:.4f} = data fit {self.data_fit:.4f} + complexity "
            f"{self.complexity:.4f} + constant {self.constant:.4f}"
        )


# how a prediction at an uncertain input is made
Method = Literal["exact", "linear", "quadrature", "monte-carlo"]


@dataclasses.dataclass(frozen=True, eq=False)
class UncertainPrediction:
    """What is predicted where the input is uncertain, x ~ N(mu, Sigma): unpacked it is mean, variance and
    cross.

    mean, variance: of y, or of f: a number, or (m,) for m inputs
    cross: covariance of x with it, (d,) or (m, d)
    spread: the part of the variance that comes from x alone, through the mean; the rest would be left if x
        were known
    method: how it was computed
    error: the standard error of the mean where it is Monte Carlo, else None

    >>> mean, variance, cross = post.predict_uncertain(mu, Sigma)
    """

    mean: np.ndarray
    variance: np.ndarray
    cross: np.ndarray
    spread: np.ndarray
    method: Method
    error: np.ndarray | None = None

    def __iter__(self) -> Iterator[np.ndarray]:
        return iter((self.mean, self.variance, self.cross))

    def row(self, i: int) -> UncertainPrediction:
        """That of one of m inputs."""
        error = None if self.error is None else self.error[i]
        return UncertainPrediction(
            self.mean[i], self.variance[i], self.cross[i], self.spread[i], self.method, error
        )
