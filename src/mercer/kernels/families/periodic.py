"""Functions that repeat: any kernel on a circle, any stationary kernel summed over its images, functions
that integrate to zero over a period, and seasons that change slowly.
"""

from __future__ import annotations

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import i0e

from mercer.inputs import Array
from mercer.kernels.base import AbstractKernel
from mercer.kernels.families.stationary import SE, Periodic
from mercer.kernels.traits import Traits, repeating
from mercer.params import Hyper, ParameterError, hyper, positive

NEGLIGIBLE = 1e-16  # of the variance
MOST_IMAGES = 1024


class PeriodicOf(AbstractKernel):
    """A kernel on u(x) = (cos 2 pi x / period, sin 2 pi x / period), which repeats exactly (GPML 4.2.3).

    On d columns the kernel sees 2 d of them, the cosines first. Its length-scale is measured on the circle of
    radius 1: `PeriodicOf(SE(l), period)` is `Periodic(period, l)`.

    >>> PeriodicOf(Matern(nu=1.5, lengthscale=0.8), period=365.25)
    """

    kernel: AbstractKernel
    period: Hyper = hyper(1.0, positive)

    def bind(self, d: int, names: tuple[str, ...] | None = None) -> PeriodicOf:
        super().bind(d, names)
        return dataclasses.replace(self, kernel=self.kernel.bind(2 * d))

    def on_circle(self, A: Array) -> jax.Array:
        """u(x) (a, 2 d)."""
        angle = 2.0 * jnp.pi * A / self.period
        return jnp.concatenate([jnp.cos(angle), jnp.sin(angle)], 1)

    def block(self, A: jax.Array, B: jax.Array) -> jax.Array:
        return self.kernel.block(*(self.kernel.encode(self.on_circle(X)) for X in (A, B)))

    def rank(self, d: int) -> int | None:
        return self.kernel.rank(2 * d)

    def features(self, A: jax.Array) -> jax.Array:
        return self.kernel.features(self.kernel.encode(self.on_circle(A)))

    def suggest(self, X: np.ndarray, variance: float) -> PeriodicOf:
        return dataclasses.replace(self, kernel=self.kernel.suggest(np.asarray(self.on_circle(X)), variance))

    def amplitude(self) -> tuple[str, ...]:
        return tuple(f"kernel.{name}" for name in self.kernel.amplitude())

    def traits(self, d: int = 1) -> Traits:
        inner = self.kernel.traits(2 * d)
        stationary = inner.isotropic or inner.dot_product
        return Traits(
            stationary=stationary,
            isotropic=stationary and d == 1,
            smoothness=inner.smoothness,
            period=self.period,
            recurs=True,
            beyond="repeats exactly",
        )


class ZeroSumPeriodic(AbstractKernel):
    """variance * (exp(-2 sin^2(pi (x - x') / period) / lengthscale^2) - c) / (1 - c): functions of one column
    that repeat and integrate to zero over a period.

    c = exp(-a) I_0(a) with a = 1 / lengthscale^2 is the mean of the `Periodic` kernel over a period: without
    it the constant part is gone, which otherwise competes with a trend or a mean, and `variance` is again the
    variance of f. A long length-scale leaves a cosine. `Seasonal` is much the same with a few harmonics.

    period: in the units of the input; lengthscale: without units, as in `Periodic`

    >>> LocalLinear() + ZeroSumPeriodic(period=mercer.fixed(12.0))
    """

    period: Hyper = hyper(1.0, positive)
    lengthscale: Hyper = hyper(1.0, positive)
    variance: Hyper = hyper(1.0, positive)

    def bind(self, d: int, names: tuple[str, ...] | None = None) -> ZeroSumPeriodic:
        if d != 1:
            raise ParameterError(
                f"ZeroSumPeriodic reads one input column, not {d}: choose it with .on(...), or multiply "
                "several."
            )
        return super().bind(d, names)

    def block(self, A: jax.Array, B: jax.Array) -> jax.Array:
        a = 1.0 / jnp.square(jnp.reshape(self.lengthscale, ()))
        angle_a, angle_b = (jnp.pi * X / self.period for X in (A, B))
        fall = -jnp.expm1(-2.0 * a * jnp.sin(angle_a - angle_b.T) ** 2)
        return self.variance * (1.0 - fall / _without_mean(a))

    def traits(self, d: int = 1) -> Traits:
        return repeating(self.period)


class Periodised(AbstractKernel):
    """sum_m k(x - x' + m period), m = ..., -1, 0, 1, ...: a stationary kernel of one column wrapped around a
    circle (App. B).

    images: how many are summed on each side; found when the kernel meets its inputs, twice as many as its
    length-scales then need, and never less than what is given here. Kernels that fall too slowly to be summed
    are refused.

    >>> Periodised(SE(lengthscale=0.2), period=1.0)
    """

    kernel: AbstractKernel
    period: Hyper = hyper(1.0, positive)
    images: int = eqx.field(default=0, static=True)

    def __check_init__(self):
        if not (isinstance(self.images, (int, np.integer)) and self.images >= 0):
            raise ParameterError(
                f"Periodised.images must be a whole number of at least 0, got {self.images!r}."
            )
        if jnp.ndim(self.period) != 0:
            raise ParameterError("Periodised.period must be one number.")

    def bind(self, d: int, names: tuple[str, ...] | None = None) -> Periodised:
        if d != 1:
            raise ParameterError(f"Periodised reads one input column, not {d}: choose it with .on(...).")
        kernel = self.kernel.bind(1, names)
        if not kernel.traits(1).stationary:
            raise ParameterError(f"Periodised.kernel must be stationary, and {kernel.formula()} is not.")
        return dataclasses.replace(
            self, kernel=kernel, images=max(self.images, _images(kernel, float(self.period)))
        )

    def block(self, A: jax.Array, B: jax.Array) -> jax.Array:
        left, right = (jnp.mod(X, self.period) for X in (A, B))
        right = self.kernel.encode(right)
        image = jax.checkpoint(lambda m: self.kernel.block(self.kernel.encode(left + m * self.period), right))
        add = lambda m, total: total + image(m)  # noqa: E731
        return jax.lax.fori_loop(-self.images, self.images + 1, add, jnp.zeros((A.shape[0], B.shape[0])))

    def suggest(self, X: np.ndarray, variance: float) -> Periodised:
        return dataclasses.replace(self, kernel=self.kernel.suggest(X, variance))

    def amplitude(self) -> tuple[str, ...]:
        return tuple(f"kernel.{name}" for name in self.kernel.amplitude())

    def traits(self, d: int = 1) -> Traits:
        return Traits(
            stationary=True,
            isotropic=True,
            smoothness=self.kernel.traits(1).smoothness,
            period=self.period,
            recurs=True,
            max_dimension=1,
            beyond="repeats exactly",
        )


def locally_periodic(
    period: Hyper = 1.0, lengthscale: Hyper = 1.0, decay: Hyper = 10.0, variance: Hyper = 1.0
) -> AbstractKernel:
    """variance * SE(decay) * Periodic(period, lengthscale):
    a season whose shape changes over distances of about `decay`.
    """
    return SE(decay, variance) * Periodic(period, lengthscale)


def _without_mean(a):
    """1 - exp(-a) I_0(a), with all its digits for small a."""
    small = a < 1.0
    near, series = jnp.where(small, a, 0.5), jnp.ones_like(a)
    for j in range(9, 1, -1):
        series = 1.0 + near**2 / (4.0 * j * j) * series
    close = -jnp.expm1(-near) - jnp.exp(-near) * near**2 / 4.0 * series
    return jnp.where(small, close, 1.0 - i0e(jnp.where(small, 1.0, a)))


def _images(kernel, period: float) -> int:
    """Images on each side after which nothing is left, with a factor of two to spare."""
    counts = 2 ** np.arange(11)
    within = 1.0 + (np.arange(32) + 0.5) / 32 * 0.97
    distances = period * np.concatenate([[0.0], np.outer(counts, within).ravel()])
    values = np.abs(kernel(distances[:, None], np.zeros((1, 1)))[:, 0])
    left = values[1:].reshape(len(counts), -1).max(1) / values[0]
    beyond = np.flatnonzero(left > NEGLIGIBLE)
    first = 0 if beyond.size == 0 else beyond[-1] + 1
    if first >= len(counts) or 2 * counts[first] > MOST_IMAGES:
        raise ParameterError(
            f"Periodised.kernel falls too slowly to be summed over images: {kernel.formula()} with period "
            f"{period:g}; "
            "use PeriodicOf(kernel, period), or a shorter length-scale."
        )
    return 2 * int(counts[first])
