"""Counts with a log-Gaussian rate."""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from mercer.inputs import Array
from mercer.likelihoods import quadrature
from mercer.likelihoods.base import AbstractLikelihood, count_quantile, counts, per_row
from mercer.params import Hyper, hyper, positive


class Poisson(AbstractLikelihood):
    """y ~ Poisson(exposure exp(f)): counts whose log rate is the latent function.

    exposure: how much was observed (time, area, population): one number, or (n,), one for each datum; 1 by
        default and never learned unless given as `param(...)`. At other inputs than the training data's
        predictions are of exposure 1, rates, where it was given for each datum

    >>> post = mercer.Model(mercer.GP(kernels.SE()), Poisson()).condition(X, counts)
    >>> post.mean(Xs), post.mean(Xs, latent=True), post.quantile(Xs, 0.9)    # rate, log rate, counts: (m,)
    """

    side: ClassVar[tuple[str, ...]] = ("exposure",)

    exposure: Hyper = hyper(None, positive, free=False)

    def __check_init__(self):
        per_row(self, "exposure")

    @property
    def log_concave(self) -> bool:
        return True

    @property
    def per_datum(self) -> bool:
        return self.exposure is not None and jnp.ndim(self.exposure) == 1

    def elsewhere(self, X: np.ndarray) -> Poisson:
        return self.without_side() if self.per_datum else self

    @property
    def _log_exposure(self):
        return 0.0 if self.exposure is None else jnp.log(self.exposure)

    def encode(self, y: np.ndarray) -> np.ndarray:
        return counts(y)

    def guess(self, y: np.ndarray) -> np.ndarray:
        return np.log(np.asarray(y, float) + 0.5) - np.asarray(self._log_exposure)

    def log_prob(self, f: Array, y: Array) -> jax.Array:
        eta = f + self._log_exposure
        return y * eta - jnp.exp(eta) - jax.scipy.special.gammaln(y + 1.0)

    def expectation(self, y: Array, mean: Array, variance: Array) -> jax.Array:
        eta = mean + self._log_exposure
        return y * eta - jnp.exp(eta + 0.5 * variance) - jax.scipy.special.gammaln(y + 1.0)

    def bend(self, y: Array) -> tuple[jax.Array, jax.Array]:
        return jnp.log(y + 0.5) - self._log_exposure, 1.0 / jnp.sqrt(y + 1.0)

    def predict(self, mean: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        rate = np.exp(np.asarray(mean) + 0.5 * np.asarray(variance) + np.asarray(self._log_exposure))
        return rate, rate + rate**2 * np.expm1(variance)

    def cdf(self, y: np.ndarray | float, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """P(Y <= y) where f ~ N(mean, variance)."""
        y = np.floor(np.asarray(y, float))
        inside = self.compute(Poisson._cdf, np.maximum(y, 0.0), mean, variance)
        return np.where(y < 0, 0.0, inside)

    def _cdf(self, y, mean, variance):
        def cdf(f):
            return jax.scipy.special.gammaincc(y + 1.0, jnp.exp(jnp.minimum(f + self._log_exposure, 700.0)))

        return quadrature.average(cdf, mean, variance, *self.bend(y))

    def quantile(self, q: float, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        mean, variance = np.broadcast_arrays(np.asarray(mean, float), np.asarray(variance, float))
        return count_quantile(
            lambda y: self.cdf(y, mean, variance), q, np.exp(mean + np.asarray(self._log_exposure))
        )

    def sample(self, rng: np.random.Generator, f: np.ndarray) -> np.ndarray:
        return rng.poisson(np.exp(np.asarray(f) + np.asarray(self._log_exposure))).astype(float)
