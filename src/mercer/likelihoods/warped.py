"""Gaussian noise of a function of the target: warped Gaussian processes (Snelson et al. 2004)."""

from __future__ import annotations

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import ndtr

from mercer.inputs import Array
from mercer.likelihoods.gaussian import AbstractGaussianNoise, Gaussian
from mercer.params import Info, ParameterError, named_leaves, strip
from mercer.warps import AbstractWarp, Log

NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(101)
SHARES = _WEIGHTS / _WEIGHTS.sum()
_ROWS = 1 << 15  # moments are found for this many rows at a time


class Warped(AbstractGaussianNoise):
    """g(y) = f + Gaussian noise, with a rising g: p(y | f) = N(g(y) | f, noise) g'(y).

    warp: g, one of `mercer.warps`; what it has to learn is learned with the kernel
    noise: in squared units of z = g(y), with all that `Gaussian` knows of rows

    The posterior of f is exact, as are quantiles and densities of y; its mean and variance are integrals of
    the inverse of g, by Gauss-Hermite quadrature (that of a logarithm in closed form).

    >>> model = mercer.Model(mercer.GP(kernels.SE()), Warped(warps.BoxCox(), Gaussian(0.1)))
    >>> post = mercer.fit(model, X, y).posterior
    >>> post.mean(Xs), post.quantile(Xs, 0.9)                 # in units of y
    """

    warps: ClassVar[bool] = True

    warp: AbstractWarp
    noise: Gaussian = Gaussian()

    def __check_init__(self):
        if not isinstance(self.warp, AbstractWarp) or not isinstance(self.noise, Gaussian):
            raise ParameterError("Warped takes a warp (of mercer.warps) and a likelihoods.Gaussian.")

    # -- z -------------------------------------------------------------------------------------------------

    def warped(self, y: np.ndarray) -> np.ndarray:
        """z = g(y) (n,)."""
        return self.compute(_forward, y)

    def log_slope(self, y: np.ndarray) -> np.ndarray:
        """log g'(y) (n,)."""
        return self.compute(_log_slope, y)

    def log_jacobian(self, y: np.ndarray) -> float:
        return float(np.sum(self.log_slope(y)))

    @property
    def variances(self) -> Any:
        return self.noise.variances

    @property
    def noise_variance(self) -> Any:
        """In squared units of z."""
        return self.noise.noise_variance

    def pull(
        self, variances_bar: np.ndarray, y: np.ndarray, warped_bar: np.ndarray, log_jacobian_bar: float
    ) -> dict[str, np.ndarray]:
        bar = _pulled(strip(self.warp), y, np.ravel(warped_bar), log_jacobian_bar)
        return {f"noise.{name}": b for name, b in self.noise.pull(variances_bar).items()} | {
            f"warp.{name}": np.asarray(b) for name, b in named_leaves(bar)
        }

    # -- what is known of it -------------------------------------------------------------------------------

    @property
    def log_concave(self) -> bool:
        return True

    @property
    def per_datum(self) -> bool:
        return self.noise.per_datum

    @property
    def default_rule(self) -> str:
        return "exact"

    def at_rows(self, rows: np.ndarray, n: int) -> Warped:
        return Warped(self.warp, self.noise.at_rows(rows, n))

    def elsewhere(self, X: np.ndarray) -> Warped | None:
        noise = self.noise.elsewhere(X)
        return None if noise is None else Warped(self.warp, noise)

    def start(self, y: np.ndarray) -> dict[str, Any]:
        return {f"noise.{name}": value for name, value in self.noise.start(self.warped(y)).items()}

    def weak_priors(self, scale: float) -> dict[str, Info]:
        return {f"noise.{name}": info for name, info in self.noise.weak_priors(scale).items()}

    def words(self) -> str:
        return f"{self.noise.words()}, of {self.warp.words()}"

    def encode(self, y: np.ndarray) -> np.ndarray:
        self.warp.check(y)
        return y

    def guess(self, y: np.ndarray) -> np.ndarray:
        return self.warped(y)

    # -- what rules ask ------------------------------------------------------------------------------------

    def log_prob(self, f: Array, y: Array) -> jax.Array:
        y = jnp.asarray(y, float)
        return self.noise.log_prob(f, self.warp.forward(y)) + self.warp.log_slope(y)

    def log_partition(self, y: Array, mean: Array, variance: Array) -> jax.Array:
        y = jnp.asarray(y, float)
        return self.noise.log_partition(self.warp.forward(y), mean, variance) + self.warp.log_slope(y)

    def power_partition(self, y: Array, mean: Array, variance: Array, power: Array | float) -> jax.Array:
        y = jnp.asarray(y, float)
        inner = self.noise.power_partition(self.warp.forward(y), mean, variance, power)
        return inner + power * self.warp.log_slope(y)

    def expectation(self, y: Array, mean: Array, variance: Array) -> jax.Array:
        y = jnp.asarray(y, float)
        return self.noise.expectation(self.warp.forward(y), mean, variance) + self.warp.log_slope(y)

    # -- predictions ---------------------------------------------------------------------------------------

    def predict(self, mean: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        m, v = np.broadcast_arrays(*self.noise.predict(np.asarray(mean, float), np.asarray(variance, float)))
        if isinstance(self.warp, Log):
            centre = np.exp(m + 0.5 * v)
            return float(self.warp.lower) + centre, centre**2 * np.expm1(v)
        parts = [slice(first, first + _ROWS) for first in range(0, max(m.size, 1), _ROWS)]
        found = [self._moments(m.ravel()[part], v.ravel()[part]) for part in parts]
        first, second = (np.concatenate(values).reshape(m.shape) for values in zip(*found, strict=True))
        return first, second

    def _moments(self, m: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        y = self.warp.inverse(m[:, None] + np.sqrt(v)[:, None] * NODES)
        mean = y @ SHARES
        return mean, (y - mean[:, None]) ** 2 @ SHARES

    def log_density(
        self, y: np.ndarray | float, mean: np.ndarray, variance: np.ndarray | float
    ) -> np.ndarray:
        y = np.asarray(y, float)
        return self.noise.log_density(self.warped(y), mean, variance) + self.log_slope(y)

    def cdf(self, y: np.ndarray | float, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """P(Y <= y) where f ~ N(mean, variance)."""
        y = np.asarray(y, float)
        inside = self.warp.inside(y)
        m, v = self.noise.predict(mean, variance)
        somewhere = self.warp.inverse(np.zeros(1))
        share = ndtr((self.warped(np.where(inside, y, somewhere)) - m) / np.sqrt(v))
        return np.where(inside, share, np.where(y <= self.warp.support[0], 0.0, 1.0))

    def quantile(self, q: float, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        return self.warp.inverse(self.noise.quantile(q, mean, variance))

    def sample(self, rng: np.random.Generator, f: np.ndarray) -> np.ndarray:
        return self.warp.inverse(self.noise.sample(rng, f))


def _forward(likelihood, y):
    return likelihood.warp.forward(y)


def _log_slope(likelihood, y):
    return likelihood.warp.log_slope(y)


@eqx.filter_jit
def _pulled(warp, y, warped_bar, log_slope_bar):
    def value(warp):
        return jnp.vdot(warped_bar, warp.forward(y)) + log_slope_bar * jnp.sum(warp.log_slope(y))

    return jax.grad(value)(warp)
