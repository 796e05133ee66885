"""Brownian motion and its relatives: non-stationary processes in time, started or tied at zero."""

from __future__ import annotations

import math
from typing import Any, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from mercer.inputs import Array, InputError
from mercer.kernels.base import AbstractKernel
from mercer.kernels.distance import COINCIDENT, squared_distance
from mercer.kernels.traits import Traits
from mercer.params import Hyper, ParameterError, hyper, interval, positive


class AbstractPath(AbstractKernel):
    """A process of one column t >= 0."""

    def bind(self, d: int, names: tuple[str, ...] | None = None) -> Self:
        if d != 1:
            raise ParameterError(
                f"{type(self).__name__} reads one column, a time; the inputs have {d}: choose one with "
                ".on(...)."
            )
        return super().bind(d, names)

    def end(self) -> Any:
        """The largest legal time."""
        return math.inf

    def encode(self, X: Array) -> Array:
        X = super().encode(X)
        if not isinstance(X, jax.core.Tracer):
            values, end = np.asarray(X), float(self.end())
            wrong = np.flatnonzero(((values < 0) | (values > end)).any(1))
            if wrong.size:
                legal = "zero or positive" if math.isinf(end) else f"between 0 and {end:g}"
                raise InputError(
                    f"{type(self).__name__} is defined for times {legal}, but row {wrong[0]} has "
                    f"{values[wrong[0], 0]:g}: "
                    "subtract the start from the column, or choose another with .on(...)."
                )
        return X


class Wiener(AbstractPath):
    """variance * min(t, t'), t >= 0: Brownian motion from zero; the variance is per unit of time."""

    variance: Hyper = hyper(1.0, positive)

    def block(self, A: jax.Array, B: jax.Array) -> jax.Array:
        return self.variance * jnp.minimum(A, B.T)

    def suggest(self, X: np.ndarray, variance: float) -> Wiener:
        return self.with_values(variance=variance / (float(np.max(X)) or 1.0))

    def traits(self, d: int = 1) -> Traits:
        return Traits(smoothness=0, max_dimension=1, beyond="keeps its last value, ever less surely")


class IntegratedWiener(AbstractPath):
    """Brownian motion integrated `order` times from zero: the random part of smoothing splines of degree 2
    order + 1.

    variance * integral over u < min(t, t') of (t - u)^p (t' - u)^p / p!^2, functions differentiable p = order
    times. With v = min(t, t'): order 1 is |t - t'| v^2 / 2 + v^3 / 3. Add a polynomial of degree p (a
    `Polynomial` kernel, or `GP(..., basis=means.Polynomial(p))`) for the value and derivatives at zero.
    """

    order: int = eqx.field(default=1, static=True)
    variance: Hyper = hyper(1.0, positive)

    def __check_init__(self):
        if not (
            isinstance(self.order, (int, np.integer))
            and not isinstance(self.order, bool)
            and 0 <= self.order <= 20
        ):
            raise ParameterError(
                f"IntegratedWiener.order must be a whole number from 0 to 20, got {self.order!r}."
            )

    def block(self, A: jax.Array, B: jax.Array) -> jax.Array:
        p, v, gap = self.order, jnp.minimum(A, B.T), jnp.abs(A - B.T)
        total = jnp.zeros_like(v)
        # sum over C(p, j) gap^j v^(2p + 1 - j) / (2p + 1 - j), by Horner's rule in the gap
        for j in range(p + 1):
            i = p - j
            total = total * gap + math.comb(p, i) / (2 * p + 1 - i) * v**j
        return (self.variance / math.factorial(p) ** 2) * v ** (p + 1) * total

    def suggest(self, X: np.ndarray, variance: float) -> IntegratedWiener:
        p, end = self.order, float(np.max(X)) or 1.0
        return self.with_values(variance=variance * (2 * p + 1) * math.factorial(p) ** 2 / end ** (2 * p + 1))

    def traits(self, d: int = 1) -> Traits:
        beyond = f"continues a polynomial of degree {self.order}, ever less surely"
        return Traits(smoothness=self.order, max_dimension=1, beyond=beyond)


class IntegratedOrnsteinUhlenbeck(AbstractPath):
    """The path of a velocity that is an Ornstein-Uhlenbeck process, from zero at t = 0: functions that are
    differentiable once and, like Brownian motion, wander off.

    The velocity has the covariance variance * exp(-|t - t'| / lengthscale): variance is that of the velocity,
    in the squared units of f over those of time. For t = s + gap, s <= t, in units of the length-scale, the
    covariance is variance * lengthscale^2 * (2 (exp(-s) - 1 + s) + (1 - exp(-s)) (1 - exp(-gap))). Over
    times much shorter than the length-scale f is a straight line; over much longer ones it is a `Wiener`
    process of variance 2 variance lengthscale. Add a `Constant` for the value at zero.

    >>> IntegratedOrnsteinUhlenbeck(lengthscale=3.0, variance=0.5)
    """

    lengthscale: Hyper = hyper(1.0, positive)
    variance: Hyper = hyper(1.0, positive)

    def block(self, A: jax.Array, B: jax.Array) -> jax.Array:
        length = jnp.reshape(self.lengthscale, ())
        early, gap = jnp.minimum(A, B.T) / length, jnp.abs(A - B.T) / length
        return self.variance * length**2 * (2.0 * drifted(early) + jnp.expm1(-early) * jnp.expm1(-gap))

    def suggest(self, X: np.ndarray, variance: float) -> IntegratedOrnsteinUhlenbeck:
        end = float(np.max(X)) or 1.0
        return self.with_values(lengthscale=end / 4.0, variance=2.0 * variance / end**2)

    def traits(self, d: int = 1) -> Traits:
        beyond = "goes on in its direction for a few length-scales and stays there, ever less surely"
        return Traits(smoothness=1, lengthscale=self.lengthscale, max_dimension=1, beyond=beyond)


def drifted(x: jax.Array) -> jax.Array:
    """exp(-x) - 1 + x for x >= 0, with all its digits for small x."""
    near, series = jnp.minimum(x, 0.5), jnp.ones_like(x)
    for k in range(14, 2, -1):
        series = 1.0 - near / k * series
    return jnp.where(x < 0.5, 0.5 * near**2 * series, x + jnp.expm1(-x))


class BrownianBridge(AbstractPath):
    """variance * (min(t, t') - t t' / length) on [0, length]: Brownian motion known to be zero at both ends.

    To tie another process down, see `tied_down(kernel, points)`.
    """

    length: Hyper = hyper(1.0, positive, free=False)
    variance: Hyper = hyper(1.0, positive)

    def end(self) -> Hyper:
        return self.length

    def block(self, A: jax.Array, B: jax.Array) -> jax.Array:
        # v (length - w) / length with v the earlier and w the later time: no cancellation near the end
        return self.variance * jnp.minimum(A, B.T) * (self.length - jnp.maximum(A, B.T)) / self.length

    def traits(self, d: int = 1) -> Traits:
        return Traits(smoothness=0, max_dimension=1, beyond="goes straight to zero at the ends")


class FractionalBrownian(AbstractKernel):
    """variance / 2 * (|x|^2H + |x'|^2H - |x - x'|^2H), 0 < H < 1, in any number of columns: self-similar,
    zero at the origin.

    hurst: H; 1/2 is Brownian motion, more is smoother (increments alike), less rougher.
    """

    hurst: Hyper = hyper(0.5, interval(0.0, 1.0))
    variance: Hyper = hyper(1.0, positive)

    def __check_init__(self):
        if not isinstance(self.hurst, jax.core.Tracer) and not 0 < float(self.hurst) < 1:
            raise ParameterError(
                f"FractionalBrownian.hurst must be strictly between 0 and 1, got {float(self.hurst):g}."
            )

    def block(self, A: jax.Array, B: jax.Array) -> jax.Array:
        a, b = (self._power(jnp.sum(X * X, 1)) for X in (A, B))
        return 0.5 * self.variance * (a[:, None] + b[None, :] - self._power(squared_distance(A, B)))

    def _power(self, r2):
        apart = r2 > COINCIDENT
        return jnp.where(apart, jnp.exp(self.hurst * jnp.log(jnp.where(apart, r2, COINCIDENT))), 0.0)

    def traits(self, d: int = 1) -> Traits:
        return Traits(smoothness=0, beyond="keeps its last value, ever less surely")
