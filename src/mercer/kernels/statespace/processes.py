"""Exact forms: Matern of half-integer order, Wiener and Ornstein-Uhlenbeck processes and their integrals,
bridges, and kernels of finite rank.
"""

from __future__ import annotations

import functools
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from mercer.compiled import matern
from mercer.kernels.families.brownian import (
    BrownianBridge,
    IntegratedOrnsteinUhlenbeck,
    IntegratedWiener,
    Wiener,
    drifted,
)
from mercer.kernels.families.dot import Constant, Linear, LinearCovariance, Polynomial
from mercer.kernels.families.stationary import AbstractStationary, Matern
from mercer.kernels.spectral.band_limited import BesselJ
from mercer.kernels.statespace.form import (
    TOLERANCE,
    AbstractKernelForm,
    AbstractWeights,
    NoStateSpace,
    state_space,
)
from mercer.params import Static


@state_space.register
def _(kernel: Matern, tolerance=TOLERANCE):
    if isinstance(kernel.nu, Static):
        p = float(kernel.nu) - 0.5
        if p == int(p) and p <= 6:
            return MaternForm(kernel, int(p))
    raise NoStateSpace(
        f"Matern of order {float(kernel.nu):g} has no state-space form (1/2, 3/2, ... 13/2, not learned, "
        "have one)"
    )


class MaternForm(AbstractKernelForm):
    """(d/dt + a)^(p + 1) f = white noise, a = sqrt(2 nu) / l (B.30):
    x_j is the j-th derivative of f over a^j.
    """

    p: int = eqx.field(static=True)

    @property
    def size(self) -> int:
        return self.p + 1

    @property
    def timeless(self) -> bool:
        return True

    @property
    def settled(self) -> bool:
        return True

    def transition(self, t0: jax.Array, t1: jax.Array) -> tuple[jax.Array, jax.Array]:
        fixed, s = matern.process(self.size), self.size
        x = self._rate * (t1 - t0)
        decay = jnp.exp(-x)
        Phi = jnp.stack([decay * x**k for k in range(s)], 1) @ fixed.transition.reshape(s, -1)
        Q = _moments(2 * self.p, x) @ fixed.diffusion.reshape(2 * self.p + 1, -1)
        return Phi.reshape(-1, s, s), self.kernel.variance * Q.reshape(-1, s, s)

    def covariance(self, t: jax.Array) -> jax.Array:
        return self._spread(self.kernel.variance * matern.process(self.size).stationary, t)

    def observation(self, t: jax.Array) -> jax.Array:
        return self._spread(jnp.eye(self.p + 1)[0], t)

    @property
    def _rate(self):
        return jnp.sqrt(2.0 * self.p + 1.0) * rate(self.kernel)

    @property
    def blocks(self) -> tuple[matern.Block, ...]:
        return (matern.Block(self.size),)

    @property
    def f_is_first(self) -> bool:
        return True

    def theta(self) -> jax.Array:
        return jnp.stack([self._rate, jnp.reshape(self.kernel.variance, ())])


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _moments(top: int, x):
    """The integrals of u^m exp(-2u) over (0, x) for m = 0 ... top (n, top + 1),
    to rounding for small x too.
    """
    if top == 0:
        return -0.5 * jnp.expm1(-2.0 * x)[:, None]
    decay, middle = jnp.exp(-2.0 * x), 1.0 + top / 4
    near, far = jnp.minimum(x, middle), jnp.maximum(x, middle)
    series = jnp.ones_like(x)
    for k in range(20 + top, 0, -1):
        series = 1.0 + 2.0 * near / (top + 1 + k) * series
    downwards = [near ** (top + 1) * decay * series / (top + 1)]
    for m in range(top - 1, -1, -1):
        downwards.append((2.0 * downwards[-1] + near ** (m + 1) * decay) / (m + 1))
    upwards = [0.5 - 0.5 * decay]
    for m in range(1, top + 1):
        upwards.append(0.5 * (m * upwards[-1] - far**m * decay))
    return jnp.stack([jnp.where(x < middle, a, b) for a, b in zip(downwards[::-1], upwards, strict=True)], 1)


@_moments.defjvp
def _moments_jvp(top, primals, tangents):
    (x,), (tangent,) = primals, tangents
    slope = tangent * jnp.exp(-2.0 * x)
    return _moments(top, x), jnp.stack([x**m * slope for m in range(top + 1)], 1)


@state_space.register
def _(kernel: Wiener, tolerance=TOLERANCE):
    return WienerForm(kernel, 0)


@state_space.register
def _(kernel: IntegratedWiener, tolerance=TOLERANCE):
    return WienerForm(kernel, int(kernel.order))


class WienerForm(AbstractKernelForm):
    """f and its derivatives, the last of them Brownian motion, all zero at time zero."""

    p: int = eqx.field(static=True)

    @property
    def size(self) -> int:
        return self.p + 1

    @property
    def timeless(self) -> bool:
        return True

    def transition(self, t0: jax.Array, t1: jax.Array) -> tuple[jax.Array, jax.Array]:
        p, gap = self.p, t1 - t0
        Phi = jnp.zeros((gap.shape[0], p + 1, p + 1))
        for i in range(p + 1):
            for j in range(i, p + 1):
                Phi = Phi.at[:, i, j].set(gap ** (j - i) / math.factorial(j - i))
        return Phi, self.covariance(gap)

    def covariance(self, t: jax.Array) -> jax.Array:
        i, j = np.indices((self.p + 1, self.p + 1))
        power = 2 * self.p + 1 - i - j
        factorials = np.vectorize(math.factorial)(self.p - i) * np.vectorize(math.factorial)(self.p - j)
        raised = jnp.stack([t**k for k in range(2 * self.p + 2)])
        return self.kernel.variance * jnp.moveaxis(raised[power], 2, 0) / (power * factorials)

    def observation(self, t: jax.Array) -> jax.Array:
        return self._spread(jnp.eye(self.p + 1)[0], t)


@state_space.register
def _(kernel: IntegratedOrnsteinUhlenbeck, tolerance=TOLERANCE):
    return IntegratedForm(kernel)


class IntegratedForm(AbstractKernelForm):
    """f, zero at time zero, and its velocity times the length-scale, an Ornstein-Uhlenbeck process."""

    @property
    def size(self) -> int:
        return 2

    @property
    def timeless(self) -> bool:
        return True

    def transition(self, t0: jax.Array, t1: jax.Array) -> tuple[jax.Array, jax.Array]:
        x = (t1 - t0) / self._length
        gone = -jnp.expm1(-x)
        Phi = jnp.stack([jnp.ones_like(x), gone, jnp.zeros_like(x), 1.0 - gone], 1)
        return Phi.reshape(-1, 2, 2), self._scaled(_strayed(x), gone**2, -jnp.expm1(-2.0 * x))

    def covariance(self, t: jax.Array) -> jax.Array:
        x = t / self._length
        return self._scaled(2.0 * drifted(x), -jnp.expm1(-x), jnp.ones_like(x))

    def observation(self, t: jax.Array) -> jax.Array:
        return self._spread(jnp.eye(2)[0], t)

    @property
    def _length(self):
        return jnp.reshape(self.kernel.lengthscale, ())

    def _scaled(self, place, both, velocity):
        matrix = jnp.stack([place, both, both, velocity], 1).reshape(-1, 2, 2)
        return self.kernel.variance * self._length**2 * matrix


def _strayed(x):
    """2 x - 3 + 4 exp(-x) - exp(-2 x) for x >= 0, the variance of f after a step from a known velocity, with
    all its digits for small x.
    """
    near, series = jnp.minimum(x, 1.0), jnp.zeros_like(x)
    for k in range(26, 2, -1):
        series = (2.0**k - 4.0) / math.factorial(k) * (1.0 if k % 2 else -1.0) + near * series
    return jnp.where(x < 1.0, near**3 * series, 2.0 * x - 3.0 + 4.0 * jnp.exp(-x) - jnp.exp(-2.0 * x))


@state_space.register
def _(kernel: BrownianBridge, tolerance=TOLERANCE):
    return BridgeForm(kernel)


class BridgeForm(AbstractKernelForm):
    """Brownian motion drawn to zero at the end."""

    @property
    def size(self) -> int:
        return 1

    def transition(self, t0: jax.Array, t1: jax.Array) -> tuple[jax.Array, jax.Array]:
        left = self.kernel.length - t0
        share = jnp.where(left > 0, (self.kernel.length - t1) / jnp.where(left > 0, left, 1.0), 0.0)
        return share[:, None, None], (self.kernel.variance * (t1 - t0) * share)[:, None, None]

    def covariance(self, t: jax.Array) -> jax.Array:
        return (self.kernel.variance * t * (self.kernel.length - t) / self.kernel.length)[:, None, None]

    def observation(self, t: jax.Array) -> jax.Array:
        return jnp.ones((t.shape[0], 1))


@state_space.register(Constant)
@state_space.register(Linear)
@state_space.register(LinearCovariance)
@state_space.register(Polynomial)
@state_space.register(BesselJ)
def _(kernel, tolerance=TOLERANCE):
    rank = kernel.rank(1)
    if rank is None:
        raise NoStateSpace(f"{kernel} has no state-space form (nu = -1/2, the cosine, has one)")
    return FeatureForm(kernel, rank)


class FeatureForm(AbstractWeights):
    """A kernel of finite rank: h are its features."""

    rank: int = eqx.field(static=True)

    @property
    def size(self) -> int:
        return self.rank

    def observation(self, t: jax.Array) -> jax.Array:
        return self.kernel.features(t[:, None])


def rate(kernel: AbstractStationary) -> jax.Array:
    """1 / length-scale of a stationary kernel on one column."""
    squared = 1.0 / jnp.square(jnp.reshape(kernel.lengthscale, ()))
    return jnp.sqrt(squared if kernel.loadings is None else squared + jnp.sum(jnp.square(kernel.loadings)))
