"""Counts that scatter more than Poisson's."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from mercer.hyperpriors import LogNormal
from mercer.inputs import Array
from mercer.likelihoods.rates import AbstractRate
from mercer.likelihoods.special import log_sigmoid
from mercer.params import Hyper, Info, hyper, positive

DISPERSION_PRIOR = LogNormal(0.0, 1.5)  # median 1, most probable 0.1


class NegativeBinomial(AbstractRate):
    """y ~ NegativeBinomial: counts of mean mu = exposure exp(f) and variance mu + dispersion mu^2, Poisson's
    whose rate has a Gamma distribution of relative variance `dispersion`.

    dispersion: zero would be Poisson; learned
    exposure: how much was observed (time, area, population): one number, or (n,), one for each datum; 1 by
        default and never learned unless given as `param(...)`. At other inputs than the training data's
        predictions are of exposure 1 where it was given for each datum

    >>> post = mercer.fit(mercer.Model(mercer.GP(kernels.SE()), NegativeBinomial()), X, counts).posterior
    >>> post.mean(Xs), post.quantile(Xs, [0.05, 0.95])        # rates (m,), counts (m, 2)
    """

    dispersion: Hyper = hyper(0.5, positive)
    exposure: Hyper = hyper(None, positive, free=False)

    def start(self, y: np.ndarray) -> dict[str, float]:
        """By the moments of all counts, which vary with the rate, too."""
        mean = float(np.mean(y)) or 1.0
        return {"dispersion": float(np.clip(0.5 * (np.var(y) - mean) / mean**2, 0.05, 2.0))}

    def weak_priors(self, scale: float) -> dict[str, Info]:
        return {"dispersion": Info(prior=DISPERSION_PRIOR)}

    def log_prob(self, f: Array, y: Array) -> jax.Array:
        gammaln, r = jax.scipy.special.gammaln, 1.0 / self.dispersion
        choices = gammaln(y + r) - gammaln(r) - gammaln(y + 1.0)
        odds = f + self.log_exposure - jnp.log(r)  # log mu / r
        return choices + y * odds + (y + r) * log_sigmoid(-odds)

    def bend(self, y: Array) -> tuple[jax.Array, jax.Array]:
        return jnp.log(y + 0.5) - self.log_exposure, jnp.sqrt(1.0 / (y + 1.0) + self.dispersion)

    def predict(self, mean: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        rate = self.mean_rate(mean, variance)
        square = rate**2 * np.exp(variance)  # E[mu^2]
        return rate, rate + float(self.dispersion) * square + rate**2 * np.expm1(variance)

    def at_most(self, y: Array, f: Array) -> jax.Array:
        r = 1.0 / self.dispersion
        share = jax.nn.sigmoid(jnp.log(r) - f - self.log_exposure)  # r / (r + mu)
        return jax.scipy.special.betainc(r, y + 1.0, share)

    def sample(self, rng: np.random.Generator, f: np.ndarray) -> np.ndarray:
        rate, r = np.exp(np.asarray(f) + np.asarray(self.log_exposure)), 1.0 / float(self.dispersion)
        return rng.poisson(rate * rng.gamma(r, 1.0 / r, np.shape(rate))).astype(float)
