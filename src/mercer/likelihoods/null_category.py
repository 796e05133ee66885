"""Two classes, some labels unknown: unlabelled inputs say that the boundary does not pass through them."""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from mercer.inputs import Array
from mercer.likelihoods.base import AbstractLikelihood, refuse
from mercer.likelihoods.special import log_ndtr
from mercer.params import Hyper, hyper, nonnegative


class NullCategory(AbstractLikelihood):
    """Semi-supervised binary labels (Kuss 6.19, with the null-category model of Lawrence and Jordan).

    y is +1, -1, or 0 where the label is unknown. Between the classes lies a gap of this `width` in f in which
    no input is ever found: p(+1 | f) = Phi(f - width / 2), p(-1 | f) = Phi(-f - width / 2), and an unlabelled
    input has the sum of the two. Width 0 makes unlabelled inputs say nothing. The posterior can have several
    modes: Laplace finds one, EP averages; compare starts.

    >>> Model(GP(kernels.SE()), NullCategory()).condition(X, labels_with_zeros, "ep")
    """

    width: Hyper = hyper(1.0, nonnegative, free=False)

    categorical: ClassVar[bool] = True

    def encode(self, y: np.ndarray) -> np.ndarray:
        refuse(~np.isin(y, (-1.0, 0.0, 1.0)), y, "labels -1 and +1, and 0 where the label is unknown")
        return y

    def log_prob(self, f: Array, y: Array) -> jax.Array:
        return self.log_partition(y, f, 0.0)

    def log_partition(self, y: Array, mean: Array, variance: Array | float) -> jax.Array:
        sd, half = jnp.sqrt(1.0 + variance), 0.5 * self.width
        positive, negative = log_ndtr((mean - half) / sd), log_ndtr((-mean - half) / sd)
        return jnp.where(y > 0, positive, jnp.where(y < 0, negative, jnp.logaddexp(positive, negative)))

    def bend(self, y: Array) -> tuple[float, float]:
        return 0.0, 1.0

    def probability(self, mean: np.ndarray, variance: np.ndarray | float, how: str = "average") -> np.ndarray:
        """P(y = +1) of a labelled case: the two classes normalised."""
        if how not in ("average", "map"):
            raise ValueError(f"how must be 'average' or 'map', got {how!r}.")
        mean = np.asarray(mean, float)
        variance = np.asarray(variance, float) * (how == "average")
        return np.exp(self.log_density(1.0, mean, variance) - self.log_density(0.0, mean, variance))

    def predict(self, mean: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        p = self.probability(mean, variance)
        return p, p * (1.0 - p)

    def quantile(self, q: float, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        return np.where(1.0 - self.probability(mean, variance) >= q, 0.0, 1.0)

    def sample(self, rng: np.random.Generator, f: np.ndarray) -> np.ndarray:
        """Labels +1 and -1."""
        from scipy.special import log_ndtr as host_log_ndtr

        f, half = np.asarray(f, float), 0.5 * float(self.width)
        odds = host_log_ndtr(f - half) - host_log_ndtr(-f - half)
        return np.where(rng.logistic(size=f.shape) < odds, 1.0, -1.0)
