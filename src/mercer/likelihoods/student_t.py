"""Student-t noise: a few observations may be far off without pulling the function along."""

from __future__ import annotations

import math
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from mercer.hyperpriors import LogNormal
from mercer.inputs import Array
from mercer.likelihoods.noise import AbstractNoise
from mercer.likelihoods.scales import NOISE_SCALE_PRIOR, gamma_nodes, noise_scale
from mercer.params import Hyper, Info, hyper, positive

# of the degrees of freedom, where they are learned; most probable: 8
DOF_PRIOR, DOF_BOUNDS = LogNormal(math.log(8.0) + 1.0, 1.0), (1.0, 300.0)
CELLS = 1 << 21  # numbers held at a time for predictive probabilities


class StudentT(AbstractNoise):
    """y = f + scale * t, t Student's with `dof` degrees of freedom (GPML 9.2, Kuss 5.19).

    scale: in units of y
    dof: small for heavy tails (1: Cauchy), Gaussian noise of variance scale^2 as it grows

    As a scale mixture the noise variance of each datum is InvGamma(dof / 2, dof scale^2 / 2). Not
    log-concave: the posterior may have several modes.

    >>> post = mercer.Model(mercer.GP(kernels.SE()), StudentT(scale=0.2, dof=4.0)).condition(X, y)
    >>> post.mean(Xs), post.quantile(Xs, [0.05, 0.95]), post.outlier_score()     # (m,), (m, 2), (n,)
    """

    scale_mixture: ClassVar[bool] = True
    sampled_by: ClassVar[str] = "gibbs"

    scale: Hyper = hyper(1.0, positive)
    dof: Hyper = hyper(4.0, positive)

    @property
    def default_rule(self) -> str:
        return "scale-mixture"

    def start(self, y: np.ndarray) -> dict[str, float]:
        return {"scale": noise_scale(y)}

    def weak_priors(self, scale: float) -> dict[str, Info]:
        return {
            "scale": Info(prior=NOISE_SCALE_PRIOR.scaled(scale)),
            "dof": Info(prior=DOF_PRIOR, bounds=DOF_BOUNDS),
        }

    def words(self) -> str:
        nu = float(self.dof)
        tails = "tails almost Gaussian" if nu > 30 else "heavy tails" if nu > 4 else "very heavy tails"
        infinite = ", so its variance is infinite" if nu <= 2 else ""
        scale = float(self.scale)
        return f"Student-t with scale {scale:.4g} and {nu:.3g} degrees of freedom ({tails}{infinite})"

    def log_prob(self, f: Array, y: Array) -> jax.Array:
        nu = self.dof
        constant = _log_gamma_ratio(0.5 * nu) - 0.5 * jnp.log(nu * np.pi) - jnp.log(self.scale)
        return constant - 0.5 * (nu + 1) * jnp.log1p(((y - f) / self.scale) ** 2 / nu)

    def fisher(self, f: Array, y: Array) -> tuple[Array, None]:
        """The weight of expectation maximisation, (dof + 1) / (dof scale^2 + r^2):
        E[1 / noise variance] given the residual r.
        """
        return (self.dof + 1) / (self.dof * self.scale**2 + (y - f) ** 2), None

    def outlier_score(self, y: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """One minus E[1 / noise variance | y] relative to its largest value, (dof + 1) / (dof scale^2), at a
        residual of zero.

        The weight times the density is again a Student-t density, so the expectation is a ratio of two
        predictive densities. A typical regular observation scores about 1 / (dof + 1), one without any weight
        1.
        """
        nu = float(self.dof)
        heavier = StudentT(float(self.scale) * np.sqrt(nu / (nu + 2.0)), nu + 2.0)
        log_ratio = heavier.log_density(y, mean, variance) - self.log_density(y, mean, variance)
        return np.clip(1.0 - nu / (nu + 1.0) * np.exp(log_ratio), 0.0, 1.0)

    @property
    def grain(self) -> jax.Array:
        return self.scale * jnp.sqrt(jnp.minimum(self.dof, 1.0))

    @property
    def noise_variance(self) -> np.ndarray:
        """scale^2 dof / (dof - 2), infinite for dof <= 2."""
        nu = np.asarray(self.dof)
        return np.where(nu > 2, self.scale**2 * nu / np.where(nu > 2, nu - 2, 1.0), np.inf)

    @property
    def kurtosis(self) -> float:
        nu = float(self.dof)
        return 6.0 / (nu - 4.0) if nu > 4 else np.inf if nu > 2 else np.nan

    def noise_cdf(self, e: np.ndarray) -> np.ndarray:
        from scipy.special import stdtr

        return stdtr(float(self.dof), e / float(self.scale))

    def cdf(
        self, y: np.ndarray | float, mean: np.ndarray | float, variance: np.ndarray | float
    ) -> np.ndarray:
        """The average of normal distribution functions over the precision of the noise,
        which is Gamma distributed.
        """
        from scipy.special import ndtr

        if float(self.dof) < 0.2:  # then precisions range over too many decades
            return super().cdf(y, mean, variance)
        precision, share = gamma_nodes(0.5 * float(self.dof))
        distance, variance = np.broadcast_arrays(np.asarray(y, float) - mean, np.asarray(variance, float))
        noise = float(self.scale) ** 2 / precision
        out, rows = np.empty(distance.size), max(1, CELLS // noise.size)
        for i in range(0, distance.size, rows):
            r, v = distance.ravel()[i : i + rows, None], variance.ravel()[i : i + rows, None]
            out[i : i + rows] = ndtr(r / np.sqrt(v + noise)) @ share
        return out.reshape(distance.shape)

    def sample(self, rng: np.random.Generator, f: np.ndarray) -> np.ndarray:
        return f + float(self.scale) * rng.standard_t(float(self.dof), np.shape(f))


def _log_gamma_ratio(a):
    """log Gamma(a + 1/2) - log Gamma(a), by its series where the difference would cancel."""
    large = a > 100.0
    b, c = jnp.where(large, 1.0, a), jnp.where(large, a, 100.0)
    series = 0.5 * jnp.log(c) - 1 / (8 * c) + 1 / (192 * c**3)
    return jnp.where(large, series, jax.scipy.special.gammaln(b + 0.5) - jax.scipy.special.gammaln(b))
