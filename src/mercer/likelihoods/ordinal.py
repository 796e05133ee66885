"""Ranked categories: the latent function, plus Gaussian noise, falls between two thresholds."""

from __future__ import annotations

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from mercer.inputs import Array
from mercer.likelihoods.base import AbstractLikelihood, refuse
from mercer.likelihoods.special import log_ndtr, log_sub
from mercer.params import Hyper, ParameterError, hyper, positive, real


class Ordinal(AbstractLikelihood):
    """p(y = j | f) = Phi((b_{j+1} - f) / scale) - Phi((b_j - f) / scale), y = 0 ... J - 1, b_0 = -inf, b_J =
    inf.

    levels: the number J of categories, or the J - 1 thresholds b_1 < ... < b_{J-1} themselves. They are kept
    as the first and the positive increments, so that learning keeps their order. scale: the noise; it only
    fixes the units of f and is held unless given as `param(...)`. Two levels with the threshold at zero are a
    probit classifier.

    >>> Ordinal(5), Ordinal([-1.0, 0.0, 2.5])
    """

    levels: int | Any = eqx.field(static=True)
    first: Hyper = hyper(None, real)
    increments: Hyper = hyper(None, positive)
    scale: Hyper = hyper(1.0, positive, free=False)

    categorical: ClassVar[bool] = True

    def __post_init__(self):
        if np.ndim(self.levels) == 0:
            if isinstance(self.levels, bool) or int(self.levels) != self.levels or self.levels < 2:
                raise ParameterError(
                    f"Ordinal needs at least two levels, or a list of thresholds, got {self.levels!r}."
                )
            self.levels = int(self.levels)
            thresholds = np.arange(self.levels - 1.0) - 0.5 * (self.levels - 2)
        else:
            thresholds = np.asarray(self.levels, float)
            if thresholds.ndim != 1 or thresholds.size == 0 or not np.all(np.diff(thresholds) > 0):
                raise ParameterError(f"Ordinal: thresholds must be increasing, got {self.levels}.")
            self.levels = thresholds.size + 1
        self.first = thresholds[0] if self.first is None else self.first
        self.increments = np.diff(thresholds) if self.increments is None else self.increments
        super().__post_init__()
        if jnp.shape(self.increments) != (self.levels - 2,):
            raise ParameterError(
                f"Ordinal with {self.levels} levels has {self.levels - 2} increments, got {self.increments}."
            )

    @property
    def log_concave(self) -> bool:
        return True

    @property
    def thresholds(self) -> jax.Array:
        """b_1 ... b_{J-1}: (J - 1,)."""
        return jnp.concatenate(
            [jnp.reshape(self.first, (1,)), self.first + jnp.cumsum(jnp.asarray(self.increments))]
        )

    def encode(self, y: np.ndarray) -> np.ndarray:
        refuse(
            (y < 0) | (y >= self.levels) | (y != np.round(y)), y, f"whole numbers from 0 to {self.levels - 1}"
        )
        return y

    def guess(self, y: np.ndarray) -> np.ndarray:
        b = np.asarray(self.thresholds)
        middle = np.concatenate([[b[0] - 1.0], 0.5 * (b[:-1] + b[1:]), [b[-1] + 1.0]])
        return middle[np.asarray(y, int)]

    def log_prob(self, f: Array, y: Array) -> jax.Array:
        return self.log_partition(y, f, 0.0)

    def log_partition(self, y: Array, mean: Array, variance: Array | float) -> jax.Array:
        sd = jnp.sqrt(self.scale**2 + variance)
        b = self.thresholds
        # the ends only stand in for infinity
        b = jnp.concatenate([b[:1] - self.scale, b, b[-1:] + self.scale])
        j = jnp.asarray(y, int)
        low, high = (b[j] - mean) / sd, (b[j + 1] - mean) / sd
        upper = low + high > 0  # in the upper half the two tails above are subtracted
        between = log_sub(log_ndtr(jnp.where(upper, -low, high)), log_ndtr(jnp.where(upper, -high, low)))
        return jnp.where(j == 0, log_ndtr(high), jnp.where(j == self.levels - 1, log_ndtr(-low), between))

    def bend(self, y: Array) -> tuple[jax.Array, Array]:
        b = self.thresholds
        j = jnp.asarray(y, int)
        return 0.5 * (b[jnp.maximum(j - 1, 0)] + b[jnp.minimum(j, self.levels - 2)]), self.scale

    def probability(self, mean: np.ndarray, variance: np.ndarray | float, how: str = "average") -> np.ndarray:
        """P(y = j) for every level: (m, J); how="map" takes f at its mean."""
        if how not in ("average", "map"):
            raise ValueError(f"how must be 'average' or 'map', got {how!r}.")
        mean, variance = np.asarray(mean, float), np.asarray(variance, float) * (how == "average")
        return np.stack([np.exp(self.log_density(float(j), mean, variance)) for j in range(self.levels)], -1)

    def predict(self, mean: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        p, j = self.probability(mean, variance), np.arange(self.levels)
        average = p @ j
        return average, np.sum(p * (j - average[..., None]) ** 2, -1)

    def quantile(self, q: float, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        reached = np.cumsum(self.probability(mean, variance), -1)[..., :-1] < q
        return reached.sum(-1).astype(float)

    def sample(self, rng: np.random.Generator, f: np.ndarray) -> np.ndarray:
        noisy = np.asarray(f) + float(self.scale) * rng.standard_normal(np.shape(f))
        return np.searchsorted(np.asarray(self.thresholds), noisy).astype(float)
