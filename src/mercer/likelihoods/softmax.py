"""Several classes, with one latent function for each."""

from __future__ import annotations

import functools
from typing import ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from mercer.inputs import Array
from mercer.likelihoods.base import AbstractLikelihood, refuse
from mercer.params import ParameterError

_ENTRIES = 1 << 22  # numbers held at a time while averaging


class Softmax(AbstractLikelihood):
    """p(y = c | f) = exp(f_c) / sum_j exp(f_j), y = 0 ... C - 1 (GPML 3.34): a latent function for each
    class.

    classes: their number C
    samples: points of the fixed quasi-random rule that averages over the latent functions, so that
        predictions are the same at every call (a power of two)

    >>> post = mercer.Model(mercer.GP(kernels.SE()), Softmax(3)).condition(X, np.digitize(y, [-0.3, 0.3]))
    >>> post.probability(Xs)                                                     # (m, 3)
    """

    classes: int = eqx.field(static=True)
    samples: int = eqx.field(default=2048, static=True)

    categorical: ClassVar[bool] = True

    def __check_init__(self):
        if (
            isinstance(self.classes, bool)
            or not isinstance(self.classes, int | np.integer)
            or self.classes < 2
        ):
            raise ParameterError(
                f"Softmax.classes must be a whole number of at least 2, got {self.classes!r}."
            )
        if (
            not isinstance(self.samples, int | np.integer)
            or self.samples < 1
            or self.samples & (self.samples - 1)
        ):
            raise ParameterError(f"Softmax.samples must be a power of two, got {self.samples!r}.")

    @property
    def latents(self) -> int:
        return self.classes

    @property
    def log_concave(self) -> bool:
        return True

    def encode(self, y: np.ndarray) -> np.ndarray:
        refuse(
            (y < 0) | (y >= self.classes) | (y != np.round(y)),
            y,
            f"classes as whole numbers from 0 to {self.classes - 1}",
        )
        return y

    def guess(self, y: np.ndarray) -> np.ndarray:
        own = np.arange(self.classes) == np.asarray(y, int)[:, None]
        return np.where(own, 1.0, -1.0 / (self.classes - 1))

    def log_prob(self, f: Array, y: Array) -> jax.Array:
        own = jnp.take_along_axis(f, jnp.asarray(y, int)[..., None], -1)[..., 0]
        return own - jax.nn.logsumexp(f, axis=-1)

    def curvature(self, f: Array, y: Array) -> tuple[jax.Array, jax.Array]:
        """W = diag(pi) - pi pi' (3.38), which is positive semi-definite."""
        p = jax.nn.softmax(f, axis=-1)
        return p, p[..., None]

    def fisher(self, f: Array, y: Array) -> tuple[jax.Array, jax.Array]:
        return self.curvature(f, y)

    def expectation(self, y: Array, mean: Array, variance: Array) -> jax.Array:
        """E[log p(y | f)], by the fixed rule (256 points)."""
        own = jnp.take_along_axis(mean, jnp.asarray(y, int)[:, None], 1)[:, 0]
        z = jnp.asarray(normal_rule(min(self.samples, 256), self.classes))
        if jnp.ndim(variance) == 2:
            deviation = z[:, None, :] * jnp.sqrt(variance)
        else:
            tiny = 1e-12 * jnp.trace(variance, axis1=1, axis2=2)[:, None, None] * jnp.eye(self.classes)
            deviation = jnp.einsum("ncd,sd->snc", jnp.linalg.cholesky(variance + tiny), z)
        return own - jnp.mean(jax.nn.logsumexp(mean + deviation, axis=-1), axis=0)

    # -- predictions -----------------------------------------------------------------------------------------

    def probability(
        self, mean: np.ndarray, variance: np.ndarray | float, how: Literal["average", "map"] = "average"
    ) -> np.ndarray:
        """P(y = c): (m, C), for f ~ N(mean, variance), mean (m, C), variance (m, C) or (m, C, C).

        "average" over f, which is right; "map": the softmax of the mean, which can even prefer another class.
        """
        mean = np.asarray(mean, float)
        if how == "map":
            return np.exp(mean - _logsumexp(mean)[:, None])
        if how != "average":
            raise ValueError(f"how must be 'average' or 'map', got {how!r}.")
        return np.exp(self._log_probability(mean, variance))

    def _log_probability(self, mean, variance) -> np.ndarray:
        mean, variance = np.asarray(mean, float), np.asarray(variance, float)
        z = normal_rule(self.samples, self.classes)
        out = np.empty_like(mean)
        rows = max(1, _ENTRIES // z.size)
        for i in range(0, len(mean), rows):
            block = variance[i : i + rows]
            if variance.ndim == 2:
                f = z[:, None, :] * np.sqrt(block)
            else:
                values, vectors = np.linalg.eigh(block)
                f = np.einsum("ncd,sd->snc", vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :], z)
            f += mean[i : i + rows]
            f -= _logsumexp(f)[..., None]
            top = f.max(0)
            out[i : i + rows] = top + np.log(np.mean(np.exp(f - top), 0))
        return out

    def predict(self, mean: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        p = self.probability(mean, variance)
        return p, p * (1.0 - p)

    def log_density(
        self, y: np.ndarray | float, mean: np.ndarray, variance: np.ndarray | float
    ) -> np.ndarray:
        return np.take_along_axis(self._log_probability(mean, variance), np.asarray(y, int)[:, None], 1)[:, 0]

    def quantile(self, q: float, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """The first class, in their order, at which the summed probabilities reach q."""
        return (np.cumsum(self.probability(mean, variance), 1)[:, :-1] < q).sum(1).astype(float)

    def sample(self, rng: np.random.Generator, f: np.ndarray) -> np.ndarray:
        return np.argmax(np.asarray(f) + rng.gumbel(size=np.shape(f)), -1).astype(float)


@functools.lru_cache(maxsize=16)
def normal_rule(samples: int, dimension: int) -> np.ndarray:
    """Equally weighted points (samples, dimension) for a standard normal:
    scrambled Sobol points with a fixed seed.
    """
    from scipy.special import ndtri
    from scipy.stats import qmc

    u = qmc.Sobol(dimension, seed=20060101).random(samples)
    return ndtri(np.clip(u, 1e-12, 1 - 1e-12))


def _logsumexp(f: np.ndarray) -> np.ndarray:
    top = f.max(-1, keepdims=True)
    return top[..., 0] + np.log(np.sum(np.exp(f - top), -1))
