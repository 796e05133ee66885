"""Gaussian noise: y = f + e, e ~ N(0, noise_variance)."""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from mercer.inputs import Array
from mercer.likelihoods.base import AbstractLikelihood
from mercer.likelihoods.quadrature import log_normal
from mercer.likelihoods.scales import NOISE_PRIOR, NOISE_SHARE
from mercer.params import Hyper, Info, ParameterError, hyper, nonnegative

_LOG_2PI = float(np.log(2 * np.pi))


class Gaussian(AbstractLikelihood):
    """y = f + independent Gaussian noise.

    noise_variance: in squared units of y: one number (learned unless `fixed`), or (n,), one known variance
        for each datum (never learned). Zero means noise-free observations: they are matched up to the jitter
        policy's floor, which is reported

    >>> mercer.Model(mercer.GP(kernels.SE()), Gaussian(0.1)).condition(X, y).std(Xs)
    """

    noise_variance: Hyper = hyper(0.1, nonnegative)

    mean_is_latent: ClassVar[bool] = True

    def __check_init__(self):
        value = self.noise_variance
        if jnp.ndim(value) > 1:
            raise ParameterError("Gaussian.noise_variance must be one number or one for each datum.")
        known = jnp.ndim(value) == 1 or (isinstance(value, np.ndarray) and float(value) == 0.0)
        info = dict(self.info)
        if jnp.ndim(value) == 1 and info.get("noise_variance", Info(free=False)).free:
            raise ParameterError(
                "Gaussian.noise_variance for each datum is known, not learned: give the plain numbers, or "
                "one param(...) for all."
            )
        if known and info.get("noise_variance", Info()).free:
            info["noise_variance"] = Info(free=False)
            object.__setattr__(self, "info", tuple(sorted(info.items())))

    @property
    def default_rule(self) -> str:
        return "exact"

    def start(self, y: np.ndarray) -> dict[str, float]:
        return {"noise_variance": NOISE_SHARE * (float(np.var(y)) or 1.0)}

    def weak_priors(self, scale: float) -> dict[str, Info]:
        return {"noise_variance": Info(prior=NOISE_PRIOR.scaled(scale**2))}

    def words(self) -> str:
        if self.per_datum:
            return "Gaussian, known for each row"
        return f"Gaussian with standard deviation {np.sqrt(np.asarray(self.noise_variance)):.4g}"

    @property
    def log_concave(self) -> bool:
        return True

    @property
    def per_datum(self) -> bool:
        return jnp.ndim(self.noise_variance) == 1

    def log_prob(self, f: Array, y: Array) -> jax.Array:
        return -0.5 * ((y - f) ** 2 / self.noise_variance + jnp.log(self.noise_variance) + _LOG_2PI)

    def log_partition(self, y: Array, mean: Array, variance: Array) -> jax.Array:
        return log_normal(y, mean, variance + self.noise_variance)

    def power_partition(self, y: Array, mean: Array, variance: Array, power: Array | float) -> jax.Array:
        """p^power is Gaussian of variance noise / power, but for a constant."""
        constant = (1.0 - power) * (jnp.log(self.noise_variance) + _LOG_2PI) - jnp.log(power)
        return log_normal(y, mean, variance + self.noise_variance / power) + 0.5 * constant

    def expectation(self, y: Array, mean: Array, variance: Array) -> jax.Array:
        return self.log_prob(mean, y) - 0.5 * variance / self.noise_variance

    def predict(self, mean: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return mean, variance + self.noise_variance

    def log_density(
        self, y: np.ndarray | float, mean: np.ndarray, variance: np.ndarray | float
    ) -> np.ndarray:
        total = variance + self.noise_variance
        return -0.5 * ((y - mean) ** 2 / total + np.log(total) + _LOG_2PI)

    def quantile(self, q: float, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        from scipy.special import ndtri

        return mean + np.sqrt(variance + self.noise_variance) * ndtri(q)

    def sample(self, rng: np.random.Generator, f: np.ndarray) -> np.ndarray:
        return f + np.sqrt(self.noise_variance) * rng.standard_normal(np.shape(f))
