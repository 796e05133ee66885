"""Several classes, with one latent function for each."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from mercer.inputs import Array
from mercer.likelihoods.classes import AbstractClasses, deviations, normal_rule

_ENTRIES = 1 << 22  # numbers held at a time while averaging


class Softmax(AbstractClasses):
    """p(y = c | f) = exp(f_c) / sum_j exp(f_j), y = 0 ... C - 1 (GPML 3.34): a latent function for each
    class.

    Laplace's method, its default, leaves probabilities that are too near to each other (underconfident);
    `MultinomialProbit` by EP does not.

    classes: their number C
    samples: points of the fixed quasi-random rule that averages over the latent functions, so that
        predictions are the same at every call (a power of two)

    >>> post = mercer.Model(mercer.GP(kernels.SE()), Softmax(3)).condition(X, np.digitize(y, [-0.3, 0.3]))
    >>> post.probability(Xs)                                                     # (m, 3)
    """

    classes: int = eqx.field(static=True)
    samples: int = eqx.field(default=2048, static=True)

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
        f = mean + deviations(min(self.samples, 256), variance)
        return own - jnp.mean(jax.nn.logsumexp(f, axis=-1), axis=0)

    # -- predictions -----------------------------------------------------------------------------------------

    def log_probability(self, mean: np.ndarray, variance: np.ndarray | float) -> np.ndarray:
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

    def sample(self, rng: np.random.Generator, f: np.ndarray) -> np.ndarray:
        return np.argmax(np.asarray(f) + rng.gumbel(size=np.shape(f)), -1).astype(float)


def _logsumexp(f: np.ndarray) -> np.ndarray:
    top = f.max(-1, keepdims=True)
    return top[..., 0] + np.log(np.sum(np.exp(f - top), -1))
