"""What another package might bring: a kernel, a mean and a noise model."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from mercer import kernels, means
from mercer.likelihoods import AbstractNoise
from mercer.likelihoods.scales import NOISE_SCALE_PRIOR, noise_scale
from mercer.params import Hyper, Info, hyper, positive, real


class Cauchy(kernels.AbstractStationary):
    """1 / (1 + r2): correlations that last."""

    def profile(self, r2):
        return 1.0 / (1.0 + r2)


class Ramp(means.AbstractMean):
    """slope * max(0, x) of the first column."""

    slope: Hyper = hyper(0.0, real)

    def value(self, X):
        return self.slope * jnp.maximum(0.0, X[:, 0])


class Logistic(AbstractNoise):
    """y = f + e with e of the logistic distribution."""

    scale: Hyper = hyper(1.0, positive)

    @property
    def log_concave(self):
        return True

    @property
    def grain(self):
        return self.scale

    @property
    def noise_variance(self):
        return (jnp.pi * self.scale) ** 2 / 3

    @property
    def kurtosis(self):
        return 1.2

    def start(self, y):
        return {"scale": noise_scale(y) * np.sqrt(3) / np.pi}

    def weak_priors(self, scale):
        return {"scale": Info(prior=NOISE_SCALE_PRIOR.scaled(scale))}

    def words(self):
        return f"logistic with scale {float(self.scale):.4g}"

    def log_prob(self, f, y):
        z = jnp.abs(y - f) / self.scale
        return -z - 2.0 * jnp.log1p(jnp.exp(-z)) - jnp.log(self.scale)

    def noise_cdf(self, e):
        return 1.0 / (1.0 + np.exp(-np.asarray(e) / float(self.scale)))

    def sample(self, rng, f):
        return rng.logistic(f, float(self.scale))
