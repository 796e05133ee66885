"""Counts with a log-Gaussian rate."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from mercer.inputs import Array
from mercer.likelihoods.rates import AbstractRate
from mercer.params import Hyper, hyper, positive


class Poisson(AbstractRate):
    """y ~ Poisson(exposure exp(f)): counts whose log rate is the latent function.

    exposure: how much was observed (time, area, population): one number, or (n,), one for each datum; 1 by
        default and never learned unless given as `param(...)`. At other inputs than the training data's
        predictions are of exposure 1, rates, where it was given for each datum

    >>> post = mercer.Model(mercer.GP(kernels.SE()), Poisson()).condition(X, counts)
    >>> post.mean(Xs), post.mean(Xs, latent=True), post.quantile(Xs, 0.9)    # rate, log rate, counts: (m,)
    """

    exposure: Hyper = hyper(None, positive, free=False)

    def log_prob(self, f: Array, y: Array) -> jax.Array:
        eta = f + self.log_exposure
        return y * eta - jnp.exp(eta) - jax.scipy.special.gammaln(y + 1.0)

    def expectation(self, y: Array, mean: Array, variance: Array) -> jax.Array:
        eta = mean + self.log_exposure
        return y * eta - jnp.exp(eta + 0.5 * variance) - jax.scipy.special.gammaln(y + 1.0)

    def bend(self, y: Array) -> tuple[jax.Array, jax.Array]:
        return jnp.log(y + 0.5) - self.log_exposure, 1.0 / jnp.sqrt(y + 1.0)

    def predict(self, mean: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        rate = self.mean_rate(mean, variance)
        return rate, rate + rate**2 * np.expm1(variance)

    def at_most(self, y: Array, f: Array) -> jax.Array:
        return jax.scipy.special.gammaincc(y + 1.0, jnp.exp(jnp.minimum(f + self.log_exposure, 700.0)))

    def sample(self, rng: np.random.Generator, f: np.ndarray) -> np.ndarray:
        return rng.poisson(np.exp(np.asarray(f) + np.asarray(self.log_exposure))).astype(float)
