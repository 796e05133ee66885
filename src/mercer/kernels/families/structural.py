"""Parts of structural time-series models: a season of few harmonics,
and a trend whose level and slope wander.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from mercer.kernels.base import AbstractKernel
from mercer.kernels.families.brownian import AbstractPath
from mercer.kernels.statespace import TOLERANCE, AbstractKernelForm, FeatureForm, WienerForm, state_space
from mercer.kernels.traits import Traits, repeating
from mercer.kernels.words.names import call
from mercer.params import Hyper, ParameterError, hyper, nonnegative, positive


class Seasonal(AbstractKernel):
    """variance * sum_j w_j cos(2 pi j (t - t') / period), j = 1 ... harmonics: functions that repeat and sum
    to zero over a period.

    The weights sum to one and fall as exp(-j^2 lengthscale^2 / 2), those of an SE wrapped around the circle,
    with the length-scale in radians: a long one leaves a sine wave. Unlike `Periodic` it has no constant
    part, so that it does not compete with a trend, and 2 `harmonics` features say all of it. Times a Matern
    kernel it is a season that changes.

    period: in the units of the input; not learned unless given as `param(...)`.

    >>> Seasonal(period=12.0, lengthscale=0.5, harmonics=6) * Matern(nu=0.5, lengthscale=120.0)
    """

    period: Hyper = hyper(1.0, positive, free=False)
    lengthscale: Hyper = hyper(0.5, positive)
    variance: Hyper = hyper(1.0, positive)
    harmonics: int = eqx.field(default=6, static=True)

    def __check_init__(self):
        if not (isinstance(self.harmonics, (int, np.integer)) and self.harmonics >= 1):
            raise ParameterError(
                f"Seasonal.harmonics must be a whole number of at least 1, got {self.harmonics!r}."
            )

    def bind(self, d: int, names: tuple[str, ...] | None = None) -> Seasonal:
        if d != 1:
            raise ParameterError(
                f"Seasonal reads one column, a time; the inputs have {d}: choose one with .on(...)."
            )
        return super().bind(d, names)

    def rank(self, d: int) -> int:
        return 2 * self.harmonics

    def features(self, A: jax.Array) -> jax.Array:
        j = jnp.arange(1, self.harmonics + 1)
        # of the weights, over that of the first
        roots = jnp.exp(-0.25 * (j**2 - 1) * jnp.square(self.lengthscale))
        roots = roots * jnp.sqrt(self.variance / jnp.sum(roots**2))
        angle = 2.0 * jnp.pi * j * A / self.period
        return jnp.concatenate([roots * jnp.cos(angle), roots * jnp.sin(angle)], 1)

    def block(self, A: jax.Array, B: jax.Array) -> jax.Array:
        return self.features(A) @ self.features(B).T

    def traits(self, d: int = 1) -> Traits:
        return repeating(self.period)


class LocalLinear(AbstractPath):
    """A local linear trend: a straight line from t = 0 on whose slope is a Brownian motion,
    `IntegratedWiener(1)` and its start.

    variance: of the slope's changes, per unit of time. level_variance, slope_variance: of the line at time
    zero.

    >>> LocalLinear(variance=0.01, level_variance=4.0, slope_variance=0.1)
    """

    variance: Hyper = hyper(1.0, positive)
    level_variance: Hyper = hyper(1.0, nonnegative)
    slope_variance: Hyper = hyper(1.0, nonnegative)

    def block(self, A: jax.Array, B: jax.Array) -> jax.Array:
        early, gap = jnp.minimum(A, B.T), jnp.abs(A - B.T)
        wandering = self.variance * early**2 * (gap / 2 + early / 3)
        return wandering + self.level_variance + self.slope_variance * A * B.T

    def suggest(self, X: np.ndarray, variance: float) -> LocalLinear:
        end = float(np.max(X)) or 1.0
        return self.with_values(
            variance=variance / end**3, level_variance=variance, slope_variance=variance / end**2
        )

    def amplitude(self) -> tuple[str, ...]:
        return ()

    def formula(self, digits: int = 6) -> str:
        return call(self, digits)  # the variance is not that of the whole

    def leads(self, digits: int = 6) -> bool:
        return False

    def traits(self, d: int = 1) -> Traits:
        return Traits(smoothness=1, max_dimension=1, beyond="continues the straight line, ever less surely")


@state_space.register
def _(kernel: Seasonal, tolerance=TOLERANCE):
    return FeatureForm(kernel, 2 * kernel.harmonics)


@state_space.register
def _(kernel: LocalLinear, tolerance=TOLERANCE):
    return LocalLinearForm(kernel)


class LocalLinearForm(AbstractKernelForm):
    """Level and slope."""

    @property
    def size(self) -> int:
        return 2

    @property
    def timeless(self) -> bool:
        return True

    def transition(self, t0: jax.Array, t1: jax.Array) -> tuple[jax.Array, jax.Array]:
        return WienerForm(self.kernel, 1).transition(t0, t1)

    def covariance(self, t: jax.Array) -> jax.Array:
        level, slope = self.kernel.level_variance, self.kernel.slope_variance
        line = jnp.stack([level + slope * t**2, slope * t, slope * t, jnp.broadcast_to(slope, t.shape)], 1)
        return WienerForm(self.kernel, 1).covariance(t) + line.reshape(-1, 2, 2)

    def observation(self, t: jax.Array) -> jax.Array:
        return WienerForm(self.kernel, 1).observation(t)
