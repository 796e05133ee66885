"""What likelihoods of several classes share: targets 0 ... C - 1, probabilities of all of them, and fixed
rules that average over C numbers.
"""

from __future__ import annotations

import abc
import functools
from typing import ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from mercer.inputs import Array
from mercer.likelihoods.base import AbstractLikelihood, refuse
from mercer.params import ParameterError


class AbstractClasses(AbstractLikelihood):
    """y is one of C classes, 0 ... C - 1, and each has a latent function.

    classes: their number C
    samples: points of a fixed quasi-random rule that averages over the latent functions (a power of two)
    """

    classes: eqx.AbstractVar[int]
    samples: eqx.AbstractVar[int]

    categorical: ClassVar[bool] = True

    def __check_init__(self):
        name, classes, samples = type(self).__name__, self.classes, self.samples
        if isinstance(classes, bool) or not isinstance(classes, int | np.integer) or classes < 2:
            raise ParameterError(f"{name}.classes must be a whole number of at least 2, got {classes!r}.")
        if not isinstance(samples, int | np.integer) or samples < 1 or samples & (samples - 1):
            raise ParameterError(f"{name}.samples must be a power of two, got {samples!r}.")

    @property
    def latents(self) -> int:
        return self.classes

    @property
    def log_concave(self) -> bool:
        return True

    def encode(self, y: np.ndarray) -> np.ndarray:
        bad = (y < 0) | (y >= self.classes) | (y != np.round(y))
        refuse(bad, y, f"classes as whole numbers from 0 to {self.classes - 1}")
        return y

    def guess(self, y: np.ndarray) -> np.ndarray:
        own = np.arange(self.classes) == np.asarray(y, int)[:, None]
        return np.where(own, 1.0, -1.0 / (self.classes - 1))

    # -- predictions -----------------------------------------------------------------------------------------

    @abc.abstractmethod
    def log_probability(self, mean: np.ndarray, variance: np.ndarray | float) -> np.ndarray:
        """log P(y = c): (m, C), averaged over f ~ N(mean, variance), mean (m, C), variance (m, C) or (m, C,
        C).
        """

    def probability(
        self, mean: np.ndarray, variance: np.ndarray | float, how: Literal["average", "map"] = "average"
    ) -> np.ndarray:
        """P(y = c): (m, C), for f ~ N(mean, variance), mean (m, C), variance (m, C) or (m, C, C).

        "average" over f, which is right; "map": at the mean of f, which can even prefer another class.
        """
        mean = np.asarray(mean, float)
        if how not in ("average", "map"):
            raise ValueError(f"how must be 'average' or 'map', got {how!r}.")
        return np.exp(self.log_probability(mean, variance if how == "average" else np.zeros_like(mean)))

    def predict(self, mean: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        p = self.probability(mean, variance)
        return p, p * (1.0 - p)

    def log_density(
        self, y: np.ndarray | float, mean: np.ndarray, variance: np.ndarray | float
    ) -> np.ndarray:
        return np.take_along_axis(self.log_probability(mean, variance), np.asarray(y, int)[:, None], 1)[:, 0]

    def quantile(self, q: float, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """The first class, in their order, at which the summed probabilities reach q."""
        return (np.cumsum(self.probability(mean, variance), 1)[:, :-1] < q).sum(1).astype(float)


# ------------------------------------------------------------------------------------------------- rules


@functools.lru_cache(maxsize=16)
def uniform_rule(samples: int, dimension: int) -> np.ndarray:
    """Equally weighted points (samples, dimension) of the unit cube:
    scrambled Sobol points with a fixed seed.
    """
    from scipy.stats import qmc

    return np.clip(qmc.Sobol(dimension, seed=20060101).random(samples), 1e-12, 1 - 1e-12)


@functools.lru_cache(maxsize=16)
def normal_rule(samples: int, dimension: int) -> np.ndarray:
    """The same for a standard normal."""
    from scipy.special import ndtri

    points: np.ndarray = ndtri(uniform_rule(samples, dimension))
    return points


def deviations(samples: int, variance: Array) -> jax.Array:
    """Points (samples, n, C) for N(0, variance), variance (n, C) or (n, C, C)."""
    C = variance.shape[-1]
    z = jnp.asarray(normal_rule(samples, C))
    if jnp.ndim(variance) == 2:
        return z[:, None, :] * jnp.sqrt(variance)
    tiny = 1e-12 * jnp.trace(variance, axis1=1, axis2=2)[:, None, None] * jnp.eye(C)
    return jnp.einsum("ncd,sd->snc", jnp.linalg.cholesky(variance + tiny), z)
