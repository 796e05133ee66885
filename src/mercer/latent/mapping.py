"""The map from latent points to rows of data, once it is learned: Gaussian processes in the latent space."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from mercer.inputs import Array
from mercer.latent.expectations import products, psi1
from mercer.progress import tell

BLOCK = 256  # rows of predictions that are compiled as one


class Mapping(eqx.Module):
    """D functions of a latent point x with one covariance function:

        mean_d(x) = k(x, C) alpha_d,    variance_d(x) = k(x, x) - k(x, C) R_p(d) k(C, x)

    with centres C (c, Q): the latent points of the data, or inducing inputs. alpha: (c, D). R: (P, c, c), one
    for each group of columns that are observed in the same rows; columns (P, D) says which. noise_variance:
    one for all, in squared units of the table.
    """

    kernel: Any
    noise_variance: jax.Array
    centres: jax.Array
    alpha: jax.Array
    R: jax.Array
    columns: jax.Array

    def at(self, X: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Mean and variance (k, D) of the functions at latent points X (k, Q)."""
        cross = self.kernel.block(X, self.centres)
        explained = jnp.einsum("ki,pij,kj->kp", cross, self.R, cross)
        prior = jax.vmap(lambda x: self.kernel.block(x[None], x[None])[0, 0])(X)
        variance = jnp.maximum(prior[:, None] - explained, 0.0) @ self.columns
        return cross @ self.alpha, variance

    def log_posterior(self, x: jax.Array, y: jax.Array, observed: jax.Array) -> jax.Array:
        """log p(y | x) + log p(x), up to a constant, of a row y (D,) at a latent point x (Q,);
        observed (D,): 1 where y is, 0 where it is empty.
        """
        mean, variance = self.at(x[None])
        total = variance[0] + self.noise_variance
        each = -0.5 * jnp.log(2.0 * jnp.pi * total) - 0.5 * (y - mean[0]) ** 2 / total
        return observed @ each - 0.5 * x @ x

    def bound(self, mu: jax.Array, s: jax.Array, y: jax.Array, observed: jax.Array) -> jax.Array:
        """E[log p(y | x)] - KL(N(mu, diag s) | N(0, I)) of a row y (D,) whose latent point is N(mu, diag s),
        with what is known of the functions held: the row's part of the bound that fitting climbs.
        """
        m = len(self.centres)
        apart = ((self.centres[:, None] - self.centres[None]) ** 2).reshape(m * m, -1)
        mean = psi1(self.kernel, self.centres, mu[None], s[None])[0] @ self.alpha
        square = products(self.kernel, self.centres, mu[None], s[None], apart).reshape(m, m)
        spread = jnp.einsum("id,ij,jd->d", self.alpha, square, self.alpha) - mean**2
        doubt = (self.kernel.variance - jnp.einsum("ij,pij->p", square, self.R)) @ self.columns
        noise = self.noise_variance
        each = -0.5 * jnp.log(2.0 * jnp.pi * noise) - 0.5 * ((y - mean) ** 2 + spread + doubt) / noise
        return observed @ each - divergence(mu, s)


def divergence(mu: Array, s: Array) -> jax.Array:
    """KL(N(mu, diag s) | N(0, I)), summed over rows."""
    return 0.5 * jnp.sum(s + mu**2 - 1.0 - jnp.log(s))


def predict(mapping: Mapping, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance (k, D) of the functions at latent points X (k, Q), a block of rows at a time."""
    found = [np.empty((len(X), mapping.alpha.shape[1])) for _ in range(2)]
    for first in range(0, len(X), BLOCK):
        rows = slice(first, min(first + BLOCK, len(X)))
        padded = np.pad(X[rows], [(0, BLOCK - (rows.stop - first)), (0, 0)])
        for out, new in zip(found, _at(mapping, padded), strict=True):
            out[rows] = np.asarray(new)[: rows.stop - first]
        tell(rows.stop, len(X), "rows")
    return found[0], found[1]


_at = jax.jit(Mapping.at)


def shares(mapping: Mapping, X: np.ndarray) -> np.ndarray:
    """How much each latent column matters (Q,), shares that sum to one: the squared slope of the means along
    it, averaged over latent points X (n, Q) and columns of data, times its variance over the points.
    """
    slopes = _squared_slopes(mapping, jnp.asarray(X))
    found = np.asarray(slopes) * np.var(X, 0)
    return found / max(found.sum(), 1e-300)


@jax.jit
def _squared_slopes(mapping: Mapping, X: jax.Array) -> jax.Array:
    def mean(X):
        return mapping.kernel.block(X, mapping.centres) @ mapping.alpha

    def along(direction):
        _, slope = jax.jvp(mean, (X,), (jnp.broadcast_to(direction, X.shape),))
        return jnp.mean(slope**2)

    return jax.lax.map(along, jnp.eye(X.shape[1]))
