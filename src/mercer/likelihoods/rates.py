"""What counts with a log-Gaussian rate have in common: how much was observed, and predictions by P(y | f)."""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING, Any, ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np

from mercer.inputs import Array
from mercer.likelihoods import quadrature
from mercer.likelihoods.base import AbstractLikelihood, count_quantile, counts, per_row
from mercer.params import Hyper


class AbstractRate(AbstractLikelihood):
    """Counts of mean exposure exp(f), log-concave in f. A subclass says the distribution of y given f."""

    side: ClassVar[tuple[str, ...]] = ("exposure",)

    if TYPE_CHECKING:  # a field of the subclass, which says in which place
        exposure: Hyper

    def __check_init__(self):
        per_row(self, "exposure")

    @abc.abstractmethod
    def at_most(self, y: Array, f: Array) -> jax.Array:
        """P(Y <= y | f) for whole y >= 0."""

    @property
    def log_concave(self) -> bool:
        return True

    @property
    def per_datum(self) -> bool:
        return self.exposure is not None and jnp.ndim(self.exposure) == 1

    def elsewhere(self, X: np.ndarray) -> Self:
        return self.without_side() if self.per_datum else self

    @property
    def log_exposure(self) -> Any:
        """A number or (n,); zero where nothing was said."""
        return 0.0 if self.exposure is None else jnp.log(self.exposure)

    def encode(self, y: np.ndarray) -> np.ndarray:
        return counts(y)

    def guess(self, y: np.ndarray) -> np.ndarray:
        return np.log(np.asarray(y, float) + 0.5) - np.asarray(self.log_exposure)

    def mean_rate(self, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """E[exposure exp(f)] where f ~ N(mean, variance)."""
        return np.exp(np.asarray(mean) + 0.5 * np.asarray(variance) + np.asarray(self.log_exposure))

    def cdf(self, y: np.ndarray | float, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """P(Y <= y) where f ~ N(mean, variance)."""
        y = np.floor(np.asarray(y, float))
        inside = self.compute(AbstractRate._cdf, np.maximum(y, 0.0), mean, variance)
        return np.where(y < 0, 0.0, inside)

    def _cdf(self, y, mean, variance):
        return quadrature.average(lambda f: self.at_most(y, f), mean, variance, *self.bend(y))

    def quantile(self, q: float, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        mean, variance = np.broadcast_arrays(np.asarray(mean, float), np.asarray(variance, float))
        rate = np.exp(mean + np.asarray(self.log_exposure))
        return count_quantile(lambda y: self.cdf(y, mean, variance), q, rate)
